// timeline.c: the memory of a step over its ops, and an attribution step as a trace. See profile.h.
#include "bench/profile/profile.h"

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
            const int from = sm_plan_root(plan, in), to = sm_plan_root(plan, out);
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

// The largest tensors that hold data while the op runs.
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

// --- a trace -------------------------------------------------------------------------------------

enum { STEP_TRACK = 1, OP_TRACK = 2 };

static json_t *op_args(const sm_profile_input *in, int index) {
    const sm_op *op = &in->plan->ops[index];
    const double seconds = (double)in->op_ns[index] * 1e-9;
    const double flops = sm_op_flops(in->plan, op);
    const double bytes = sm_op_bytes(in->plan, op);
    return sm_json_put(json_object(), {"op", json_integer(index)},
                       {"output", sm_json_text(op->out[0] != SM_NO_TENSOR ? in->plan->tensors[op->out[0]].name : NULL)},
                       {"layer", sm_json_integer(op->layer >= 0 ? op->layer : SM_ABSENT)},
                       {"phase", json_string(sm_phase_name(op->phase))}, {"flops", sm_json_real(flops)},
                       {"bytes", sm_json_real(bytes)}, {"flops_per_s", sm_json_real(flops / seconds)},
                       {"bytes_per_s", sm_json_real(bytes / seconds)});
}

json_t *sm_profile_trace(const sm_profile_input *in, const char *category, const char *device) {
    const int n_ops = in->plan->n_ops;
    json_t *events = json_array();
    SM_FREED size_t *alive_bytes = sm_calloc((size_t)n_ops * SM_ROLE_COUNT + 1, sizeof(*alive_bytes));
    int64_t now_ns = 0;
    for (int role = 0; role < SM_ROLE_COUNT; role++) {
        sm_plan_alive_bytes(in->plan, (sm_role)role, alive_bytes + role * n_ops);
    }
    sm_trace_name(events, "process_name", STEP_TRACK, device);
    sm_trace_name(events, "thread_name", STEP_TRACK, "step");
    sm_trace_name(events, "thread_name", OP_TRACK, "ops");
    for (int i = 0; i < n_ops; i++) { // end to end
        if (in->op_ns[i] > 0) {
            json_t *memory = json_object();
            for (int role = 0; role < SM_ROLE_COUNT; role++) {
                json_object_set_new(memory, sm_role_name((sm_role)role),
                                    json_integer((json_int_t)alive_bytes[role * n_ops + i]));
            }
            sm_trace_counter(events, "memory alive, bytes", STEP_TRACK, now_ns, memory);
            sm_trace_span(events, sm_op_name(in->plan->ops[i].kind), category, OP_TRACK, now_ns, in->op_ns[i],
                          op_args(in, i));
            now_ns += in->op_ns[i];
        }
    }
    if (in->wall_ns > now_ns) {
        sm_trace_span(events, "unaccounted", category, OP_TRACK, now_ns, in->wall_ns - now_ns, json_object());
    }
    sm_trace_span(events, "step", category, STEP_TRACK, 0, in->wall_ns > now_ns ? in->wall_ns : now_ns, json_object());
    return sm_trace_make(events);
}

// --- events ----------------------------------------------------------------------------------------

enum { PROCESS = 1 };

static json_t *add_event(json_t *events, const char *phase, const char *name, const char *category, int track,
                         int64_t start_ns, json_t *args) {
    json_t *event =
        sm_json_put(json_object(), {"ph", json_string(phase)}, {"name", sm_json_bytes(name)},
                    {"cat", json_string(category)}, {"pid", json_integer(PROCESS)}, {"tid", json_integer(track)},
                    {"ts", json_real((double)start_ns / 1e3)}, {"args", args});
    json_array_append_new(events, event);
    return event;
}

void sm_trace_name(json_t *events, const char *what, int track, const char *name) {
    add_event(events, "M", what, "__metadata", track, 0, sm_json_put(json_object(), {"name", sm_json_bytes(name)}));
}

void sm_trace_span(json_t *events, const char *name, const char *category, int track, int64_t start_ns,
                   int64_t elapsed_ns, json_t *args) {
    json_t *event = add_event(events, "X", name, category, track, start_ns, args);
    sm_json_set_new(event, "dur", json_real((double)elapsed_ns / 1e3));
}

void sm_trace_counter(json_t *events, const char *name, int track, int64_t start_ns, json_t *args) {
    add_event(events, "C", name, "counter", track, start_ns, args);
}

json_t *sm_trace_make(json_t *events) {
    return sm_json_put(json_object(), {"displayTimeUnit", json_string("ms")}, {"traceEvents", events});
}
