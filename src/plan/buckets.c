// buckets.c: cuts groups of parameters into buckets, the units of gradient exchange.
//
// A bucket is about 25 MiB of gradients, as in PyTorch's DistributedDataParallel: large enough for full bandwidth,
// small enough that many are exchanged while the backward continues. With a sharded optimizer each bucket also has
// updates and a gather of its own, for which the host takes 50 us, so it is larger. The backward completes a model's
// parameters from the last to the first, so groups are cut from their ends; parameters outside of the blocks, whose
// gradients are complete at another time, have buckets of their own. All have the same size, so parameters are cut, too.
#include "src/plan/params.h"
#include "shard.h"

enum { BUCKET_BYTES = 25 << 20, SHARDED_BUCKET_BYTES = 60 << 20 };

static int64_t most_elems(const sm_plan *plan) {
    const int64_t given = plan->processes.bucket_bytes;
    const int64_t usual = plan->processes.is_sharded ? SHARDED_BUCKET_BYTES : BUCKET_BYTES;
    return (given > 0 ? given : given < 0 ? SM_BUCKETS_ALL : usual) / (int64_t)sm_dtype_size(plan->real);
}

static int add_part(sm_plan *plan, int of, int64_t first, int64_t n_elems, const char *what, int number) {
    return n_elems == 0 ? SM_NO_TENSOR : sm_plan_add_view(plan, of, first, 1, &n_elems, "%s.%d", what, number);
}

// Adds the bucket of elements first .. end - 1 of a group.
static void add_bucket(sm_plan *plan, const sm_params *params, int group, int64_t first, int64_t end) {
    const sm_param_group *g = &params->groups[group];
    plan->buckets = sm_realloc(plan->buckets, (size_t)(plan->n_buckets + 1) * sizeof *plan->buckets);
    const int number = plan->n_buckets++;
    const int64_t n = end - first;
    const sm_slice own = sm_slice_of(n, SM_SLICE_BLOCK, plan->processes.rank, plan->processes.n);
    const int64_t own_first = first + own.first;
    const int64_t n_own = plan->processes.is_sharded ? own.end - own.first : 0;
    plan->buckets[number] = (sm_bucket){
        .group = group,
        .first_elem = first,
        .n_elems = n,
        .gradient = add_part(plan, g->gradient, first, n, "bucket.grads", number),
        .value = add_part(plan, g->value, first, n, "bucket.params", number),
        .working_copy = add_part(plan, g->working_copy, first, n, "bucket.copy", number),
        .own_gradient = add_part(plan, g->gradient, own_first, n_own, "shard.grads", number),
        .own_value = add_part(plan, g->value, own_first, n_own, "shard.params", number),
        .own_copy = add_part(plan, g->working_copy, own_first, n_own, "shard.copy", number),
    };
    sm_bucket *b = &plan->buckets[number];
    for (int k = 0; k < SM_MAX_OUT; k++) {
        b->states[k] = SM_NO_TENSOR;
    }
    if (b->own_value != SM_NO_TENSOR) {
        plan->tensors[b->own_value].working_copy = b->own_copy;
    }
}

// Cuts elements first .. end - 1 of a group into buckets of equal size, the last first.
static void add_buckets(sm_plan *plan, const sm_params *params, int group, int64_t first, int64_t end) {
    const int64_t most = most_elems(plan);
    const int n = (int)((end - first - 1) / most + 1);
    for (int i = n - 1; i >= 0; i--) {
        const sm_slice part = sm_slice_of(end - first, SM_SLICE_BLOCK, i, n);
        add_bucket(plan, params, group, first + part.first, first + part.end);
    }
}

void sm_params_cut(sm_plan *plan, const sm_params *params) {
    const int64_t way = plan->processes.bucket_bytes;
    for (int group = 0; group < params->n_groups; group++) {
        int64_t end = params->groups[group].n_elems; // of the elements that are not yet in a bucket
        int64_t begin = end;                         // of the parameters collected for the next buckets
        bool in_blocks = false;
        for (int i = params->n_params - 1; i >= 0; i--) {
            const sm_param *p = &params->params[i];
            if (p->group != group) {
                continue;
            }
            const bool belongs = way == SM_BUCKETS_ALL || (p->layer >= 0) == in_blocks || !p->is_matrix;
            if (begin < end && (!belongs || way == SM_BUCKETS_NAIVE)) {
                add_buckets(plan, params, group, begin, end);
                end = begin;
            }
            begin = p->offset_elems;
            in_blocks = p->layer >= 0;
        }
        if (begin < end) {
            add_buckets(plan, params, group, begin, end);
        }
    }
}
