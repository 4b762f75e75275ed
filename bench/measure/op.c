#include "bench/measure/harness.h"

#include "bench/tables/show.h"
#include "clock.h"
#include "src/verify/op_cases.h"

// --- operands --------------------------------------------------------------------------------

static sm_status no_batch(SM_UNUSED void *ctx, SM_UNUSED sm_session *session, SM_UNUSED int64_t index) { return SM_OK; }

static sm_status draw_again(void *ctx, sm_session *session, int64_t step, SM_UNUSED unsigned phases, uint64_t seed) {
    sm_op_operands *operands = ctx;
    operands->seed = seed + (uint64_t)step;
    return sm_op_text_upload(operands->text, operands->seed, session->plan, session->executable);
}

sm_workload sm_op_workload(sm_op_operands *operands) {
    return (sm_workload){.ctx = operands, .next_batch = no_batch, .before_step = draw_again};
}

// --- memory ----------------------------------------------------------------------------------

// Whether an op of that range writes, or else reads, the tensor.
static bool is_used(const sm_plan *plan, int tensor, sm_phase range, bool writes) {
    bool is = false;
    for (int i = 0; i < plan->n_ops; i++) {
        for (int k = 0; k < SM_MAX_OPERANDS; k++) {
            is |= plan->ops[i].range == range && plan->ops[i].operands[k] == tensor && (k >= SM_MAX_IN) == writes;
        }
    }
    return is;
}

void sm_op_set_memory(const sm_plan *plan, sm_row *row) {
    const sm_range backward = sm_plan_range(plan, SM_PHASE_BACKWARD);
    row->operand_bytes = 0;
    row->kept_bytes = backward.first < backward.end ? 0 : SM_ABSENT;
    for (int i = 0; i < plan->n_tensors; i++) {
        const int64_t size_bytes = (int64_t)sm_tensor_bytes(&plan->tensors[i]);
        row->operand_bytes += size_bytes;
        if (is_used(plan, i, SM_PHASE_FORWARD, true) && is_used(plan, i, SM_PHASE_BACKWARD, false)) {
            row->kept_bytes += size_bytes;
        }
    }
}

// --- cold caches -----------------------------------------------------------------------------

// Twice the last level of caches; of a card, whose caches are not known, more than any has.
static int64_t sweep_bytes(const sm_row *row) {
    static const int64_t least_bytes = INT64_C(64) << 20;
    static const int64_t most_bytes = INT64_C(1) << 30;
    double largest = row->gpu_info[0] != '\0' ? 256 << 20 : 0;
    SM_EACH(cache, sm_json_get(row->context, "cpu.caches")) {
        const double size_bytes = sm_json_number(cache, "size_bytes") * sm_json_number(cache, "count");
        largest = size_bytes > largest ? size_bytes : largest;
    }
    return 2 * largest < (double)least_bytes  ? least_bytes
           : 2 * largest > (double)most_bytes ? most_bytes
                                              : (int64_t)(2 * largest);
}

// A session that reads that many bytes, which it has written: memory that never was written takes no cache.
static sm_status open_sweep(sm_device *device, int64_t n_bytes, sm_session **sweep) {
    enum { PART_ELEMS = 1 << 20 };
    char text[SM_CASE_TEXT_SIZE];
    sm_plan *plan;
    snprintf(text, sizeof text, "n=%lld", (long long)(n_bytes / (int64_t)sizeof(float)));
    SM_TRY(sm_op_text_plan(SM_OP_GRAD_SQNORM, text, (sm_precision){.dtype = SM_F32}, &plan));
    SM_TRY(sm_session_open(device, plan, sweep));
    const int g = (*sweep)->plan->ops[0].in[0];
    const int64_t n_elems = sm_tensor_elems(&(*sweep)->plan->tensors[g]);
    SM_FREED float *part = sm_malloc(PART_ELEMS * sizeof *part);
    for (int64_t i = 0; i < PART_ELEMS; i++) {
        part[i] = (float)(i % 7);
    }
    for (int64_t first = 0; first < n_elems; first += PART_ELEMS) {
        const int64_t n = n_elems - first < PART_ELEMS ? n_elems - first : PART_ELEMS;
        SM_TRY(sm_session_write_part(*sweep, g, first, n, part));
    }
    return SM_OK;
}

// A sample of the pass, each of its ranges after a sweep: a backward otherwise finds what its forward left.
static sm_status run_cold(sm_session *session, sm_session *sweep, sm_pass_type pass, int64_t *op_ns, int64_t *cold_ns) {
    int64_t by_phase_ns[SM_PHASE_COUNT], wall_ns = 0;
    memset(op_ns, 0, (size_t)session->plan->n_ops * sizeof *op_ns);
    for (sm_phase phase = SM_PHASE_FORWARD; phase <= SM_PHASE_BACKWARD; phase++) {
        const unsigned phases = phase == SM_PHASE_FORWARD ? SM_RUN_FORWARD : SM_RUN_ZERO_GRAD | SM_RUN_BACKWARD;
        if ((sm_pass_phases(pass) & (1u << phase)) == 0) {
            continue;
        }
        SM_TRY(sm_session_run(sweep, SM_RUN_FORWARD, NULL));
        SM_TRY(sm_session_synchronize(sweep));
        const int64_t begin_ns = sm_now_ns();
        SM_TRY(sm_session_run(session, phases, sm_pass_is_op_time(pass) ? op_ns : NULL));
        SM_TRY(sm_session_synchronize(session));
        wall_ns += sm_now_ns() - begin_ns;
    }
    sm_pass_phase_sums(session->plan, op_ns, by_phase_ns);
    *cold_ns = !sm_pass_is_op_time(pass)
                   ? wall_ns
                   : by_phase_ns[SM_PHASE_BACKWARD] + (pass == SM_PASS_SEPARATE ? by_phase_ns[SM_PHASE_FORWARD] : 0);
    return SM_OK;
}

sm_status sm_op_measure_cold(sm_session *session, const sm_protocol *protocol, sm_row *row) {
    enum { MOST = 20 };
    static const int64_t most_ns = INT64_C(10000000000);
    SM_OWN(sm_session) *sweep = NULL;
    const int64_t n_bytes = sweep_bytes(row);
    const sm_status opened = open_sweep(session->device, n_bytes, &sweep);
    if (opened == SM_ERR_OOM || opened == SM_ERR_UNSUPPORTED) {
        sm_row_warn(row, "no cold runs: %s", sm_error_message());
        return SM_OK;
    }
    SM_TRY(opened);
    SM_FREED int64_t *op_ns = sm_calloc((size_t)session->plan->n_ops, sizeof *op_ns);
    const int64_t begin_ns = sm_now_ns();
    const int64_t n = row->samples_ns.n < MOST ? row->samples_ns.n : MOST;
    row->cold_samples_ns.values = sm_calloc(MOST, sizeof(int64_t));
    while (row->cold_samples_ns.n < n && sm_now_ns() - begin_ns < most_ns) {
        SM_FAIL_IF(protocol->interrupted != NULL && *protocol->interrupted, SM_ERR_INTERRUPTED,
                   "interrupted at its cold runs");
        SM_TRY(run_cold(session, sweep, protocol->pass, op_ns, &row->cold_samples_ns.values[row->cold_samples_ns.n]));
        row->cold_samples_ns.n++;
    }
    row->cold_bytes = n_bytes;
    row->cold_ns = (int64_t)sm_stats_of(row->cold_samples_ns.values, row->cold_samples_ns.n).median;
    return SM_OK;
}
