// loop.c: see loop.h.
#include "bench/loop/loop.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "bench/measure/pass_stats.h"
#include "bench/stats/stats.h"
#include "bench/tables/json_values.h"

enum { MOST_PLAIN = 1 << 16 }; // of a training, which may have any number of steps

// The record of every step without instruments.
typedef struct {
    int64_t elapsed_ns;
    int64_t input_ns; // waiting for data, or making it inline
    int64_t comm_ns;
    int64_t hidden_ns;
    int64_t busy_ns;
    int64_t n_ready;
} plain_step;

struct sm_loop {
    sm_loop_settings settings;
    char loader[32];
    sm_train_stepper stepper;
    plain_step *plain; // warm-up, then headline
    int64_t n_plain;
    int64_t room;
    int64_t comm_bytes;  // of a step; 0: a single process
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

static sm_status keep_plain(sm_loop *l, const sm_train_step *step, int64_t elapsed_ns) {
    if (l->n_plain == l->room) {
        const int64_t room = l->room > 0 ? 2 * l->room : 64;
        plain_step *grown = realloc(l->plain, (size_t)room * sizeof(*grown));
        if (grown == NULL) {
            return sm_fail(SM_ERR_OOM, "loop: no memory for %lld steps", (long long)room);
        }
        l->plain = grown;
        l->room = room;
    }
    l->comm_bytes = step->comm_bytes;
    l->plain[l->n_plain++] = (plain_step){.elapsed_ns = elapsed_ns,
                                          .input_ns = step->data_ns,
                                          .comm_ns = step->comm_ns,
                                          .hidden_ns = step->hidden_ns,
                                          .busy_ns = step->load.end_ns - step->load.begin_ns,
                                          .n_ready = step->load.n_ready};
    return SM_OK;
}

sm_step_phases *sm_loop_time_apart(sm_loop *l) {
    return l->n_apart < l->settings.n_attribution ? &l->apart[l->n_apart].phases : NULL;
}

sm_status sm_loop_keep(sm_loop *l, const sm_train_step *step, const sm_step_phases *phases) {
    if (phases == NULL) {
        return l->n_plain < MOST_PLAIN ? keep_plain(l, step, step->elapsed_ns) : SM_OK;
    }
    l->apart[l->n_apart++].step = *step;
    return SM_OK;
}

static sm_status run_plain(sm_loop *l, int64_t number, int64_t *elapsed_ns, double *loss) {
    sm_train_step step;
    const int64_t begin_ns = sm_now_ns();
    SM_TRY(take_step(l, number, NULL, &step));
    *elapsed_ns = sm_now_ns() - begin_ns;
    *loss = step.loss;
    return keep_plain(l, &step, *elapsed_ns);
}

static sm_status run_apart(sm_loop *l, int64_t number, int64_t *op_ns, int64_t *elapsed_ns, double *loss) {
    const sm_plan *plan = l->stepper.session->plan;
    sm_train_step step;
    sm_step_phases *phases = sm_loop_time_apart(l);
    if (phases == NULL) {
        return sm_fail(SM_ERR_INTERNAL, "loop: more than %d instrumented steps", l->n_apart);
    }
    sm_phases_begin(phases, plan);
    SM_TRY(take_step(l, number, phases, &step));
    sm_phases_end(phases);
    memcpy(op_ns, phases->op_ns, (size_t)plan->n_ops * sizeof(*op_ns));
    *elapsed_ns = phases->wall_ns;
    *loss = step.loss;
    return sm_loop_keep(l, &step, phases);
}

static sm_status run_step(void *ctx, sm_session *session, int64_t step, int64_t *op_ns, int64_t *elapsed_ns,
                          double *loss) {
    (void)session; // the stepper has it
    return op_ns != NULL ? run_apart(ctx, step, op_ns, elapsed_ns, loss) : run_plain(ctx, step, elapsed_ns, loss);
}

// --- the checks: of steps with the workload's own batches
// -----------------------------------------------------------------

static const sm_workload *checks(const void *ctx) { return ((const sm_loop *)ctx)->settings.workload; }

static sm_status next_batch(void *ctx, sm_session *session, int64_t index) {
    return checks(ctx)->next_batch(checks(ctx)->ctx, session, index);
}

static sm_status check(void *ctx, sm_session *session, int64_t index, uint64_t seed, sm_row *row) {
    return checks(ctx)->check(checks(ctx)->ctx, session, index, seed, row);
}

static sm_status check_gradients(void *ctx, sm_session *session, int64_t first_batch, int n_accum, sm_row *row) {
    return checks(ctx)->check_gradients(checks(ctx)->ctx, session, first_batch, n_accum, row);
}

static sm_status before_step(void *ctx, sm_session *session, int64_t step, unsigned phases, uint64_t seed) {
    return checks(ctx)->before_step(checks(ctx)->ctx, session, step, phases, seed);
}

static sm_status after_update(void *ctx, sm_session *session, sm_row *row) {
    return checks(ctx)->after_update(checks(ctx)->ctx, session, row);
}

// During the first steps' checks the loader makes batches ahead, so that steps need not wait at first. Settled: the
// queue is empty, or shrinks no more.
static bool is_settled(void *ctx) {
    const sm_loop *l = ctx;
    if (l->n_plain == 0) {
        return false;
    }
    const plain_step *last = &l->plain[l->n_plain - 1];
    return last->n_ready == 0 || (l->n_plain > 1 && last->n_ready >= last[-1].n_ready);
}

static void forget(void *ctx, int64_t n) {
    sm_loop *l = ctx;
    l->n_plain -= n;
}

sm_workload sm_loop_workload(sm_loop *loop) {
    return (sm_workload){.ctx = loop,
                         .next_batch = next_batch,
                         .check = check,
                         .check_gradients = check_gradients,
                         .before_step = before_step,
                         .after_update = after_update,
                         .is_settled = is_settled,
                         .forget = forget,
                         .run_step = run_step};
}

// --- open and close ----------------------------------------------------------------------------------

static sm_status allocate(sm_loop *l) {
    const size_t n_ops = (size_t)l->stepper.session->plan->n_ops;
    const size_t n_apart = (size_t)l->settings.n_attribution;
    l->apart = calloc(n_apart + 1, sizeof(*l->apart));
    l->op_ns = calloc(2 * n_apart * n_ops + 1, sizeof(*l->op_ns));
    if (l->apart == NULL || l->op_ns == NULL) {
        return sm_fail(SM_ERR_OOM, "loop: no memory for %zu instrumented steps", n_apart);
    }
    for (size_t i = 0; i < n_apart; i++) {
        l->apart[i].phases.op_ns = l->op_ns + i * n_ops;
        l->apart[i].phases.lapped_ns = l->op_ns + (n_apart + i) * n_ops;
    }
    return SM_OK;
}

sm_status sm_loop_open(const sm_loop_settings *settings, sm_loop **loop) {
    sm_loop *l = calloc(1, sizeof(*l));
    *loop = NULL;
    if (l == NULL) {
        return sm_fail(SM_ERR_OOM, "loop: no memory");
    }
    l->settings = *settings;
    SM_ROW_TEXT(l->loader, settings->loader);
    l->stepper = settings->stepper;
    sm_status status = allocate(l);
    if (status != SM_OK) {
        sm_loop_close(l);
        return status;
    }
    *loop = l;
    return SM_OK;
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

// --- the row -------------------------------------------------------------------------------------------

// The last steps without instruments are the headline's: as many as it has samples, or fewer.
static const plain_step *headline_of(const sm_loop *l, const sm_row *row, int64_t *n) {
    *n = row->samples_ns.n < l->n_plain ? row->samples_ns.n : l->n_plain;
    return l->plain + l->n_plain - *n;
}

static void set_headline(const sm_loop *l, sm_row *row) {
    int64_t n;
    const plain_step *steps = headline_of(l, row, &n);
    double input_ns = 0;
    double comm_ns = 0;
    double hidden_ns = 0;
    double busy_ns = 0;
    double n_ready = 0;
    for (int64_t i = 0; i < n; i++) {
        input_ns += (double)steps[i].input_ns / (double)n;
        comm_ns += (double)steps[i].comm_ns / (double)n;
        hidden_ns += (double)steps[i].hidden_ns / (double)n;
        busy_ns += (double)steps[i].busy_ns / (double)n;
        n_ready += (double)steps[i].n_ready / (double)n;
    }
    row->loop.headline_wait_ns = (int64_t)input_ns;
    row->loop.headline_comm_ns = (int64_t)comm_ns;
    if (l->comm_bytes > 0) {
        row->loop.headline_hidden_ns = (int64_t)hidden_ns;
        row->loop.comm_bytes = l->comm_bytes;
        SM_ROW_TEXT(row->loop.transport, sm_exchange_transport(l->stepper.session->exchange));
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
    const int64_t x = work_of(*(const sm_loop_step *const *)a);
    const int64_t y = work_of(*(const sm_loop_step *const *)b);
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

// Uses the steps with work in the middle half: a preempted step would distort the result.
static sm_status set_means(const sm_loop *l, sm_row *row) {
    const int n = l->n_apart;
    const sm_loop_step **steps = malloc((size_t)n * sizeof(const sm_loop_step *));
    if (steps == NULL) {
        return sm_fail(SM_ERR_OOM, "loop: no memory for %d steps", n);
    }
    for (int i = 0; i < n; i++) {
        steps[i] = &l->apart[i];
    }
    qsort(steps, (size_t)n, sizeof(*steps), by_work);
    row->loop.n_steps = n - 2 * (n / 4);
    set_means_of(steps + n / 4, (int)row->loop.n_steps, row);
    free(steps);
    return SM_OK;
}

static bool has_time(const sm_loop *l, int phase) {
    for (int i = 0; i < l->n_apart; i++) {
        if (l->apart[i].phases.ns[phase] != 0) {
            return true;
        }
    }
    return false;
}

// phase SM_STEP_PHASE_COUNT: the wall clock.
static json_t *series(const sm_loop *l, int phase) {
    json_t *values = json_array();
    for (int i = 0; i < l->n_apart; i++) {
        const sm_step_phases *p = &l->apart[i].phases;
        json_array_append_new(values, json_integer(phase == SM_STEP_PHASE_COUNT ? p->wall_ns : p->ns[phase]));
    }
    return values;
}

static sm_status set_samples(const sm_loop *l, sm_row *row) {
    static const char *const members[] = {
#define X(code, member, name, text) #member,
        SM_STEP_PHASE_LIST(X)
#undef X
            "wall",
    };
    json_t *samples = json_object();
    bool is_whole = samples != NULL;
    for (int phase = SM_STEP_PHASE_COUNT; phase >= 0 && is_whole; phase--) {
        if (phase == SM_STEP_PHASE_COUNT || has_time(l, phase)) {
            is_whole = json_object_set_new(samples, members[phase], series(l, phase)) == 0;
        }
    }
    row->loop.samples = samples;
    return is_whole ? SM_OK : sm_fail(SM_ERR_OOM, "loop: no memory for the times of %d steps", l->n_apart);
}

// The time of a headline step without data and other processes.
static sm_status median_work(const sm_loop *l, const sm_row *row, double *work_ns) {
    int64_t n;
    sm_stats stats;
    const plain_step *steps = headline_of(l, row, &n);
    int64_t *rest_ns = malloc((size_t)n * sizeof(*rest_ns) + 1);
    if (rest_ns == NULL) {
        return sm_fail(SM_ERR_OOM, "loop: no memory for %lld samples", (long long)n);
    }
    for (int64_t i = 0; i < n; i++) {
        rest_ns[i] = row->samples_ns.values[row->samples_ns.n - n + i] - steps[i].input_ns - steps[i].comm_ns;
    }
    sm_status status = sm_stats_compute(rest_ns, n, &stats);
    *work_ns = stats.median;
    free(rest_ns);
    return status;
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
    SM_TRY(set_means(loop, row));
    SM_TRY(set_samples(loop, row));
    SM_TRY(sm_loop_memory(loop->stepper.session->plan, loop->op_ns, loop->n_apart, &row->loop.memory));
    double work_ns;
    SM_TRY(median_work(loop, row, &work_ns));
    return sm_loop_verdict(loop->stepper.session->plan, work_ns, row);
}

// --- of a training -------------------------------------------------------------------------------------

static sm_status set_steps(const sm_loop *l, sm_row *row) {
    int64_t *walls_ns = malloc((size_t)l->n_apart * sizeof(*walls_ns) + 1);
    row->samples_ns.values = malloc((size_t)l->n_plain * sizeof(int64_t) + 1);
    if (row->samples_ns.values == NULL || walls_ns == NULL) {
        free(walls_ns);
        return sm_fail(SM_ERR_OOM, "loop: no memory for %lld steps", (long long)l->n_plain);
    }
    row->samples_ns.n = l->n_plain;
    for (int64_t i = 0; i < l->n_plain; i++) {
        row->samples_ns.values[i] = l->plain[i].elapsed_ns;
    }
    for (int i = 0; i < l->n_apart; i++) {
        walls_ns[i] = l->apart[i].phases.wall_ns;
    }
    sm_pass_attribute(row, l->stepper.session->plan, walls_ns, l->op_ns, l->n_apart);
    free(walls_ns);
    return SM_OK;
}

sm_status sm_loop_conclude(const sm_loop *loop, sm_row *row) {
    SM_TRY(set_steps(loop, row));
    SM_TRY(sm_pass_summarize(row, loop->stepper.session->plan, SM_PASS_STEP, (int)loop->stepper.n_accum));
    SM_TRY(sm_loop_report(loop, row));
    sm_loop_withhold_verdict(row);
    return SM_OK;
}
