// spot_check.c: chooses the ops to check; each kind's check is in another file (spot.h).
#include "src/verify/spot_check.h"

#include "clock.h"
#include "philox.h"
#include "src/plan/host_threads.h"
#include "src/verify/spot.h"

enum { OPS_OF_A_KIND = 2 };

struct sm_spot_check {
    uint64_t key;
    int64_t n_runs;
    bool *is_drawn;                // for each op of the plan
    int n_looks[SM_OP_KIND_COUNT]; // so far
    bool is_infinite;              // a number is not finite, in a plan with a scaled loss: the step must be skipped
    int64_t n_skipped;             // before this step
    sm_spot_result result;
    spot look; // at the op that runs now
};

static const spot_look *const looks[SM_OP_KIND_COUNT] = {
#define LOOK(name)                                            &spot_##name
#define NO_LOOK                                               NULL
#define OP(code, name, inplace, work, again, call, look, ...) [code] = look,
#define NO_SHARED_OPS
#include "op_table.h"
};

// Updates have a check of their own in a step. By itself, one that works element by element is looked at in parts.
static const spot_look *look_at(const sm_plan *plan, sm_op_kind kind) {
    const sm_op_info *info = sm_op_get_info(kind);
    bool by_element = kind != SM_OP_ADAFACTOR_VECTOR; // which divides by a mean over all
    if (looks[kind] != NULL || sm_plan_is_step(plan) || info->is_shared) {
        return looks[kind];
    }
    for (int k = 0; k < SM_MAX_OUT && info->out[k].name != NULL; k++) {
        by_element = by_element && strcmp(info->out[k].shape, "(n)") == 0;
    }
    return by_element ? &spot_rows : &spot_whole;
}

sm_status sm_spot_check_new(const sm_plan *plan, uint64_t seed, sm_spot_check **check) {
    sm_spot_check *c = *check = sm_calloc(1, sizeof *c);
    c->is_drawn = sm_calloc((size_t)plan->n_ops + 1, sizeof *c->is_drawn);
    c->key = sm_philox_key(seed, "spot check");
    return SM_OK;
}

void sm_spot_check_free(sm_spot_check *check) {
    if (check != NULL) {
        free(check->is_drawn);
        free(check);
    }
}

// One pass over the ops of a kind keeps each with equal probability (Knuth, volume 2, algorithm 3.4.2 S).
static void draw_ops(sm_spot_check *c, const sm_plan *plan, unsigned phases) {
    int n_ops[SM_OP_KIND_COUNT] = {0};
    int n_wanted[SM_OP_KIND_COUNT];
    spot s = {.key = c->key ^ (uint64_t)c->n_runs * 0x9E3779B97F4A7C15u};
    for (int i = 0; i < plan->n_ops; i++) {
        n_ops[plan->ops[i].kind] += (phases >> plan->ops[i].range & 1) != 0;
    }
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        n_wanted[kind] = look_at(plan, (sm_op_kind)kind) != NULL ? OPS_OF_A_KIND : 0;
    }
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op_kind kind = plan->ops[i].kind;
        c->is_drawn[i] = false;
        if ((phases >> plan->ops[i].range & 1) != 0) {
            c->is_drawn[i] = spot_draw(&s, n_ops[kind]--) < n_wanted[kind];
            n_wanted[kind] -= c->is_drawn[i];
        }
    }
}

static bool wants(void *ctx, int op) { return ((const sm_spot_check *)ctx)->is_drawn[op]; }

static void end_look(spot *s) {
    for (int i = 0; i < s->n_kept; i++) {
        free(s->kept[i]);
    }
    free(s->kept);
    s->kept = NULL;
    s->n_kept = s->kept_capacity = 0;
}

static bool is_written(const spot *s, const sm_tensor *in) {
    for (int k = 0; k < SM_MAX_OUT; k++) {
        const sm_tensor *out = spot_out(s, k);
        if (out != NULL && sm_tensors_overlap(out, in)) {
            return true;
        }
    }
    return false;
}

// Begins with the check's key, so that nobody can know which changes it does not see.
static uint64_t digest_words(uint64_t digest, const char *data, size_t size_bytes) {
    uint64_t word;
    for (; size_bytes >= sizeof word; size_bytes -= sizeof word, data += sizeof word) {
        memcpy(&word, data, sizeof word);
        digest = (digest ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        digest ^= digest >> 32;
    }
    return sm_fnv1a(digest, data, size_bytes);
}

// An op that writes to its inputs could make less work right. Of own code that has no copies all is digested, of others
// some parts of large inputs, from a drawn one on, which finds kernels and drivers that write to wrong places.
static sm_status digest_input(spot *s, int k, uint64_t *digest) {
    enum { PART_BYTES = 1 << 16, MOST_PARTS = 64 };
    char part[PART_BYTES];
    const sm_tensor *t = spot_in(s, k);
    const sm_device *device = s->session->device;
    const sm_backend *backend = device->backend;
    const bool is_own = device->info.own_kernels[0] != '\0' && backend->own_kernels != SM_OWN_C;
    *digest = 0;
    if (t == NULL || t->is_sharded || is_written(s, t)) {
        return SM_OK;
    }
    const char *whole = backend->address != NULL ? backend->address(s->session->executable, s->op.in[k]) : NULL;
    const int64_t n_elems = sm_tensor_elems(t);
    const int64_t elem_bytes = (int64_t)sm_dtype_size(t->dtype);
    const int64_t part_elems = PART_BYTES / elem_bytes;
    const int64_t stride = is_own ? 1 : 1 + n_elems / part_elems / MOST_PARTS;
    *digest = s->key;
    for (int64_t first = (int64_t)(s->key % (uint64_t)stride) * part_elems; first < n_elems;
         first += stride * part_elems) {
        const int64_t n = least_of(part_elems, n_elems - first);
        SM_TRY(whole != NULL ? SM_OK : backend->download(s->session->executable, s->op.in[k], first, n, part));
        *digest = digest_words(*digest, whole != NULL ? whole + first * elem_bytes : part, (size_t)(n * elem_bytes));
    }
    return SM_OK;
}

static sm_status look_before(sm_spot_check *c, sm_session *session, int op) {
    const sm_plan *plan = session->plan;
    const uint64_t number = (uint64_t)c->n_runs << 32 | (uint64_t)op;
    c->look = (spot){
        .session = session, .plan = plan, .op = plan->ops[op], .key = c->key + (number + 1) * 0xD6E8FEB86659FD93u};
    sm_op later;
    if (session->executable->is_later && sm_op_later(plan, &plan->ops[op], &later)) {
        c->look.op = later;
    }
    const spot_look *look = look_at(plan, plan->ops[op].kind);
    for (int k = 0; k < SM_MAX_IN; k++) {
        SM_TRY(digest_input(&c->look, k, &c->look.inputs[k]));
    }
    return look->before != NULL ? look->before(&c->look) : SM_OK;
}

static sm_status look_after(sm_spot_check *c, sm_session *session, int op) {
    spot *s = &c->look;
    const sm_op_kind kind = session->plan->ops[op].kind;
    SM_TRY(look_at(s->plan, kind)->after(s));
    end_look(s);
    for (int k = 0; k < SM_MAX_IN; k++) {
        uint64_t digest;
        SM_TRY(digest_input(s, k, &digest));
        SM_FAIL_IF(digest != s->inputs[k], SM_ERR_MISMATCH,
                   "wrong result: %s (op %d) wrote to its input %s; no speed is reported", sm_op_name(s->op.kind), op,
                   sm_op_get_info(s->op.kind)->in[k].name);
    }
    c->n_looks[kind]++;
    c->result.n_ops++;
    c->result.n_values += s->n_values;
    if (s->is_infinite && session->plan->scaler != SM_NO_TENSOR) {
        SM_TRY(c->is_infinite ? SM_OK : sm_session_skipped(session, &c->n_skipped));
        c->is_infinite = true;
        return SM_OK;
    }
    if (!(s->error <= c->result.error)) {
        c->result.error = s->error;
        snprintf(c->result.error_at, sizeof c->result.error_at, "%s %s, op %d", sm_op_name(kind), s->operand, op);
    }
    SM_FAIL_IF(!(s->error <= 1), SM_ERR_MISMATCH,
               "wrong result: %s of %s (op %d) differs from the expected result of its inputs by %.3g times the "
               "allowed rounding; no speed is reported",
               s->operand, sm_op_name(kind), op, s->error);
    return SM_OK;
}

static sm_status timed(sm_spot_check *c, sm_status (*look)(sm_spot_check *, sm_session *, int), sm_session *session,
                       int op) {
    const int64_t begin_ns = sm_now_ns();
    const sm_status status = look(c, session, op);
    sm_host_threads_end();
    c->result.elapsed_ns += sm_now_ns() - begin_ns;
    return status;
}

static sm_status before(void *ctx, sm_session *session, int op) { return timed(ctx, look_before, session, op); }
static sm_status after(void *ctx, sm_session *session, int op) { return timed(ctx, look_after, session, op); }

// Gradients of a scaled loss may overflow; the step must then be skipped.
static sm_status require_skipped(sm_spot_check *c, sm_session *session, unsigned phases) {
    int64_t n_skipped = 0;
    SM_TRY(sm_session_skipped(session, &n_skipped));
    SM_FAIL_IF(c->is_infinite && (phases & SM_RUN_NO_UPDATES) == 0 && n_skipped == c->n_skipped, SM_ERR_MISMATCH,
               "wrong result: a gradient is not finite, and the step was not skipped; no speed is reported");
    c->is_infinite = false;
    return SM_OK;
}

sm_status sm_spot_check_run(sm_spot_check *check, sm_session *session, unsigned phases, int64_t *op_ns) {
    draw_ops(check, session->plan, phases);
    check->n_runs++;
    check->look = (spot){.n_kept = 0};
    sm_status status = sm_session_run_watched(
        session, phases, op_ns, &(sm_watcher){.ctx = check, .wants = wants, .before = before, .after = after});
    end_look(&check->look); // of a check that failed
    return status == SM_OK && (phases & SM_RUN_OPTIMIZER) ? require_skipped(check, session, phases) : status;
}

sm_spot_result sm_spot_check_result(const sm_spot_check *check) {
    sm_spot_result result = check != NULL ? check->result : (sm_spot_result){.n_ops = 0};
    for (int kind = 0; check != NULL && kind < SM_OP_KIND_COUNT; kind++) {
        const int n = check->n_looks[kind];
        result.least_looks = n > 0 && (result.n_kinds == 0 || n < result.least_looks) ? n : result.least_looks;
        result.n_kinds += n > 0;
    }
    return result;
}
