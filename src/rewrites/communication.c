// communication.c: adds the ops that exchange data between processes.
//
//   ...                                    ...
//   dW of bucket k += (the last)           dW of bucket k += (the last)
//                                          begin: bucket k = sum over the processes
//   ... the rest of the backward       =>  ... the rest of the backward
//                                          finish: bucket 0, 1, ...
//   norm, clip, update                     norm, clip, update
//
// With a sharded optimizer, each process gets its slice of a bucket's sum and updates it (optimizer.c), in the order in
// which the next forward needs the parameters: after the norm, or before it if it never clips. The slices of a bucket
// are gathered while the next ones are updated, and the forward waits for each before the first read. A process whose
// slice is empty waits where the others do, so that none waits for others while they need it to go on. Each process has
// 1/N of the loss's derivative (sm_fill_hyper), so that sums are means.
#include "src/optim/optimizer.h"
#include "src/rewrites/passes.h"

// Where a tensor begins within its root.
static int64_t first_of(const sm_tensor *t) { return t->view_of == SM_NO_TENSOR ? 0 : t->view_offset_elems; }

static bool overlap(const sm_plan *plan, int a, int b) {
    if (a == SM_NO_TENSOR || b == SM_NO_TENSOR || sm_plan_root(plan, a) != sm_plan_root(plan, b)) {
        return false;
    }
    const sm_tensor *x = &plan->tensors[a], *y = &plan->tensors[b];
    return first_of(x) < first_of(y) + sm_tensor_elems(y) && first_of(y) < first_of(x) + sm_tensor_elems(x);
}

static bool is_among(const sm_plan *plan, const int *operands, int n, int tensor) {
    bool found = false;
    for (int k = 0; k < n; k++) {
        found |= overlap(plan, operands[k], tensor);
    }
    return found;
}

static bool reads(const sm_plan *plan, const sm_op *op, int tensor) {
    return is_among(plan, op->in, SM_MAX_IN, tensor);
}

static bool writes(const sm_plan *plan, const sm_op *op, int tensor) {
    return is_among(plan, op->out, SM_MAX_OUT, tensor);
}

// Nothing is exchanged before the backward has ended.
static bool is_after(const sm_plan *plan) {
    return plan->processes.bucket_bytes == SM_BUCKETS_NAIVE || plan->processes.bucket_bytes == SM_BUCKETS_ALL;
}

// The op that completes a bucket: the last before the optimizer that writes to it. If rows are added to the sum, it may
// be in the forward's range; the sum then begins with the backward.
static int completed_by(const sm_plan *plan, int tensor) {
    int last = -1;
    bool adds_rows = false;
    for (int i = 0; i < plan->n_ops && plan->ops[i].range < SM_PHASE_OPTIMIZER; i++) {
        const bool is_writer = writes(plan, &plan->ops[i], tensor);
        const bool is_first = plan->ops[i].attr.when == SM_WHEN_ALWAYS; // others are not in the sum
        adds_rows |= is_writer && !is_first;
        last = is_writer && is_first ? i : last;
    }
    const int backward = sm_plan_range(plan, SM_PHASE_BACKWARD).first;
    if (is_after(plan)) {
        return sm_plan_range(plan, SM_PHASE_OPTIMIZER).first - 1;
    }
    return adds_rows && last < backward - 1 ? backward - 1 : last;
}

static sm_op make(const sm_plan *plan, sm_op_kind kind, sm_phase range, int tensor) {
    sm_op op = sm_op_make(kind, range, -1);
    op.phase = SM_PHASE_COMMUNICATION;
    op.attr.n_processes = plan->processes.n;
    op.out[0] = tensor;
    return op;
}

// By bucket: the op that completes its gradients, and the first that needs its weights.
typedef struct {
    int bucket;
    int completed_by;
    int needed_by;
} milestones;

static int needed_by(const sm_plan *plan, const sm_bucket *b) {
    int i = 0;
    while (i < plan->n_ops && !reads(plan, &plan->ops[i], b->value) && !reads(plan, &plan->ops[i], b->working_copy)) {
        i++;
    }
    return i;
}

static int first_needed_first(const void *left, const void *right) {
    const milestones *a = left;
    const milestones *b = right;
    return a->needed_by != b->needed_by ? (a->needed_by > b->needed_by) - (a->needed_by < b->needed_by)
                                        : a->bucket - b->bucket;
}

static void find_milestones(const sm_plan *plan, milestones *m) {
    for (int k = 0; k < plan->n_buckets; k++) {
        m[k] = (milestones){.bucket = k,
                            .completed_by = completed_by(plan, plan->buckets[k].gradient),
                            .needed_by = needed_by(plan, &plan->buckets[k])};
    }
    qsort(m, (size_t)plan->n_buckets, sizeof *m, first_needed_first);
}

static bool is_finished(const sm_op_list *l, int tensor) {
    bool is_finished = false;
    for (int i = 0; i < l->n; i++) {
        is_finished |= l->ops[i].kind == SM_OP_COMMUNICATION_FINISH && l->ops[i].out[0] == tensor;
    }
    return is_finished;
}

// Waits for the sums, in the order of their start: for all buckets, or for those that `op` reads or adds to.
static void finish_sums(sm_op_list *l, sm_phase range, const sm_op *op) {
    for (int i = 0; i < l->n; i++) {
        const int tensor = l->ops[i].out[0];
        const bool is_start = l->ops[i].kind == SM_OP_ALL_REDUCE_START || l->ops[i].kind == SM_OP_REDUCE_SCATTER_START;
        const bool is_of_op = op == NULL || is_among(l->plan, op->operands, SM_MAX_OPERANDS, tensor);
        if (is_start && is_of_op && !is_finished(l, tensor)) {
            sm_ops_append(l, make(l->plan, SM_OP_COMMUNICATION_FINISH, range, tensor));
        }
    }
}

// Whether an op goes with its bucket: an update, or a norm for which no update waits.
static bool is_of_shard(const sm_plan *plan, const sm_op *op) {
    return plan->processes.is_sharded &&
           (sm_op_is_update(plan, op) || (!sm_plan_clips(plan) && op->kind == SM_OP_GRAD_SQNORM));
}

// The updates, or the norms, of this process's slice of a bucket.
static void append_of(sm_op_list *l, const sm_bucket *bucket, bool are_updates) {
    const sm_range optimizer = sm_plan_range(l->plan, SM_PHASE_OPTIMIZER);
    for (const sm_op *op = l->plan->ops + optimizer.first; op < l->plan->ops + optimizer.end; op++) {
        if (is_of_shard(l->plan, op) && sm_op_is_update(l->plan, op) == are_updates &&
            reads(l->plan, op, bucket->own_gradient)) {
            sm_ops_append(l, *op);
        }
    }
}

// The updates of all buckets, and gathers. A process with an empty slice of a bucket has no update, and still gathers.
static void update_and_gather(sm_op_list *l, const milestones *m) {
    for (int k = 0; k < l->plan->n_buckets; k++) {
        const sm_bucket *bucket = &l->plan->buckets[m[k].bucket];
        const sm_op summed = make(l->plan, SM_OP_COMMUNICATION_FINISH, SM_PHASE_OPTIMIZER, bucket->gradient);
        sm_op op = make(l->plan, SM_OP_ALL_GATHER_START, SM_PHASE_OPTIMIZER, bucket->value);
        finish_sums(l, SM_PHASE_OPTIMIZER, &summed);
        op.out[SM_OUT(all_gather_start, w)] = bucket->working_copy;
        append_of(l, bucket, true);
        sm_ops_append(l, op);
        append_of(l, bucket, false);
    }
}

// All ops of a plan with an optimizer, with those of communication between them.
static void rebuild(sm_op_list *l, const milestones *m) {
    const sm_plan *plan = l->plan;
    const sm_range optimizer = sm_plan_range(plan, SM_PHASE_OPTIMIZER);
    const bool is_sharded = plan->processes.is_sharded, waits = sm_plan_clips(plan);
    for (int i = 0; i < plan->n_ops; i++) {
        // Waits for the weights, gathered by the step before, that op i of the plan is the first to need.
        for (int k = 0; k < plan->n_buckets && is_sharded; k++) {
            if (m[k].needed_by == i) {
                const int value = plan->buckets[m[k].bucket].value;
                sm_ops_append(l, make(plan, SM_OP_COMMUNICATION_FINISH, plan->ops[i].range, value));
            }
        }
        if (i == optimizer.first && is_sharded && !waits) {
            update_and_gather(l, m);
        }
        if (plan->ops[i].attr.when == SM_WHEN_LAST || i >= optimizer.first) {
            finish_sums(l, plan->ops[i].range, i == optimizer.first && is_sharded ? NULL : &plan->ops[i]);
        }
        if (!is_of_shard(plan, &plan->ops[i])) {
            sm_ops_append(l, plan->ops[i]);
        }
        // Begins the sums of buckets that op i completes.
        const bool is_last = i + 1 == sm_plan_range(plan, SM_PHASE_BACKWARD).first;
        for (int k = 0; k < plan->n_buckets; k++) {
            if (m[k].completed_by == i) {
                sm_op op = make(plan, is_sharded ? SM_OP_REDUCE_SCATTER_START : SM_OP_ALL_REDUCE_START,
                                is_last ? SM_PHASE_BACKWARD : plan->ops[i].range, plan->buckets[m[k].bucket].gradient);
                op.attr.is_bf16 = plan->processes.is_bf16;
                sm_ops_append(l, op);
            }
        }
    }
    finish_sums(l, SM_PHASE_OPTIMIZER, NULL);
    if (is_sharded && waits) {
        update_and_gather(l, m);
    }
}

sm_status sm_rewrite_communication(sm_plan *plan) {
    const sm_range optimizer = sm_plan_range(plan, SM_PHASE_OPTIMIZER);
    if (optimizer.first == optimizer.end) { // without an optimizer gradients are not exchanged
        return SM_OK;
    }
    SM_TRY(is_after(plan) ? SM_OK : sm_rewrite_gather_rows(plan));
    SM_FREED milestones *m = sm_malloc((size_t)(plan->n_buckets + 1) * sizeof *m);
    sm_op_list list = {.plan = plan};
    find_milestones(plan, m);
    rebuild(&list, m);
    return sm_ops_take(&list);
}
