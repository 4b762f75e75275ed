// ladder.c: measures a ladder: opens a device for each rung, verifies it, then times all in turn.
#include "learn/ladder/ladder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/compare/compare.h"
#include "bench/stats/stats.h"
#include "clock.h"
#include "src/verify/verify.h"

enum { MOST_SAMPLES = 4096 };
static const double peak_seconds = 0.1;
static const int64_t turn_ns = 2000000; // for a rung's turn: at least one call

static const sm_precision precision = {.dtype = SM_F32};
static const sm_rung in_a_step = {.name = "in a step", .what = "the same, amid other ops"};

// A rung being measured.
typedef struct {
    sm_own_kernel kernel;
    sm_device *device;
    sm_plan *plan;
    sm_executable *executable;
    sm_session *session; // a rung in a step: the session has plan and executable
    sm_range range;      // in the plan,
    int op;              // the op that is timed
    int64_t *op_ns;
    int64_t samples[MOST_SAMPLES];
    int n_samples;
} climber;

typedef struct {
    const sm_ladder *ladder;
    const sm_ladder_options *options;
    sm_ladder_result *result;
    climber *climbers;          // one for each rung, and one in a step
    void *expected[SM_MAX_OUT]; // results for the shape, by the reference
} climb;

static void say(const climb *c, const char *text) {
    if (c->options->say != NULL) {
        c->options->say(text);
    }
}

// --- against the reference: the cases of verify ----------------------------------------------------

static void note_case(const sm_verify_row *row, void *context) {
    sm_rung_result *rung = context;
    rung->n_cases += !row->skipped;
    if (!row->ok && rung->wrong[0] == '\0') {
        snprintf(rung->wrong, sizeof rung->wrong, "case %s: %s: error %.1e, tolerance %.1e", row->subject, row->reason,
                 row->error, row->tolerance);
    }
}

static sm_status verify_rung(const climb *c, climber *one, sm_rung_result *rung) {
    sm_verify_filter filter = {.naive_only = true, .max_elems = c->options->max_elems};
    SM_OWN(sm_pattern) *pattern = NULL;
    char text[SM_NAME_SIZE];
    snprintf(text, sizeof text, "^%s ", sm_op_name(c->ladder->kind));
    SM_TRY(sm_pattern_new(text, &pattern));
    filter.pattern = pattern;
    sm_status status = sm_verify_ops(one->device, precision, &filter, note_case, rung);
    return status == SM_ERR_MISMATCH ? SM_OK : status;
}

// --- a rung's device and its plan ------------------------------------------------------------------

static sm_status open_rung(const climb *c, climber *one, const sm_rung *rung) {
    sm_open_options how = *c->options->how;
    sm_device_info info;
    how.openblas = rung->place == SM_RUNG_BY_OPENBLAS;
    if (rung->file != NULL) {
        SM_TRY(c->options->backend->describe(c->options->index, &info));
        SM_TRY(sm_rung_kernel(c->ladder, rung, how.isa != NULL ? how.isa : info.isa, &one->kernel));
        how.own_kernels = &one->kernel;
        how.n_own_kernels = 1;
    }
    return c->options->backend->open(c->options->index, &how, &one->device);
}

static sm_status prepare(const climb *c, sm_device *device, sm_plan **plan, sm_executable **executable) {
    SM_TRY(sm_op_text_plan(c->ladder->kind, c->result->shape, precision, plan));
    SM_TRY(device->backend->supports(device, *plan, &(*plan)->ops[0]));
    SM_TRY(sm_plan_assign_memory(*plan, device->info.max_alloc_bytes));
    SM_TRY(device->backend->prepare(device, *plan, executable));
    return sm_op_text_upload(c->result->shape, 0, *plan, *executable);
}

static sm_status run_once(climber *one) {
    const sm_backend *backend = one->device->backend;
    one->op_ns[one->op] = 0;
    return backend->execute(one->executable, one->range, one->op_ns);
}

// --- against the reference: the shape that is measured ---------------------------------------------

static sm_status read_output(const sm_backend *backend, const sm_plan *plan, sm_executable *executable, int out,
                             void **values) {
    const int tensor = plan->ops[0].out[out];
    *values = malloc(sm_tensor_bytes(&plan->tensors[tensor]));
    SM_FAIL_IF(*values == NULL, SM_ERR_OOM, "ladder: no memory for %s", plan->tensors[tensor].name);
    return backend->download(executable, tensor, 0, sm_tensor_elems(&plan->tensors[tensor]), *values);
}

static sm_status compute_expected(climb *c) {
    sm_status status = SM_OK;
    const sm_backend *backend = sm_backend_find("reference");
    sm_device *device = NULL;
    sm_plan *plan = NULL;
    sm_executable *executable = NULL;
    SM_TRY(backend->open(0, &(sm_open_options){0}, &device));
    SM_TRY_GOTO(prepare(c, device, &plan, &executable));
    c->result->flops = sm_op_flops(plan, &plan->ops[0]);
    c->result->bytes = sm_op_bytes(plan, &plan->ops[0]);
    SM_TRY_GOTO(backend->execute(executable, (sm_range){0, 1}, NULL));
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (plan->ops[0].out[k] != SM_NO_TENSOR) {
            SM_TRY_GOTO(read_output(backend, plan, executable, k, &c->expected[k]));
        }
    }
cleanup:
    backend->release(executable);
    sm_plan_free(plan);
    backend->close(device);
    return status;
}

// Columns of logits beyond the vocabulary are ignored; no ladder has an op that writes them.
static sm_status compare_output(const climb *c, const climber *one, int out, sm_rung_result *rung) {
    const sm_op *op = &one->plan->ops[0];
    const sm_tensor *t = &one->plan->tensors[op->out[out]];
    SM_FREED void *values = NULL;
    SM_TRY(read_output(one->device->backend, one->plan, one->executable, out, &values));
    const double error = sm_verify_error(SM_F32, sm_tensor_elems(t), values, c->expected[out], 0);
    const int64_t sum_length = sm_op_text_sum_length(op->kind, c->result->shape);
    const double tolerance = sm_verify_tolerance(one->plan, op, out, sum_length);
    if (!(error <= tolerance) && rung->wrong[0] == '\0') {
        snprintf(rung->wrong, sizeof rung->wrong, "%s: %s: error %.1e, tolerance %.1e", c->result->shape, t->name,
                 error, tolerance);
    }
    return SM_OK;
}

static sm_status compare_shape(const climb *c, climber *one, sm_rung_result *rung) {
    SM_TRY(prepare(c, one->device, &one->plan, &one->executable));
    one->range = (sm_range){0, 1};
    one->op_ns = sm_calloc((size_t)one->plan->n_ops, sizeof *one->op_ns);
    SM_TRY(run_once(one));
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (one->plan->ops[0].out[k] != SM_NO_TENSOR) {
            SM_TRY(compare_output(c, one, k, rung));
        }
    }
    return SM_OK;
}

// --- times -----------------------------------------------------------------------------------------

// A turn of many calls begins with an untimed one, which loads the operands into the caches.
static sm_status take_turn(climber *one) {
    if (one->op_ns[one->op] < turn_ns) {
        SM_TRY(run_once(one));
    }
    const int64_t end_ns = sm_now_ns() + turn_ns;
    do {
        SM_TRY(run_once(one));
        if (one->n_samples < MOST_SAMPLES) {
            one->samples[one->n_samples++] = one->op_ns[one->op];
        }
    } while (sm_now_ns() < end_ns);
    return SM_OK;
}

// Round after round, so that drift affects all rungs alike.
static sm_status take_turns(const climb *c) {
    const int64_t end_ns = sm_now_ns() + (int64_t)(c->options->seconds * 1e9);
    for (int round = 0; round < SM_STATS_CI_MIN_SAMPLES || sm_now_ns() < end_ns; round++) {
        for (int i = 0; i <= c->result->n_rungs; i++) {
            SM_FAIL_IF(c->options->interrupted != NULL && *c->options->interrupted, SM_ERR_INTERRUPTED, "interrupted");
            // Wrong rungs are not timed, nor is a step that no model has.
            if (i < c->result->n_rungs ? c->result->rungs[i].wrong[0] == '\0' : c->climbers[i].session != NULL) {
                SM_TRY(take_turn(&c->climbers[i]));
            }
        }
    }
    return SM_OK;
}

static void summarise(const climber *one, const sm_rung_result **before, sm_rung_result *rung) {
    rung->times_before = NAN;
    if (one->n_samples > 0) {
        rung->ns = sm_stats_of(one->samples, one->n_samples);
        rung->times_before = *before != NULL ? (*before)->ns.median / rung->ns.median : NAN;
        *before = rung;
    }
}

// --- all of it -------------------------------------------------------------------------------------

static void close_climb(climb *c) {
    climber *step = &c->climbers[c->result->n_rungs];
    sm_session_close(step->session); // on a rung's device
    free(step->op_ns);
    for (int i = 0; i < c->result->n_rungs; i++) {
        climber *one = &c->climbers[i];
        if (one->device != NULL) {
            one->device->backend->release(one->executable);
            one->device->backend->close(one->device);
        }
        sm_plan_free(one->plan);
        free(one->op_ns);
    }
    for (int k = 0; k < SM_MAX_OUT; k++) {
        free(c->expected[k]);
    }
    free(c->climbers);
}

static sm_status open_and_verify(const climb *c) {
    for (int i = 0; i < c->result->n_rungs; i++) {
        climber *one = &c->climbers[i];
        sm_rung_result *rung = &c->result->rungs[i];
        SM_TRY(open_rung(c, one, rung->rung));
        SM_TRY(verify_rung(c, one, rung));
        if (rung->wrong[0] == '\0') {
            SM_TRY(compare_shape(c, one, rung));
        }
    }
    return SM_OK;
}

// On the last rung's device: the same kernel.
static sm_status open_step(const climb *c) {
    climber *one = &c->climbers[c->result->n_rungs];
    const climber *last = one - 1;
    sm_ladder_step step;
    c->result->step = (sm_rung_result){.rung = &in_a_step, .times_before = NAN};
    if (c->result->rungs[c->result->n_rungs - 1].wrong[0] != '\0') {
        return SM_OK;
    }
    sm_status status = sm_ladder_step_open(last->device, last->plan, c->result->shape, &step);
    one->session = step.session;
    if (status != SM_OK || step.session == NULL) {
        return status;
    }
    one->device = last->device;
    one->plan = step.session->plan;
    one->executable = step.session->executable;
    one->range = step.forward;
    one->op = step.op;
    one->op_ns = sm_calloc((size_t)one->plan->n_ops, sizeof *one->op_ns);
    return SM_OK;
}

// Whether the rung's library is installed; otherwise says so.
static bool is_there(const climb *c, const sm_rung *rung) {
    const bool is_library = rung->place == SM_RUNG_BY_OPENBLAS;
    climber one = {.device = NULL};
    sm_status status = is_library ? open_rung(c, &one, rung) : SM_OK;
    if (is_library && status == SM_OK) {
        status = prepare(c, one.device, &one.plan, &one.executable);
        c->options->backend->release(one.executable);
        sm_plan_free(one.plan);
        c->options->backend->close(one.device);
    }
    if (status != SM_OK) {
        say(c, sm_error_message());
    }
    return status == SM_OK;
}

sm_status sm_ladder_measure(const sm_ladder *ladder, const sm_ladder_options *options, sm_ladder_result *result) {
    sm_status status = SM_OK;
    const sm_rung *rungs[SM_MOST_RUNGS];
    const sm_rung_result *before = NULL;
    climb c = {.ladder = ladder, .options = options, .result = result};
    *result = (sm_ladder_result){.ceiling.ns = NAN};
    snprintf(result->shape, sizeof result->shape, "%s", options->shape);
    const int n = sm_ladder_rungs(ladder, options->on_card, rungs);
    for (int i = 0; i < n; i++) {
        if (is_there(&c, rungs[i])) {
            result->rungs[result->n_rungs++].rung = rungs[i];
        }
    }
    c.climbers = sm_calloc((size_t)result->n_rungs + 1, sizeof *c.climbers);
    SM_TRY_GOTO(compute_expected(&c));
    say(&c, "comparing each rung with the reference ...");
    SM_TRY_GOTO(open_and_verify(&c));
    SM_TRY_GOTO(open_step(&c));
    say(&c, "measuring the rungs in turn ...");
    SM_TRY_GOTO(take_turns(&c));
    for (int i = 0; i <= result->n_rungs; i++) {
        sm_rung_result *rung = i < result->n_rungs ? &result->rungs[i] : &result->step;
        summarise(&c.climbers[i], &before, rung);
    }
    const climber *last = &c.climbers[result->n_rungs - 1];
    result->info = last->device->info;
    if (!options->without_peaks) {
        SM_TRY_GOTO(sm_op_ceiling_measure(last->device, last->plan, &last->plan->ops[0], peak_seconds, false,
                                          &result->ceiling));
    }
cleanup:
    close_climb(&c);
    return status;
}

// --- noise -----------------------------------------------------------------------------------------

static double spread_percent(const sm_rung_result *rung) { return 100 * rung->ns.mad / rung->ns.median; }

bool sm_rung_is_usable(const sm_rung_result *rung) {
    return rung->ns.n > 0 && sm_steady_noise_percent(&rung->ns) <= SM_USABLE_LIMIT;
}

bool sm_ladder_noise(const sm_ladder_result *result, char *text, size_t size_bytes) {
    const sm_rung_result *first[2] = {NULL, NULL}; // not usable, not steady
    int counts[2] = {0, 0};
    int n = 0;
    for (int i = 0; i <= result->n_rungs; i++) {
        const sm_rung_result *rung = i < result->n_rungs ? &result->rungs[i] : &result->step;
        if (rung->ns.n == 0) {
            continue;
        }
        const bool is_noisy[2] = {!sm_rung_is_usable(rung), sm_judge_noise(sm_steady_noise_percent(&rung->ns),
                                                                           spread_percent(rung)) != SM_NOISE_STEADY};
        n++;
        for (int k = 0; k < 2; k++) {
            first[k] = is_noisy[k] && first[k] == NULL ? rung : first[k];
            counts[k] += is_noisy[k];
        }
    }
    const int k = counts[0] > 0 ? 0 : 1;
    if (counts[k] > 0) {
        char noise[SM_DOUBT_SIZE];
        sm_noise_describe(sm_steady_noise_percent(&first[k]->ns), spread_percent(first[k]), noise, sizeof(noise));
        snprintf(text, size_bytes, "%d of %d rungs: %s", counts[k], n, noise);
    }
    return counts[k] > 0;
}
