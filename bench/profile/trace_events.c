// trace_events.c: see trace_events.h.
#include "bench/profile/trace_events.h"

#include "bench/tables/json_values.h"

enum { PROCESS = 1 };

static double microseconds(int64_t ns) { return (double)ns / 1e3; }

// An event with the fields that all have. NULL when out of memory.
static json_t *make_event(const char *phase, const char *name, const char *category, int track, int64_t start_ns) {
    json_t *event = json_object();
    sm_json_set_new(event, "ph", json_string(phase));
    sm_json_set_new(event, "name", sm_json_bytes(name));
    sm_json_set_new(event, "cat", json_string(category));
    sm_json_set_new(event, "pid", json_integer(PROCESS));
    sm_json_set_new(event, "tid", json_integer(track));
    sm_json_set_new(event, "ts", json_real(microseconds(start_ns)));
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
