// test_cheats.c: a backend that computes wrongly gets no speed, whatever the time and place of its errors, and an
// honest one gets one.
//
// The cheats alter a backend's results (the cpu's, or that of BACKEND): an op's outputs are put back to what they were
// before it ran, in part or as a whole, as if it had not run, or set to what they were once. CHEATS=20 tries each
// twenty times (once without), HONEST=200 as many honest runs.
#define OWN_MAIN
#include "tests/support/session.h"
#include "philox.h"

enum { BATCH = 4, SEQUENCE = 16, N_TOKENS = BATCH * SEQUENCE, VOCAB = 61, N_BATCHES = 5, MOST_OPS = 512 };

static const sm_model_config gpt2 = {MODEL(gpt2, 2, 4, 32, 64, VOCAB, SEQUENCE)};
static const sm_model_config llama = {MODEL(llama, 2, 4, 32, 44, VOCAB, SEQUENCE), .n_kv_head = 2, .rope_theta = 1e4,
                                      .untied = true}; // there are gaps between the gradients of its matrices

typedef struct {
    const char *name;
    const sm_model_config *model;
    sm_mode mode;
} variant;

static const variant variants[] = {{"GPT-2 naive", &gpt2, SM_MODE_NAIVE},
                                   {"GPT-2 fused", &gpt2, SM_MODE_FUSED},
                                   {"Llama naive", &llama, SM_MODE_NAIVE},
                                   {"Llama fused", &llama, SM_MODE_FUSED}};

// --- random numbers --------------------------------------------------------------------------

static uint64_t n_drawn;

static int64_t draw(int64_t n) {
    const sm_philox_block block = sm_philox4x32(0xC0FFEE, n_drawn++, 0);
    return (int64_t)(((uint64_t)block.word[0] << 31 | block.word[1] >> 1) % (uint64_t)n);
}

static int tries(const char *variable, int otherwise) {
    const char *text = getenv(variable);
    return text != NULL ? atoi(text) : otherwise;
}

// --- the cheats ------------------------------------------------------------------------------

typedef enum {
    HONEST,
    IDLE,
    CACHED,
    EVERY_SECOND,
    STALE_EVERY_SECOND,
    SEQUENCES,
    ROWS,
    CHANNELS,
    HEAD,
    N_CHEATS,
    OTHER_FUNCTION = N_CHEATS, // the activation is left out of forward and backward, but in steps that run in pieces
    ERASES                     // an op that runs by itself sets its input and its result to 0
} cheat_kind;

static const char *const cheat_names[N_CHEATS] = {"honest",
                                                  "idle after a while",
                                                  "from a cache after a while",
                                                  "idle in every second step",
                                                  "as in the step before in every second",
                                                  "without some sequences",
                                                  "without some rows",
                                                  "without some channels",
                                                  "without a head"};

static struct {
    cheat_kind kind;
    sm_op_kind op;
    int64_t after_step;                 // it begins in this step,
    int64_t after_calls;                // after so many calls of the op's kind
    uint64_t chosen;                    // bits: which sequences, rows, channels
    int64_t n_calls;                    // of this step
    int64_t n_zeroings;                 // steps
    bool had_effect;                    // one that rounding cannot have
    bool had_small_effect;              // any
    enum { NOTHING, TIME, CTRL_C } cut; // what ends the samples early
    float *cache[MOST_OPS][SM_MAX_OUT]; // outputs of each op's first call, or of its last
} cheat;

static volatile sig_atomic_t interrupted;

static const sm_backend *honest;

static sm_status copy(sm_executable *e, int tensor, bool write, float *values) {
    const int64_t n = sm_tensor_elems(&e->plan->tensors[tensor]);
    return write ? honest->upload(e, tensor, 0, n, values) : honest->download(e, tensor, 0, n, values);
}

static bool is_chosen(int64_t i) { return cheat.chosen >> (i % 61) & 1; }

// Is element i of the output one that the cheat leaves out?
static bool is_left_out(const sm_tensor *t, int64_t i) {
    const int64_t cols = sm_tensor_cols(t);
    const int64_t rows = sm_tensor_elems(t) / cols;
    switch (cheat.kind) {
    case SEQUENCES: return rows % BATCH == 0 && is_chosen(i / cols / (rows / BATCH));
    case ROWS: return t->n_dims > 1 ? is_chosen(i / cols) : is_chosen(i / 7);
    case CHANNELS: return is_chosen(i % cols);
    case HEAD: return i % cols / 8 == (int64_t)(cheat.chosen % 4);
    default: return true;
    }
}

static bool is_active(void) {
    switch (cheat.kind) {
    case HONEST: return false;
    case IDLE:
    case CACHED:
        return cheat.n_zeroings > cheat.after_step ||
               (cheat.n_zeroings == cheat.after_step && cheat.n_calls > cheat.after_calls);
    case EVERY_SECOND:
    case STALE_EVERY_SECOND: return cheat.n_zeroings > 3 && cheat.n_zeroings % 2 == 0;
    default: return true;
    }
}

static float *new_values(const sm_tensor *t) { return sm_malloc((size_t)sm_tensor_elems(t) * sizeof(float)); }

static sm_status run_spoilt(sm_executable *e, int i) {
    const sm_op *op = &e->plan->ops[i];
    float *before[SM_MAX_OUT] = {NULL};
    cheat.n_calls++;
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (op->out[k] != SM_NO_TENSOR) {
            before[k] = new_values(&e->plan->tensors[op->out[k]]);
            SM_TRY(copy(e, op->out[k], false, before[k]));
        }
    }
    SM_TRY(honest->execute(e, (sm_range){i, i + 1}, NULL));
    SM_TRY(honest->synchronize(e));
    for (int k = 0; k < SM_MAX_OUT; k++) {
        if (before[k] == NULL) {
            continue;
        }
        const sm_tensor *t = &e->plan->tensors[op->out[k]];
        SM_FREED float *after = new_values(t);
        SM_TRY(copy(e, op->out[k], false, after));
        const bool is_first = cheat.cache[i][k] == NULL;
        cheat.cache[i][k] = is_first ? new_values(t) : cheat.cache[i][k];
        if (is_first || (cheat.kind == STALE_EVERY_SECOND && !is_active())) {
            memcpy(cheat.cache[i][k], after, (size_t)sm_tensor_elems(t) * sizeof *after);
        }
        const bool has_cache = cheat.kind == CACHED || cheat.kind == STALE_EVERY_SECOND;
        const float *instead = has_cache ? cheat.cache[i][k] : before[k];
        for (int64_t n = 0; n < sm_tensor_elems(t) && is_active(); n++) {
            if (is_left_out(t, n)) {
                cheat.had_effect |= !(fabs((double)after[n] - instead[n]) <= 1e-3 * fabs((double)after[n]));
                cheat.had_small_effect |= !(after[n] == instead[n]);
                after[n] = instead[n];
            }
        }
        SM_TRY(copy(e, op->out[k], true, after));
        free(before[k]);
    }
    return SM_OK;
}

// y = x and dx = dy.
static sm_status leave_out(sm_executable *e, const sm_op *op) {
    const int in = op->kind == SM_OP_GELU_FORWARD ? op->in[SM_IN(gelu_forward, x)] : op->in[SM_IN(gelu_backward, dy)];
    SM_FREED float *values = new_values(&e->plan->tensors[in]);
    SM_TRY(copy(e, in, false, values));
    return copy(e, op->out[0], true, values);
}

static sm_status erase(sm_executable *e, const sm_op *op) {
    const int dy = op->in[SM_IN(matmul_backward_input, dy)];
    const int64_t n = sm_tensor_elems(&e->plan->tensors[dy]);
    SM_FREED float *zeros = sm_calloc((size_t)n, sizeof *zeros);
    SM_TRY(honest->execute(e, (sm_range){(int)(op - e->plan->ops), (int)(op - e->plan->ops) + 1}, NULL));
    SM_TRY(copy(e, dy, true, zeros));
    SM_FREED float *result = sm_calloc((size_t)sm_tensor_elems(&e->plan->tensors[op->out[0]]), sizeof *result);
    return copy(e, op->out[0], true, result);
}

static bool leaves_out(const sm_plan *plan, sm_range range, int i) {
    const sm_op_kind kind = plan->ops[i].kind;
    const sm_range phase = sm_plan_range(plan, plan->ops[i].range);
    return cheat.kind == OTHER_FUNCTION && cheat.n_zeroings > cheat.after_step && range.first <= phase.first &&
           range.end >= phase.end && (kind == SM_OP_GELU_FORWARD || kind == SM_OP_GELU_BACKWARD);
}

static sm_status execute(sm_executable *e, sm_range range, int64_t *op_ns) {
    int first = range.first;
    for (int i = range.first; i < range.end; i++) {
        if (i == 0) {
            cheat.n_zeroings++;
            cheat.n_calls = 0;
            interrupted = cheat.cut == CTRL_C && cheat.n_zeroings > 5;
        }
        if (cheat.kind == ERASES && range.end - range.first == 1 &&
            e->plan->ops[i].kind == SM_OP_MATMUL_BACKWARD_INPUT) {
            return erase(e, &e->plan->ops[i]);
        }
        const bool is_left_out = leaves_out(e->plan, range, i);
        if (is_left_out || (cheat.kind != HONEST && e->plan->ops[i].kind == cheat.op)) {
            SM_TRY(first < i ? honest->execute(e, (sm_range){first, i}, op_ns) : SM_OK);
            SM_TRY(is_left_out ? leave_out(e, &e->plan->ops[i]) : run_spoilt(e, i));
            first = i + 1;
        }
    }
    return first < range.end ? honest->execute(e, (sm_range){first, range.end}, op_ns) : SM_OK;
}

// --- a measurement ---------------------------------------------------------------------------

static const sm_model_config *config;

static struct {
    int32_t inputs[N_BATCHES][N_TOKENS], targets[N_BATCHES][N_TOKENS];
    int64_t n_loss_checks;
} work;

static void draw_batches(void) {
    for (int b = 0; b < N_BATCHES; b++) {
        for (int i = 0; i < N_TOKENS; i++) {
            work.inputs[b][i] = (int32_t)draw(VOCAB);
            work.targets[b][i] = (int32_t)draw(VOCAB);
        }
    }
}

static sm_status next_batch(SM_UNUSED void *ctx, sm_session *session, int64_t index) {
    return sm_session_set_batch(session, work.inputs[index % N_BATCHES], work.targets[index % N_BATCHES]);
}

static sm_status check(SM_UNUSED void *ctx, sm_session *session, int64_t index, uint64_t seed, sm_row *row) {
    sm_loss_check result;
    const sm_loss_draw drawn = {seed, work.n_loss_checks++};
    SM_ROW_TEXT(row->loss_check, "as the program does");
    return sm_check_loss(session, config, 0, 0, work.inputs[index % N_BATCHES], work.targets[index % N_BATCHES], NULL,
                         &drawn, &result);
}

static const sm_workload workload = {.next_batch = next_batch, .check = check, CHECKED};

static sm_plan *build(const variant *v) {
    const sm_plan_options options = {TRAINING(BATCH, SEQUENCE, SM_F32), .one_micro_batch = true};
    sm_plan *plan = build_plan(v->model, &options, v->mode, 0);
    assert_true(plan->n_ops <= MOST_OPS);
    return plan;
}

static int n_repetitions = 6;

// What comes of it; `row` is to be freed.
static sm_status measure(sm_device *device, const variant *v, sm_row *row) {
    sm_protocol protocol = sm_protocol_default();
    protocol.n_warmup = 1;
    protocol.n_repetitions = n_repetitions;
    protocol.n_attribution = 1;
    protocol.max_noise_percent = protocol.max_time_s = cheat.cut == TIME ? 1e-9 : 0;
    interrupted = 0;
    protocol.interrupted = &interrupted;
    protocol.check_seed = (uint64_t)draw(1 << 30);
    config = v->model;
    checked.feed = next_batch;
    work.n_loss_checks = 0;
    draw_batches();
    SM_OWN(sm_session) *session = start_session(device, build(v), (uint64_t)draw(1 << 30));
    sm_row_init(row);
    const sm_status status = sm_harness_measure(session, &protocol, &workload, row);
    sm_update_check_free(checked.update);
    checked.update = NULL;
    return status;
}

static sm_device *open_device(void) {
    static sm_backend cheating;
    const char *backend = getenv("BACKEND");
    sm_device *device = open_backend(backend != NULL ? backend : "cpu", backend != NULL ? 0 : 1);
    honest = device->backend;
    cheating = *honest;
    cheating.execute = execute;
    device->backend = &cheating;
    return device;
}

// --- tests -----------------------------------------------------------------------------------

static int count_ops(const variant *v, sm_op_kind kind) {
    SM_OWN(sm_plan) *plan = build(v);
    int n = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        n += plan->ops[i].kind == kind;
    }
    return n;
}

// One try; true where the cheat changed nothing, or no speed came of it.
static bool is_caught(sm_device *device, const variant *v, cheat_kind kind, sm_op_kind op, int n_ops) {
    SM_AT_END(sm_row_free) sm_row row;
    memset(&cheat, 0, sizeof cheat);
    cheat.kind = kind;
    cheat.op = op;
    // After the first two steps, which are checked, and in one of the six samples, or when one is made again.
    cheat.after_step = 3 + draw(6);
    cheat.after_calls = draw(n_ops);
    cheat.chosen = kind == HEAD ? (uint64_t)draw(4) : 1ULL << draw(4) | (uint64_t)draw(INT64_C(1) << 61);
    const sm_status status = measure(device, v, &row);
    const bool caught = status == SM_ERR_MISMATCH && row.samples_ns.n == 0 && row.median_ns == SM_ABSENT;
    FAIL_IF(!cheat.had_small_effect && status != SM_OK, "%s, %s %s: nothing was wrong, and it is refused: %s", v->name,
            sm_op_name(op), cheat_names[kind], row.reason);
    for (int i = 0; i < MOST_OPS * SM_MAX_OUT; i++) {
        free(cheat.cache[i / SM_MAX_OUT][i % SM_MAX_OUT]);
    }
    return caught || !cheat.had_effect;
}

TEST(test_cheats) {
    const int n_tries = tries("CHEATS", 1);
    int n_missed = 0;
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        for (int kind = IDLE; kind < N_CHEATS; kind++) {
            for (int op = 0; op < SM_OP_KIND_COUNT; op++) {
                const int n_ops = count_ops(&variants[i], (sm_op_kind)op);
                if (n_ops == 0 || (kind == HEAD && !sm_op_is_attention((sm_op_kind)op))) {
                    continue;
                }
                for (int k = 0; k < n_tries; k++) {
                    if (!is_caught(*state, &variants[i], (cheat_kind)kind, (sm_op_kind)op, n_ops)) {
                        print_message("%s: %s %s got a speed\n", variants[i].name, sm_op_name((sm_op_kind)op),
                                      cheat_names[kind]);
                        n_missed++;
                    }
                }
            }
        }
    }
    assert_int_equal(n_missed, 0);
}

TEST(test_honest) {
    const int n_tries = tries("HONEST", 12);
    memset(&cheat, 0, sizeof cheat);
    for (int k = 0; k < n_tries; k++) {
        SM_AT_END(sm_row_free) sm_row row;
        const variant *v = &variants[k % 4];
        FAIL_IF(measure(*state, v, &row) != SM_OK, "%s, honest run %d is refused: %s", v->name, k, row.reason);
        assert_string_equal(row.status, "ok");
        assert_true(row.spot_error <= 0.6);
        assert_int_equal(strncmp(row.repeat_check, "repeated, with identical bits", 29), 0);
    }
}

// Until the model knows its batches by heart: losses are next to 0, as differences of logits that are not.
TEST(test_honest_when_trained) {
    SM_AT_END(sm_row_free) sm_row row;
    memset(&cheat, 0, sizeof cheat);
    n_repetitions = 6000;
    FAIL_IF(measure(*state, &variants[1], &row) != SM_OK, "it is refused: %s", row.reason);
    assert_true(row.losses.values[row.losses.n - 1] < 0.1);
    assert_true(row.spot_error <= 0.6);
    n_repetitions = 6;
}

// Another function with gradients of its own, from a sample on that was not repeated, which is right in all steps that
// run in pieces: what own code can be. The late step of own code finds it, also after samples that were cut short.
TEST(test_other_function) {
    sm_device *device = *state;
    SM_ROW_TEXT(device->info.own_kernels, "own backend");
    for (int k = 3 * tries("CHEATS", 1) - 1; k >= 0; k--) {
        SM_AT_END(sm_row_free) sm_row row;
        memset(&cheat, 0, sizeof cheat);
        cheat.cut = k % 3;
        cheat.kind = OTHER_FUNCTION;
        cheat.op = SM_OP_KIND_COUNT;
        cheat.after_step = cheat.cut == TIME ? 2 : cheat.cut == CTRL_C ? 5 : 3 + 3 + draw(2);
        assert_int_equal(measure(device, &variants[0], &row), SM_ERR_MISMATCH);
        assert_true(row.samples_ns.n == 0 && row.median_ns == SM_ABSENT);
    }
    device->info.own_kernels[0] = '\0';
}

// Its result is right for the input that it leaves: only digests tell.
TEST(test_erased_input) {
    SM_AT_END(sm_row_free) sm_row row;
    memset(&cheat, 0, sizeof cheat);
    cheat.kind = ERASES;
    cheat.op = SM_OP_KIND_COUNT;
    assert_int_equal(measure(*state, &variants[0], &row), SM_ERR_MISMATCH);
    FAIL_IF(strstr(row.reason, "wrote to its input dy") == NULL, "%s", row.reason);
}

int main(void) {
    SM_OWN(sm_device) *device = open_device();
    for (size_t i = 0; i < n_tests; i++) {
        tests[i].initial_state = device;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
