// memory.c: see loop.h.
#include "bench/loop/loop.h"

#include <math.h>
#include <stdlib.h>

#include "bench/stats/stats.h"

enum { MOST_POINTS = 200 };

json_t *sm_loop_memory(const sm_plan *plan, const int64_t *op_ns, int n_steps) {
    const size_t n_ops = (size_t)plan->n_ops;
    const int stride = (plan->n_ops + MOST_POINTS - 1) / MOST_POINTS;
    size_t *activations = sm_calloc(n_ops + 1, sizeof(*activations));
    size_t *scratch = sm_calloc(n_ops + 1, sizeof(*scratch));
    int64_t *steps_ns = sm_malloc((size_t)n_steps * sizeof(*steps_ns) + 1);
    json_t *ends = json_array();
    json_t *alive = json_array();
    size_t by_role[SM_ROLE_COUNT];
    double held_bytes = 0;
    double now_ns = 0;
    double backward_ns = -1;
    sm_plan_alive_bytes(plan, SM_ROLE_ACTIVATION, activations);
    sm_plan_alive_bytes(plan, SM_ROLE_SCRATCH, scratch);
    (void)sm_plan_memory(plan, by_role);
    for (int role = 0; role < SM_ROLE_COUNT; role++) {
        held_bytes += role == SM_ROLE_ACTIVATION || role == SM_ROLE_SCRATCH ? 0 : (double)by_role[role];
    }
    for (int first = 0; first < plan->n_ops; first += stride) {
        double most_bytes = 0;
        for (int op = first; op < first + stride && op < plan->n_ops; op++) {
            most_bytes = fmax(most_bytes, (double)activations[op] + (double)scratch[op]);
            backward_ns = backward_ns < 0 && plan->ops[op].phase == SM_PHASE_BACKWARD ? now_ns : backward_ns;
            for (int i = 0; i < n_steps; i++) {
                steps_ns[i] = op_ns[(size_t)i * n_ops + (size_t)op];
            }
            now_ns += sm_stats_of(steps_ns, n_steps).median; // a preempted step has no effect
        }
        json_array_append_new(ends, json_integer((json_int_t)now_ns));
        json_array_append_new(alive, json_integer((json_int_t)most_bytes));
    }
    free(activations);
    free(scratch);
    free(steps_ns);
    return sm_json_put(json_object(), {"end_ns", ends}, {"alive_bytes", alive},
                       {"held_bytes", json_integer((json_int_t)held_bytes)},
                       {"backward_ns", json_integer((json_int_t)backward_ns)});
}
