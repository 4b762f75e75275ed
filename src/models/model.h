// model.h: an architecture as data: one constant struct and one folder each (models/gpt2/), with its sizes, its
// parameters, its training step as a plan, and its config.json. No other code knows an architecture.
#pragma once

#include <jansson.h>

#include "src/models/fields.h"
#include "src/optim/optimizer.h"

// All architectures, in the order of --arch; the first is the default. X(name): sm_model_NAME, in its own folder.
#define SM_MODEL_LIST(X) X(gpt2) X(llama) X(qwen3)

typedef struct sm_model sm_model;

// The fields of any architecture's config (fields.h); 0 if it has no such field.
typedef struct {
    const sm_model *model;
#define X(type, member, ...) SM_FIELD_##type member;
    SM_MODEL_FIELDS(X, X)
#undef X
} sm_model_config;

// A config's members that every model has: {SM_DIMENSIONS(gpt2, 2, 2, 32, 128, 256, 64), .norm_eps = 1e-5}
#define SM_DIMENSIONS(name, L, NH, C, F, V, P) \
    .model = &sm_model_##name, .n_layer = L, .n_head = NH, .d_model = C, .d_ff = F, .vocab = V, .context = P

typedef enum {
#define X(type, member, ...) SM_MODEL_##member,
    SM_MODEL_FIELDS(X, X)
#undef X
        SM_MODEL_FIELD_COUNT
} sm_model_field;

typedef struct {
    const char *name;         // of the member
    const char *heading;      // in one word or a few
    const char *column;       // of rows; NULL: a constant of the arithmetic
    const char *const *words; // of a word
} sm_model_field_info;

const sm_model_field_info *sm_model_field_get_info(sm_model_field field);

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
    double dropout_p;              // for models with dropout
    uint64_t seed;                 // of the dropout masks
    bool backward;                 // with zero-grad and backward ranges
    sm_loss_scaling scaling;       // as in sm_plan; with backward
    const sm_optimizer *optimizer; // with the optimizer range (needs backward); NULL: without
    bool one_micro_batch;          // as in sm_plan: no accumulation of gradients over backward passes
    sm_processes processes;        // as in sm_plan
    bool documents;                // rows hold documents: the plan has the tensor `starts`
    sm_recompute recompute;        // as in sm_plan; the rewrites apply it
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

    // A tiny model that still has every part, with dimensions that suit no vector: an odd head size where possible, and
    // a padded vocabulary. Verify trains it.
    sm_model_config odd;

    unsigned fields; // bits 1u << SM_MODEL_*: of the optional fields, words and switches those that its config may set

    bool out_by_in; // linear layers' matrices are (out,in), as in torch.nn.Linear; false: (in,out), as in Conv1D

    bool has_head_norms; // of decoder.h's models: an RMSNorm over each head of q and of k

    // Conditions beyond those of sm_model_check: SM_ERR_INVALID names the dimension. NULL: none.
    sm_status (*check)(const sm_model_config *config);

    // Describes every kind of parameter, those of a block next to each other; returns their number (<=
    // SM_MAX_PARAM_KINDS). Counts, groups, initial values and names on disk follow from it.
    int (*params)(const sm_model_config *config, sm_param_spec *specs);

    // Adds the forward and, if the options want it, the backward, in the builder's vocabulary (builder.h). The builder
    // adds batch, results, parameters, zero-grad and loss scale before, and the optimizer after. For each layer it
    // calls block_forward and block_backward with a struct of block_bytes, which keeps the forward's tensors.
    void (*build)(struct sm_builder *b);
    size_t block_bytes;
    int (*block_forward)(struct sm_builder *b, void *kept, int x);
    int (*block_backward)(struct sm_builder *b, const void *kept, int d);

    const char *disk_prefix;            // precedes the names of `params` on disk; "": they have it already
    const char *base_prefix;            // of names on disk, missing in files of a model without its head
    const char *tied_head;              // the parameter that "lm_head.weight" repeats if the head is tied
    const char *const *ignored_endings; // endings of names of tensors that are not parameters; ends with NULL
    const char *hf_model_type;          // config.json's model_type
    const char *hf_architectures[2];    // accepted names in its `architectures`: with the head; without it, or NULL

    // Convert config.json, an object, to and from the fields of a config; `model` is set. Messages name path and key
    // (config_keys.h). Features that stepmark does not compute are refused.
    sm_status (*read_config)(const char *path, const json_t *root, sm_model_config *config);
    json_t *(*write_config)(const sm_model_config *config, double dropout_p);
};

#define X(name) extern const sm_model sm_model_##name;
SM_MODEL_LIST(X)
#undef X

int sm_model_count(void);
const sm_model *sm_model_at(int index);

const sm_model_size *sm_model_size_find(const sm_model *model, const char *name); // by name or alias; NULL: none

// SM_ERR_INVALID names a dimension that is out of range or does not divide.
sm_status sm_model_check(const sm_model_config *config);

// Parameters of the model, padding excluded.
int64_t sm_model_n_params(const sm_model_config *config);

// Heads of keys and values: n_kv_head, if 0 n_head; channels of a head: head_dim, if 0 d_model / n_head.
int64_t sm_model_n_kv_head(const sm_model_config *config);
int64_t sm_model_head_dim(const sm_model_config *config);

// The config with n_kv_head and head_dim filled in, as rows have it.
sm_model_config sm_model_told(const sm_model_config *config);

// A field as text: "12", "relu2"; "" where the model's config does not set it.
enum { SM_FIELD_TEXT_SIZE = 32 };
void sm_model_field_text(const sm_model_config *config, sm_model_field field, char text[SM_FIELD_TEXT_SIZE]);

// Sets all columns of a config in a JSON object, and returns it.
json_t *sm_model_fields_to_json(const sm_model_config *config, json_t *object);

// Rows of the token embedding and columns of the logits: V rounded up to a multiple of 64.
int64_t sm_model_padded_vocab(const sm_model_config *config);

// Builds the naive plan, without memory assigned. The caller frees it.
sm_status sm_model_build(const sm_model_config *config, const sm_plan_options *options, sm_plan **plan);
