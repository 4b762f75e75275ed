#include "bench/loop/loop.h"

#include "clock.h"

// MOST_PLAIN: of a training, which may have any number of steps. MOST_POINTS: of the memory over a step.
enum { MOST_PLAIN = 1 << 16, MOST_POINTS = 200 };

struct sm_loop {
    sm_loop_settings settings;
    char loader[32];
    sm_train_stepper stepper;
    sm_train_step *plain; // without instruments: warm-up, then headline
    int64_t n_plain;
    sm_loop_step *apart; // settings.n_attribution
    int n_apart;
    int64_t *op_ns; // n_attribution times plan->n_ops, and as many for times that already belong to a phase
};

// --- steps -------------------------------------------------------------------------------------

static sm_status take_step(sm_loop *l, int64_t number, sm_step_phases *phases, sm_train_step *step) {
    bool is_whole;
    l->stepper.phases = phases;
    SM_TRY(sm_train_step_run(&l->stepper, number, &is_whole, step));
    if (l->settings.log != NULL) {
        SM_TRY(l->settings.log(l->settings.log_ctx, step));
        sm_phases_lap(phases, SM_STEP_LOG);
    }
    return SM_OK;
}

static void keep_plain(sm_loop *l, const sm_train_step *step) { SM_PUSH(l->plain, l->n_plain, *step); }

sm_step_phases *sm_loop_time_apart(sm_loop *l) {
    return l->n_apart < l->settings.n_attribution ? &l->apart[l->n_apart].phases : NULL;
}

void sm_loop_keep(sm_loop *l, const sm_train_step *step, const sm_step_phases *phases) {
    if (phases != NULL) {
        l->apart[l->n_apart++].step = *step;
    } else if (l->n_plain < MOST_PLAIN) {
        keep_plain(l, step);
    }
}

static sm_status run_plain(sm_loop *l, int64_t number, int64_t *elapsed_ns, double *loss) {
    sm_train_step step;
    const int64_t begin_ns = sm_now_ns();
    SM_TRY(take_step(l, number, NULL, &step));
    *elapsed_ns = sm_now_ns() - begin_ns;
    *loss = step.loss;
    step.elapsed_ns = *elapsed_ns; // with its log
    keep_plain(l, &step);
    return SM_OK;
}

static sm_status run_apart(sm_loop *l, int64_t number, int64_t *op_ns, int64_t *elapsed_ns, double *loss) {
    const sm_plan *plan = l->stepper.session->plan;
    sm_train_step step;
    sm_step_phases *phases = sm_loop_time_apart(l);
    SM_FAIL_IF(phases == NULL, SM_ERR_INTERNAL, "loop: more than %d instrumented steps", l->n_apart);
    sm_phases_begin(phases, plan);
    SM_TRY(take_step(l, number, phases, &step));
    sm_phases_end(phases);
    memcpy(op_ns, phases->op_ns, (size_t)plan->n_ops * sizeof(*op_ns));
    *elapsed_ns = phases->wall_ns;
    *loss = step.loss;
    sm_loop_keep(l, &step, phases);
    return SM_OK;
}

static sm_status run_step(void *loop, int64_t step, int64_t *op_ns, int64_t *elapsed_ns, double *loss) {
    return op_ns != NULL ? run_apart(loop, step, op_ns, elapsed_ns, loss) : run_plain(loop, step, elapsed_ns, loss);
}

// During the first steps' checks the loader makes batches ahead, so that steps need not wait at first. Settled: the
// queue is empty, or shrinks no more.
static bool is_settled(void *loop) {
    const sm_loop *l = loop;
    const sm_train_step *last = l->n_plain > 0 ? &l->plain[l->n_plain - 1] : NULL;
    return last != NULL && (last->load.n_ready == 0 || (l->n_plain > 1 && last->load.n_ready >= last[-1].load.n_ready));
}

static void forget(void *loop, int64_t n) { ((sm_loop *)loop)->n_plain -= n; }

sm_workload sm_loop_workload(sm_loop *loop) {
    sm_workload workload = *loop->settings.workload; // checks the first steps, with its own batches
    workload.loop = loop;
    workload.is_settled = is_settled;
    workload.forget = forget;
    workload.run_step = run_step;
    return workload;
}

// --- open and close ----------------------------------------------------------------------------------

sm_loop *sm_loop_open(const sm_loop_settings *settings) {
    sm_loop *l = sm_calloc(1, sizeof(*l));
    const size_t n_ops = (size_t)settings->stepper.session->plan->n_ops;
    const size_t n_apart = (size_t)settings->n_attribution;
    l->settings = *settings;
    SM_ROW_TEXT(l->loader, settings->loader);
    l->stepper = settings->stepper;
    l->apart = sm_calloc(n_apart + 1, sizeof(*l->apart));
    l->op_ns = sm_calloc(2 * n_apart * n_ops + 1, sizeof(*l->op_ns));
    for (size_t i = 0; i < n_apart; i++) {
        l->apart[i].phases.op_ns = l->op_ns + i * n_ops;
        l->apart[i].phases.lapped_ns = l->op_ns + (n_apart + i) * n_ops;
    }
    return l;
}

void sm_loop_close(sm_loop *loop) {
    if (loop != NULL) {
        free(loop->plain);
        free(loop->apart);
        free(loop->op_ns);
        free(loop);
    }
}

const sm_loop_step *sm_loop_steps(const sm_loop *loop, int *n) {
    *n = loop->n_apart;
    return loop->apart;
}

// loop.memory: the tensors that hold data while each op runs, from the planner, at the measured times of the ops of
// n_steps steps. Of many ops neighbours are joined, with the largest of their sizes.
static json_t *memory_of(const sm_plan *plan, const int64_t *op_ns, int n_steps) {
    const size_t n_ops = (size_t)plan->n_ops;
    const int stride = (plan->n_ops + MOST_POINTS - 1) / MOST_POINTS;
    SM_FREED size_t *activations = sm_calloc(n_ops + 1, sizeof(*activations));
    SM_FREED size_t *scratch = sm_calloc(n_ops + 1, sizeof(*scratch));
    SM_FREED int64_t *steps_ns = sm_malloc((size_t)n_steps * sizeof(*steps_ns) + 1);
    json_t *ends = json_array();
    json_t *alive = json_array();
    size_t by_role[SM_ROLE_COUNT];
    double held_bytes = 0, now_ns = 0, backward_ns = -1;
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
    return sm_json_put(json_object(), {"end_ns", ends}, {"alive_bytes", alive},
                       {"held_bytes", json_integer((json_int_t)held_bytes)},
                       {"backward_ns", json_integer((json_int_t)backward_ns)});
}

// --- the row -------------------------------------------------------------------------------------------

// The last steps without instruments are the headline's: as many as it has samples, or fewer.
static const sm_train_step *headline_of(const sm_loop *l, const sm_row *row, int64_t *n) {
    *n = row->samples_ns.n < l->n_plain ? row->samples_ns.n : l->n_plain;
    return l->plain + l->n_plain - *n;
}

static void set_headline(const sm_loop *l, sm_row *row) {
    int64_t n;
    const sm_train_step *steps = headline_of(l, row, &n);
    double input_ns = 0, comm_ns = 0, hidden_ns = 0, busy_ns = 0, n_ready = 0;
    for (int64_t i = 0; i < n; i++) {
        input_ns += (double)steps[i].data_ns / (double)n;
        comm_ns += (double)steps[i].comm_ns / (double)n;
        hidden_ns += (double)steps[i].hidden_ns / (double)n;
        busy_ns += (double)(steps[i].load.end_ns - steps[i].load.begin_ns) / (double)n;
        n_ready += (double)steps[i].load.n_ready / (double)n;
    }
    row->loop.headline_wait_ns = (int64_t)input_ns;
    row->loop.headline_comm_ns = (int64_t)comm_ns;
    const int64_t comm_bytes = n > 0 ? steps[n - 1].comm_bytes : 0; // 0: a single process
    if (comm_bytes > 0) {
        row->loop.headline_hidden_ns = (int64_t)hidden_ns;
        row->loop.comm_bytes = comm_bytes;
    }
    if (l->settings.n_loader_threads > 0) {
        row->loop.busy_ns = (int64_t)busy_ns / l->settings.n_loader_threads;
        row->loop.n_ready = n_ready;
    }
}

// Without its data, which may be made in bursts that are not a disturbance.
static int64_t work_of(const sm_loop_step *step) {
    const int64_t *ns = step->phases.ns;
    return step->phases.wall_ns - ns[SM_STEP_READ] - ns[SM_STEP_TOKENISE] - ns[SM_STEP_COLLATE] - ns[SM_STEP_WAIT];
}

static int by_work(const void *a, const void *b) {
    const int64_t x = work_of(*(const sm_loop_step *const *)a), y = work_of(*(const sm_loop_step *const *)b);
    return (x > y) - (x < y);
}

// Means over these steps, as integers; the remainders go to the unaccounted time, so that they add up.
static void set_means_of(const sm_loop_step *const *steps, int n, sm_row *row) {
    int64_t means_ns[SM_STEP_PHASE_COUNT] = {0};
    row->loop.wall_ns = 0;
    for (int i = 0; i < n; i++) {
        row->loop.wall_ns += steps[i]->phases.wall_ns / n;
    }
    means_ns[SM_STEP_UNACCOUNTED] = row->loop.wall_ns;
    for (int phase = 0; phase < SM_STEP_UNACCOUNTED; phase++) {
        for (int i = 0; i < n; i++) {
            means_ns[phase] += steps[i]->phases.ns[phase];
        }
        means_ns[phase] /= n;
        means_ns[SM_STEP_UNACCOUNTED] -= means_ns[phase];
    }
#define X(code, member, name, text) row->loop.member##_ns = means_ns[code];
    SM_STEP_PHASE_LIST(X)
#undef X
}

// The samples of the wall clock, and of each phase that took time.
static json_t *samples_of(const sm_loop *l) {
    static const char *const members[] = {
#define X(code, member, name, text) #member,
        SM_STEP_PHASE_LIST(X)
#undef X
            "wall",
    };
    json_t *samples = json_object();
    for (int phase = SM_STEP_PHASE_COUNT; phase >= 0; phase--) {
        SM_OWN(json_t) *values = json_array();
        bool has_time = phase == SM_STEP_PHASE_COUNT;
        for (int i = 0; i < l->n_apart; i++) {
            const sm_step_phases *p = &l->apart[i].phases;
            const int64_t ns = phase == SM_STEP_PHASE_COUNT ? p->wall_ns : p->ns[phase];
            has_time = has_time || ns != 0;
            json_array_append_new(values, json_integer(ns));
        }
        if (has_time) {
            json_object_set(samples, members[phase], values);
        }
    }
    return samples;
}

// The time of a headline step without data and other processes.
static double median_work(const sm_loop *l, const sm_row *row) {
    int64_t n;
    const sm_train_step *steps = headline_of(l, row, &n);
    SM_FREED int64_t *rest_ns = sm_malloc((size_t)n * sizeof(*rest_ns) + 1);
    for (int64_t i = 0; i < n; i++) {
        rest_ns[i] = row->samples_ns.values[row->samples_ns.n - n + i] - steps[i].data_ns - steps[i].comm_ns;
    }
    return sm_stats_of(rest_ns, n).median;
}

sm_status sm_loop_report(const sm_loop *loop, sm_row *row) {
    SM_ROW_TEXT(row->loop.loader, loop->loader);
    if (row->samples_ns.n == 0) {
        return SM_OK;
    }
    set_headline(loop, row);
    if (loop->n_apart == 0) {
        return SM_OK;
    }
    // Uses the steps with work in the middle half: a preempted step would distort the result.
    const int n = loop->n_apart;
    SM_FREED const sm_loop_step **steps = sm_malloc((size_t)n * sizeof(const sm_loop_step *));
    for (int i = 0; i < n; i++) {
        steps[i] = &loop->apart[i];
    }
    qsort(steps, (size_t)n, sizeof(*steps), by_work);
    row->loop.n_steps = n - 2 * (n / 4);
    set_means_of(steps + n / 4, (int)row->loop.n_steps, row);
    row->loop.samples = samples_of(loop);
    row->loop.memory = memory_of(loop->stepper.session->plan, loop->op_ns, loop->n_apart);
    return sm_loop_verdict(loop->stepper.session->plan, median_work(loop, row), row);
}

sm_status sm_loop_conclude(const sm_loop *l, sm_row *row) {
    const sm_plan *plan = l->stepper.session->plan;
    SM_FREED int64_t *walls_ns = sm_malloc((size_t)l->n_apart * sizeof(*walls_ns) + 1);
    row->samples_ns = (sm_integers){sm_malloc((size_t)l->n_plain * sizeof(int64_t) + 1), l->n_plain};
    for (int64_t i = 0; i < l->n_plain; i++) {
        row->samples_ns.values[i] = l->plain[i].elapsed_ns;
    }
    for (int i = 0; i < l->n_apart; i++) {
        walls_ns[i] = l->apart[i].phases.wall_ns;
    }
    sm_pass_attribute(row, plan, walls_ns, l->op_ns, l->n_apart);
    sm_pass_summarize(row, plan, SM_PASS_STEP, (int)l->stepper.n_accum);
    SM_TRY(sm_loop_report(l, row));
    sm_loop_withhold_verdict(row);
    return SM_OK;
}
