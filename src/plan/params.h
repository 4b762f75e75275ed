// params.h: a model's parameters as tensors of a plan, with their gradients and the copies that matmuls read.
//
// Parameters lie in groups: matrices (which take weight decay) and vectors (which do not), each split if the device
// cannot allocate it in one piece. A parameter is a view of its group, so zero-grad, the gradient norm and an optimizer
// that works element by element are one op for each group.
//
// If the plan's data type is narrower than its real type, each group of matrices has a working copy in the data type,
// "bf16.matrices.0" or "f16.matrices.0": each update writes it and matmuls read it.
//
// A matmul's matrix may consist of several parameters: blocks of rows, stored one after another.
#pragma once

#include "plan.h"

// A kind of parameter, as a model describes it.
typedef struct {
    const char *name; // Hugging Face's name; "%d" stands for the layer if each block has one
    int64_t rows;     // 0 for a vector
    int64_t cols;
    int64_t real_rows;   // rows of the model; later ones are padding; 0: all
    const char *part_of; // the matrix of which it is a block of rows, together with the neighbouring kinds of the same
                         // name; NULL: none
    double init_value;   // initial value of all elements,
    double init_std;     // or, if above 0, they are drawn from N(0, init_std)
} sm_param_spec;

#define SM_PARAM_SPEC(kind, ...) [kind] = {__VA_ARGS__},

typedef struct {
    char name[SM_NAME_SIZE];
    const sm_param_spec *spec; // of its kind
    bool is_matrix;
    int layer;    // -1 outside of blocks
    int64_t rows; // 1 for a vector
    int64_t cols;
    int group;            // index into sm_params.groups
    int64_t offset_elems; // within the group
    int value;            // tensor index
    int gradient;         // tensor index, or SM_NO_TENSOR
    int whole_operand; // tensor index: what matmuls read: `value` or its working copy, or, if this is the first part of
                       // a matrix, those of the whole
    int whole_gradient; // likewise
} sm_param;

typedef struct {
    bool is_matrix;
    int64_t n_elems;
    int value, working_copy, gradient; // tensor indices; SM_NO_TENSOR if absent
} sm_param_group;

typedef struct {
    sm_param *params; // in the order of the model
    int n_params;
    sm_param_group *groups;
    int n_groups;
    const sm_param_spec *specs; // the caller's; one for each kind
    int n_kinds;
    int n_layer;
} sm_params;

// Elements of the whole model.
int64_t sm_param_count(const sm_param_spec *specs, int n_kinds, int64_t n_layer);

// Adds groups and parameters to a plan, and gradients if requested. Kinds that each block has are next to each other in
// `specs`, which must live as long as `params`. A group stays below max_group_bytes; 0 = no limit. `params` needs no
// initialisation; free it in any case.
sm_status sm_params_add(sm_plan *plan, const sm_param_spec *specs, int n_kinds, int n_layer, bool gradients,
                        size_t max_group_bytes, sm_params *params);
void sm_params_free(sm_params *params);

// Cuts the groups into buckets for the plan's processes.
void sm_params_cut(sm_plan *plan, const sm_params *params);

// The state of the update's output k: name, dtype, and parameter elements for each element of state: 1, or a block.
typedef struct {
    int k;
    const char *name;
    sm_dtype dtype;
    int block_elems;
} sm_shard_state;

// Adds the state of this process's slice of a bucket, "m.shard.3". All slices together are saved under the names of
// sm_params_add_state and sm_param_add_state. Returns the tensor.
int sm_params_add_shard(sm_plan *plan, int bucket, const sm_shard_state *state);
// Adds the names under which the slices' state is saved, for each parameter; once for each group and state.
void sm_params_name_shards(sm_plan *plan, const sm_params *params, int group, const sm_shard_state *state);

// A parameter by kind (index of its spec), and by layer if each layer has one.
const sm_param *sm_params_get(const sm_params *params, int kind, int layer);

// Adds a state with one element for each of a group's parameters, "m.matrices.0", and for each parameter a view of it,
// "m.wte.weight", the name under which it is saved. Returns the group's tensor.
int sm_params_add_state(sm_plan *plan, const sm_params *params, int group, const char *state, sm_dtype dtype);

// Adds a state of a single parameter, "m.wte.weight", saved under that name, with the parameter's shape if n_dims is 0.
// Codes of padding are saved too, as a block of codes has one scale.
int sm_param_add_state(sm_plan *plan, const sm_param *param, const char *state, sm_dtype dtype, int n_dims,
                       const int64_t *dims);

// Fills `values` with the initial elements first .. first + n_elems - 1 of a parameter, from its tensor's init_value
// and init_std. They depend only on seed and name. `first` is a multiple of 4.
void sm_param_init(const sm_plan *plan, int tensor, uint64_t seed, int64_t first, int64_t n_elems, float *values);
