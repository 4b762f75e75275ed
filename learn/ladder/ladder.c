// ladder.c: measures a ladder: opens a device for each rung, verifies it, then times all in turn.
#include "learn/ladder/ladder.h"

#include <math.h>

#include "clock.h"
#include "philox.h"
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
    climber *climbers; // one for each rung, and one in a step
} climb;

static void say(const climb *c, const char *text) {
    if (c->options->say != NULL) {
        c->options->say(text);
    }
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

static sm_status prepare(const climb *c, climber *one) {
    const sm_backend *backend = one->device->backend;
    SM_TRY(sm_op_text_plan(c->ladder->kind, c->result->shape, precision, &one->plan));
    SM_TRY(backend->supports(one->device, one->plan, &one->plan->ops[0]));
    SM_TRY(sm_plan_assign_memory(one->plan, one->device->info.max_alloc_bytes));
    SM_TRY(backend->prepare(one->device, one->plan, &one->executable));
    return sm_op_text_upload(c->result->shape, 0, one->plan, one->executable);
}

static sm_status run_once(climber *one) {
    const sm_backend *backend = one->device->backend;
    one->op_ns[one->op] = 0;
    return backend->execute(one->executable, one->range, one->op_ns);
}

static void close_climber(climber *one) {
    if (one->session != NULL) { // on a rung's device
        sm_session_close(one->session);
    } else if (one->device != NULL) {
        one->device->backend->release(one->executable);
        one->device->backend->close(one->device);
        sm_plan_free(one->plan);
    }
    free(one->op_ns);
}

// --- against the reference ---------------------------------------------------------------------------

static void note_case(const sm_verify_row *row, void *context) {
    sm_rung_result *rung = context;
    rung->n_cases += !row->skipped;
    if (!row->ok && rung->wrong[0] == '\0') {
        snprintf(rung->wrong, sizeof rung->wrong, "case %s: %s: error %.1e, tolerance %.1e", row->subject, row->reason,
                 row->error, row->tolerance);
    }
}

// Compares a rung with the reference: in the cases of verify, then in the shape that is measured.
static sm_status verify_rung(const climb *c, climber *one, sm_rung_result *rung) {
    sm_verify_filter filter = {.naive_only = true, .max_elems = c->options->max_elems, .kind = c->ladder->kind};
    SM_OWN(sm_pattern) *pattern = NULL;
    char text[SM_NAME_SIZE];
    snprintf(text, sizeof text, "^%s ", sm_op_name(c->ladder->kind));
    SM_TRY(sm_pattern_new(text, &pattern));
    filter.pattern = pattern;
    for (int i = 0; i < 2 && rung->wrong[0] == '\0'; i++) {
        const sm_status status = sm_verify_ops(one->device, precision, &filter, note_case, rung);
        SM_TRY(status == SM_ERR_MISMATCH ? SM_OK : status);
        rung->n_cases -= i; // the shape is not counted
        filter.text = c->result->shape;
    }
    if (rung->wrong[0] != '\0') {
        return SM_OK;
    }
    SM_TRY(prepare(c, one));
    one->range = (sm_range){0, 1};
    one->op_ns = sm_calloc((size_t)one->plan->n_ops, sizeof *one->op_ns);
    return run_once(one);
}

// --- the top kernel in a step ----------------------------------------------------------------------

// The forward of a one-block model in which the op has the measured shape: how a step runs the top kernel.
enum { HEAD_SIZE = 64, LONGEST = 64, SMALL = 64, SEED = 1 };

static int64_t size_or(const char *shape, const char *letter, int64_t otherwise) {
    const int64_t size = sm_op_text_size(shape, letter);
    return size > 0 ? size : otherwise;
}

// N rows become short sequences, since only ops over whole sequences depend on their length.
static void choose_sizes(const char *shape, sm_model_config *config, sm_plan_options *options) {
    const int64_t N = size_or(shape, "N", 0);
    options->T = size_or(shape, "T", LONGEST);
    while (N > 0 && N % options->T != 0) {
        options->T--;
    }
    options->B = N > 0 ? N / options->T : size_or(shape, "B", 0);
    config->d_model = size_or(shape, "C", SMALL);
    config->n_head = size_or(
        shape, "NH", config->d_model > HEAD_SIZE && config->d_model % HEAD_SIZE == 0 ? config->d_model / HEAD_SIZE : 1);
    config->d_ff = size_or(shape, "F", SMALL);
    config->vocab = size_or(shape, "vocab", SMALL);
    config->context = options->T;
}

static bool is_alike(const sm_plan *plan, const sm_op *op, const sm_plan *own) {
    const sm_op *wanted = &own->ops[0];
    bool alike = op->kind == wanted->kind && op->attr.vocab == wanted->attr.vocab &&
                 op->attr.w_transposed == wanted->attr.w_transposed;
    for (int i = 0; alike && i < SM_MAX_IN; i++) {
        const int a = op->in[i], b = wanted->in[i];
        alike = (a == SM_NO_TENSOR) == (b == SM_NO_TENSOR) &&
                (a == SM_NO_TENSOR || sm_tensor_elems(&plan->tensors[a]) == sm_tensor_elems(&own->tensors[b]));
    }
    return alike;
}

// On the last rung's device: the same kernel, in a model with random weights and tokens. The session stays NULL if no
// model has the op, or the device does not run the model.
static sm_status open_step(const climb *c) {
    climber *one = &c->climbers[c->result->n_rungs];
    sm_device *device = (one - 1)->device;
    const sm_plan *own = (one - 1)->plan;
    SM_OWN(sm_plan) *plan = NULL;
    sm_model_config config = {.model = sm_model_at(0), .n_layer = 1, .norm_eps = 1e-5};
    sm_plan_options options = {.dtype = SM_F32, .max_tensor_bytes = device->info.max_alloc_bytes};
    c->result->step = (sm_rung_result){.rung = &in_a_step, .times_before = NAN};
    if (c->result->rungs[c->result->n_rungs - 1].wrong[0] != '\0') {
        return SM_OK;
    }
    choose_sizes(c->result->shape, &config, &options);
    options.attention = own->ops[0].kind == SM_OP_FLASH_ATTENTION_FORWARD ? SM_ATTENTION_FLASH : SM_ATTENTION_NAIVE;
    const sm_status status = sm_model_build(&config, &options, &plan);
    if (status != SM_OK) {
        return status == SM_ERR_INVALID ? SM_OK : status;
    }
    SM_TRY(sm_plan_rewrite(plan, SM_MODE_NAIVE, 0));
    one->range = sm_plan_range(plan, SM_PHASE_FORWARD);
    one->op = -1;
    for (int i = one->range.end - 1; i >= one->range.first; i--) { // the first like the ladder's
        one->op = is_alike(plan, &plan->ops[i], own) ? i : one->op;
    }
    if (one->op < 0 || sm_session_supports(device, plan) != SM_OK) {
        return SM_OK;
    }
    const int64_t n = plan->B * plan->T;
    SM_FREED int32_t *ids = sm_malloc((size_t)n * 2 * sizeof *ids);
    for (int64_t i = 0; i < 2 * n; i++) {
        ids[i] = (int32_t)(sm_philox4x32(SEED, (uint64_t)i, 0).word[0] % (uint64_t)plan->V);
    }
    SM_TRY(sm_session_open(device, sm_give(&plan), &one->session));
    one->device = device;
    one->plan = one->session->plan;
    one->executable = one->session->executable;
    one->op_ns = sm_calloc((size_t)one->plan->n_ops, sizeof *one->op_ns);
    SM_TRY(sm_session_draw(one->session, SEED));
    return sm_session_set_batch(one->session, ids, ids + n);
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

// --- all of it -------------------------------------------------------------------------------------

static void close_climb(climb *c) {
    for (int i = c->result->n_rungs; i >= 0; i--) { // the step first
        close_climber(&c->climbers[i]);
    }
    free(c->climbers);
}

// Whether the rung's library is installed; otherwise says so.
static bool is_there(const climb *c, const sm_rung *rung) {
    SM_AT_END(close_climber) climber one = {.device = NULL};
    if (rung->place != SM_RUNG_BY_OPENBLAS || (open_rung(c, &one, rung) == SM_OK && prepare(c, &one) == SM_OK)) {
        return true;
    }
    say(c, sm_error_message());
    return false;
}

sm_status sm_ladder_measure(const sm_ladder *ladder, const sm_ladder_options *options, sm_ladder_result *result) {
    const sm_rung *rungs[SM_MOST_RUNGS];
    const sm_rung_result *before = NULL;
    SM_OWN(sm_plan) *plan = NULL;
    *result = (sm_ladder_result){.ceiling.ns = NAN};
    SM_AT_END(close_climb) climb c = {.ladder = ladder, .options = options, .result = result};
    c.climbers = sm_calloc(SM_MOST_RUNGS + 1, sizeof *c.climbers);
    snprintf(result->shape, sizeof result->shape, "%s", options->shape);
    const int n = sm_ladder_rungs(ladder, options->on_card, rungs);
    for (int i = 0; i < n; i++) {
        if (is_there(&c, rungs[i])) {
            result->rungs[result->n_rungs++].rung = rungs[i];
        }
    }
    SM_TRY(sm_op_text_plan(ladder->kind, result->shape, precision, &plan));
    result->flops = sm_op_flops(plan, &plan->ops[0]);
    result->bytes = sm_op_bytes(plan, &plan->ops[0]);
    say(&c, "comparing each rung with the reference ...");
    for (int i = 0; i < result->n_rungs; i++) {
        SM_TRY(open_rung(&c, &c.climbers[i], result->rungs[i].rung));
        SM_TRY(verify_rung(&c, &c.climbers[i], &result->rungs[i]));
    }
    SM_TRY(open_step(&c));
    say(&c, "measuring the rungs in turn ...");
    SM_TRY(take_turns(&c));
    for (int i = 0; i <= result->n_rungs; i++) {
        sm_rung_result *rung = i < result->n_rungs ? &result->rungs[i] : &result->step;
        const climber *one = &c.climbers[i];
        rung->times_before = NAN;
        if (one->n_samples > 0) {
            rung->ns = sm_stats_of(one->samples, one->n_samples);
            rung->times_before = before != NULL ? before->ns.median / rung->ns.median : NAN;
            before = rung;
        }
    }
    const climber *last = &c.climbers[result->n_rungs - 1];
    result->info = last->device->info;
    if (!options->without_peaks) {
        SM_TRY(sm_op_ceiling_measure(last->device, last->plan, &last->plan->ops[0], peak_seconds, false,
                                     &result->ceiling));
    }
    return SM_OK;
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
