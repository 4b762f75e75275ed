// test_score.c: the frozen work is what docs/score.md says, to the last bit that rounding leaves; scores travel as
// blocks through what mail programs, forums and browsers do to text; and forged ones are each found by what they claim.
#include "tests/support/run_program.h"
#include "tests/support/whole.h"
#include "bench/rows/read_rows.h"
#include "bench/score/score.h"
#include "fnv1a.h"

// --- the definition ------------------------------------------------------------------------------

// The first numbers of each parameter; all follow from the same draws (test_init.c).
static uint64_t digest_of_weights(const sm_plan *plan) {
    enum { N = 1024 };
    float values[N];
    uint64_t digest = SM_FNV1A_START;
    for (int i = 0; i < plan->n_tensors; i++) {
        if (sm_plan_is_param(plan, i)) {
            const int64_t n = plan->tensors[i].real_elems < N ? plan->tensors[i].real_elems : N;
            sm_param_init(plan, i, 42, 0, n, values);
            digest = sm_fnv1a(digest, values, (size_t)n * sizeof(*values));
        }
    }
    return digest;
}

TEST(the_weights_of_the_work) {
    const sm_model_config config = sm_model_size_find(&sm_model_gpt2, "small")->config;
    const sm_plan_options options = {.B = 1, .T = SM_SCORE_SEQ_LEN, .backward = true, .optimizer = sm_optimizer_at(0)};
    SM_OWN(sm_plan) *plan = NULL;
    assert_int_equal(sm_model_build(&config, &options, &plan), SM_OK);
    assert_int_equal(plan->n_params, 124439808);
    assert_string_equal(sm_optimizer_at(0)->name, "adamw");
    assert_int_equal(digest_of_weights(plan), UINT64_C(0xe15d918dd1efd4ab));
}

// Tokens depend on B and T alone: a small model reads the same.
TEST(the_tokens_of_the_work) {
    for (int i = 0; sm_score_batch_at(i) != NULL; i++) {
        const sm_score_batch *batch = sm_score_batch_at(i);
        if (batch->B > 4) {
            continue; // the digests of larger batches are of the same tokens
        }
        const char *arguments =
            textf("run -m tiny --context 1024 --n-layer 1 --d-model 8 --n-head 1 -b %d --seq-len 1024 --backend cpu "
                  "--pass-type forward -w 0 -r 1 --no-peaks --no-phases -o jsonl -q",
                  (int)batch->B);
        expect_exit(arguments, 0);
        expect_text(arguments, out, batch->data_digest);
    }
}

TEST(the_flops_of_the_work) { expect_run("estimate -m small -b 1 --seq-len 1024 -o jsonl", 0, "822089202693", NULL); }

// What could not be checked is not called verified.
TEST(gradients_in_fp8_are_not_verified) {
    char line[SM_BLOCK_LINE_SIZE];
    expect_exit("run -m tiny --backend reference -b 1 --seq-len 8 --precision fp8 -w 0 -r 1 --no-phases -o jsonl -q",
                0);
    json_auto_t *row = parse_json(out);
    assert_true(json_is_null(json_object_get(row, "gradient_error")));
    for (int is_forged = 0; is_forged < 2; is_forged++) {
        sm_block_line(row, line);
        FAIL_IF(strstr(line, "losses") == NULL || strstr(line, "verified") != NULL, "%s", line);
        json_object_set_new(row, "gradient_error", json_real(0));
    }
}

static void expect_losses(const char *arguments, const double *losses, size_t n) {
    expect_exit(arguments, 0);
    json_auto_t *row = parse_json(out);
    for (size_t i = 0; i < n; i++) {
        const double loss = json_number_value(json_array_get(json_object_get(row, "losses"), i));
        FAIL_IF(!(fabs(loss / losses[i] - 1) <= 1e-5), "%s: loss %zu is %.8g, not %.8g", arguments, i + 1, loss,
                losses[i]);
    }
}

// A causal model's first positions do not depend on later ones: the reference computes 16 of the first step in seconds,
// and all of five steps would take it half an hour; the cpu backend, which its checks hold to the reference, takes half
// a minute on two idle cores.
TEST(the_losses_of_the_work) {
    static const double of_16_tokens[] = {10.7871761};
    if (getenv("STEPMARK_TEST_ALL") == NULL) {
        return;
    }
    expect_losses("run -m small -b 1 --seq-len 16 --backend reference --pass-type forward -w 0 -r 1 --no-peaks "
                  "--no-phases -o jsonl -q",
                  of_16_tokens, 1);
    expect_losses("run -m small -b 1 --seq-len 1024 --backend cpu -w 1 -r 3 --no-peaks --no-phases -o jsonl -q",
                  sm_score_batch_at(0)->losses, SM_SCORE_N_LOSSES);
}

// --- rows ------------------------------------------------------------------------------------------

// The first reference row that did this work with so many sequences, in that format.
static json_t *find_row(int n_batch, const char *precision, const char *device) {
    json_t *found = NULL;
    json_auto_t *references = sm_bundle_references();
    SM_EACH(row, references) {
        if (found == NULL && sm_json_number(row, "n_batch") == n_batch && sm_score_is_work(row) &&
            strcmp(sm_rows_text(row, "precision"), precision) == 0 &&
            (device == NULL || strcmp(sm_rows_text(row, "device"), device) == 0)) {
            found = json_deep_copy(row);
        }
    }
    assert_non_null(found);
    sm_json_set_new(found, "score", json_string(SM_SCORE_NAME));
    return found;
}

// Of a card, in fp32 or bf16.
static json_t *make_row(const char *precision) { return find_row(32, precision, NULL); }

// Of a processor.
static json_t *make_processor_row(void) { return find_row(4, "fp32", "cpu"); }

static char *make_block(json_t *row) {
    size_t n;
    SM_OWN(json_t) *rows = json_pack("[O]", row);
    char *text = sm_block_make(rows, &n);
    assert_int_equal(n, 1);
    return text;
}

// Reads a text, which has one row.
static json_t *read_one(const char *text) {
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    assert_int_equal(sm_rows_parse("post", text, strlen(text), &rows), SM_OK);
    assert_int_equal(json_array_size(rows.rows), 1);
    return json_incref(json_array_get(rows.rows, 0));
}

static void assert_counts(const json_t *row) {
    char why[SM_SCORE_TEXT_SIZE];
    FAIL_IF(sm_score_lacks(row, NULL, why), "it should count: %s", why);
}

static void assert_lacks(const json_t *row, const json_t *references, const char *what) {
    char why[SM_SCORE_TEXT_SIZE];
    FAIL_IF(!sm_score_lacks(row, references, why) || strstr(why, what) == NULL, "it should say \"%s\", and says \"%s\"",
            what, why);
}

TEST(the_work_is_known_by_its_columns) {
    static const char *const others[][2] = {
        {"n_seq", "512"}, {"n_accum", "2"},   {"dropout", "0.1"},           {"optimizer", "\"lion\""},
        {"d_ff", "3073"}, {"vocab", "50304"}, {"pass_type", "\"forward\""}, {"padding", "\"packed\""}};
    SM_OWN(json_t) *row = make_row("fp32");
    assert_true(sm_score_is_work(row));
    assert_counts(row);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        json_auto_t *other = json_deep_copy(row);
        sm_json_set_new(other, others[i][0], json_loads(others[i][1], JSON_DECODE_ANY, NULL));
        FAIL_IF(sm_score_is_work(other), "%s = %s is the same work", others[i][0], others[i][1]);
    }
}

// --- blocks ----------------------------------------------------------------------------------------

// Each line after a text; blanks doubled, and the newlines of other systems.
static char *quote(const char *text, const char *mark, const char *end) {
    char *quoted = sm_malloc(8 * strlen(text) + 64);
    size_t n = (size_t)sprintf(quoted, "On Friday somebody wrote:%s%s", end, mark);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '\n') {
            n += (size_t)sprintf(quoted + n, "%s%s", end, mark);
        } else {
            quoted[n++] = *at;
        }
    }
    sprintf(quoted + n, "%sa line below%s", end, end);
    return quoted;
}

TEST(a_block_is_found_in_any_text) {
    static const char *const ways[][2] = {{"", "\n"},
                                          {"> ", "\n"},
                                          {"> > \t", "\r\n"},
                                          {"&gt; ", "<br>\n"},
                                          {"<p class=\"a\">", "</p>\n"},
                                          {"", "=\n"},
                                          {"\xc2\xa0 \xc2\xa0", "\xe2\x80\x8b\n"},
                                          {"=C2=A0 ", "=20\n"}}; // blanks that do not break
    SM_OWN(json_t) *row = make_row("bf16");
    SM_FREED char *text = make_block(row);
    assert_true(strlen(text) <= SM_BLOCK_MOST_BYTES);
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        SM_FREED char *quoted = quote(text, ways[i][0], ways[i][1]);
        json_auto_t *read = read_one(quoted);
        assert_string_equal(sm_rows_text(read, "reason"), "");
        assert_counts(read);
        assert_true(json_equal(json_object_get(read, "samples_ns"), json_object_get(row, "samples_ns")));
        assert_true(sm_json_number(read, "block") > 1);
    }
}

// As mail programs do: lines of at most 76 columns, each after a mark.
static char *wrap(const char *text, const char *mark) {
    enum { COLUMNS = 76 };
    char *wrapped = sm_malloc(8 * strlen(text) + 64);
    size_t n = 0;
    while (*text != '\0') {
        const size_t line = strcspn(text, "\n");
        size_t length = line < COLUMNS ? line : COLUMNS;
        for (size_t k = length; line > COLUMNS && k > 10; k--) {
            if (text[k] == ' ') {
                length = k;
                break;
            }
        }
        n += (size_t)sprintf(wrapped + n, "%s%.*s\n", mark, (int)length, text);
        text += length + (text[length] == '\n' || text[length] == ' ');
    }
    return wrapped;
}

// Each `from` by `to`.
static char *replace_all(const char *text, const char *from, const char *to) {
    char *replaced = sm_malloc((strlen(to) + 1) * strlen(text) + 1);
    size_t n = 0;
    while (*text != '\0') {
        const bool is_it = strncmp(text, from, strlen(from)) == 0;
        n += (size_t)sprintf(replaced + n, "%.*s", is_it ? (int)strlen(to) : 1, is_it ? to : text);
        text += is_it ? strlen(from) : 1;
    }
    replaced[n] = '\0';
    return replaced;
}

// The rows of a text, all of which must count.
static void expect_honest(const char *text, size_t n_rows) {
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    assert_int_equal(sm_rows_parse("post", text, strlen(text), &rows), SM_OK);
    assert_int_equal(json_array_size(rows.rows), n_rows);
    for (size_t i = 0; i < n_rows; i++) {
        assert_string_equal(sm_rows_text(json_array_get(rows.rows, i), "reason"), "");
        assert_counts(json_array_get(rows.rows, i));
    }
}

TEST(what_programs_do_to_a_block) {
    json_auto_t *row = make_row("bf16");
    json_auto_t *other = make_row("fp32");
    SM_FREED char *text = make_block(row);
    SM_FREED char *second = make_block(other);
    SM_FREED char *two = sm_malloc(strlen(text) + strlen(second) + 1);
    sprintf(two, "%s%s", text, second);
    SM_FREED char *mail = wrap(two, "");
    SM_FREED char *quoted = wrap(mail, "> > ");
    SM_FREED char *again = wrap(quoted, "> ");
    SM_FREED char *crlf = replace_all(again, "\n", "\r\n");
    SM_FREED char *page = replace_all(two, "+", "&#43;");
    SM_FREED char *paragraph = replace_all(page, "\n", " ");
    SM_FREED char *printable = replace_all(two, "±", "=C2=B1");
    SM_FREED char *latin = replace_all(two, "±", "\xb1");
    SM_FREED char *speech = sm_malloc(strlen(two) + 512);
    sprintf(speech,
            "My stepmark-124M-v1 is 400 tok/s. Yours was:\n> stepmark-124M-v1  A card 1 tok/s fp32 verified\n\n%s",
            two);
    const char *const texts[] = {two, mail, quoted, again, crlf, page, paragraph, printable, latin, speech};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        expect_honest(texts[i], 2);
    }
}

// Ten million bytes, of which some look like blocks, between two of them: read in a time that grows with their number
// alone, and both are found.
TEST(a_block_in_much_noise) {
    const size_t n_bytes = repeats_paths() ? 10000000 : 1000000;
    static const char *const noise[] = {
        "[stepmark block 1, ", "stepmark-124M-v1 ", "&", "<", "[end of stepmark block]", "\n", "AAAA", ">"};
    json_auto_t *row = make_row("bf16");
    SM_FREED char *text = make_block(row);
    SM_FREED char *all = sm_malloc(n_bytes + 3 * strlen(text));
    size_t n = (size_t)sprintf(all, "%s", text);
    unsigned drawn = 1;
    while (n < n_bytes) {
        drawn = drawn * 1103515245 + 12345;
        n += (size_t)sprintf(all + n, "%s", noise[drawn >> 16 & 7]);
    }
    sprintf(all + n, "\n%s", text);
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    assert_int_equal(sm_rows_parse("noise", all, strlen(all), &rows), SM_OK);
    size_t n_honest = 0;
    SM_EACH(found, rows.rows) { n_honest += sm_json_number(found, "median_ts") > 0; }
    assert_int_equal(n_honest, 2);
    json_auto_t *board = sm_score_board(rows.rows, NULL);
    assert_true(sm_json_number(json_array_get(board, 0), "place") == 1);
}

TEST(a_block_has_no_names_of_hosts_users_and_paths) {
    SM_OWN(json_t) *row = make_row("bf16");
    sm_json_set_new(row, "context.host", json_string("secret-host"));
    sm_json_set_new(row, "context.argv", json_pack("[s]", "/home/secret-user/stepmark"));
    sm_json_set_new(row, "weights", json_string("/home/secret-user/model"));
    json_array_append_new(json_object_get(row, "run_args"), json_string("--data=secret-file"));
    json_array_append_new(json_object_get(row, "run_args"), json_string("--kernel=gelu_forward=/secret/k.c"));
    SM_FREED char *text = make_block(row);
    SM_OWN(json_t) *read = read_one(text);
    SM_FREED char *all = json_dumps(read, 0);
    assert_null(strstr(all, "secret"));
    assert_non_null(strstr(all, "--batch-size=32"));
}

TEST(a_changed_block_is_no_score) {
    SM_OWN(json_t) *row = make_row("bf16");
    SM_FREED char *text = make_block(row);
    char *body = strstr(text, "]\n") + 2;
    for (char *at = body; at < text + strlen(text); at += 7) {
        const char was = *at;
        if (was == ' ' || was == '\n') {
            continue;
        }
        *at = was == 'A' ? 'B' : 'A';
        json_auto_t *read = read_one(text);
        *at = was;
        FAIL_IF(strcmp(sm_rows_status(read), "error") != 0, "byte %zu was changed, and nobody noticed",
                (size_t)(at - text));
    }
    text[strlen(text) - 10] = '\0';
    SM_OWN(json_t) *cut = read_one(text);
    assert_non_null(strstr(sm_rows_text(cut, "reason"), "damaged"));
}

// What stands above a block for people may be edited by hand.
TEST(the_line_above_a_block_is_held_to_it) {
    SM_OWN(json_t) *row = make_row("bf16");
    SM_FREED char *text = make_block(row);
    memcpy(strstr(text, "560,398"), "960,398", 7);
    SM_OWN(json_t) *read = read_one(text);
    assert_non_null(strstr(sm_rows_text(read, "reason"), "the line above it is not what its facts say"));
    assert_true(isnan(sm_json_number(read, "median_ts")));
}

// --- forged rows, whose makers compressed them again -----------------------------------------------

static json_t *through_block(json_t *row) {
    SM_FREED char *text = make_block(row);
    json_t *read = read_one(text);
    json_decref(row);
    return read;
}

TEST(one_digit_of_the_rate) {
    SM_OWN(json_t) *row = make_row("bf16");
    sm_json_set_new(row, "median_ts", json_real(960397.475865));
    row = through_block(row);
    assert_lacks(row, NULL, "median_ts is 960398, where its other fields give 560397");
}

// With all that follows from them.
static json_t *scale(json_t *row, double by) {
    static const char *const times[] = {"median_ns",  "mad_ns",     "q1_ns",  "q3_ns",     "min_ns",    "max_ns",
                                        "ci95_lo_ns", "ci95_hi_ns", "avg_ns", "stddev_ns", "warmup_ns", "process_ns"};
    static const char *const rates[] = {"median_ts", "mfu"};
    json_t *samples = json_array();
    for (size_t i = 0; i < json_array_size(json_object_get(row, "samples_ns")); i++) {
        const double ns = json_number_value(json_array_get(json_object_get(row, "samples_ns"), i));
        json_array_append_new(samples, json_integer((json_int_t)llround(by * ns)));
    }
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        const double ns = sm_json_number(row, times[i]);
        sm_json_set_new(row, times[i], isnan(ns) ? json_null() : json_integer((json_int_t)llround(by * ns)));
    }
    sm_json_set_new(row, "samples_ns", samples);
    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        sm_json_set_new(row, rates[i], json_real(sm_json_number(row, rates[i]) / by));
    }
    return row;
}

TEST(scaled_samples) {
    SM_OWN(json_t) *references = json_pack("[o]", make_row("bf16"));
    SM_OWN(json_t) *much = through_block(scale(make_row("bf16"), 0.4));
    SM_OWN(json_t) *little = through_block(scale(make_row("bf16"), 0.7));
    assert_lacks(much, NULL, "% of the peak that it measured");
    assert_counts(little);
    assert_lacks(little, references, "1.43 times the reference score of the same device, NVIDIA H100 80GB HBM3");
    SM_OWN(json_t) *score = through_block(find_row(1, "fp32", "cpu"));
    assert_counts(score);
    // A processor whose measured peak is low today is no other one; one that is faster, too, is.
    SM_OWN(json_t) *processor = find_row(1, "fp32", "cpu");
    SM_OWN(json_t) *processors = json_pack("[O]", processor);
    char why[SM_SCORE_TEXT_SIZE];
    sm_json_set_new(processor, "mfu", json_real(0.7 * sm_json_number(processor, "mfu")));
    FAIL_IF(sm_score_lacks(score, processors, why), "it should count: %s", why);
    sm_json_set_new(processor, "median_ts", json_real(0.7 * sm_json_number(processor, "median_ts")));
    assert_lacks(score, processors, "1.43 times the reference score of the same device");
    json_auto_t *less = scale(find_row(1, "fp32", "cpu"), 0.7);
    sm_json_set_new(less, "peak_flops", json_real(sm_json_number(less, "peak_flops") / 0.7));
    sm_json_set_new(less, "mfu", json_copy(json_object_get(score, "mfu")));
    less = through_block(less);
    assert_lacks(less, NULL, "its samples take 18.7 s, and they ended by --max-time=25");
    json_t *args = json_object_get(less, "run_args");
    for (size_t i = 0; i < json_array_size(args); i++) {
        if (strcmp(json_string_value(json_array_get(args, i)), "--max-time=25") == 0) {
            json_array_set_new(args, i, json_string("--max-time=18"));
        }
    }
    assert_lacks(less, NULL, "it computes 7.69e+11 FLOP/s, and 2 cores of AMD EPYC (Zen 5) 7.42e+11 at most");
}

// In both columns.
TEST(a_renamed_processor) {
    static const struct {
        const char *name;
        int cores;
        const char *found;
    } cases[] = {
        {"AMD EPYC 9755 128-Core Processor", 2, ""},
        {"AMD EPYC 9654 96-Core Processor", 2, "2 cores of AMD EPYC 9654 96-Core Processor 3.71e+11 at most"},
        {"AMD EPYC 7763 64-Core Processor", 2, "its kernels are of avx512_bf16, which AMD EPYC 7763 64-Core Processor"},
        {"13th Gen Intel(R) Core(TM) i9-13900K", 2, "does not have"},
        {"Neoverse-V2", 2, "does not have"},
        {"AMD EPYC 9015 8-Core Processor", 32, "its machine has 32 cores, and two of AMD EPYC 9015 8-Core Processor"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_auto_t *row = find_row(1, "fp32", "cpu");
        sm_json_set_new(row, "cpu_info", json_string(cases[i].name));
        sm_json_set_new(row, "context.cpu.name", json_string(cases[i].name));
        sm_json_set_new(row, "context.device.name", json_string(cases[i].name));
        sm_json_set_new(row, "context.cpu.cores", json_integer(cases[i].cores));
        row = through_block(row);
        if (cases[i].found[0] == '\0') {
            assert_counts(row); // another of its generation: nothing tells them apart
        } else {
            assert_lacks(row, NULL, cases[i].found);
        }
    }
}

TEST(a_renamed_device) {
    json_auto_t *row = make_row("bf16");
    sm_json_set_new(row, "gpu_info", json_string("NVIDIA GeForce RTX 4090"));
    sm_json_set_new(row, "context.device.name", json_string("NVIDIA GeForce RTX 4090"));
    row = through_block(row);
    assert_lacks(row, NULL, "of the datasheet of NVIDIA GeForce RTX 4090: it ran on another device");
    json_auto_t *other = make_row("bf16");
    sm_json_set_new(other, "gpu_info", json_string("Another card"));
    assert_lacks(other, NULL, "gpu_info is Another card, where NVIDIA H100 80GB HBM3 ran");
}

// Rows of other programs have no measured peak.
TEST(a_program_that_claims_too_much) {
    static const char *const measured[] = {"peak_flops", "mfu", "flops", "loss_check", "gradient_error"};
    for (int is_card = 0; is_card < 2; is_card++) {
        for (int i = 0; i < 2; i++) {
            json_auto_t *row = is_card ? make_row("bf16") : find_row(1, "fp32", "cpu");
            sm_json_set_new(row, "backend_used", json_string("pytorch-compile"));
            sm_json_set_new(row, "stop_reason", json_string("repetitions"));
            sm_json_set_new(row, "run_args", json_null());
            for (size_t k = 0; k < sizeof(measured) / sizeof(measured[0]); k++) {
                sm_json_set_new(row, measured[k], json_null());
            }
            row = through_block(scale(row, i == 0 ? 1 : 0.3));
            if (i == 0) {
                char line[SM_BLOCK_LINE_SIZE];
                assert_counts(row);
                sm_block_line(row, line);
                FAIL_IF(strstr(line, "losses") == NULL, "it has no check but its losses: %s", line);
            } else {
                assert_lacks(row, NULL, is_card ? "of the datasheet of NVIDIA H100 80GB HBM3" : "it computes ");
            }
        }
    }
}

TEST(losses_of_other_weights) {
    json_auto_t *row = make_row("fp32");
    json_array_set_new(json_object_get(row, "losses"), 2, json_real(6.7051));
    row = through_block(row);
    assert_lacks(row, NULL,
                 "its losses are those of other weights or another step: step 3 has 6.705100, and the work 6.704492");
    json_auto_t *other = make_row("bf16");
    json_array_set_new(json_object_get(other, "losses"), 0, json_real(11.0084));
    sm_json_set_new(other, "loss", json_real(11.0084));
    assert_lacks(other, NULL, "step 1 has 11.008400");
}

// One field is changed; "" as its value: left out.
TEST(one_field_is_forged) {
    static const struct {
        const char *of, *field, *value, *found;
    } cases[] = {
        {"bf16", "test_time", "\"2031-01-01T00:00:00Z\"", "in the future"},
        {"bf16", "test_time", "\"yesterday\"", "is no date in UTC"},
        {"bf16", "test_time", "", "it has no date"},
        {"bf16", "precision", "\"fp32\"", "loss_checked is"},
        {"fp32", "precision", "\"bf16\"", "its run_args have --precision=fp32, which precision is not"},
        {"bf16", "n_batch", "64", "a step has 32768 tokens, where n_batch, n_seq and n_accum give 65536"},
        {"bf16", "samples_ns", "", "no samples"},
        {"bf16", "samples_ns", "[57]", "57"},
        {"bf16", "peak_flops", "", "no measured peak"},
        {"bf16", "peak_flops", "9e15", "mfu is"},
        {"bf16", "flops", "1e12", "flops is 1e+12, too few"},
        {"bf16", "loss_check", "", "no check of its loss"},
        {"bf16", "gradient_error", "", "no check of its gradients"},
        {"bf16", "losses", "[]", "losses are fewer than its steps"},
        {"bf16", "own_kernels", "\"gelu_forward: k.c\"", ""}, // not in a block: its losses and its peak hold
        {"cpu", "n_threads", "4096", "it has 4096 threads on"},
        {"cpu", "cpu_info", "\"AMD EPYC 9654 96-Core Processor\"", "where its context has Intel(R) Xeon(R) Processor"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char why[SM_SCORE_TEXT_SIZE];
        json_auto_t *row = strcmp(cases[i].of, "cpu") == 0 ? make_processor_row() : make_row(cases[i].of);
        if (cases[i].value[0] == '\0') {
            json_object_del(row, cases[i].field);
        } else {
            sm_json_set_new(row, cases[i].field, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        }
        row = through_block(row);
        const bool is_named = sm_score_lacks(row, NULL, why) && strstr(why, cases[i].found) != NULL;
        FAIL_IF(is_named != (cases[i].found[0] != '\0'), "%s = %s: \"%s\"", cases[i].field, cases[i].value, why);
    }
    json_auto_t *honest = through_block(make_processor_row());
    assert_counts(honest);
}

// Times in another unit, with all that follows from them.
TEST(a_unit_is_swapped) {
    json_auto_t *row = scale(make_row("bf16"), 1e-2);
    json_object_del(row, "noise_percent"); // which the rounded times would contradict
    row = through_block(row);
    assert_lacks(row, NULL, "its steps take 0.0");
}

// Processors that share a name have other clocks: held to their own peaks.
TEST(a_faster_processor_of_the_same_name_is_honest) {
    json_auto_t *row = scale(make_processor_row(), 0.6);
    json_auto_t *references = json_pack("[o]", make_processor_row());
    sm_json_set_new(row, "mfu", json_copy(json_object_get(json_array_get(references, 0), "mfu")));
    sm_json_set_new(row, "peak_flops", json_real(sm_json_number(row, "peak_flops") / 0.6));
    sm_json_set_new(row, "stop_reason", json_string("repetitions")); // and not a time, which was not scaled
    sm_json_set_new(row, "run_args", json_null());
    char why[SM_SCORE_TEXT_SIZE];
    row = through_block(row);
    FAIL_IF(sm_score_lacks(row, references, why), "%s", why);
}

TEST(other_data_and_batches) {
    json_auto_t *row = make_row("fp32");
    sm_json_set_new(row, "data_digest", json_string("fnv1a64:0000000000000000"));
    assert_lacks(row, NULL, "its data are others");
    json_auto_t *early = make_row("fp32");
    sm_json_set_new(early, "test_time", json_string("2026-01-01T00:00:00Z"));
    assert_lacks(early, NULL, "before the first stepmark");
}

// --- lines -----------------------------------------------------------------------------------------

// Columns of a terminal: "±" is one.
static size_t columns_of(const char *text) {
    size_t n = 0;
    for (; *text != '\0'; text++) {
        n += ((unsigned char)*text & 0xc0) != 0x80;
    }
    return n;
}

TEST(a_line_has_80_columns) {
    static const struct {
        const char *processor, *backend;
        int n_threads;
        const char *expected;
    } cases[] = {
        {"AMD EPYC (Zen 5)", "cpu", 2, "AMD EPYC, 2 cores "},
        {"AMD EPYC (Zen 5)", "opencl", 2, "AMD EPYC, OpenCL "},
        {"AMD EPYC (Zen 5)", "pytorch-compile", 2, "AMD EPYC, PyTorch "},
        {"AMD EPYC 9654 96-Core Processor", "cpu", 192, "AMD EPYC 9654 x192"},
        {"AMD Ryzen 9 7950X 16-Core Processor", "cpu", 16, "Ryzen 9 7950X x16 "},
        {"Intel(R) Xeon(R) Platinum 8480+", "cpu", 112, "Xeon 8480+ x112 "},
        {"Intel(R) Xeon(R) Processor", "cpu", 16, "Intel Xeon x16 "},
        {"Intel(R) Xeon(R) CPU @ 2.20GHz (Ice Lake)", "cpu", 1, "Intel Xeon, 1 core "},
        {"13th Gen Intel(R) Core(TM) i7-13700K", "cpu", 8, "Core i7-13700K x8 "},
        {"", "llm.c", 8, "llm.c  "},
        {"Radxa ROCK 5B: 4 Arm Cortex-A55 r2p0, 4 Arm Cortex-A76 r4p0", "cpu", 8, "Radxa ROCK 5B: x8 "},
    };
    char line[SM_BLOCK_LINE_SIZE];
    json_auto_t *row = make_row("fp32");
    sm_json_set_new(row, "gpu_info", json_null());
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        sm_json_set_new(row, "cpu_info", json_string(cases[i].processor));
        sm_json_set_new(row, "backend_used", json_string(cases[i].backend));
        sm_json_set_new(row, "n_threads", json_integer(cases[i].n_threads));
        sm_block_line(row, line);
        FAIL_IF(strncmp(line, SM_SCORE_NAME "  ", 18) != 0 ||
                    strncmp(line + 18, cases[i].expected, strlen(cases[i].expected)) != 0 || columns_of(line) > 80,
                "%s: \"%s\", %zu columns", cases[i].processor, line, columns_of(line));
    }
    sm_json_set_new(row, "precision", json_string("bf16x6"));
    sm_json_set_new(row, "ci95_hi_ns", json_real(9e9));
    sm_block_line(row, line);
    assert_non_null(strstr(line, "± >50% bf16x6 "));
    assert_true(columns_of(line) <= 80);
}

// --- tables ----------------------------------------------------------------------------------------

TEST(the_board_ranks_and_lists_apart) {
    json_t *forged = make_row("bf16");
    sm_json_set_new(forged, "median_ts", json_real(960397.475865));
    SM_OWN(json_t) *rows = json_pack("[o, o, o, o]", make_row("bf16"), forged, make_row("fp32"), make_row("bf16"));
    SM_OWN(json_t) *board = sm_score_board(rows, NULL);
    assert_int_equal(json_array_size(board), 3); // one of them twice
    assert_string_equal(sm_rows_text(json_array_get(board, 0), "class"), "fp32");
    assert_string_equal(sm_rows_text(json_array_get(board, 1), "class"), "any");
    assert_true(sm_json_number(json_array_get(board, 1), "place") == 1);
    assert_true(isnan(sm_json_number(json_array_get(board, 2), "place")));
    assert_non_null(strstr(sm_rows_text(json_array_get(board, 2), "reason"), "median_ts"));
}

TEST(where_a_score_stands) {
    char text[SM_SCORE_TEXT_SIZE];
    json_t *slow = scale(make_row("fp32"), 100);
    sm_json_set_new(slow, "gpu_info", json_string("A card"));
    SM_OWN(json_t) *rows = json_pack("[o]", slow);
    SM_OWN(json_t) *references = json_pack("[o, o]", make_row("bf16"), make_row("fp32"));
    sm_score_standing(rows, references, text);
    assert_string_equal(text, "1/1019 of NVIDIA H100 80GB HBM3 (bf16); ten billion tokens take 210 days");
}

// Of many the slowest, one between and the fastest; a processor once, by either backend; other programs beside it alone.
TEST(a_score_stands_among_many) {
    static const struct {
        const char *chip, *program;
        double by;
    } others[] = {{"Chip E", "cpu", 1}, {"Chip A", "cpu", 16},   {"Chip A", "opencl", 32}, {"Chip D", "cpu", 2},
                  {"Chip B", "cpu", 8}, {"Chip B", "llm.c", 64}, {"Chip C", "cpu", 4}};
    char text[SM_SCORE_TEXT_SIZE];
    SM_OWN(json_t) *references = json_array();
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        json_t *row = scale(find_row(1, "fp32", "cpu"), others[i].by);
        sm_json_set_new(row, "cpu_info", json_string(others[i].chip));
        sm_json_set_new(row, "backend_used", json_string(others[i].program));
        json_array_append_new(references, row);
    }
    SM_OWN(json_t) *rows = json_pack("[O]", json_array_get(references, 6));
    sm_score_standing(rows, references, text);
    assert_string_equal(text, "4 times 2 cores of Chip A (fp32), 1.0 times 2 cores of Chip C (fp32), 1/4 of 2 cores of "
                              "Chip E (fp32); ten billion tokens take 860 days");
    json_array_clear(rows);
    json_array_append(rows, json_array_get(references, 4));
    json_array_remove(references, 3);
    json_array_remove(references, 0);
    sm_score_standing(rows, references, text);
    assert_non_null(
        strstr(text, "8 times llm.c on 2 cores of Chip B (fp32), 2.0 times 2 cores of Chip A (fp32), 1/2.0 of "));
}

TEST(a_friend_is_compared_with) {
    char text[SM_SCORE_TEXT_SIZE];
    json_t *friend = make_row("fp32");
    json_auto_t *rows = json_pack("[o, o]", make_row("bf16"), friend);
    sm_score_yours(rows, NULL, text);
    assert_string_equal(text, "ten billion tokens take 5.0 hours");
    sm_json_set_new(friend, "block", json_integer(1));
    sm_score_yours(rows, NULL, text);
    assert_string_equal(text, "10 times NVIDIA H100 80GB HBM3 (fp32); ten billion tokens take 5.0 hours");
    sm_json_set_new(json_array_get(rows, 0), "block", json_integer(40));
    sm_score_yours(rows, NULL, text);
    assert_string_equal(text, "");
}

TEST(datasheets) {
    char source[SM_DATASHEET_SOURCE_SIZE];
    static const struct {
        const char *name, *precision;
        double teraflops;
    } cards[] = {
        {"NVIDIA H100 80GB HBM3", "bf16", 989.4},
        {"NVIDIA H100 80GB HBM3", "fp8", 1978.8},
        {"NVIDIA H100 PCIe", "fp16", 756.5},
        {"NVIDIA H100 NVL", "bf16", 0}, // its sources disagree
        {"NVIDIA GeForce RTX 3080", "fp32", 29.8},
        {"NVIDIA GeForce RTX 3080 Ti", "fp32", 0},
        {"NVIDIA GeForce RTX 4080 SUPER", "bf16", 0},
        {"NVIDIA GeForce RTX 4090 D", "bf16", 0},
        {"NVIDIA GeForce RTX 4090 Laptop GPU", "fp32", 0},
        {"NVIDIA RTX A1000", "fp32", 0},
        {"NVIDIA A100-SXM4-40GB", "tf32", 156},
        {"Intel(R) Arc(TM) A770 Graphics", "fp32", 17.2},
        {"AMD Radeon RX 7900 XTX", "tf32", 0},
        {"AMD Radeon RX 7900 XTX", "fp32", 61.4},
    };
    for (size_t i = 0; i < sizeof(cards) / sizeof(cards[0]); i++) {
        assert_true(sm_datasheet_card(cards[i].name, cards[i].precision, source) == 1e12 * cards[i].teraflops);
        assert_int_equal(source[0] != '\0', cards[i].teraflops > 0);
    }
    assert_true(sm_datasheet_processor("AMD EPYC 9654 (Zen 4)", "avx512_bf16", "fp32", 2, 3.7e9, source) ==
                2 * 3.7e9 * 32);
    assert_string_equal(source, "2 cores x 3.70 GHz, the highest clock, x 32 FLOP a cycle");
    assert_true(sm_datasheet_processor("AMD EPYC (Zen 5)", "avx512_bf16", "bf16", 1, 4e9, source) == 4e9 * 128);
    assert_true(sm_datasheet_processor("AMD EPYC 9654 (Zen 4)", "avx512_bf16", "fp32", 2, 0, source) == 0);
    assert_true(sm_datasheet_processor("AMD EPYC 9654 ()", "avx512_bf16", "fp32", 2, 3.7e9, source) == 0);
    for (int i = 0; sm_datasheet_at(i) != NULL; i++) { // each line has a year, and rates in order
        const sm_datasheet *line = sm_datasheet_at(i);
        assert_non_null(strstr(line->source, ", 20"));
        assert_true(line->bf16 > 0 && line->bf16 >= line->fp32 && (line->tf32 == 0 || line->tf32 <= line->bf16));
    }
}

// --- the program -------------------------------------------------------------------------------------

TEST(the_program_shares_and_gathers) {
    json_auto_t *row = make_row("bf16");
    sm_json_set_new(row, "run_args",
                    json_pack("[s, s, s]", "--batch-size=32", "--seq-len=1024", "--backend=opencl:9.9"));
    sm_json_set_new(row, "device", json_string("opencl:9.9"));
    SM_FREED char *line = json_dumps(row, JSON_COMPACT);
    temp_put_text("score.jsonl", line);
    expect_exit("score --share --output-file $T/score.jsonl", 0);
    expect_text("score --share", out,
                "    stepmark-124M-v1  H100 80GB HBM3     560,398 tok/s ± 5.7% bf16 47% peak verified\n");
    expect_text("score --share", out, "[end of stepmark block]");
    shell("mkdir -p $T/fresh/build && cp $T/score.jsonl $T/fresh/build/ && P=$(realpath " SM_TEST_BINARY
          ") && cd $T/fresh && $P score --share >../bench.txt && grep -q 'end of stepmark block' ../bench.txt");
    shell("mkdir -p $T/posts && cp $T/out $T/posts/one && sed 's/^/> /' $T/out >$T/posts/two && echo none "
          ">$T/posts/three");
    CHECK_ALL({"report $T/posts/one -o md", 0, "| any   | 1 | NVIDIA H100 80GB HBM3 |", NULL},
              {"report $T/score.jsonl -o gbench", 0, "\"time_unit\": \"ns\"", NULL},
              {"report $T/score.jsonl -o bmf", 0, "\"lower_value\": 530140.8", NULL},
              {"report $T/posts/one -o json", 0, "\"place\": 1", NULL},
              {"report --collect $T/posts", 0, "| any   | 1 | NVIDIA H100 80GB HBM3 |", "left out"},
              {"report --collect $T/posts --output $T/page.html", 0, NULL, "page.html"},
              {"report --collect $T/nowhere", 1, NULL, "--collect: "},
              {"compare $T/posts/one", 1, NULL, "posts/one: row 1: "}, // no such device here
              {"score --share --output-file $T/none.jsonl", 1, NULL, "none.jsonl"},
              {"score --backend cpu --timeout 0.01 --output-file $T/late.jsonl", 1, "no score: ", "no score: "});
}

// What their documentation says that a reader finds: every field, and its type.
TEST(what_readers_of_benchmarks_take) {
    json_auto_t *row = make_row("bf16");
    SM_FREED char *line = json_dumps(row, JSON_COMPACT);
    const char *name, *run_name, *run_type, *unit, *text;
    double real_time, cpu_time, rate, value, lower, upper;
    json_int_t n;
    int is_scaling;
    json_t *list;
    temp_put_text("row.jsonl", line);
    expect_exit("report $T/row.jsonl -o gbench", 0);
    json_auto_t *read = parse_json(out);
    assert_int_equal(json_unpack(read,
                                 "{s:{s:s, s:s, s:s, s:I, s:I, s:b, s:o, s:o, s:s, s:s, s:I !}, s:[{s:s, s:I, s:I, "
                                 "s:s, s:s, s:I, s:I, s:I, s:I, s:F, s:F, s:s, s:F !} !] !}",
                                 "context", "date", &text, "host_name", &text, "executable", &text, "num_cpus", &n,
                                 "mhz_per_cpu", &n, "cpu_scaling_enabled", &is_scaling, "caches", &list, "load_avg",
                                 &list, "library_version", &text, "library_build_type", &text, "json_schema_version",
                                 &n, "benchmarks", "name", &name, "family_index", &n, "per_family_instance_index", &n,
                                 "run_name", &run_name, "run_type", &run_type, "repetitions", &n, "repetition_index",
                                 &n, "threads", &n, "iterations", &n, "real_time", &real_time, "cpu_time", &cpu_time,
                                 "time_unit", &unit, "items_per_second", &rate),
                     0);
    assert_string_equal(name, run_name);
    assert_string_equal(run_type, "iteration");
    assert_true(real_time == sm_json_number(row, "median_ns") && rate == sm_json_number(row, "median_ts"));
    expect_exit("report $T/row.jsonl -o bmf", 0);
    json_auto_t *own = parse_json(out);
    assert_int_equal(json_unpack(own, "{s:{s:{s:F, s:F, s:F !}, s:{s:F, s:F, s:F !} !} !}", name, "latency", "value",
                                 &value, "lower_value", &lower, "upper_value", &upper, "throughput", "value", &rate,
                                 "lower_value", &lower, "upper_value", &upper),
                     0);
    assert_true(lower <= rate && rate <= upper && value == real_time);
}
