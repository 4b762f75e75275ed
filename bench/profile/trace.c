// trace.c: an attribution step in the format of Chrome's trace viewer ("Trace Event Format": an object
// with an array of events; times in microseconds).
#include "bench/profile/profile.h"
#include "bench/tables/json_values.h"

#include <stdlib.h>

enum { STEP_TRACK = 1, OP_TRACK = 2 };

static json_t *op_args(const sm_profile_input *in, int index) {
    const sm_op *op = &in->plan->ops[index];
    const double seconds = (double)in->op_ns[index] * 1e-9;
    json_t *args = json_object();
    sm_json_put(args, {"op", json_integer(index)},
                {"output", sm_json_text(op->out[0] != SM_NO_TENSOR ? in->plan->tensors[op->out[0]].name : NULL)},
                {"layer", sm_json_integer(op->layer >= 0 ? op->layer : SM_ABSENT)},
                {"phase", json_string(sm_phase_name(op->phase))}, {"flops", sm_json_real(sm_op_flops(in->plan, op))},
                {"bytes", sm_json_real(sm_op_bytes(in->plan, op))},
                {"flops_per_s", sm_json_real(sm_op_flops(in->plan, op) / seconds)},
                {"bytes_per_s", sm_json_real(sm_op_bytes(in->plan, op) / seconds)});
    return args;
}

// The counter's value from `start_ns`: bytes by role.
static void add_memory(json_t *events, const sm_profile_input *in, const size_t *alive_bytes, int index,
                       int64_t start_ns) {
    json_t *args = json_object();
    for (int role = 0; role < SM_ROLE_COUNT; role++) {
        size_t bytes = alive_bytes[(size_t)role * (size_t)in->plan->n_ops + (size_t)index];
        json_object_set_new(args, sm_role_name((sm_role)role), json_integer((json_int_t)bytes));
    }
    sm_trace_counter(events, "memory alive, bytes", STEP_TRACK, start_ns, args);
}

// The ops end to end, then the rest of the wall-clock time.
static void add_ops(json_t *events, const sm_profile_input *in, const char *category, const size_t *alive_bytes) {
    int64_t now_ns = 0;
    for (int i = 0; i < in->plan->n_ops; i++) {
        if (in->op_ns[i] > 0) {
            add_memory(events, in, alive_bytes, i, now_ns);
            sm_trace_span(events, sm_op_name(in->plan->ops[i].kind), category, OP_TRACK, now_ns, in->op_ns[i],
                          op_args(in, i));
            now_ns += in->op_ns[i];
        }
    }
    if (in->wall_ns > now_ns) {
        sm_trace_span(events, "unaccounted", category, OP_TRACK, now_ns, in->wall_ns - now_ns, json_object());
    }
    sm_trace_span(events, "step", category, STEP_TRACK, 0, in->wall_ns > now_ns ? in->wall_ns : now_ns, json_object());
}

void sm_profile_trace(const sm_profile_input *input, const char *category, const char *device, json_t **trace) {
    const size_t n_ops = (size_t)input->plan->n_ops;
    json_t *events = json_array();
    size_t *alive_bytes = sm_calloc(n_ops * SM_ROLE_COUNT + 1, sizeof(*alive_bytes));
    *trace = NULL;
    for (int role = 0; role < SM_ROLE_COUNT; role++) {
        sm_plan_alive_bytes(input->plan, (sm_role)role, alive_bytes + (size_t)role * n_ops);
    }
    sm_trace_name(events, "process_name", STEP_TRACK, device);
    sm_trace_name(events, "thread_name", STEP_TRACK, "step");
    sm_trace_name(events, "thread_name", OP_TRACK, "ops");
    add_ops(events, input, category, alive_bytes);
    sm_trace_make(events, trace);
    json_decref(events);
    free(alive_bytes);
}

enum { PROCESS = 1 };

static double microseconds(int64_t ns) { return (double)ns / 1e3; }

// An event with the fields that all have. NULL when out of memory.
static json_t *make_event(const char *phase, const char *name, const char *category, int track, int64_t start_ns) {
    json_t *event = json_object();
    sm_json_put(event, {"ph", json_string(phase)}, {"name", sm_json_bytes(name)}, {"cat", json_string(category)},
                {"pid", json_integer(PROCESS)}, {"tid", json_integer(track)},
                {"ts", json_real(microseconds(start_ns))});
    return event;
}

static void append(json_t *events, json_t *event, json_t *args) {
    json_object_set_new(event, "args", args);
    json_array_append_new(events, event);
}

void sm_trace_name(json_t *events, const char *what, int track, const char *name) {
    json_t *args = json_object();
    sm_json_set_new(args, "name", sm_json_bytes(name));
    append(events, make_event("M", what, "__metadata", track, 0), args);
}

void sm_trace_span(json_t *events, const char *name, const char *category, int track, int64_t start_ns,
                   int64_t elapsed_ns, json_t *args) {
    json_t *event = make_event("X", name, category, track, start_ns);
    sm_json_set_new(event, "dur", json_real(microseconds(elapsed_ns)));
    append(events, event, args);
}

void sm_trace_counter(json_t *events, const char *name, int track, int64_t start_ns, json_t *args) {
    append(events, make_event("C", name, "counter", track, start_ns), args);
}

void sm_trace_make(json_t *events, json_t **trace) {
    *trace = json_object();
    sm_json_set_new(*trace, "displayTimeUnit", json_string("ms"));
    json_object_set(*trace, "traceEvents", events);
}
