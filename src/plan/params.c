// params.c: names, shapes and groups of a model's parameters.
#include <math.h>

#include "src/plan/host_threads.h"
#include "src/plan/params.h"
#include "philox.h"
#include "shard.h"

static bool is_layered(const sm_param_spec *spec) { return strstr(spec->name, "%d") != NULL; }

// The parameter's elements in one block; in the model, if blocks have none.
static int64_t elems_of(const sm_param_spec *spec) {
    const int64_t rows = spec->real_rows > 0 ? spec->real_rows : spec->rows;
    return (rows > 0 ? rows : 1) * spec->cols;
}

int64_t sm_param_count(const sm_param_spec *specs, int n_kinds, int64_t n_layer) {
    int64_t n = 0;
    for (int kind = 0; kind < n_kinds; kind++) {
        n += elems_of(&specs[kind]) * (is_layered(&specs[kind]) ? n_layer : 1);
    }
    return n;
}

// --- names and shapes ---------------------------------------------------------------------------

static void make_name(char name[SM_NAME_SIZE], const char *pattern, int layer) {
    const char *number = strstr(pattern, "%d");
    if (number == NULL) {
        snprintf(name, SM_NAME_SIZE, "%s", pattern);
    } else {
        snprintf(name, SM_NAME_SIZE, "%.*s%d%s", (int)(number - pattern), pattern, layer, number + 2);
    }
}

static void describe(sm_params *all, const sm_param_spec *spec, int layer) {
    sm_param *p = &all->params[all->n_params++];
    p->spec = spec;
    p->is_matrix = spec->rows > 0;
    p->layer = layer;
    p->rows = p->is_matrix ? spec->rows : 1;
    p->cols = spec->cols;
    p->value = p->gradient = SM_NO_TENSOR;
    make_name(p->name, spec->name, layer);
}

// Number of consecutive kinds, from `first`, that each block has.
static int count_layered(const sm_params *all, int first) {
    int n = 0;
    while (first + n < all->n_kinds && is_layered(&all->specs[first + n])) {
        n++;
    }
    return n;
}

const sm_param *sm_params_get(const sm_params *params, int kind, int layer) {
    int at = 0;
    for (int first = 0; first < params->n_kinds;) {
        const int n_layered = count_layered(params, first);
        const int n = n_layered > 0 ? n_layered : 1;
        if (kind < first + n) {
            return &params->params[at + (n_layered > 0 ? layer * n_layered : 0) + kind - first];
        }
        at += n_layered > 0 ? n_layered * params->n_layer : 1;
        first += n;
    }
    return NULL;
}

// --- groups ---------------------------------------------------------------------------------------

// Number of consecutive parameters, from `first`, that are parts of one matrix: 1 if it has no parts.
static int count_parts(const sm_params *all, int first) {
    const sm_param *p = &all->params[first];
    int n = 1;
    while (p->spec->part_of != NULL && first + n < all->n_params && p[n].layer == p->layer &&
           p[n].spec->part_of != NULL && strcmp(p[n].spec->part_of, p->spec->part_of) == 0) {
        n++;
    }
    return n;
}

// Adds the parts of a matrix, or a parameter, to the open group of its kind, or opens a new one.
static void assign_group(sm_params *all, sm_param *p, int n_parts, size_t limit_bytes, size_t elem_bytes) {
    int64_t n_elems = 0;
    for (int i = 0; i < n_parts; i++) {
        p[i].offset_elems = n_elems;
        n_elems += p[i].rows * p[i].cols;
    }
    // Aligns a parameter to a cache line and any vector; a matrix to a slice's line (shard.h).
    const int64_t line = p->is_matrix ? SM_SLICE_BLOCK : SM_SLICE_LINE;
    n_elems = (n_elems + line - 1) / line * line;
    int g = all->n_groups - 1;
    while (g >= 0 && all->groups[g].is_matrix != p->is_matrix) {
        g--;
    }
    bool full = g >= 0 && limit_bytes > 0 && (size_t)(all->groups[g].n_elems + n_elems) * elem_bytes > limit_bytes;
    if (g < 0 || full) {
        g = all->n_groups++;
        all->groups[g] = (sm_param_group){.is_matrix = p->is_matrix};
    }
    for (int i = 0; i < n_parts; i++) {
        p[i].group = g;
        p[i].offset_elems += all->groups[g].n_elems;
    }
    all->groups[g].n_elems += n_elems;
}

static int add_group_tensor(sm_plan *plan, const sm_params *all, int group, sm_role role, sm_dtype dtype,
                            const char *what) {
    const sm_param_group *g = &all->groups[group];
    return sm_plan_add_tensor(plan, role, dtype, 1, &g->n_elems, "%s.%s.%d", what,
                              g->is_matrix ? "matrices" : "vectors", group);
}

static void add_group(sm_plan *plan, sm_params *all, int group, bool gradients) {
    sm_param_group *g = &all->groups[group];
    const bool has_copy = g->is_matrix && plan->dtype != plan->real;
    const char *copy = sm_dtype_name(plan->dtype);
    g->value = add_group_tensor(plan, all, group, SM_ROLE_PARAMETER, plan->real, "params");
    g->gradient = gradients ? add_group_tensor(plan, all, group, SM_ROLE_GRADIENT, plan->real, "grads") : SM_NO_TENSOR;
    g->working_copy =
        has_copy ? add_group_tensor(plan, all, group, SM_ROLE_PARAMETER, plan->dtype, copy) : SM_NO_TENSOR;
    if (plan->status == SM_OK) {
        plan->tensors[g->value].working_copy = g->working_copy;
    }
}

// A view of a group's tensor for one parameter; SM_NO_TENSOR if the plan does not have that tensor.
static int add_view(sm_plan *plan, const sm_param *p, int of, const char *prefix) {
    const int64_t dims[2] = {p->is_matrix ? p->rows : p->cols, p->cols};
    return sm_plan_add_view(plan, of, p->offset_elems, p->is_matrix ? 2 : 1, dims, "%s%s%s", prefix,
                            prefix[0] != '\0' ? "." : "", p->name);
}

static void add_param(sm_plan *plan, const sm_params *all, sm_param *p) {
    const sm_param_group *g = &all->groups[p->group];
    p->value = add_view(plan, p, g->value, "");
    p->gradient = p->whole_gradient = add_view(plan, p, g->gradient, "d");
    const int copy = add_view(plan, p, g->working_copy, sm_dtype_name(plan->dtype));
    p->whole_operand = copy == SM_NO_TENSOR ? p->value : copy;
    if (plan->status == SM_OK) {
        sm_tensor *t = &plan->tensors[p->value];
        t->is_saved = true;
        t->real_elems = elems_of(p->spec);
        t->init_value = p->spec->init_value;
        t->init_std = p->spec->init_std;
        t->working_copy = copy;
    }
}

// Adds views of a whole matrix in parts; its first part has them.
static void add_whole(sm_plan *plan, const sm_params *all, sm_param *first, int n_parts) {
    const sm_param_group *g = &all->groups[first->group];
    sm_param whole = *first;
    make_name(whole.name, first->spec->part_of, first->layer);
    for (int i = 1; i < n_parts; i++) {
        whole.rows += first[i].rows;
    }
    const bool has_copy = g->working_copy != SM_NO_TENSOR;
    first->whole_operand =
        add_view(plan, &whole, has_copy ? g->working_copy : g->value, has_copy ? sm_dtype_name(plan->dtype) : "");
    first->whole_gradient = add_view(plan, &whole, g->gradient, "d");
}

sm_status sm_params_add(sm_plan *plan, const sm_param_spec *specs, int n_kinds, int n_layer, bool gradients,
                        size_t max_group_bytes, sm_params *params) {
    const size_t n = (size_t)n_kinds * (size_t)n_layer;
    *params = (sm_params){
        .params = sm_calloc(n, sizeof *params->params),
        .groups = sm_calloc(n, sizeof *params->groups), // at most one for each parameter
        .specs = specs,
        .n_kinds = n_kinds,
        .n_layer = n_layer,
    };
    for (int kind = 0; kind < params->n_kinds;) {
        const int n_layered = count_layered(params, kind);
        for (int layer = 0; layer < params->n_layer; layer++) {
            for (int i = 0; i < n_layered; i++) {
                describe(params, &params->specs[kind + i], layer);
            }
        }
        if (n_layered == 0) {
            describe(params, &params->specs[kind], -1);
        }
        kind += n_layered > 0 ? n_layered : 1;
    }
    for (int i = 0; i < params->n_params; i += count_parts(params, i)) {
        assign_group(params, &params->params[i], count_parts(params, i), max_group_bytes, sm_dtype_size(plan->real));
    }
    for (int g = 0; g < params->n_groups; g++) {
        add_group(plan, params, g, gradients);
    }
    for (int i = 0; i < params->n_params; i++) {
        add_param(plan, params, &params->params[i]);
    }
    for (int i = 0; i < params->n_params; i += count_parts(params, i)) {
        if (count_parts(params, i) > 1) {
            add_whole(plan, params, &params->params[i], count_parts(params, i));
        }
    }
    return plan->status;
}

void sm_params_free(sm_params *params) {
    free(params->params);
    free(params->groups);
}

int sm_params_add_state(sm_plan *plan, const sm_params *params, int group, const char *state, sm_dtype dtype) {
    const int root = add_group_tensor(plan, params, group, SM_ROLE_OPTIMIZER, dtype, state);
    for (const sm_param *p = params->params; p < params->params + params->n_params; p++) {
        const int view = p->group == group ? add_view(plan, p, root, state) : SM_NO_TENSOR;
        if (view != SM_NO_TENSOR) {
            plan->tensors[view].is_saved = true;
            plan->tensors[view].real_elems = plan->tensors[p->value].real_elems;
        }
    }
    return root;
}

static int64_t blocks_of(int64_t n_elems, int block_elems) { return (n_elems + block_elems - 1) / block_elems; }

int sm_params_add_shard(sm_plan *plan, int bucket, const sm_shard_state *state) {
    const sm_bucket *b = &plan->buckets[bucket];
    const int64_t n_elems = blocks_of(sm_tensor_elems(&plan->tensors[b->own_value]), state->block_elems);
    const int added =
        sm_plan_add_tensor(plan, SM_ROLE_OPTIMIZER, state->dtype, 1, &n_elems, "%s.shard.%d", state->name, bucket);
    plan->buckets[bucket].states[state->k] = added;
    return added;
}

void sm_params_name_shards(sm_plan *plan, const sm_params *params, int group, const sm_shard_state *state) {
    for (const sm_param *p = params->params; p < params->params + params->n_params; p++) {
        const int64_t n_blocks = blocks_of(p->rows * p->cols, state->block_elems);
        const bool is_alike = state->block_elems == 1;
        const int whole = p->group == group
                              ? sm_param_add_state(plan, p, state->name, state->dtype, is_alike ? 0 : 1, &n_blocks)
                              : SM_NO_TENSOR;
        if (whole != SM_NO_TENSOR) {
            sm_tensor *t = &plan->tensors[whole];
            t->is_sharded = true;
            t->shard_group = group;
            t->shard_offset = p->offset_elems / state->block_elems;
            t->shard_block = state->block_elems;
            t->shard_state = state->k;
        }
    }
}

int sm_param_add_state(sm_plan *plan, const sm_param *param, const char *state, sm_dtype dtype, int n_dims,
                       const int64_t *dims) {
    const sm_tensor value = plan->tensors[param->value];
    const bool is_alike = n_dims == 0;
    int added = sm_plan_add_tensor(plan, SM_ROLE_OPTIMIZER, dtype, is_alike ? value.n_dims : n_dims,
                                   is_alike ? value.dims : dims, "%s.%s", state, param->name);
    if (added != SM_NO_TENSOR) {
        sm_tensor *t = &plan->tensors[added];
        t->is_saved = true;
        t->real_elems = is_alike && dtype != SM_U8 ? value.real_elems : sm_tensor_elems(t);
    }
    return added;
}

// Initial weights, drawn element by element from counter-based random numbers: alike for any number of threads.

// Random words are drawn in groups of blocks, so that their chains of multiplications overlap.
enum { GROUP_BLOCKS = 64, GROUP_ELEMS = 4 * GROUP_BLOCKS };

// Two uniform words give two normals (Box and Muller 1958); a Philox block gives four.
static void normal_group(uint64_t key, uint64_t first_block, float std, float out[GROUP_ELEMS]) {
    sm_philox_block blocks[GROUP_BLOCKS];
    for (int i = 0; i < GROUP_BLOCKS; i++) {
        blocks[i] = sm_philox4x32(key, first_block + (uint64_t)i, 0);
    }
    for (int i = 0; i < GROUP_ELEMS; i += 2) {
        const uint32_t *word = &blocks[i / 4].word[i % 4];
        float u = ((float)(word[0] >> 8) + 1.0f) * 0x1p-24f; // (0, 1], so that the logarithm is finite
        float angle = (float)(word[1] >> 8) * 0x1p-24f * 6.28318530718f;
        float radius = std * sqrtf(-2.0f * logf(u));
        out[i] = radius * cosf(angle);
        out[i + 1] = radius * sinf(angle);
    }
}

// Elements first, first + 1, ...; first is a multiple of 4.
static void fill_normal(float *values, int64_t first, int64_t n_elems, float std, uint64_t key) {
    const uint64_t first_block = (uint64_t)first / 4;
    int64_t n_groups = n_elems / GROUP_ELEMS;
#pragma omp parallel for schedule(static) if (n_groups > 64) num_threads(sm_host_threads())
    for (int64_t i = 0; i < n_groups; i++) {
        normal_group(key, first_block + (uint64_t)i * GROUP_BLOCKS, std, values + i * GROUP_ELEMS);
    }
    float last[GROUP_ELEMS];
    normal_group(key, first_block + (uint64_t)n_groups * GROUP_BLOCKS, std, last);
    memcpy(values + n_groups * GROUP_ELEMS, last, (size_t)(n_elems - n_groups * GROUP_ELEMS) * sizeof *values);
}

void sm_param_init(const sm_plan *plan, int tensor, uint64_t seed, int64_t first, int64_t n_elems, float *values) {
    const sm_tensor *t = &plan->tensors[tensor];
    if (t->init_std > 0) {
        fill_normal(values, first, n_elems, (float)t->init_std, sm_philox_key(seed, t->name));
    } else {
        const float value = (float)t->init_value;
        for (int64_t i = 0; i < n_elems; i++) {
            values[i] = value;
        }
    }
}
