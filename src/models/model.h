// model.h: an architecture as data. One constant struct and one folder each (models/gpt2/): its sizes, its parameters,
// its training step as a plan, its config.json. Nothing else knows an architecture.
#ifndef STEPMARK_MODEL_H
#define STEPMARK_MODEL_H

#include <jansson.h>

#include "src/optim/optimizer.h"

// The architectures there are, in the order of --arch's words; the first is the default. X(name), sm_model_NAME in a
// folder of its own.
#define SM_MODEL_LIST(X) X(gpt2) X(llama) X(qwen3)

typedef struct sm_model sm_model;

// Any architecture's dimensions. 0 where it has no such thing.
typedef struct {
    const sm_model *model;
    int64_t n_layer;   // L
    int64_t n_head;    // NH
    int64_t n_kv_head; // heads of keys and values; 0: n_head
    int64_t d_model;   // C
    int64_t head_dim;  // HS; 0: d_model / n_head
    int64_t d_ff;      // F
    int64_t vocab;     // V
    int64_t context;   // largest T
    double norm_eps;   // of its LayerNorm or RMSNorm
    double rope_theta; // base of rotary positions
    bool untied;       // the head has a matrix of its own
} sm_model_config;

typedef struct {
    const char *name;  // "small"
    const char *alias; // "124M"; NULL: none
    sm_model_config config;
} sm_model_size;

// The options of a plan, besides the model.
typedef struct {
    int64_t B;
    int64_t T;
    sm_dtype dtype;                // the plan's data type: SM_F32, SM_BF16, SM_F16, or SM_F64 for gradient checks
    sm_products products;          // as in sm_plan
    double dropout_p;              // where the model has dropout
    uint64_t seed;                 // of the dropout masks
    bool backward;                 // with zero-grad and backward ranges
    sm_loss_scaling scaling;       // as in sm_plan; with backward
    const sm_optimizer *optimizer; // with the optimizer range (needs backward); NULL: without
    bool one_micro_batch;          // as in sm_plan: no accumulation of gradients over backward passes
    sm_processes processes;        // as in sm_plan
    bool documents;                // rows hold documents: the plan has `starts`
    sm_recompute recompute;        // as in sm_plan: carried out by the rewrites
    sm_attention attention;        // likewise
    size_t max_tensor_bytes;       // parameter groups are split to stay below; 0 = no limit
} sm_plan_options;

struct sm_builder; // builder.h

enum { SM_MAX_PARAM_KINDS = 32 };

struct sm_model {
    const char *name;  // "gpt2", as --arch and rows have it
    const char *title; // "GPT-2"
    const sm_model_size *sizes;
    int n_sizes;

    // About as small as one can be that still has every part, and none of whose dimensions suits a vector: heads of an
    // odd size where they may be, a vocabulary with padding. Verify trains it.
    sm_model_config odd;

    bool out_by_in; // matrices of linear layers are (out,in), as torch.nn.Linear has them; false: (in,out), as Conv1D

    // Conditions that sm_model_check does not know: SM_ERR_INVALID names the dimension that does not fit.
    sm_status (*check)(const sm_model_config *config);

    // Describes every kind of parameter, those of a block side by side; returns how many (<= SM_MAX_PARAM_KINDS).
    // Counts, groups, initial values and names on disk follow from it.
    int (*params)(const sm_model_config *config, sm_param_spec *specs);

    // Forward and, where the options want it, backward, in the builder's vocabulary (builder.h). Batch, results,
    // parameters, zero-grad and loss scale are there before it, the optimizer comes after it. For each layer the
    // builder calls block_forward and block_backward with a struct of block_bytes, in which the forward keeps tensors
    // for the backward.
    void (*build)(struct sm_builder *b);
    size_t block_bytes;
    int (*block_forward)(struct sm_builder *b, void *kept, int x);
    int (*block_backward)(struct sm_builder *b, const void *kept, int d);

    // On disk. Parameters have their tensors' names, with this before them, which may be left out when reading; "":
    // none.
    const char *disk_prefix;
    const char *tied_head;              // the parameter that "lm_head.weight" repeats where the head is tied
    const char *const *ignored_endings; // of names of tensors that are no parameters; ends with NULL
    const char *hf_model_type;          // config.json's model_type
    const char *hf_architectures[2];    // what its architectures may name: with the head, and, NULL: none, without it

    // config.json, an object, from and to the fields of a config; `model` is set. Messages name path and key
    // (config_keys.h). Features that stepmark does not compute are refused. NULL: out of memory.
    sm_status (*read_config)(const char *path, const json_t *root, sm_model_config *config);
    json_t *(*write_config)(const sm_model_config *config, double dropout_p);
};

#define X(name) extern const sm_model sm_model_##name;
SM_MODEL_LIST(X)
#undef X

int sm_model_count(void);
const sm_model *sm_model_at(int index);

const sm_model_size *sm_model_size_find(const sm_model *model, const char *name); // by name or alias; NULL: none

// SM_ERR_INVALID names the dimension that is out of range or does not divide.
sm_status sm_model_check(const sm_model_config *config);

// For the checks of models with rotary positions.
sm_status sm_model_check_rope(const sm_model_config *config);

// Parameters of the model, padding excluded.
int64_t sm_model_n_params(const sm_model_config *config);

// Heads of keys and values: n_head where n_kv_head is 0; channels of a head: d_model / n_head where head_dim is 0.
int64_t sm_model_n_kv_head(const sm_model_config *config);
int64_t sm_model_head_dim(const sm_model_config *config);

// Rows that embeddings and columns that logits really have: V rounded up to a multiple of 64.
int64_t sm_model_padded_vocab(const sm_model_config *config);

// Builds the naive plan, without memory assigned. The caller frees it.
sm_status sm_model_build(const sm_model_config *config, const sm_plan_options *options, sm_plan **plan);

#endif
