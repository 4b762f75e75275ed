// params.h: a model's parameters as tensors of a plan, with their gradients and the copies that matmuls read.
//
// Parameters lie in groups: matrices (which take weight decay) and vectors (which do not), each
// split where the device cannot allocate so much in one piece. A parameter is a view of its group,
// so zero-grad, the gradient norm and an optimizer that works element by element are one op a group.
//
// Where the plan's data type is narrower than its real type, each group of matrices has a working copy in the data
// type, "bf16.matrices.0" or "f16.matrices.0", which the optimizer writes again with each update and matmuls read.
//
// The matrix of one matmul may be several parameters: blocks of rows, stored one after another.
#ifndef STEPMARK_PARAMS_H
#define STEPMARK_PARAMS_H

#include "plan.h"

// A kind of parameter, as a model describes it.
typedef struct {
    const char *name;    // Hugging Face's; "%d" stands for the layer where each block has one
    int64_t rows;        // 0 for a vector
    int64_t cols;        //
    int64_t real_rows;   // of the model: later ones are padding; 0: all
    const char *part_of; // the matrix that it is some rows of, with the kinds beside it that say the same; NULL: none
    double init_value;   // before training: all elements are this,
    double init_std;     // or, where this is above 0, drawn from N(0, init_std)
} sm_param_spec;

typedef struct {
    char name[SM_NAME_SIZE];
    const sm_param_spec *spec; // of its kind
    bool is_matrix;
    int layer;            // -1 outside of blocks
    int64_t rows;         // 1 for a vector
    int64_t cols;         //
    int group;            // index into sm_params.groups
    int64_t offset_elems; // within the group
    int value;            // tensor index
    int operand;          // tensor index: the one that matmuls read; `value` itself, or its working copy
    int gradient;         // tensor index, or SM_NO_TENSOR
    int whole_operand;    // the same two, of the first part of a matrix: of all of it
    int whole_gradient;
} sm_param;

typedef struct {
    bool is_matrix;
    int64_t n_elems;
    int value, working_copy, gradient; // tensor indices; SM_NO_TENSOR where the plan has none
} sm_param_group;

typedef struct {
    sm_param *params; // in the order of the model
    int n_params;
    sm_param_group *groups;
    int n_groups;
    const sm_param_spec *specs; // the caller's; one a kind
    int n_kinds;
    int n_layer;
} sm_params;

// Elements of the model that a kind has in one block, or in all where blocks have none; and in a whole model.
int64_t sm_param_spec_elems(const sm_param_spec *spec);
int64_t sm_param_count(const sm_param_spec *specs, int n_kinds, int64_t n_layer);

// Adds groups and parameters to a plan, and their gradients where they are wanted. Kinds that each block has stand
// side by side in `specs`, which must live as long as `params`. A group stays below max_group_bytes; 0 = no limit.
// `params` needs no initialisation; free it in any case.
sm_status sm_params_add(sm_plan *plan, const sm_param_spec *specs, int n_kinds, int n_layer, bool gradients,
                        size_t max_group_bytes, sm_params *params);
void sm_params_free(sm_params *params);

// Cuts the groups into the plan's buckets, for the processes that it has.
sm_status sm_params_cut(sm_plan *plan, const sm_params *params);

// The state that output k of the update is: its name and type, and the number of a parameter's elements for each of its
// own: 1, or those of a block.
typedef struct {
    int k;
    const char *name;
    sm_dtype dtype;
    int block_elems;
} sm_shard_state;

// Adds a state of this process's slice of a bucket, "m.shard.3"; saved, with the other processes' slices, under the
// names that sm_params_add_state and sm_param_add_state give. Returns it or SM_NO_TENSOR.
int sm_params_add_shard(sm_plan *plan, int bucket, const sm_shard_state *state);
// The names of the states that all slices together hold, for each parameter: once a group and state.
sm_status sm_params_name_shards(sm_plan *plan, const sm_params *params, int group, const sm_shard_state *state);

// A parameter by kind (index of its spec), and by layer where each layer has one.
const sm_param *sm_params_get(const sm_params *params, int kind, int layer);

// Adds a state of an optimizer that has an element for each of a group's parameters: "m.matrices.0", and a view of it
// for each parameter, "m.wte.weight", under which it is saved. Returns the group's tensor, or SM_NO_TENSOR with the
// error message set.
int sm_params_add_state(sm_plan *plan, const sm_params *params, int group, const char *state, sm_dtype dtype);

// Adds a state that one parameter has by itself, "m.wte.weight", saved under that name: of the parameter's shape where
// n_dims is 0. Codes are saved with those of padding, as a block of them has one scale.
int sm_param_add_state(sm_plan *plan, const sm_param *param, const char *state, sm_dtype dtype, int n_dims,
                       const int64_t *dims);

// Fills `values` with elements first .. first + n_elems - 1 of a parameter before training, from its tensor's
// init_value and init_std. Depends only on seed and name. `first` is a multiple of 4.
void sm_param_init(const sm_plan *plan, int tensor, uint64_t seed, int64_t first, int64_t n_elems, float *values);

#endif
