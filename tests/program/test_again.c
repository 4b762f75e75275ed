// test_again.c: a row that is run again with its own flags is the same row; changes meanwhile are reported.
#include "tests/support/run_program.h"
#include "bench/compare/compare.h"
#include "bench/rows/machine.h"

static void expect(const char *arguments, int code, const char *in_err) { expect_run(arguments, code, NULL, in_err); }

// --- every row comes back ------------------------------------------------------------------------

static void expect_equal(const char *command, const json_t *a, const json_t *b, const char *name) {
    if (!json_equal(json_object_get(a, name), json_object_get(b, name))) {
        char *before = json_dumps(json_object_get(a, name), JSON_ENCODE_ANY);
        char *now = json_dumps(json_object_get(b, name), JSON_ENCODE_ANY);
        fail_msg("%s: %s is %s, was %s", command, name, now, before);
    }
}

// Of the steps that both ran: a loop's warm-up lasts until its loader keeps pace.
static void expect_equal_losses(const char *command, const json_t *a, const json_t *b) {
    const json_t *before = json_object_get(a, "losses");
    const json_t *now = json_object_get(b, "losses");
    assert_int_equal(json_is_array(before), json_is_array(now));
    for (size_t i = 0; i < json_array_size(before) && i < json_array_size(now); i++) {
        FAIL_IF(!json_equal(json_array_get(before, i), json_array_get(now, i)),
                "%s: step %zu: loss is %.17g, was %.17g", command, i + 1, json_number_value(json_array_get(now, i)),
                json_number_value(json_array_get(before, i)));
    }
}

// Runs row `number` of the file r.json again: it is the same configuration, with the same losses.
static void repeat_row(const char *command, int number) {
    static const char *const fields[] = {
        "status",    "run_args", "data",   "data_digest", "weights", "weights_digest", "model_type",
        "pass_type", "mode",     "device", "precision",   "n_batch", "n_seq",          "n_accum",
        "vocab",     "n_layer",  "seed",   "dropout",     "loss",    "n_threads",
    };
    FAIL_IF(run_steady(textf("compare r.json#%d -o json", number)) != 0, "%s: row %d: %s\n%s", command, number, err,
            out);
    json_auto_t *whole = parse_json(out);
    assert_true(json_is_true(json_object_get(whole, "is_reproduced")));
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        expect_equal(command, json_object_get(whole, "recorded"), json_object_get(whole, "again"), fields[i]);
    }
    expect_equal_losses(command, json_object_get(whole, "recorded"), json_object_get(whole, "again"));
}

static void expect_reproducible(const char *command, int n_rows) {
    run_steady(textf("%s --no-peaks -r 2 -w 1 -o json", command)); // 1 where no row is ok
    json_auto_t *rows = parse_json(out);
    FAIL_IF((int)json_array_size(rows) != n_rows, "%s: %zu rows, not %d: %s", command, json_array_size(rows), n_rows,
            err);
    assert_int_equal(rename(temp_path("out"), temp_path("r.json")), 0);
    for (int i = 1; i <= n_rows; i++) {
        repeat_row(command, i);
    }
}

static void make_sources(void) {
    char text[6000];
    for (size_t i = 0; i < sizeof(text); i++) {
        text[i] = (char)(' ' + i * i % 90);
    }
    temp_write(temp_path("it's text"), text, sizeof(text));
    expect("train --init -m tiny --seed 3 --save model", 0, "");
}

// Of the instruction sets that this build has kernels of.
static const char *plainest_isa(void) { return textf("%.*s", (int)strcspn(sm_build.isas, " "), sm_build.isas); }

TEST(test_rows_come_back) {
    make_sources();
    expect_reproducible("run -m tiny --backend reference -b 1,2 --seq-len 8 --mode naive,fused", 4);
    expect_reproducible("run -m tiny --backend reference -b 1 --seq-len 8 --accum 3 --seed 0 --dropout 0.1 --pass-type "
                        "forward,backward,separate --without flash_attention",
                        3);
    expect_reproducible(
        textf("run -m tiny --backend cpu -b 2 --precision fp32,bf16,fp16 -t 1 --isa %s", plainest_isa()), 3);
    expect_reproducible("run -m tiny --vocab 300 --context 40 --n-layer 1 --d-model 24 --n-head 3 --backend reference "
                        "-b 1 --seq-len 20",
                        1);
    expect_reproducible("run --weights model --data \"it's text\" --data-format bytes --backend cpu -b 2 --seq-len 16 "
                        "--max-noise 50 --min-samples 2 --max-samples 2",
                        1);
    expect_reproducible("run -m tiny --backend reference -b 1 --seq-len 8 --timeout 1e-6", 1);
}

TEST(test_opencl_row_comes_back) {
    SKIP_IF(run("run -m tiny --backend opencl:0.0 -b 1 --seq-len 8 --no-peaks -r 1") == 2); // no such device here
    expect_reproducible("run -m tiny --backend opencl:0.0 -b 1 --seq-len 8", 1);
    expect_reproducible("run -m tiny --backend opencl:0.0 -b 1 --seq-len 8 --precision bf16", 1);
}

// Also those that the sweep did not start.
TEST(test_sweep_rows_come_back) {
    remove(temp_path("r.json"));
    expect("run -m tiny --backend reference -b 1,10000 --seq-len 16 -w 0 -r 1 --no-peaks --mode naive,fused --without "
           "flash_attention --max-memory 0.5 --timeout 100 --no-phases --output-file r.json",
           0, "");
    for (int i = 1; i <= 4; i++) {
        repeat_row("sweep", i);
    }
    SM_FREED char *rows = temp_text("r.json");
    assert_non_null(strstr(rows, "\"--timeout=100\""));
    assert_non_null(strstr(rows, "\"oom\""));
    assert_non_null(strstr(rows, "\"skipped\""));
}

// The tables number rows as --row does: a sweep sorts what its file has in another order; `run` appends.
TEST(test_tables_number_rows) {
    remove(temp_path("n.jsonl"));
    expect("run -m tiny --backend reference -b 1,2 --seq-len 8,16 -w 0 -r 1 --no-peaks -o md --output-file n.jsonl", 0,
           "");
    SM_FREED char *table = strdup(out);
    SM_FREED char *rows = temp_text("n.jsonl");
    const char *line = rows;
    for (int number = 1; number <= 4; number++) {
        json_auto_t *row = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        const char *expected = textf("| %d | reference | %s ", number, json_string_value(json_object_get(row, "test")));
        FAIL_IF(strstr(table, expected) == NULL, "no \"%s\" in\n%s", expected, table);
        line = strchr(line, '\n') + 1;
    }
    assert_non_null(strstr(table, "stepmark compare n.jsonl#N"));
    expect("run -m tiny --backend reference -b 1 --seq-len 8 -w 0 -r 1 --no-peaks -o md --output-file n.jsonl", 0, "");
    assert_non_null(strstr(out, "| 5 | reference | step b1s8 "));
    expect("run -m tiny --backend reference -b 1 --seq-len 8 -w 0 -r 1 --no-peaks -o md", 0, "");
    assert_true(strstr(out, "| # |") == NULL && strstr(out, "% of peak") == NULL); // nor explains what is not there
}

// --- what is told -----------------------------------------------------------------------------------

// Writes one row as the file, with a field replaced.
static void write_row(const json_t *row, const char *field, json_t *value, const char *name) {
    json_auto_t *copy = json_deep_copy(row);
    json_object_set_new(copy, field, value);
    assert_int_equal(json_dump_file(copy, temp_path(name), 0), 0);
}

// Changes a byte; a second time, back.
static void damage(const char *name, long offset) {
    SM_OWN(FILE) *file = fopen(temp_path(name), "r+b");
    assert_non_null(file);
    fseek(file, offset, SEEK_SET);
    int byte = fgetc(file);
    fseek(file, -1, SEEK_CUR);
    fputc(byte ^ 1, file);
}

// A training loop is run again by `loop`, with its loader and all that it reads.
TEST(test_loops_come_back) {
    make_sources();
    expect("tokenize --vocab-size 257 --output bytes \"it's text\"", 0, "");
    expect_reproducible(textf("loop -m tiny -b 2 --seq-len 16 --backend cpu -t 1 --isa %s --documents 4-12 --padding "
                              "bucket --order shuffled --loader threads:2 --queue-depth 3 --accum 2",
                              plainest_isa()),
                        1);
    expect_reproducible("loop -m tiny --vocab 300 -b 1 --seq-len 8 --backend reference --data \"it's text\" "
                        "--tokenizer bytes --loader inline",
                        1);
    assert_non_null(strstr(err, "stepmark loop --model-size=tiny"));
    damage("it's text", 10);
    expect("compare r.json#1", 1, "row 1: it's text has changed since");
    damage("it's text", 10);
}

TEST(test_swept_loops_come_back) {
    remove(temp_path("r.json"));
    expect("run -m tiny --backend reference -b 1,10000 --seq-len 16 -w 0 -r 1 --no-peaks --loader inline --max-memory "
           "0.5 --output-file r.json",
           0, "");
    repeat_row("sweep of loops", 1);
    repeat_row("sweep of loops", 2);
    json_auto_t *row =
        parse_json("{\"schema_version\":1,\"status\":\"ok\",\"backend\":\"cpu\",\"run_args\":[\"--batch-size=1\"]}");
    write_row(row, "loop", json_pack("{s:s}", "loader", "inline"), "old.json");
    expect("compare old.json#1", 1, "row 1: does not say its flags");
}

TEST(test_changes_are_told) {
    make_sources();
    assert_int_equal(run("run --weights model --data \"it's text\" --backend reference -b 1 --seq-len 16 -w 0 -r 1 "
                         "--no-peaks -o json"),
                     0);
    json_auto_t *rows = parse_json(out);
    const json_t *row = json_array_get(rows, 0);
    write_row(row, "sweep_note", json_null(), "good.json");
    expect("compare good.json#1", 0, "'--data=it'\\''s text'"); // the command, for a shell
    assert_non_null(strstr(out, "verdict: reproduced"));
    write_row(row, "losses", json_pack("[f, f, f]", 5.5, 1.0, 1.0), "lost.json");
    expect("compare lost.json#1", 1, "row 1 was not reproduced: losses:");
    assert_non_null(strstr(out, "verdict: not reproduced"));
    write_row(row, "status", json_string("oom"), "oom.json");
    expect("compare oom.json#1", 1, "then, ok now");
    damage("it's text", 10);
    expect("compare good.json#1", 1, "good.json: row 1: it's text has changed since");
    damage("it's text", 10);
    damage("model/model.safetensors", 90000);
    expect("compare good.json#1", 1, "good.json: row 1: model has changed since");
    remove(temp_path("it's text"));
    expect("compare good.json#1", 1, "it's text");
}

TEST(test_bad_input) {
    static const char two[] =
        "{\"schema_version\":1,\"status\":\"ok\",\"median_ns\":1,\"backend\":\"pytorch\"}\n"
        "{\"schema_version\":1,\"status\":\"ok\",\"median_ns\":1,\"backend\":\"cpu\"}\n"
        "{\"schema_version\":1,\"status\":\"ok\",\"backend\":\"cpu\",\"run_args\":[\"--batch-sise=1\"]}\n"
        "{\"schema_version\":1,\"status\":\"ok\",\"backend\":\"cpu\",\"run_args\":[1]}\n";
    temp_write(temp_path("two.jsonl"), two, sizeof(two) - 1);
    temp_write(temp_path("text"), "no rows\n", 8);
    expect("compare two.jsonl#1 two.jsonl#1", 2, "give one row");
    expect("compare missing.json#1", 1, "missing.json");
    expect("compare text#1", 1, "text: holds no result row");
    expect("compare two.jsonl#5", 2, "two.jsonl#5: two.jsonl holds 4 rows, from 1");
    expect("compare two.jsonl#0", 2, "two.jsonl#0: ");
    expect("compare two.jsonl#1", 1, "row 1: measured by pytorch, not by stepmark");
    expect("compare two.jsonl#2", 1, "row 2: does not say its flags");
    expect("compare two.jsonl#3", 1, "row 3: its run_args have --batch-sise, which no row of `stepmark run` has");
    expect("compare two.jsonl#4", 1, "row 4: its run_args are not flags");
}

// --- rows of strangers --------------------------------------------------------------------------------

// `row` with one more argument, in the file.
static void write_with(const json_t *row, const char *argument, const char *name) {
    json_t *args = json_deep_copy(json_object_get(row, "run_args"));
    json_array_append_new(args, json_string(argument));
    write_row(row, "run_args", args, name);
}

static json_t *first_row(const char *command) {
    run(command); // 1 where the row is not ok
    json_auto_t *rows = parse_json(out);
    json_t *row = json_incref(json_array_get(rows, 0));
    assert_non_null(row);
    return row;
}

// Only what stepmark writes there is taken from a row: nothing that writes, asks for something else, or is given twice.
TEST(test_rows_hold_no_other_flags) {
    char of_run[] = "--output-file=victim.json --output=json --help --list-devices --quiet --fi=1 --keep-env=1 --isa "
                    "--log=victim.json -- --trace=victim.json";
    char of_loop[] = "--log=victim.json --trace=victim.json --baseline=victim.json";
    json_t *row =
        first_row("run -m tiny --backend reference -b 1 --seq-len 8 -w 0 -r 1 --no-peaks --no-phases -o json");
    json_auto_t *loop = first_row(
        "loop -m tiny --backend reference -b 1 --seq-len 8 --loader inline -w 0 -r 1 --no-peaks --no-phases -o json");
    temp_write(temp_path("victim.json"), "precious", 8);
    for (int i = 0; i < 2; i++) {
        char *rest = i == 0 ? of_run : of_loop;
        for (char *flag; (flag = strsep(&rest, " ")) != NULL;) {
            write_with(i == 0 ? row : loop, flag, "stranger.json");
            expect("compare stranger.json#1", 1,
                   textf(", which no row of `stepmark %s` has; it is not run", i == 0 ? "run" : "loop"));
        }
    }
    write_with(row, "--batch-size=2", "stranger.json");
    expect("compare stranger.json#1", 1, "its run_args have --batch-size twice");
    SM_FREED char *victim = temp_text("victim.json");
    assert_string_equal(victim, "precious");
    json_decref(row);
}

// The digest of a file that a row names is not told, whether the row has another or none.
TEST(test_no_digest_of_other_files) {
    temp_write(temp_path("secret"), "a text that is long enough for a batch of bytes", 47);
    json_auto_t *row = first_row("run -m tiny --backend reference -b 1 --seq-len 8 -w 0 -r 1 --no-peaks --no-phases "
                                 "--data secret --data-format bytes -o json");
    const char *digest = textf("%s", json_string_value(json_object_get(row, "data_digest")));
    assert_true(strncmp(digest, "fnv1a64:", 8) == 0);
    write_row(row, "data_digest", json_string("fnv1a64:0"), "stranger.json");
    expect("compare stranger.json#1", 1, "secret has changed since: its data_digest is not fnv1a64:0");
    assert_null(strstr(err, digest));
    write_row(row, "data_digest", json_null(), "stranger.json");
    expect("compare stranger.json#1 -o json", 0, "");
    assert_null(strstr(out, digest));
}

static void expect_code_ran(const char *file, bool expected) {
    FAIL_IF((strstr(err, "own code ran") != NULL) != expected, "%s: its code %s: %s", file,
            expected ? "did not run" : "ran", err);
}

static void append(const char *name, const char *text) {
    SM_OWN(FILE) *file = fopen(temp_path(name), "a");
    assert_non_null(file);
    fputs(text, file);
}

// A kernel runs where the user says so, and only the one that was measured.
TEST(test_code_of_rows_runs_when_asked) {
    static const char loud[] = "#include <stdio.h>\n__attribute__((constructor)) static void go(void) {\n"
                               "    fputs(\"own code ran\\n\", stderr);\n}\n";
    static const char loads[] = " --mode naive --backend cpu -t 1 -b 1 --seq-len 8 -w 0 -r 1 --no-peaks --no-phases";
    expect("exercise gelu_forward --init .", 0, "");
    append("gelu_forward.c", loud);
    json_auto_t *row = first_row(textf("run -m tiny --kernel gelu_forward=gelu_forward.c%s -o json",
                                       loads)); // an empty kernel: a row without a speed
    expect_code_ran("run", true);
    write_row(row, "sweep_note", json_null(), "stranger.json");
    expect("compare stranger.json#1", 1, "it runs code of its own, --kernel gelu_forward=gelu_forward.c; look at it");
    expect_code_ran("again", false);
    expect("compare stranger.json#1 --allow-own-code --progress", 0, "");
    expect_code_ran("compare --allow-own-code", true);
    append("gelu_forward.c", "// changed\n");
    expect("compare stranger.json#1 --allow-own-code", 1, "gelu_forward.c is not the file that was measured");
    write_with(row, "--backend-library=gelu_forward.c", "stranger.json");
    expect("compare stranger.json#1", 1, "it runs code of its own");
    json_auto_t *plain =
        first_row("run -m tiny --backend reference -b 1 --seq-len 8 -w 0 -r 1 --no-peaks --no-phases -o json");
    write_with(plain, "--backend-library=gelu_forward.c", "stranger.json");
    expect("compare stranger.json#1", 1, "it runs code of its own, --backend-library gelu_forward.c");
    expect("compare stranger.json#1 --allow-own-code", 1, "--backend-library: gelu_forward.c is not the file");
    expect_code_ran("changed", false);
}

// The log of a run to resume may be another run's, too.
TEST(test_logs_of_strangers) {
    static const char sweep[] = "run -m tiny --backend reference -b 1 --seq-len 8 -w 0 -r 1 --no-peaks --no-phases "
                                "--output-file log.jsonl --resume";
    remove(temp_path("log.jsonl"));
    expect(sweep, 0, "");
    json_auto_t *row = json_load_file(temp_path("log.jsonl"), 0, NULL);
    assert_non_null(row);
    write_row(row, "cpu_info", json_string("another"), "log.jsonl");
    append("log.jsonl", "\n");
    expect(sweep, 0, "row 1 was measured on another processor; it is not taken");
    write_row(row, "own_kernels", json_string("gelu_forward=x.so (fnv1a64:1)"), "log.jsonl");
    append("log.jsonl", "\necho a damaged end");
    assert_int_equal(symlink("profile", temp_path("log.jsonl.damaged")), 0);
    expect(sweep, 1, "log.jsonl.damaged: the damaged end of the results cannot be set aside");
    assert_int_not_equal(access(temp_path("profile"), F_OK), 0);
    remove(temp_path("log.jsonl.damaged"));
    expect(sweep, 0, "row 1 ran code of its own, which its sweep_key does not name; it is not taken");
    assert_non_null(strstr(err, "fused, step")); // measured
    temp_write(temp_path("log.jsonl"), "a text\nwithout an end", 21);
    expect(sweep, 1, "log.jsonl");
    SM_FREED char *text = temp_text("log.jsonl");
    assert_string_equal(text, "a text\nwithout an end");
}

// --- the judgement ------------------------------------------------------------------------------------

static json_t *made_row(double loss, const char *precision, const char *mode, bool is_dirty, int n_threads) {
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:[f, f], s:{s:b}}", "status", "ok", "build_commit", "abc", "precision",
                     precision, "mode", mode, "n_threads", n_threads, "losses", 5.0, loss, "context", "build_dirty",
                     is_dirty);
}

static void expect_judgement(json_t *recorded, json_t *again, bool reproduced, const char *losses) {
    SM_AT_END(sm_again_free) sm_again result = {0};
    sm_again_compare(recorded, again, 0.01, &result);
    FAIL_IF(result.is_reproduced != reproduced || strstr(result.losses, losses) == NULL ||
                (result.reason[0] == '\0') != reproduced,
            "%sreproduced: %s: %s", result.is_reproduced ? "" : "not ", result.losses, result.reason);
    json_decref(recorded);
    json_decref(again);
}

static json_t *checked(double loss, bool is_dirty) {
    json_t *row = made_row(4, "fp32", "fused", is_dirty, 2);
    json_object_set_new(row, "loss", json_real(loss));
    return row;
}

TEST(test_judgement_of_checked_loss) {
    expect_judgement(checked(5, false), checked(5, false), true, "all 2");
    expect_judgement(checked(5, false), checked(5.0000001, false), false, "all 2");
    expect_judgement(checked(5, true), checked(5.0000001, true), true, "all 2");
    expect_judgement(checked(5, true), checked(5.01, true), false, "all 2");
}

TEST(test_judgement_of_losses) {
    const double near = 4 * (1 + 1e-7);
    const double far = 4 * (1 + 5e-3);
    expect_judgement(made_row(4, "fp32", "fused", false, 2), made_row(4, "fp32", "fused", false, 2), true, "all 2");
    // A row in a file has 12 digits, one that was just measured all of them.
    expect_judgement(made_row(4.12345678901, "fp32", "fused", false, 2),
                     made_row(4.123456789012, "fp32", "fused", false, 2), true, "all 2");
    // The same clean build and device: every digit counts; not so where one of them is another or not known.
    expect_judgement(made_row(4, "fp32", "fused", false, 2), made_row(near, "fp32", "fused", false, 2), false,
                     "1 of 2");
    expect_judgement(made_row(4, "fp32", "fused", false, 2), made_row(near, "fp32", "fused", false, 1), true, "1 of 2");
    expect_judgement(made_row(4, "fp32", "fused", true, 2), made_row(near, "fp32", "fused", true, 2), true, "1 of 2");
    expect_judgement(made_row(4, "fp32", "tuned", false, 2), made_row(near, "fp32", "tuned", false, 2), true, "1 of 2");
    expect_judgement(made_row(4, "fp32", "fused", true, 2), made_row(far, "fp32", "fused", true, 2), false, "beyond");
    expect_judgement(made_row(4, "bf16", "fused", true, 2), made_row(far, "bf16", "fused", true, 2), true, "1 of 2");
    expect_judgement(made_row(4, "fp32", "fused", true, 2), json_pack("{s:s, s:[]}", "status", "ok", "losses"), true,
                     "none to compare");
    expect_judgement(made_row(4, "fp32", "fused", true, 2), json_pack("{s:s, s:[n, s]}", "status", "ok", "losses", "x"),
                     false, "beyond");
}

TEST(test_digest) {
    char of_bytes[SM_DIGEST_SIZE], of_file[SM_DIGEST_SIZE];
    sm_digest_bytes("foobar", 6, of_bytes); // a test vector of FNV-1a's authors
    assert_string_equal(of_bytes, "fnv1a64:85944171f73967e8");
    temp_write(temp_path("digest"), "foobar", 6);
    expect_ok("digest", sm_digest_file(temp_path("digest"), of_file));
    assert_string_equal(of_file, of_bytes);
    expect_failure("digest", sm_digest_file("/nowhere/file", of_file), SM_ERR_IO, "/nowhere/file");
}

static int set_up(void **state) {
    setenv("OMP_WAIT_POLICY", "passive", 1); // processors may be shared with other tests
    run_in = "$T";
    return temp_folder_make(state);
}

AROUND_ALL(set_up, temp_folder_remove)
