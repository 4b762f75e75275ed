#include "bench/measure/harness.h"

#include "shard.h"
#include "src/plan/host_threads.h"

// Pieces of a large exchange: cards of several processes share less than 512 MiB in a piece (SM_EXCHANGED_BYTES), and
// four exchanges under way land in one.
enum { PIECE_ELEMS = 32 << 20, PART_ELEMS = 1 << 20 };

static const char *const names[] = {SM_COLLECTIVE_OP_LIST(SM_WORD)};

sm_collective_op sm_collective_op_find(const char *name) {
    int op = 0;
    while (op < SM_ALONE_COUNT && strcmp(names[op], name) != 0) {
        op++;
    }
    return (sm_collective_op)op;
}

// --- the plan ------------------------------------------------------------------------------------

static sm_status add_op(sm_plan *plan, sm_op_kind kind, int tensor, bool is_broadcast) {
    sm_op op = sm_op_make(kind, SM_PHASE_FORWARD, -1);
    op.phase = SM_PHASE_COMMUNICATION;
    op.attr.n_processes = plan->processes.n;
    op.attr.is_bf16 = plan->processes.is_bf16 && sm_op_has_attr(kind, SM_ATTR_is_bf16);
    op.attr.from_last = is_broadcast;
    op.out[0] = tensor;
    return sm_plan_add_op(plan, &op);
}

static sm_status add_copy(sm_plan *plan, int from, int to) {
    sm_op op = sm_op_make(SM_OP_COMBINE, SM_PHASE_FORWARD, -1);
    op.in[SM_IN(combine, x)] = op.in[SM_IN(combine, z)] = from;
    op.out[0] = to;
    op.attr.a = 1;
    return sm_plan_add_op(plan, &op);
}

// Devices make room by its buckets.
static sm_status add_piece(sm_plan *plan, sm_collective_op what, int64_t n, bool is_apart) {
    static const sm_op_kind starts[] = {[SM_ALONE_ALL_REDUCE] = SM_OP_ALL_REDUCE_START,
                                        [SM_ALONE_REDUCE_SCATTER] = SM_OP_REDUCE_SCATTER_START,
                                        [SM_ALONE_ALL_GATHER] = SM_OP_ALL_GATHER_START,
                                        [SM_ALONE_BROADCAST] = SM_OP_ALL_GATHER_START};
    const int tensor = sm_plan_add_tensor(plan, SM_ROLE_GRADIENT, SM_F32, 1, &n, "piece.%d", plan->n_tensors);
    const int operand = is_apart
                            ? sm_plan_add_tensor(plan, SM_ROLE_PARAMETER, SM_F32, 1, &n, "operand.%d", plan->n_tensors)
                            : SM_NO_TENSOR;
    plan->buckets[plan->n_buckets++] = (sm_bucket){.n_elems = n, .gradient = tensor, .value = operand};
    SM_TRY(is_apart ? add_copy(plan, operand, tensor) : SM_OK);
    return add_op(plan, starts[what], tensor, what == SM_ALONE_BROADCAST);
}

// All pieces begin before the first is waited for.
sm_status sm_collective_plan(sm_collective_op op, int64_t size_bytes, bool is_apart, sm_processes processes,
                             sm_plan **plan) {
    const int64_t n_elems = size_bytes / (int64_t)sizeof(float);
    *plan = NULL;
    SM_FAIL_IF(processes.n < 2, SM_ERR_UNSUPPORTED,
               "--op %s: needs several processes: mpirun -n 2 stepmark run --op %s --bytes 1M-64M*4", names[op],
               names[op]);
    SM_FAIL_IF(size_bytes % (int64_t)sizeof(float) != 0, SM_ERR_USAGE, "--bytes: %lld are no whole floats",
               (long long)size_bytes);
    SM_OWN(sm_plan) *built = sm_plan_new(SM_F32);
    built->processes = processes;
    built->processes.is_sharded = false;
    built->one_micro_batch = true;
    built->buckets = sm_calloc((size_t)(n_elems / PIECE_ELEMS) + 1, sizeof *built->buckets);
    for (int64_t first = 0; first < n_elems; first += PIECE_ELEMS) {
        SM_TRY(add_piece(built, op, n_elems - first < PIECE_ELEMS ? n_elems - first : PIECE_ELEMS, is_apart));
    }
    for (int i = 0; i < built->n_buckets; i++) {
        SM_TRY(add_op(built, SM_OP_COMMUNICATION_FINISH, built->buckets[i].gradient, false));
    }
    *plan = sm_give(&built);
    return SM_OK;
}

// --- operands and results ------------------------------------------------------------------------

// A whole number from -2 to 2: the sums of 64 processes are exact in bf16.
static float operand(uint64_t seed, int rank, int64_t i) {
    uint64_t z = seed + (uint64_t)i * 0x9e3779b97f4a7c15u + (uint64_t)rank * 0xd1b54a32d192ed03u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return (float)((z >> 33) % 5) - 2;
}

// Element `at` of a piece of n elements that begins at element `first` of the whole, once it has been exchanged.
static float result(const sm_collective_work *w, int64_t first, int64_t n, int64_t at) {
    const int N = sm_comm_size(w->comm);
    float sum = 0;
    if (w->op == SM_ALONE_BROADCAST) {
        return operand(w->seed, N - 1, first + at);
    }
    for (int rank = 0; rank < N && w->op != SM_ALONE_ALL_GATHER; rank++) {
        sum += operand(w->seed, rank, first + at);
    }
    for (int rank = 0; rank < N && w->op == SM_ALONE_ALL_GATHER; rank++) {
        const sm_slice slice = sm_slice_of(n, SM_SLICE_BLOCK, rank, N);
        sum += slice.first <= at && at < slice.end ? operand(w->seed, rank, first + at) : 0;
    }
    return sum;
}

// Goes over the piece's elements of this process in parts: writes operands, or compares results.
static sm_status visit(sm_collective_work *w, sm_session *session, int tensor, int64_t first, int64_t n, bool writes) {
    SM_FREED float *part = sm_malloc(PART_ELEMS * sizeof *part);
    const bool is_part = !writes && w->op == SM_ALONE_REDUCE_SCATTER; // its slice is all that a process gets of a sum
    const sm_slice own =
        is_part ? sm_slice_of(n, SM_SLICE_BLOCK, sm_comm_rank(w->comm), sm_comm_size(w->comm)) : (sm_slice){0, n};
    for (int64_t at = own.first; at < own.end; at += PART_ELEMS) {
        const int64_t length = own.end - at < PART_ELEMS ? own.end - at : PART_ELEMS;
        int64_t wrong = -1;
        SM_TRY(!writes ? sm_session_read_part(session, tensor, at, length, part) : SM_OK);
#pragma omp parallel for schedule(static) reduction(max : wrong) num_threads(sm_few_host_threads())
        for (int64_t i = 0; i < length; i++) {
            if (writes) {
                part[i] = operand(w->seed, sm_comm_rank(w->comm), first + at + i);
            } else if (!(part[i] == result(w, first, n, at + i))) {
                wrong = i > wrong ? i : wrong;
            }
        }
        SM_FAIL_IF(wrong >= 0, SM_ERR_MISMATCH, "wrong result: element %lld of %s is %g, not %g",
                   (long long)(first + at + wrong), names[w->op], (double)part[wrong],
                   (double)result(w, first, n, at + wrong));
        SM_TRY(writes ? sm_session_write_part(session, tensor, at, length, part) : SM_OK);
    }
    return SM_OK;
}

static sm_status visit_all(sm_collective_work *w, sm_session *session, bool writes) {
    int64_t first = 0;
    for (int i = 0; i < session->plan->n_buckets; i++) {
        const sm_bucket *b = &session->plan->buckets[i];
        SM_TRY(
            visit(w, session, writes && b->value != SM_NO_TENSOR ? b->value : b->gradient, first, b->n_elems, writes));
        first += b->n_elems;
    }
    return SM_OK;
}

// --- the workload --------------------------------------------------------------------------------

static sm_status no_batch(SM_UNUSED void *ctx, SM_UNUSED sm_session *session, SM_UNUSED int64_t index) { return SM_OK; }

static sm_status draw(void *ctx, sm_session *session, int64_t step, SM_UNUSED unsigned phases, uint64_t seed) {
    sm_collective_work *w = ctx;
    w->seed = seed + (uint64_t)step;
    SM_TRY(visit_all(w, session, true));
    return sm_comm_barrier(w->comm);
}

static sm_status check(void *ctx, sm_session *session, SM_UNUSED int64_t index, SM_UNUSED uint64_t seed, sm_row *row) {
    sm_collective_work *w = ctx;
    snprintf(row->spot_check, sizeof row->spot_check,
             "all results, of operands that were drawn again, in each of %d processes", sm_comm_size(w->comm));
    return sm_comm_agree(w->comm, visit_all(w, session, false));
}

sm_workload sm_collective_workload(sm_collective_work *work) {
    return (sm_workload){.ctx = work, .next_batch = no_batch, .before_step = draw, .check = check};
}

void sm_collective_set_rates(const sm_collective_work *w, const sm_session *session, sm_row *row) {
    row->bytes = 0; // sent and received, without those of copies
    for (int i = 0; i < session->plan->n_ops; i++) {
        const sm_op *op = &session->plan->ops[i];
        row->bytes += sm_op_is_communication(op->kind) ? sm_op_bytes(session->plan, op) : 0;
    }
    row->operand_bytes = w->size_bytes;
    row->flops = row->flops_per_s = NAN; // it has none that count
    if (row->median_ns > 0) {
        row->algorithm_bandwidth = (double)w->size_bytes * 1e9 / (double)row->median_ns;
        row->bytes_per_s = row->bytes * 1e9 / (double)row->median_ns;
        row->bus_bandwidth = row->bytes_per_s / 2;
    }
}
