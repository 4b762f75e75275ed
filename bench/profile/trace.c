// trace.c: an attribution step in the format of Chrome's trace viewer ("Trace Event Format": an object
// with an array of events; times in microseconds).
#include "bench/profile/profile.h"
#include "bench/tables/json_values.h"

#include <stdlib.h>

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
