// adamw8bit.c: AdamW with 8-bit moments (Dettmers et al. 2022). State of a matrix: codes of m and of v for every
// parameter, and a scale of each for every block of 256. The few vectors keep f32 moments.
#include "dynamic_map.h"
#include "src/optim/optimizer.h"

static int64_t blocks_of(int64_t n_elems) { return (n_elems + SM_QUANT_BLOCK - 1) / SM_QUANT_BLOCK; }

static sm_status build_matrix(sm_plan *plan, const sm_param *param, int clip) {
    const int64_t n_blocks = blocks_of(param->rows * param->cols);
    sm_op op = sm_begin_update(plan, SM_OP_ADAMW8BIT, clip, param->gradient, param->value, true);
    op.out[SM_OUT(adamw8bit, m)] = sm_param_add_state(plan, param, "m", SM_U8, 0, NULL);
    op.out[SM_OUT(adamw8bit, v)] = sm_param_add_state(plan, param, "v", SM_U8, 0, NULL);
    op.out[SM_OUT(adamw8bit, m_max)] = sm_param_add_state(plan, param, "m_max", plan->real, 1, &n_blocks);
    op.out[SM_OUT(adamw8bit, v_max)] = sm_param_add_state(plan, param, "v_max", plan->real, 1, &n_blocks);
    return sm_plan_add_op(plan, &op);
}

// --- sharded: a process has whole blocks of a bucket, which may hold several matrices -------------------------------

static sm_shard_state state_of(const sm_plan *plan, int k) {
    const bool is_code = k == SM_OUT(adamw8bit, m) || k == SM_OUT(adamw8bit, v);
    return (sm_shard_state){.k = k,
                            .name = sm_op_get_info(SM_OP_ADAMW8BIT)->out[k].name,
                            .dtype = is_code ? SM_U8 : plan->real,
                            .block_elems = is_code ? 1 : SM_QUANT_BLOCK};
}

// The part of a slice's tensor with a matrix's elements; SM_NO_TENSOR if the plan has no such tensor.
static int part_of(sm_plan *plan, int tensor, int64_t first, int64_t n, const sm_param *param) {
    return sm_plan_add_view(plan, tensor, first, 1, &n, "shard.%s", param->name);
}

// Updates the part of one matrix that is in the slice.
static sm_status build_part(sm_plan *plan, int bucket, const sm_param *param, int clip) {
    const sm_bucket b = plan->buckets[bucket];
    const sm_tensor *own = &plan->tensors[b.own_value];
    const int64_t begin = own->view_offset_elems; // within the group
    const int64_t end = begin + sm_tensor_elems(own);
    const int64_t param_end = param->offset_elems + param->rows * param->cols;
    const int64_t from = param->offset_elems > begin ? param->offset_elems : begin;
    const int64_t n = (param_end < end ? param_end : end) - from;
    if (n <= 0) {
        return SM_OK;
    }
    const int gradient = part_of(plan, b.own_gradient, from - begin, n, param);
    const int value = part_of(plan, b.own_value, from - begin, n, param);
    SM_TRY(plan->status);
    sm_op op = sm_begin_update(plan, SM_OP_ADAMW8BIT, clip, gradient, value, true);
    op.out[SM_OUT(adamw8bit, w)] = part_of(plan, b.own_copy, from - begin, n, param);
    for (int k = SM_OUT(adamw8bit, m); k <= SM_OUT(adamw8bit, v_max); k++) {
        const int block = state_of(plan, k).block_elems;
        op.out[k] = part_of(plan, b.states[k], (from - begin) / block, (n + block - 1) / block, param);
    }
    return sm_plan_add_op(plan, &op);
}

static sm_status build_slice(sm_plan *plan, const sm_params *params, int bucket, int clip) {
    if (plan->buckets[bucket].own_value == SM_NO_TENSOR) {
        return SM_OK;
    }
    for (int k = SM_OUT(adamw8bit, m); k <= SM_OUT(adamw8bit, v_max); k++) {
        const sm_shard_state state = state_of(plan, k);
        sm_params_add_shard(plan, bucket, &state);
    }
    for (int i = 0; i < params->n_params; i++) {
        if (params->params[i].group == plan->buckets[bucket].group) {
            SM_TRY(build_part(plan, bucket, &params->params[i], clip));
        }
    }
    return SM_OK;
}

// The parts of one matrix must follow one another without a gap.
static sm_status check_blocks(const sm_params *params) {
    for (const sm_param *param = params->params; param < params->params + params->n_params; param++) {
        SM_FAIL_IF(param->is_matrix && param->offset_elems % SM_QUANT_BLOCK != 0, SM_ERR_UNSUPPORTED,
                   "--shard optimizer: adamw8bit cannot be: %s of this model begins inside a block of %d "
                   "elements; use adamw, or widths that are multiples of 16",
                   param->name, SM_QUANT_BLOCK);
    }
    return SM_OK;
}

static sm_status build_matrix_group(sm_plan *plan, const sm_params *params, int group, int clip) {
    SM_TRY(check_blocks(params));
    for (int i = 0; i < plan->n_buckets; i++) {
        SM_TRY(plan->buckets[i].group == group ? build_slice(plan, params, i, clip) : SM_OK);
    }
    for (int k = SM_OUT(adamw8bit, m); k <= SM_OUT(adamw8bit, v_max); k++) {
        const sm_shard_state state = state_of(plan, k);
        sm_params_name_shards(plan, params, group, &state);
    }
    return plan->status;
}

static sm_status build(sm_plan *plan, const sm_params *params, int clip) {
    for (int i = 0; i < params->n_params && !sm_plan_is_sharded(plan); i++) {
        SM_TRY(params->params[i].is_matrix ? build_matrix(plan, &params->params[i], clip) : SM_OK);
    }
    for (int g = 0; g < params->n_groups; g++) {
        if (params->groups[g].is_matrix && sm_plan_is_sharded(plan)) {
            SM_TRY(build_matrix_group(plan, params, g, clip));
        }
        if (!params->groups[g].is_matrix) {
            SM_TRY(sm_build_group_update(plan, params, g, SM_OP_ADAMW, clip));
        }
    }
    return SM_OK;
}

const sm_optimizer sm_optimizer_adamw8bit = {
    .name = "adamw8bit",
    .title = "8-bit AdamW",
    .defaults = SM_ADAMW_DEFAULTS,
    .build = build,
};
