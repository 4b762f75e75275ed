// memory.c: see loop.h.
#include "bench/loop/loop.h"

#include <stdlib.h>

#include "bench/stats/stats.h"

enum { MOST_POINTS = 200 };

static bool is_transient(int role) { return role == SM_ROLE_ACTIVATION || role == SM_ROLE_SCRATCH; }

static double held_bytes(const sm_plan *plan) {
    size_t by_role[SM_ROLE_COUNT];
    double sum = 0;
    (void)sm_plan_memory(plan, by_role);
    for (int role = 0; role < SM_ROLE_COUNT; role++) {
        sum += is_transient(role) ? 0 : (double)by_role[role];
    }
    return sum;
}

// Medians over the steps, so that a preempted step has no effect. `medians` has plan->n_ops entries.
static sm_status set_medians(const sm_plan *plan, const int64_t *op_ns, int n_steps, double *medians) {
    sm_status status = SM_OK;
    int64_t *steps_ns = sm_malloc((size_t)n_steps * sizeof(*steps_ns) + 1);
    for (int op = 0; op < plan->n_ops && status == SM_OK; op++) {
        sm_stats stats;
        for (int i = 0; i < n_steps; i++) {
            steps_ns[i] = op_ns[(size_t)i * (size_t)plan->n_ops + (size_t)op];
        }
        status = sm_stats_compute(steps_ns, n_steps, &stats);
        medians[op] = stats.median;
    }
    free(steps_ns);
    return status;
}

// alive_bytes: of activations, then of scratch, plan->n_ops each.
static void fill(const sm_plan *plan, const double *op_ns, const size_t *alive_bytes, json_t *memory) {
    json_t *ends = json_array();
    json_t *alive = json_array();
    const int stride = (plan->n_ops + MOST_POINTS - 1) / MOST_POINTS;
    double now_ns = 0;
    double backward_ns = -1;
    for (int first = 0; first < plan->n_ops; first += stride) {
        double most_bytes = 0;
        for (int i = first; i < first + stride && i < plan->n_ops; i++) {
            const double bytes = (double)alive_bytes[i] + (double)alive_bytes[plan->n_ops + i];
            most_bytes = bytes > most_bytes ? bytes : most_bytes;
            backward_ns = backward_ns < 0 && plan->ops[i].phase == SM_PHASE_BACKWARD ? now_ns : backward_ns;
            now_ns += op_ns[i];
        }
        json_array_append_new(ends, json_integer((json_int_t)now_ns));
        json_array_append_new(alive, json_integer((json_int_t)most_bytes));
    }
    sm_json_put(memory, {"end_ns", ends}, {"alive_bytes", alive},
                {"held_bytes", json_integer((json_int_t)held_bytes(plan))},
                {"backward_ns", json_integer((json_int_t)backward_ns)});
}

sm_status sm_loop_memory(const sm_plan *plan, const int64_t *op_ns, int n_steps, json_t **memory) {
    sm_status status = SM_OK;
    size_t *alive_bytes = sm_calloc(2 * (size_t)plan->n_ops + 1, sizeof(*alive_bytes));
    double *medians = sm_calloc((size_t)plan->n_ops + 1, sizeof(*medians));
    *memory = json_object();
    SM_TRY_GOTO(set_medians(plan, op_ns, n_steps, medians));
    sm_plan_alive_bytes(plan, SM_ROLE_ACTIVATION, alive_bytes);
    sm_plan_alive_bytes(plan, SM_ROLE_SCRATCH, alive_bytes + plan->n_ops);
    fill(plan, medians, alive_bytes, *memory);
cleanup:
    free(alive_bytes);
    free(medians);
    if (status != SM_OK) {
        json_decref(*memory);
        *memory = NULL;
    }
    return status;
}
