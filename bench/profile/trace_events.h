// trace_events.h: events of Chrome's trace viewer ("Trace Event Format": an object with an array of events; times in
// microseconds), which ui.perfetto.dev reads. A track is a line of its own.
#ifndef STEPMARK_BENCH_PROFILE_TRACE_EVENTS_H
#define STEPMARK_BENCH_PROFILE_TRACE_EVENTS_H

#include <jansson.h>
#include <stdint.h>

#include "status.h"

// sm_trace_make reports when memory is short here. Takes ownership of `args`.
void sm_trace_name(json_t *events, const char *what, int track, const char *name); // "process_name", "thread_name"
void sm_trace_span(json_t *events, const char *name, const char *category, int track, int64_t start_ns,
                   int64_t elapsed_ns, json_t *args);
void sm_trace_counter(json_t *events, const char *name, int track, int64_t start_ns, json_t *args); // from this time on

// The complete trace; the caller owns *trace.
void sm_trace_make(json_t *events, json_t **trace);

#endif
