// profile.h: where a step's time goes: the times of its ops, joined to their FLOPs and bytes, relative to the machine's
// ceilings.
//
// Definitions
//   self time    of an op in the attribution step; ops do not nest, so there is no other
//   roofline     the time below which the op cannot go, from the same table that counts its work:
//                max(FLOPs / peak FLOP/s, bytes / peak bandwidth) (Williams, Waterman and Patterson 2009)
//   above        self time less roofline: what could be won
//   overhead     of one call: the least that any op of the step took above its roofline. A call costs
//                no more than that by itself (a launch, a barrier, the clock)
//   waiting      the share of the threads' time in an op in which they have nothing to do: at meetings, for the
//                slowest part, and between ops
//   imbalance    work of the slowest part, less the mean, over the mean: what an even division would win
//   bound        compute or memory, whichever roofline is longer; overhead where the cost of a
//                call is longer than both
// An op whose operands lie in a cache can be faster than memory allows: its share of the roofline is then over 1.
#pragma once

#include "bench/compare/compare.h"
#include "src/runs/background.h"

// The subject of a line of the profile. X(code, name)
#define SM_PROFILE_BY_LIST(X)       \
    X(SM_PROFILE_BY_OP, "op")       \
    X(SM_PROFILE_BY_LAYER, "layer") \
    X(SM_PROFILE_BY_KIND, "kind")

typedef enum { SM_PROFILE_BY_LIST(SM_CODE) SM_PROFILE_BY_COUNT } sm_profile_by;

// X(code, name)
#define SM_BOUND_LIST(X)           \
    X(SM_BOUND_UNKNOWN, "")        \
    X(SM_BOUND_COMPUTE, "compute") \
    X(SM_BOUND_MEMORY, "memory")   \
    X(SM_BOUND_OVERHEAD, "overhead")

typedef enum { SM_BOUND_LIST(SM_CODE) SM_BOUND_COUNT } sm_bound;

const char *sm_bound_name(sm_bound bound);

// The measurement of one step.
typedef struct {
    const sm_plan *plan;
    int n_accum;                 // the ops' times are means over this many micro-batches; 0: one
    const int64_t *op_ns;        // plan->n_ops entries: an attribution step
    const int64_t *op_least_ns;  // likewise, the least of several steps, which names ops in the verdict; NULL: op_ns
    const sm_op_parts *op_parts; // likewise, how threads shared them in all such steps; NULL: unknown
    bool is_noisy;               // of the plain steps (compare.h)
    char doubt[SM_DOUBT_SIZE];   // the reason why they support no verdict; "" if they do
    int64_t wall_ns;             // the step's wall-clock time
    int64_t headline_ns;         // median of the plain steps; SM_ABSENT
    double peak_flops;           // NaN: unknown
    double peak_bandwidth;       // bytes/s; NaN
} sm_profile_input;

// A line: one op, or several that belong together.
typedef struct {
    char name[160];  // "matmul_forward", "block 3", "3 matmul_forward h.3.mlp.fch"
    sm_op_kind kind; // of its ops; SM_OP_KIND_COUNT, -1 and SM_PHASE_COUNT where these differ
    int layer;
    sm_phase phase;
    int n_calls; // ops
    int64_t self_ns;
    sm_op_parts parts; // sums; 0: unknown
    double flops, bytes;
    double roofline_ns;               // sum over its ops; NaN without peaks
    double above_ns;                  // self_ns - roofline_ns
    int64_t bound_ns[SM_BOUND_COUNT]; // self time by its ops' bounds
    sm_bound bound;                   // the bound of most of it
} sm_profile_line;

typedef struct {
    sm_profile_line *lines; // by op: in order; otherwise the longest first
    int n_lines;
    sm_profile_line total; // of all ops
    sm_bound bound;        // the bound of most of the wall-clock time; time outside of ops counts as overhead
    int64_t wall_ns;
    int64_t unaccounted_ns; // wall_ns less the ops: uploads, launches, waiting. wall = ops + unaccounted
    int64_t headline_ns;
    double overhead_ns; // of one call; NaN without peaks
    char verdict[512];  // one sentence: the bound of the step, and what to look at first
} sm_profile;

sm_status sm_profile_make(const sm_profile_input *input, sm_profile_by by, sm_profile *profile);
void sm_profile_free(sm_profile *profile);

// The records: one for each line, one for the unaccounted time, and the total with the verdict, in this table. Each
// also gets the members of `context` (device, model, ...).
extern const sm_table sm_profile_table;
json_t *sm_profile_records(const sm_profile *profile, json_t *context);

// The attribution step as a trace in Chrome's format, which ui.perfetto.dev and chrome://tracing read: an event
// an op (ph "X", ts and dur in microseconds, args with its work), and a counter of the bytes that are
// alive (ph "C"). Ops lie end to end in the order of execution: their lengths are measured, their places
// follow; what no op took comes last. `category`: "cpu_op" or "kernel". The caller owns it.
json_t *sm_profile_trace(const sm_profile_input *input, const char *category, const char *device);

// The memory of a step over its ops, by a plan with memory assigned: ops, [kind, phase, layer] and, with op_ns (NULL:
// not measured), their times; tensors, [name, role, bytes, first op, one past the last], a tensor in the place of
// another from where it takes it; alive_bytes, held by tensors while each op runs; peak_op, where they are most,
// peak_alive_bytes, and peak_largest, its ten largest tensors; tensor_bytes, allocated for all of them, and
// working_bytes, for the kernels: together the peak of `estimate`. The caller owns it.
json_t *sm_profile_timeline(const sm_plan *plan, const int64_t *op_ns, size_t working_bytes);

// The least time that a device's measured ceilings allow an op: its FLOPs at the peak of arithmetic, or its bytes at a
// bandwidth. That is memory's, or, `by_itself`, that of arrays as large as its operands, which may be in a cache.
typedef struct {
    sm_peaks peaks;
    double ns; // NaN: not measured
    bool is_memory_bound;
} sm_op_ceiling;

sm_status sm_op_ceiling_measure(sm_device *device, const sm_plan *plan, const sm_op *op, double seconds, bool by_itself,
                                sm_op_ceiling *ceiling);

// Events of Chrome's trace viewer ("Trace Event Format": an object with an array of events; times in
// microseconds), which ui.perfetto.dev reads. A track is a line of its own.

// Takes ownership of `args`.
void sm_trace_name(json_t *events, const char *what, int track, const char *name); // "process_name", "thread_name"
void sm_trace_span(json_t *events, const char *name, const char *category, int track, int64_t start_ns,
                   int64_t elapsed_ns, json_t *args);
void sm_trace_counter(json_t *events, const char *name, int track, int64_t start_ns, json_t *args); // from this time on

// The complete trace, which takes the events over; the caller owns it.
json_t *sm_trace_make(json_t *events);

// --- utilisation ---------------------------------------------------------------------------------

// How busy the machine is while something is measured: a thread looks at even intervals. It takes a
// fraction of a millisecond a look, on a processor that may be one of those measured.
//
//   processors  /proc/stat, which counts in hundredths of a second
//   memory      resident, of this process
//   GPU         NVML: busy share, memory taken and power, of the device of that name
//
// Its observations are kept in 1024 places; when they are full, neighbours become one and the interval doubles.

// X(code, name)
#define SM_UTILISATION_LIST(X)               \
    X(SM_UTILISATION_WARMUP, "n_warmup")     \
    X(SM_UTILISATION_HEADLINE, "n_headline") \
    X(SM_UTILISATION_AFTER, "n_after")

typedef enum { SM_UTILISATION_LIST(SM_CODE) SM_UTILISATION_COUNT } sm_utilisation_stage;

static const int64_t sm_utilisation_interval_ns = 100000000;

typedef struct sm_utilisation sm_utilisation;

// Starts in the stage warm-up. `root` and `gpu` as in sm_sensors_open.
sm_status sm_utilisation_start(const char *root, const char *gpu, const sm_background *background, int64_t interval_ns,
                               sm_utilisation **utilisation);

// Begins a stage; nothing changes if it, or a later one, has begun. NULL is fine.
void sm_utilisation_enter(sm_utilisation *utilisation, sm_utilisation_stage stage);

// Ends the thread. *series: {interval_ms, n_warmup, n_headline, n_after: numbers of samples in each stage; cpu: busy
// share of all processors, by sample; processors: busy share of each, in the headline; rss_bytes; gpu,
// gpu_memory_bytes, power_w}. Values that cannot be read are left out. The caller owns it.
void sm_utilisation_stop(sm_utilisation *utilisation, json_t **series);

void sm_utilisation_close(sm_utilisation *utilisation); // NULL is fine
