// Generating text: the choice of a token; the most probable one against losses of every candidate; the program.
#include "tests/support/session.h"
#include "tests/support/run_program.h"
#include "src/train/generate.h"
#include "src/weights/weights.h"

enum { VOCAB = 61, CONTEXT = 8, N_TOKENS = 12 };

// --- the choice ----------------------------------------------------------------------------

static int32_t choose(const float *logits, int64_t n, sm_sampling sampling, uint64_t draw) {
    float copy[16];
    memcpy(copy, logits, (size_t)n * sizeof(*copy));
    return sm_sample(copy, n, &sampling, draw);
}

TEST(the_most_probable_is_taken_at_temperature_zero) {
    static const float logits[] = {-3, 2, 5, 5, -1};
    assert_int_equal(choose(logits, 5, (sm_sampling){0}, 1), 2);
    assert_int_equal(choose(logits, 2, (sm_sampling){0}, 1), 1);
    for (uint64_t draw = 0; draw < 100; draw++) {
        assert_int_equal(choose(logits, 5, (sm_sampling){.temperature = 2, .top_k = 1}, draw), 2);
        assert_true(choose(logits, 5, (sm_sampling){.temperature = 1e3, .top_k = 3}, draw) < 4);
        assert_int_not_equal(choose(logits, 5, (sm_sampling){.temperature = 1e3, .top_k = 3}, draw), 0);
    }
    static const float equal[] = {1, 1, 1, 1};
    for (uint64_t draw = 0; draw < 100; draw++) {
        assert_true(choose(equal, 4, (sm_sampling){.temperature = 1, .top_k = 2}, draw) < 2);
    }
}

TEST(draws_follow_the_probabilities) {
    enum { N_DRAWS = 20000 };
    const float logits[] = {0, logf(3), -INFINITY, logf(4)};
    int counts[4] = {0};
    for (uint64_t draw = 0; draw < N_DRAWS; draw++) {
        const sm_sampling sampling = {.temperature = 1, .seed = 7};
        const int32_t id = choose(logits, 4, sampling, draw);
        assert_int_equal(choose(logits, 4, sampling, draw), id);
        counts[id]++;
    }
    assert_true(fabs(counts[0] / (double)N_DRAWS - 1.0 / 8) < 0.02);
    assert_true(fabs(counts[1] / (double)N_DRAWS - 3.0 / 8) < 0.02);
    assert_int_equal(counts[2], 0);
    int n_same = 0;
    for (uint64_t draw = 0; draw < 1000; draw++) {
        n_same += choose(logits, 4, (sm_sampling){.temperature = 1, .seed = 1}, draw) ==
                  choose(logits, 4, (sm_sampling){.temperature = 1, .seed = 2}, draw);
    }
    assert_true(n_same < 600);
}

// --- the model -----------------------------------------------------------------------------

// The loss of each candidate after the text, computed by a separate plan: the smallest is the most probable token's.
static int32_t slow_next(sm_device *device, const sm_model_config *config, const char *weights, const int32_t *ids,
                         int64_t n) {
    const int64_t T = n < CONTEXT ? n : CONTEXT;
    const sm_plan_options options = {.B = 1, .T = T, .dtype = SM_F32};
    int32_t targets[CONTEXT];
    float losses[CONTEXT], least = INFINITY;
    int32_t best = -1;
    SM_OWN(sm_session) *session = open_plan(device, build_plan(config, &options, SM_MODE_NAIVE, 0));
    expect_ok("load", sm_weights_load(weights, config, session, NULL));
    for (int32_t id = 0; id < VOCAB; id++) {
        for (int64_t i = 0; i < T; i++) {
            targets[i] = id;
        }
        expect_ok("batch", sm_session_set_batch(session, ids + n - T, targets));
        expect_ok("run", sm_session_run(session, SM_RUN_FORWARD, NULL));
        expect_ok("wait", sm_session_synchronize(session));
        expect_ok("read", sm_session_read(session, session->plan->losses, T, losses));
        best = losses[T - 1] < least ? id : best;
        least = losses[T - 1] < least ? losses[T - 1] : least;
    }
    return best;
}

static void check_greedy(int model, const char *backend_name, sm_mode mode) {
    sm_model_config config = sm_model_at(model)->odd;
    config.vocab = VOCAB;
    config.context = CONTEXT;
    const sm_generator_settings settings = {
        .config = &config, .mode = mode, .precision = {.dtype = SM_F32}, .window = CONTEXT};
    const sm_sampling sampling = {.n_ids = VOCAB};
    const char *weights = temp_path(config.model->name);
    int32_t ids[3 + N_TOKENS] = {5, 60, 17};
    SM_OWN(sm_device) *device = open_backend(backend_name, 1);
    SM_OWN(sm_generator) *generator = NULL;
    expect_ok("init", sm_weights_init(weights, &config, 3));
    expect_ok("generator", sm_generator_open(device, &settings, &generator));
    expect_ok("load", sm_weights_load(weights, &config, sm_generator_session(generator), NULL));
    for (int64_t n = 3; n < 3 + N_TOKENS; n++) {
        expect_ok("next", sm_generator_next(generator, ids, n, &sampling, &ids[n]));
        const int32_t expected = slow_next(device, &config, weights, ids, n);
        FAIL_IF(ids[n] != expected, "%s, %s: token %lld is %d, not %d", config.model->name, backend_name, (long long)n,
                ids[n], expected);
    }
}

TEST(greedy_tokens_have_the_least_loss) {
    for (int model = 0; model < sm_model_count(); model++) {
        check_greedy(model, "reference", SM_MODE_NAIVE);
        check_greedy(model, "cpu", SM_MODE_NAIVE);
        check_greedy(model, "cpu", SM_MODE_FUSED);
    }
}

TEST(the_program_goes_on_with_a_text) {
    static char first[OUTPUT_SIZE];
    assert_int_equal(mkdir(temp_path("run"), 0777), 0);
    expect_run("train --init -m tiny --seed 5 --save $T/run/model", 0, "tiny", NULL); // 256 tokens: bytes
    expect_run("generate --weights $T/run --prompt 'Hello' --tokens 6 --backend cpu -t 1", 0, "Hello", "6 tokens");
    expect_run("generate --weights $T/run/model --prompt Hello --tokens 6 --ids -t 1", 0, NULL, NULL);
    memcpy(first, out, sizeof first);
    expect_run("generate --weights $T/run/model --prompt Hello --tokens 6 --ids --backend reference", 0, first, NULL);
    expect_run("generate --weights $T/run/model --prompt Hello --tokens 90 --temperature 1 --seed 3 --ids -t 1", 0,
               "\n",
               "90 tokens"); // beyond the context of 64
    expect_run("generate --weights $T/run --prompt ''", 2, NULL, "--prompt: empty");
    expect_run("generate --weights $T/run", 2, NULL, "--prompt");
    expect_run("generate --prompt x", 2, NULL, "--weights");
    expect_run("generate --weights $T --prompt x", 1, NULL, "config.json");
    expect_run("--version && mkdir -p $T/cut/checkpoints && " SM_TEST_BINARY " generate --weights $T/cut --prompt x", 1,
               NULL, "cut: a training that has not ended, and has no checkpoint yet");
    expect_run("train --weights $T/run --steps 1 -b 1 --seq-len 8 -t 1 --backend reference --save $T/more", 0, NULL,
               "run/model: no optimizer state");
    // Names that are not UTF-8, which no JSON can hold.
    expect_run("--version && cp -r $T/run/model $T/'m\377' && cp README.md $T/'d\377' && " SM_TEST_BINARY
               " train --weights $T/'m\377' --data $T/'d\377' --data-format bytes --run $T/'r\377' --steps 1 -b 1 "
               "--seq-len 8 -t 1 --backend reference && " SM_TEST_BINARY " eval --weights $T/'r\377' --data README.md "
               "--data-format bytes -t 1 && test -s $T/'r\377'/run.json",
               0, "bits a byte", NULL);
    expect_run("eval --weights $T/run/model/model.safetensors --data README.md", 1, NULL,
               "model.safetensors: is a file; give the folder");
    expect_run("train --init -m tiny --vocab 300 --save $T/wide", 0, NULL, NULL);
    expect_run("generate --weights $T/wide --prompt x", 2, NULL, "--tokenizer: the model knows 300");
    expect_run("generate --weights $T/wide --prompt x --tokenizer bytes --tokens 3", 0, "x", NULL);
    expect_run("tokenize --vocab-size 300 --output $T/wide README.md", 0, "300 tokens", NULL);
    expect_run("generate --weights $T/wide --prompt 'The step' --tokens 4", 0, "The step", NULL);
    expect_run("generate --weights $T/wide --prompt '' --tokens 4", 0, NULL, "4 tokens");
    expect_run("generate --weights $T/run --tokenizer $T/wide --prompt x", 1, NULL, "300 tokens, but the model");
}
