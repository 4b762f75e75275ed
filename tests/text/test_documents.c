// Documents: finding and drawing them, what is done with long ones, placing them in rows; and that documents which
// share a row have the losses and gradients that they have one at a time.
#include "tests/support/session.h"
#include "philox.h"
#include "tests/support/temp_folder.h"
#include "src/train/trainer.h"

static sm_tokens *open_bytes(const char *text, size_t size_bytes) {
    sm_tokens *tokens;
    ok(sm_tokens_from_bytes((const uint8_t *)text, size_bytes, 256, &tokens));
    return tokens;
}

// --- documents --------------------------------------------------------------------------------------

static void check_split(const char *text, const char *const *wanted) {
    SM_OWN(sm_tokens) *tokens = open_bytes(text, strlen(text));
    SM_AT_END(sm_documents_free) sm_documents documents;
    int64_t n = 0;
    ok(sm_documents_split(tokens, '|', INT64_MAX, &documents));
    for (; wanted[n] != NULL; n++) {
        const sm_document d = documents.all[n];
        assert_int_equal(d.n, strlen(wanted[n]));
        assert_memory_equal(text + d.first, wanted[n], (size_t)d.n);
    }
    assert_int_equal(documents.n, n);
}

TEST(separators_split_documents) {
    check_split("abc|de|f|", (const char *const[]){"abc", "de", "f", NULL});
    check_split("|abc||de", (const char *const[]){"abc", "d", NULL}); // the last token is a target alone
    check_split("abcd", (const char *const[]){"abc", NULL});
    check_split("ab|c", (const char *const[]){"ab", NULL});
    const char *const without[] = {"|||", "|", "a"};
    for (size_t i = 0; i < sizeof without / sizeof without[0]; i++) {
        SM_OWN(sm_tokens) *tokens = open_bytes(without[i], strlen(without[i]));
        sm_documents documents;
        expect_failure("no documents", sm_documents_split(tokens, '|', INT64_MAX, &documents), SM_ERR_INVALID,
                       "no documents");
    }
}

TEST(splitting_ends_when_there_are_enough) {
    SM_OWN(sm_tokens) *tokens = open_bytes("abc|de|fgh|ij|", 14);
    SM_AT_END(sm_documents_free) sm_documents documents;
    ok(sm_documents_split(tokens, '|', 5, &documents));
    assert_int_equal(documents.n, 2);
}

TEST(lengths_are_drawn) {
    static char text[4000];
    SM_OWN(sm_tokens) *tokens = open_bytes(text, sizeof text);
    SM_AT_END(sm_documents_free) sm_documents documents, again;
    sm_documents none;
    ok(sm_documents_draw(tokens, 20, 512, 1, 1000000, &documents));
    ok(sm_documents_draw(tokens, 20, 512, 1, 1000000, &again));
    int64_t sum = 0;
    for (int64_t i = 0; i < documents.n; i++) {
        const sm_document d = documents.all[i];
        assert_true(d.n >= 20 && d.n <= 512 && d.first >= 0 && d.first + d.n < (int64_t)sizeof text);
        sum += d.n;
    }
    assert_true(sum >= 1000000 && sum < 1000000 + 512);
    assert_true(fabs((double)sum / (double)documents.n - 492 / log(512.0 / 20)) < 5);
    assert_int_equal(documents.n, again.n);
    assert_memory_equal(documents.all, again.all, (size_t)documents.n * sizeof *documents.all);
    expect_failure("9 to 8", sm_documents_draw(tokens, 9, 8, 1, 10, &none), SM_ERR_INVALID, "9 to 8");
    expect_failure("0 to 8", sm_documents_draw(tokens, 0, 8, 1, 10, &none), SM_ERR_INVALID, "0 to 8");
    expect_failure("from 4000", sm_documents_draw(tokens, 1, 4000, 1, 10, &none), SM_ERR_INVALID, "from 4000");
}

// Documents of 3, 10 and 4 positions.
static sm_documents three(void) {
    static const sm_document all[] = {{0, 3}, {4, 10}, {15, 4}};
    sm_documents documents = {.all = malloc(sizeof all), .n = 3};
    assert_non_null(documents.all);
    memcpy(documents.all, all, sizeof all);
    return documents;
}

static void check_lengths(sm_documents *documents, const int64_t *wanted, int64_t n) {
    assert_int_equal(documents->n, n);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(documents->all[i].n, wanted[i]);
    }
    sm_documents_free(documents);
}

TEST(long_documents_are_refused_cut_or_split) {
    sm_documents documents = three();
    expect_failure("document 2 has 10 tokens", sm_documents_shorten(&documents, 4, false, SM_LONG_REFUSE),
                   SM_ERR_INVALID, "document 2 has 10 tokens");
    ok(sm_documents_shorten(&documents, 10, false, SM_LONG_REFUSE));
    ok(sm_documents_shorten(&documents, 4, false, SM_LONG_CUT));
    check_lengths(&documents, (const int64_t[]){3, 4, 4}, 3);
    documents = three();
    ok(sm_documents_shorten(&documents, 4, false, SM_LONG_SPLIT));
    assert_int_equal(documents.all[2].first, 8);
    check_lengths(&documents, (const int64_t[]){3, 4, 4, 2, 4}, 5);
}

TEST(rows_without_padding_are_whole) {
    sm_documents documents = three();
    expect_failure("document 1 has 3 tokens", sm_documents_shorten(&documents, 4, true, SM_LONG_REFUSE), SM_ERR_INVALID,
                   "document 1 has 3 tokens");
    ok(sm_documents_shorten(&documents, 4, true, SM_LONG_SPLIT));
    check_lengths(&documents, (const int64_t[]){4, 4, 4}, 3);
    documents = three();
    ok(sm_documents_shorten(&documents, 4, true, SM_LONG_CUT));
    check_lengths(&documents, (const int64_t[]){4, 4}, 2);
    documents = three();
    expect_failure("none", sm_documents_shorten(&documents, 11, true, SM_LONG_SPLIT), SM_ERR_INVALID, "fills a row");
    sm_documents_free(&documents);
}

// --- batches ----------------------------------------------------------------------------------------

enum { N_BYTES = 3000, MOST_POSITIONS = 4 * 64 };

// Properties of a batch with any padding; returns its real tokens.
static int64_t check_batch(const char *stream, const sm_tokens *tokens, const sm_collation *c, int64_t batch) {
    int32_t inputs[MOST_POSITIONS], targets[MOST_POSITIONS], starts[MOST_POSITIONS];
    int64_t n_real = 0, pairs = 0;
    ok(sm_collation_fill(c, tokens, batch, inputs, targets, starts, NULL));
    for (int64_t i = 0; i < c->B * c->T; i++) {
        const int32_t t = (int32_t)(i % c->T);
        assert_true(starts[i] >= 0 && starts[i] <= t && (t == 0 || starts[i] >= starts[i - 1]));
        assert_true(targets[i] >= 0 || (starts[i] == t && inputs[i] == 0));
        if (targets[i] >= 0 && starts[i] < t) {
            assert_int_equal(inputs[i], targets[i - 1]); // as they follow each other in the stream
        }
        n_real += targets[i] >= 0;
        pairs += t - starts[i] + 1;
    }
    for (int64_t i = 0; i < c->n; i++) {
        const sm_placement *p = &c->placements[i];
        for (int64_t k = 0; k < p->document.n && p->batch == batch; k++) {
            const int64_t at = p->row * c->T + p->column + k;
            assert_true(p->row < c->B && p->column + p->document.n <= c->T);
            assert_int_equal(inputs[at], (uint8_t)stream[p->document.first + k]);
            assert_int_equal(targets[at], (uint8_t)stream[p->document.first + k + 1]);
            assert_int_equal(starts[at], p->column);
        }
    }
    assert_true(n_real > 0);
    assert_int_equal(n_real, sm_collation_real_tokens(c, batch));
    assert_int_equal(pairs, sm_collation_pairs(c, batch));
    return n_real;
}

// Share of positions that are real.
static double check_padding(sm_padding padding, int64_t B, int64_t T, int64_t least, int64_t n_positions) {
    static char stream[N_BYTES];
    for (int i = 0; i < N_BYTES; i++) {
        stream[i] = (char)(1 + i * 7 % 250);
    }
    SM_OWN(sm_tokens) *tokens = open_bytes(stream, N_BYTES);
    SM_AT_END(sm_documents_free) sm_documents documents;
    SM_AT_END(sm_collation_free) sm_collation c;
    int64_t n_real = 0;
    ok(sm_documents_draw(tokens, least, T, 3, n_positions, &documents));
    ok(sm_collate(&documents, B, T, padding, 16, &c));
    assert_true(c.n_batches >= 1 && c.n_batches <= 16);
    for (int64_t i = 0; i < c.n_batches; i++) {
        n_real += check_batch(stream, tokens, &c, i);
    }
    const double share = (double)n_real / (double)(c.n_batches * B * T);
    return share;
}

TEST(paddings_place_documents) {
    const int64_t many = (16 * 4 + 64) * 64;
    const double max = check_padding(SM_PADDING_MAX, 4, 64, 3, many);
    const double batch = check_padding(SM_PADDING_BATCH, 4, 64, 3, many);
    const double bucket = check_padding(SM_PADDING_BUCKET, 4, 64, 3, many);
    const double packed = check_padding(SM_PADDING_PACKED, 4, 64, 3, many);
    assert_true(max < batch && batch < bucket && bucket < packed);
    assert_true(bucket > 1.8 * max && packed > 0.95);
    assert_true(check_padding(SM_PADDING_NONE, 4, 64, 64, many) == 1);
    for (int padding = SM_PADDING_NONE; padding <= SM_PADDING_PACKED; padding++) { // one document, fewer than rows
        const int64_t least = padding == SM_PADDING_NONE ? 64 : 40;
        assert_true(check_padding((sm_padding)padding, 3, 64, least, 1) <= 1.0 / 3);
    }
    assert_true(check_padding(SM_PADDING_PACKED, 1, 1, 1, 100) == 1);
    assert_true(check_padding(SM_PADDING_BUCKET, 1, 1, 1, 100) == 1);
}

TEST(documents_that_fill_a_row_share_it) {
    sm_document all[] = {{0, 5}, {5, 3}, {8, 4}, {12, 4}};
    SM_AT_END(sm_collation_free) sm_collation c;
    ok(sm_collate(&(sm_documents){.all = all, .n = 4}, 1, 8, SM_PADDING_PACKED, 16, &c));
    assert_int_equal(c.n_batches, 2);
    assert_int_equal(sm_collation_real_tokens(&c, 0), 8);
}

TEST(a_batch_without_documents_is_refused) {
    sm_collation c;
    expect_failure("no real token", sm_collate(&(sm_documents){.n = 0}, 2, 8, SM_PADDING_PACKED, 16, &c),
                   SM_ERR_INVALID, "no real token");
}

// --- training ---------------------------------------------------------------------------------------

enum { B = 3, T = 20, N = B * T };

typedef struct {
    float *losses; // of the batch
    float *gradients;
    int64_t n_gradients;
} outcome;

static void free_outcome(outcome *o) {
    free(o->losses);
    free(o->gradients);
}

// Forward and backward of a batch, on a backend; starts: NULL in a plan without documents.
static outcome run(const char *backend_name, const sm_model *model, sm_mode mode, sm_attention attention,
                   int64_t n_rows, int64_t length, const int32_t *inputs, const int32_t *targets,
                   const int32_t *starts) {
    const sm_plan_options options = {TRAINING_BY(NULL, n_rows, length, SM_F32), .documents = starts != NULL,
                                     .attention = attention, .one_micro_batch = true};
    SM_OWN(sm_device) *device = open_backend(backend_name, 0);
    sm_plan *plan = build_plan(&model->odd, &options, mode, 0);
    SM_OWN(sm_session) *s = open_plan(device, plan);
    outcome o = {.losses = sm_calloc((size_t)(n_rows * length), sizeof(float)), .gradients = sm_calloc(100000, 4)};
    for (int i = 0; i < plan->n_tensors; i++) {
        const int64_t n = plan->tensors[i].real_elems;
        if (sm_plan_is_param(plan, i)) {
            for (int64_t k = 0; k < n; k++) {
                const uint32_t word = sm_philox4x32(sm_philox_key(1, plan->tensors[i].name), (uint64_t)k, 0).word[0];
                o.gradients[k] = (float)(plan->tensors[i].init_value + 0.4 * (word * 0x1p-31 - 1));
            }
            ok(sm_session_write(s, i, n, o.gradients));
        }
    }
    ok(sm_session_set_hyper(s, &(sm_step_settings){0}, 1, 1));
    ok(sm_session_set_batch(s, inputs, targets));
    ok(starts == NULL ? SM_OK : sm_session_set_documents(s, starts));
    ok(sm_session_run(s, SM_RUN_ZERO_GRAD | SM_RUN_FORWARD | SM_RUN_BACKWARD, NULL));
    ok(sm_session_synchronize(s));
    ok(sm_session_read(s, plan->losses, n_rows * length, o.losses));
    for (int i = 0; i < plan->n_tensors; i++) {
        const int64_t n = plan->tensors[i].real_elems;
        if (sm_plan_is_param(plan, i)) {
            assert_true(o.n_gradients + n <= 100000);
            ok(sm_session_read(s, sm_gradient_of(plan, i), n, o.gradients + o.n_gradients));
            o.n_gradients += n;
        }
    }
    return o;
}

// Rows of documents of random lengths: the first ends with padding, the last is all padding.
typedef struct {
    int32_t inputs[N], targets[N], starts[N];
    int64_t n_real;
} rows;

static void make_rows(const sm_model *model, uint64_t seed, rows *r) {
    r->n_real = 0;
    for (int i = 0; i < N; i++) {
        const sm_philox_block random = sm_philox4x32(sm_philox_key(seed, "rows"), (uint64_t)i, 0);
        const int t = i % T, n_real = i / T == 0 ? T - 3 : i / T == B - 1 ? 0 : T;
        const bool begins = t == 0 || t >= n_real || random.word[1] % 5 == 0;
        r->starts[i] = begins ? t : r->starts[i - 1];
        r->inputs[i] = (int32_t)(random.word[0] % (uint32_t)model->odd.vocab);
        r->targets[i] = t < n_real ? (int32_t)(random.word[2] % (uint32_t)model->odd.vocab) : -1;
        r->n_real += t < n_real;
    }
}

// The losses of all documents by themselves, and the mean gradient over their tokens.
static outcome run_one_by_one(const sm_model *model, const rows *r) {
    outcome all = {.losses = calloc(N, sizeof(float)), .gradients = calloc(100000, sizeof(float))};
    for (int first = 0; first < N;) {
        int n = 1;
        while (first + n < N && (first + n) % T != 0 && r->starts[first + n] == first % T) {
            n++;
        }
        SM_AT_END(free_outcome)
        outcome one = run("reference", model, SM_MODE_NAIVE, SM_ATTENTION_NAIVE, 1, n, r->inputs + first,
                          r->targets + first, NULL);
        all.n_gradients = one.n_gradients;
        memcpy(all.losses + first, one.losses, (size_t)n * sizeof(float));
        for (int64_t i = 0; i < one.n_gradients && r->targets[first] >= 0; i++) {
            all.gradients[i] += one.gradients[i] * (float)n / (float)r->n_real;
        }
        first += n;
    }
    return all;
}

static double worst_difference(int64_t n, const float *a, const float *b) {
    double worst = 0, largest = 0;
    for (int64_t i = 0; i < n; i++) {
        const double difference = fabs((double)a[i] - b[i]);
        worst = difference <= worst ? worst : difference;
        largest = fmax(largest, fabs((double)b[i]));
    }
    return worst / largest;
}

TEST(documents_in_a_row_are_as_one_at_a_time) {
    static const sm_attention kinds[] = {SM_ATTENTION_NAIVE, SM_ATTENTION_FLASH};
    for (int m = 0; m < sm_model_count(); m++) {
        for (uint64_t seed = 1; seed <= 2; seed++) {
            const sm_model *model = sm_model_at(m);
            rows r;
            make_rows(model, seed, &r);
            SM_AT_END(free_outcome) outcome wanted = run_one_by_one(model, &r);
            for (int i = 0; i < 4; i++) {
                SM_AT_END(free_outcome)
                outcome got = run(i < 2 ? "reference" : "cpu", model, i < 2 ? SM_MODE_NAIVE : SM_MODE_FUSED,
                                  kinds[i % 2], B, T, r.inputs, r.targets, r.starts);
                assert_int_equal(got.n_gradients, wanted.n_gradients);
                assert_true(worst_difference(N, got.losses, wanted.losses) < 1e-5);
                assert_true(worst_difference(got.n_gradients, got.gradients, wanted.gradients) < 2e-5);
            }
        }
    }
}

// A batch without a real token has no loss and no gradients, and both are numbers.
TEST(a_batch_of_padding_has_no_gradients) {
    const sm_model *model = sm_model_at(0);
    int32_t inputs[N] = {0}, targets[N], starts[N];
    for (int i = 0; i < N; i++) {
        targets[i] = -1;
        starts[i] = i % T;
    }
    SM_AT_END(free_outcome)
    outcome o = run("cpu", model, SM_MODE_FUSED, SM_ATTENTION_FLASH, B, T, inputs, targets, starts);
    for (int i = 0; i < N; i++) {
        assert_true(o.losses[i] == 0);
    }
    for (int64_t i = 0; i < o.n_gradients; i++) {
        assert_true(o.gradients[i] == 0);
    }
}

// Documents of 3 and of 17 tokens, a batch each: the mean counts each token once.
TEST(a_validation_is_a_mean_over_tokens) {
    static const char text[] = "a validation counts tokens, not batches";
    sm_document all[] = {{0, 3}, {3, 17}};
    const sm_documents documents = {.all = all, .n = 2};
    const sm_model_config *config = &sm_model_at(0)->odd;
    const sm_plan_options options = {.B = 1, .T = T, .dtype = SM_F32, .documents = true};
    SM_OWN(sm_tokens) *tokens = NULL;
    SM_AT_END(sm_collation_free) sm_collation collation;
    uint8_t ids[sizeof text];
    for (size_t i = 0; i < sizeof text; i++) {
        ids[i] = (uint8_t)(text[i] % config->vocab);
    }
    ok(sm_tokens_from_bytes(ids, sizeof text, config->vocab, &tokens));
    ok(sm_collate(&documents, 1, T, SM_PADDING_MAX, INT64_MAX, &collation));
    assert_int_equal(collation.n_batches, 2);
    SM_OWN(sm_device) *device = open_backend("reference", 0);
    SM_OWN(sm_session) *s = start_session(device, build_plan(config, &options, SM_MODE_NAIVE, 0), 1);
    double losses[2], mean;
    int64_t n_tokens;
    for (int i = 0; i < 2; i++) {
        int32_t inputs[T], targets[T], starts[T];
        ok(sm_collation_fill(&collation, tokens, i, inputs, targets, starts, NULL));
        ok(sm_session_set_documents(s, starts));
        ok(sm_session_set_batch(s, inputs, targets));
        ok(sm_session_run(s, SM_RUN_FORWARD, NULL));
        ok(sm_session_loss(s, &losses[i]));
    }
    assert_true(fabs(losses[0] - losses[1]) > 1e-3); // so that the mean of the batches is another
    const sm_validation validation = {
        .tokens = tokens, .collation = &collation, .n_batches = 2, .trained = s, .session = s};
    ok(sm_validation_run(&validation, &mean, &n_tokens));
    assert_int_equal(n_tokens, 20);
    assert_near(mean, (3 * losses[0] + 17 * losses[1]) / 20);
}
