// trace.c: a loop's attribution steps as a trace: the main line's phases, the device's ops, the loader's threads
// side by side, and how many loads are ready.
#include "bench/loop/loop.h"

enum { MAIN_TRACK = 1, DEVICE_TRACK = 2, LOADER_TRACK = 10 };

// --- a step ----------------------------------------------------------------------------------------------

// The ops of a stretch: the last is the optimizer's, each of the n_micro before it a micro-batch. They lie end to end
// from its beginning: their lengths are measured, their places follow.
static void add_stretch(json_t *events, const sm_plan *plan, const sm_loop_step *step, const char *category,
                        const sm_step_span *span, int index, int n_micro) {
    const int optimizer = sm_plan_range(plan, SM_PHASE_OPTIMIZER).first;
    const bool is_update = index == n_micro;
    int64_t start_ns = span->begin_ns;
    for (int i = is_update ? optimizer : 0; i < (is_update ? plan->n_ops : optimizer); i++) {
        const int64_t ns = step->phases.op_ns[i]; // of all micro-batches: each shows the mean, the first what is zeroed
        const bool is_zero = plan->ops[i].range == SM_PHASE_ZERO_GRAD;
        const int64_t mean_ns = is_update || (is_zero && index == 0) ? ns : is_zero ? 0 : ns / n_micro;
        const int64_t elapsed_ns = mean_ns < span->end_ns - start_ns ? mean_ns : span->end_ns - start_ns;
        if (elapsed_ns > 0) {
            const sm_step_phase phase = sm_step_phase_of(plan, &plan->ops[i]);
            sm_trace_span(events, sm_op_name(plan->ops[i].kind), category, DEVICE_TRACK, start_ns, elapsed_ns,
                          json_pack("{s:i, s:s}", "op", i, "phase", sm_step_phase_name(phase)));
            start_ns += elapsed_ns;
        }
    }
}

static int count_stretches(const sm_step_phases *p) {
    int n = 0;
    for (int i = 0; i < p->n_spans; i++) {
        n += p->spans[i].phase == SM_STEP_LAUNCH;
    }
    return n;
}

static void add_step(json_t *events, const sm_plan *plan, const sm_loop_step *step, const char *category,
                     int64_t origin_ns) {
    const sm_step_phases *p = &step->phases;
    const int n_micro = count_stretches(p) - 1;
    int stretch = 0;
    for (int i = 0; i < p->n_spans; i++) {
        sm_step_span span = p->spans[i];
        span.begin_ns -= origin_ns;
        span.end_ns -= origin_ns;
        const bool has_ops = span.phase == SM_STEP_LAUNCH;
        sm_trace_span(events, has_ops ? "ops" : sm_step_phase_name(span.phase), "phase", MAIN_TRACK, span.begin_ns,
                      span.end_ns - span.begin_ns, json_pack("{s:I}", "step", (json_int_t)step->step.step));
        if (has_ops) {
            add_stretch(events, plan, step, category, &span, stretch++, n_micro);
        }
    }
}

// The maker of a step's load, and how many loads were ready when the step asked for it.
static void add_load(json_t *events, const sm_loop_step *step, int64_t origin_ns) {
    const sm_load *load = &step->step.load;
    const struct {
        const char *name;
        int64_t ns;
    } parts[] = {
        {"read", load->cost.read_ns}, {"tokenise", load->cost.tokenise_ns}, {"collate", load->cost.collate_ns}};
    int64_t start_ns = load->begin_ns - origin_ns;
    if (load->thread < 0) {
        return; // it is on the main line
    }
    sm_trace_counter(events, "loads ready", MAIN_TRACK, step->phases.begin_ns - origin_ns,
                     json_pack("{s:I}", "loads", (json_int_t)load->n_ready));
    for (size_t i = 0; i < SM_COUNT(parts) && start_ns >= 0; i++) { // not long before the first step
        if (parts[i].ns > 0) {
            sm_trace_span(events, parts[i].name, "loader", LOADER_TRACK + load->thread, start_ns, parts[i].ns,
                          json_pack("{s:I}", "step", (json_int_t)step->step.step));
            start_ns += parts[i].ns;
        }
    }
}

// --- the whole -------------------------------------------------------------------------------------------

// Loads that were made before the first step are shown as far as a step's length before it.
static int64_t origin_of(const sm_loop_step *steps, int n) {
    const int64_t first_ns = n > 0 ? steps[0].phases.begin_ns : 0;
    int64_t origin_ns = first_ns;
    for (int i = 0; i < n; i++) {
        const int64_t begin_ns = steps[i].step.load.begin_ns;
        origin_ns = begin_ns < origin_ns && begin_ns >= first_ns - steps[0].phases.wall_ns ? begin_ns : origin_ns;
    }
    return origin_ns;
}

json_t *sm_loop_trace(const sm_loop *loop, const sm_plan *plan, const char *category, const char *device) {
    int n;
    const sm_loop_step *steps = sm_loop_steps(loop, &n);
    const int64_t origin_ns = origin_of(steps, n);
    json_t *events = json_array();
    int last_thread = -1;
    sm_trace_name(events, "process_name", MAIN_TRACK, "training loop");
    sm_trace_name(events, "thread_name", MAIN_TRACK, "main line");
    sm_trace_name(events, "thread_name", DEVICE_TRACK, device);
    for (int i = 0; i < n; i++) {
        last_thread = steps[i].step.load.thread > last_thread ? steps[i].step.load.thread : last_thread;
    }
    for (int thread = 0; thread <= last_thread; thread++) {
        sm_trace_name(events, "thread_name", LOADER_TRACK + thread, SM_TEXT_IN(32, "loader %d", thread));
    }
    for (int i = 0; i < n; i++) {
        add_step(events, plan, &steps[i], category, origin_ns);
        add_load(events, &steps[i], origin_ns);
    }
    return sm_trace_make(events);
}
