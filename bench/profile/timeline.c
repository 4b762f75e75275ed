// timeline.c: the memory of a step over its ops. See profile.h.
#include "bench/profile/profile.h"

#include <stdlib.h>

#include "bench/tables/json_values.h"

enum { N_LARGEST = 10 };

// Tensors in the place of an input take it over: the input's life ends before.
static void end_overwritten(const sm_plan *plan, sm_range *lives) {
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        for (int pair = 0; pair < SM_MAX_IN * SM_MAX_OUT; pair++) {
            const int in = op->in[pair % SM_MAX_IN];
            const int out = op->out[pair / SM_MAX_IN];
            if (in == SM_NO_TENSOR || out == SM_NO_TENSOR) {
                continue;
            }
            const int from = sm_plan_root(plan, in);
            const int to = sm_plan_root(plan, out);
            const bool is_moved = from != to && lives[from].end == i + 1 && lives[to].first == i;
            if (is_moved && sm_tensors_overlap(&plan->tensors[from], &plan->tensors[to])) {
                lives[from].end = i;
            }
        }
    }
}

static int largest_first(const void *a, const void *b) {
    const double x = json_number_value(json_array_get(*(json_t *const *)a, 2));
    const double y = json_number_value(json_array_get(*(json_t *const *)b, 2));
    return (x < y) - (x > y);
}

// Of those that hold data while the op runs.
static json_t *largest_at(const json_t *tensors, int op) {
    const size_t n = json_array_size(tensors);
    SM_FREED json_t **alive = sm_malloc((n + 1) * sizeof(*alive));
    size_t n_alive = 0;
    for (size_t i = 0; i < n; i++) {
        json_t *t = json_array_get(tensors, i);
        if (json_integer_value(json_array_get(t, 3)) <= op && op < json_integer_value(json_array_get(t, 4))) {
            alive[n_alive++] = t;
        }
    }
    qsort(alive, n_alive, sizeof(*alive), largest_first);
    json_t *largest = json_array();
    for (size_t i = 0; i < n_alive && i < N_LARGEST; i++) {
        json_array_append(largest, alive[i]);
    }
    return largest;
}

static json_t *ops_json(const sm_plan *plan, const int64_t *op_ns) {
    json_t *ops = json_array();
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        json_t *one = json_pack("[s, s, i]", sm_op_name(op->kind), sm_phase_name(op->phase), op->layer);
        if (op_ns != NULL) {
            json_array_append_new(one, json_integer((json_int_t)op_ns[i]));
        }
        json_array_append_new(ops, one);
    }
    return ops;
}

json_t *sm_profile_timeline(const sm_plan *plan, const int64_t *op_ns, size_t working_bytes) {
    const size_t n_ops = (size_t)plan->n_ops;
    SM_FREED sm_range *lives = sm_malloc(((size_t)plan->n_tensors + 1) * sizeof(*lives));
    SM_FREED size_t *alive = sm_calloc(n_ops + 1, sizeof(*alive));
    SM_FREED size_t *of_role = sm_calloc(n_ops + 1, sizeof(*of_role));
    json_t *tensors = json_array();
    json_t *bytes = json_array();
    int peak = 0;
    sm_plan_lifetimes(plan, lives);
    end_overwritten(plan, lives);
    for (int i = 0; i < plan->n_tensors; i++) {
        if (plan->tensors[i].view_of == SM_NO_TENSOR && lives[i].first < lives[i].end) {
            json_array_append_new(
                tensors, json_pack("[s, s, I, i, i]", plan->tensors[i].name, sm_role_name(plan->tensors[i].role),
                                   (json_int_t)sm_tensor_bytes(&plan->tensors[i]), lives[i].first, lives[i].end));
        }
    }
    for (sm_role role = 0; role < SM_ROLE_COUNT; role++) {
        sm_plan_alive_bytes(plan, role, of_role);
        for (size_t i = 0; i < n_ops; i++) {
            alive[i] += of_role[i];
        }
    }
    for (size_t i = 0; i < n_ops; i++) {
        json_array_append_new(bytes, json_integer((json_int_t)alive[i]));
        peak = alive[i] > alive[peak] ? (int)i : peak;
    }
    return sm_json_put(json_object(), {"ops", ops_json(plan, op_ns)}, {"tensors", tensors}, {"alive_bytes", bytes},
                       {"peak_op", json_integer(peak)}, {"peak_alive_bytes", json_integer((json_int_t)alive[peak])},
                       {"peak_largest", largest_at(tensors, peak)},
                       {"tensor_bytes", json_integer((json_int_t)sm_plan_memory(plan, NULL))},
                       {"working_bytes", json_integer((json_int_t)working_bytes)});
}
