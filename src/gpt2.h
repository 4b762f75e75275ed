// gpt2.h: GPT-2 (Radford et al. 2019): its sizes (gpt2.c), its parameters (gpt2_params.c), their initial values
// (gpt2_init.c), and its training step as a plan (gpt2_build.c).
#ifndef STEPMARK_GPT2_H
#define STEPMARK_GPT2_H

#include "plan.h"

typedef struct {
    int64_t n_layer; // L
    int64_t n_head;  // NH
    int64_t d_model; // C
    int64_t d_ff;    // F, 4C unless overridden
    int64_t vocab;   // V
    int64_t context; // largest T: rows of wpe
    double layernorm_eps;
} sm_gpt2_config;

typedef struct {
    const char *name;  // "small"
    const char *alias; // "124M"
    sm_gpt2_config config;
} sm_gpt2_size;

// tiny, small, medium, large, xl, 2.7B.
int sm_gpt2_size_count(void);
const sm_gpt2_size *sm_gpt2_size_at(int index);
const sm_gpt2_size *sm_gpt2_size_find(const char *name); // by name or alias; NULL if there is none

// SM_ERR_INVALID names the dimension that is out of range or does not divide.
sm_status sm_gpt2_check(const sm_gpt2_config *config);

// Parameters of the model: (V + context) C + L (4C^2 + 2CF + 9C + F) + 2C. Padding excluded.
int64_t sm_gpt2_n_params(const sm_gpt2_config *config);

// Rows that wte and columns that logits really have: V rounded up to a multiple of 64.
int64_t sm_gpt2_padded_vocab(const sm_gpt2_config *config);

typedef struct {
    int64_t B;
    int64_t T;
    sm_dtype dtype;          // the plan's data type: SM_F32, SM_BF16, or SM_F64 for gradient checks
    double dropout_p;        // on the embedding, the attention weights and both residual branches
    uint64_t seed;           // of the dropout masks
    bool backward;           // with zero-grad and backward ranges
    bool optimizer;          // with the optimizer range (needs backward)
    bool one_micro_batch;    // as in sm_plan: no accumulation of gradients over backward passes
    size_t max_tensor_bytes; // parameter groups are split to stay below; 0 = no limit
} sm_gpt2_options;

// Builds the naive plan, without memory assigned. The caller frees it.
sm_status sm_gpt2_build(const sm_gpt2_config *config, const sm_gpt2_options *options, sm_plan **plan);

// The parameters of a plan, in the order of the model: indices of the tensors that carry a
// Hugging Face name ("wte.weight", "h.0.ln_1.weight", ...). wte's tensor has Vp rows, of which
// the first V are the model's. Its gradient is named "d." + the parameter's name.
// AdamW's state likewise: "m." and "v.". In a plan of data type bf16 matmuls read "bf16." + the matrix's name.
bool sm_gpt2_is_param(const sm_plan *plan, int tensor);

// Elements of a parameter that belong to the model (padding rows of wte excluded).
int64_t sm_gpt2_param_elems(const sm_plan *plan, int tensor);

// Fills `values` with elements first .. first + n_elems - 1 of a parameter as GPT-2 initialises it: weights
// N(0, 0.02), the two projections into the residual stream N(0, 0.02/sqrt(2L)), biases 0, layernorm weights 1
// (Radford et al. 2019, section 2.3). Depends on seed and name alone. `first` is a multiple of 4.
void sm_gpt2_init_param(const sm_gpt2_config *config, const sm_plan *plan, int tensor, uint64_t seed, int64_t first,
                        int64_t n_elems, float *values);

#endif
