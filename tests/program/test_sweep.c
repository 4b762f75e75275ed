// test_sweep.c: sweeps as users meet them: what runs, what is left out and why; and that an interrupted sweep can be
// completed without losing or repeating a row.
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

#include "tests/support/run_program.h"
#include "tests/support/whole.h"
#include "bench/rows/read_rows.h"

enum { MAX_ROWS = 256 };

#define TINY "run -m tiny --backend reference -w 0 "

// --- its rows ----------------------------------------------------------------------------------

// The rows of a JSONL file.
static json_t *read_rows(const char *name) {
    SM_FREED char *text = temp_text(name);
    json_t *rows = json_array();
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        json_array_append_new(rows, row);
    }
    return rows;
}

static const char *field(const json_t *row, const char *name) {
    const char *text = json_string_value(json_object_get(row, name));
    return text != NULL ? text : "";
}

// The row whose key holds `part`; fails when there is none.
static const json_t *row_with(const json_t *rows, const char *part) {
    SM_EACH(row, rows) {
        if (strstr(field(row, "sweep_key"), part) != NULL) {
            return row;
        }
    }
    fail_msg("no row with %s", part);
    return NULL;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// Keys of a file, sorted, a line each; fails on doubles.
static char *keys_of(const char *name) {
    json_auto_t *rows = read_rows(name);
    const char *keys[MAX_ROWS];
    size_t n = json_array_size(rows);
    assert_true(n <= MAX_ROWS);
    for (size_t i = 0; i < n; i++) {
        keys[i] = field(json_array_get(rows, i), "sweep_key");
    }
    qsort(keys, n, sizeof(keys[0]), compare_texts);
    char *text = calloc(n + 1, COMMAND_SIZE);
    for (size_t i = 0; i < n; i++) {
        FAIL_IF(i > 0 && strcmp(keys[i - 1], keys[i]) == 0, "doubled: %s", keys[i]);
        strcat(strcat(text, keys[i]), "\n");
    }
    return text;
}

// --- what is run -------------------------------------------------------------------------------

TEST(products_filters_and_lines) {
    const char *lines = "\xef\xbb\xbf# two products, with one configuration in common\n"
                        "-b 1,2 --seq-len 8,16\n\n"
                        "-b 2-4*2 --seq-len 16 # and a comment\n";
    temp_put_text("lines", lines);
    expect_run(TINY "-b 1-4*2 --seq-len 8,16 --mode naive,fused --dropout 0,0.1 --dry-run -o jsonl", 0, NULL, NULL);
    assert_int_equal(count_lines(out), 3 * 2 * 2 * 2);
    expect_run(TINY "-b 1-4*2 --seq-len 8 --dry-run --filter 'batch-size=[12] ' -o jsonl", 0, NULL, NULL);
    assert_int_equal(count_lines(out), 2);
    expect_run(TINY "--file $T/lines --dry-run -o jsonl", 0, NULL, NULL);
    assert_int_equal(count_lines(out), 5);
    expect_run(TINY "--file $T/lines --seq-len 8 --dry-run -o jsonl", 0, NULL, NULL);
    assert_int_equal(count_lines(out), 3);
    expect_run(TINY "-b 1,2 --seq-len 8 --rounds 3 --dry-run -o jsonl", 0, "round=3", NULL);
    assert_int_equal(count_lines(out), 6);
    temp_put("lines", "-b 1 --seq-len\0 8\n", 18);
    expect_run(TINY "--file $T/lines --dry-run", 2, NULL, "it has a zero byte");
    temp_put_text("lines", "-b 1 --seq-len 8\n-b 1 --seq-len 8 --precision fp32,bf16 --mode fused --pass-type step\n");
    expect_run(TINY "--file $T/lines --dry-run -o jsonl", 0, NULL, NULL);
    assert_int_equal(count_lines(out), 2); // flags at their defaults make no other configuration
}

// A line says what is measured. A flag of the whole sweep is refused there, never left out.
TEST(lines_hold_configurations_alone) {
    static const char *const flags[] = {
        "--timeout 3", "--output-file x", "--dry-run",      "--filter b",     "--resume",     "--preset batch",
        "--file x",    "--order given",   "--order-seed 2", "--rounds 2",     "--find-batch", "--max-memory 1",
        "--delay 1",   "-o csv",          "--progress",     "--list-devices", "--help"};
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        const char *name = strcmp(flags[i], "-o csv") == 0 ? "--output" : flags[i];
        const char *lines = textf("-b 1 --seq-len 8\n\n-b 2 --seq-len 8 %s\n", flags[i]);
        const char *said = textf("lines:3: %.*s holds for all", (int)strcspn(name, " "), name);
        temp_put_text("lines", lines);
        expect_run(TINY "--file $T/lines", 2, NULL, said);
        assert_string_equal(out, "");
    }
}

// The announcement and the outcome agree: the same code decides both.
TEST(a_dry_run_says_what_will_be) {
#define MIXED                                                                                              \
    "run -m tiny --backend cpu,reference -w 0 -r 1 -b 1 --seq-len 8,65 --precision fp32,bf16,tf32 --mode " \
    "fused,tuned --no-peaks "
    expect_run(MIXED "--output-file $T/foretold --dry-run -o jsonl", 0, NULL, "24 configurations: ");
    SM_FREED char *copy = strdup(out);
    assert_int_equal(access(temp_path("foretold"), F_OK), -1); // nothing is made
    expect_run(MIXED "--output-file $T/foretold", 0, NULL, NULL);
    json_auto_t *rows = read_rows("foretold");
    assert_int_equal(json_array_size(rows), count_lines(copy));
    for (char *line = strtok(copy, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_auto_t *said = json_loads(line, 0, NULL);
        const char *verdict = field(said, "verdict");
        const json_t *row = row_with(rows, field(said, "configuration"));
        bool ok = strcmp(field(row, "status"), "ok") == 0;
        assert_string_equal(
            verdict, textf("%s%s%.900s", ok ? "run" : field(row, "status"), ok ? "" : ": ", field(row, "reason")));
    }
    expect_run(MIXED "--output-file $T/foretold --dry-run --resume", 0,
               "24 configurations: 0 to run, 0 skipped, 0 too large, 24 done", NULL);
    expect_run(MIXED "-r 1,2 --output-file $T/foretold --dry-run --resume", 0, "at the speed of the rows in", NULL);
    expect_run(TINY "-b 1 --seq-len 8 --isa foo --backend cpu --dry-run", 2, NULL, "instruction set foo");
}

// Measured in random order, told in the order asked for, and each row once.
TEST(tables_come_in_the_order_asked_for) {
    expect_run(TINY "-b 3,1,2 --seq-len 8 -r 1 --rounds 2 -o jsonl", 0, NULL, NULL);
    static const int asked[] = {3, 3, 1, 1, 2, 2};
    int n = 0;
    for (char *line = strtok(out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_auto_t *row = json_loads(line, 0, NULL);
        assert_true(n < 6);
        assert_int_equal(json_integer_value(json_object_get(row, "n_batch")), asked[n]);
        assert_int_equal(strstr(field(row, "sweep_key"), "round=2") != NULL, n % 2);
        n++;
    }
    assert_int_equal(n, 6);
    if (repeats_paths()) { // those of finds_the_largest_batch
        expect_run(TINY "-b 100000,200000 --seq-len 8 -r 1 --max-memory 0.003 --find-batch -o jsonl", 0, NULL, NULL);
        assert_int_equal(count_lines(out), 3); // both lead to the same largest batch
    }
}

// Where nothing can be measured, one line says why.
TEST(what_cannot_be_measured_is_told_in_a_line) {
    expect_run("run --preset modes -m tiny --backend reference", 1, NULL,
               "nothing could be measured: --seq-len: 256 is longer than the model's context of 64");
    expect_run("run --preset modes -m tiny --backend reference --precision bf16,fp32 --dropout 0 --isa x", 1, NULL,
               "nothing could be measured: ");
}

TEST(order_follows_its_seed) {
    expect_run(TINY "-b 1-8 --seq-len 8 --dry-run --order given", 0, NULL, NULL);
    assert_true(strstr(out, "batch-size=1 ") < strstr(out, "batch-size=2 "));
    expect_run(TINY "-b 1-8 --seq-len 8 --dry-run --order random --order-seed 5 -o jsonl", 0, NULL, NULL);
    SM_FREED char *first = strdup(out);
    expect_run(TINY "-b 1-8 --seq-len 8 --dry-run --order random --order-seed 5 -o jsonl", 0, NULL, NULL);
    assert_string_equal(first, out);
    expect_run(TINY "-b 1-8 --seq-len 8 --dry-run --order random --order-seed 6 -o jsonl", 0, NULL, NULL);
    assert_string_not_equal(first, out);
}

TEST(presets_are_whole) {
    static const char *const names[] = {"macro", "sizes", "fwdbwd",    "warmup",  "threads",
                                        "batch", "modes", "precision", "seq-len", "cs336-2"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        expect_run(textf("run --preset %s -m tiny --backend cpu -b 2 --seq-len 8 --dry-run -o jsonl", names[i]), 0,
                   "\"run\"", NULL);
    }
}

TEST(bad_usage) {
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"run --preset macros", "did you mean macro?"},
        {"run --resume", "--output-file"},
        {"run -m tiny --filter '['", "--filter"},
        {"run -m tiny --filter nothing", "matches no configuration"},
        {"run -m tiny -b 1-256 --seq-len 1-64 -w 0-200", "more than 100000"},
        {"run -m tiny --loader inline,outline", "--loader: unknown value 'outline'"},
        {"advise -m smal --backend cpu", "did you mean small?"},
        {"report --best", "give files"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect_run(cases[i].arguments, 2, NULL, cases[i].message);
    }
    expect_run("run --file $T/none", 1, NULL, "none");
    expect_run("report --best $T/none", 1, NULL, "none");
    expect_run("run -m tiny --backend-library $T/none", 1, NULL, "none");
}

// --- what becomes of each ------------------------------------------------------------------------

TEST(every_configuration_is_a_row) {
    expect_run(TINY "-r 6 -b 1,100000 --seq-len 8,65 --mode naive,fused --max-memory 1 --output-file $T/rows", 0,
               "fastest", "[8/8]");
    json_auto_t *rows = read_rows("rows");
    assert_int_equal(json_array_size(rows), 8);
    const json_t *row = row_with(rows, "batch-size=1 seq-len=8 ");
    assert_string_equal(field(row, "status"), "ok");
    assert_int_equal(json_array_size(json_object_get(row, "samples_ns")), 6);
    assert_true(json_integer_value(json_object_get(row, "process_ns")) > 0);
    assert_int_equal(json_integer_value(json_object_get(row, "memory_limit_bytes")), 1 << 30);
    row = row_with(rows, "batch-size=1 seq-len=65 ");
    assert_string_equal(field(row, "status"), "skipped");
    assert_non_null(strstr(field(row, "reason"), "longer than the model's context"));
    row = row_with(rows, "batch-size=100000 seq-len=8 ");
    assert_string_equal(field(row, "status"), "oom");
    assert_non_null(strstr(field(row, "reason"), "1.00 GiB allowed"));
    assert_true(json_integer_value(json_object_get(row, "estimated_bytes")) > 1 << 30);
    assert_int_equal(json_integer_value(json_object_get(row, "n_batch")), 100000);
    expect_run("report --best $T/rows -o jsonl", 0, "did not fit", NULL);
    expect_run("run -m tiny --backend reference -b 1 --seq-len 8 --mode naive --without loss_head --dry-run", 0,
               "skipped: --without", NULL);
    expect_run("run -m tiny --backend reference -b 1 --seq-len 8 --accum 2 --pass-type forward --dry-run", 0,
               "skipped: --accum", NULL);
}

// The limit holds for all of a configuration; a machine too busy to measure by then gets a longer one.
TEST(late_configurations_are_ended) {
    static const int limits_s[] = {2, 8, 32};
    for (size_t i = 0; i < 3; i++) {
        const char *command = textf(TINY "-b 1 --seq-len 64 -r 1000000 --timeout %d -o jsonl", limits_s[i]);
        const char *expected = textf("the limit of %d s ran out at measuring", limits_s[i]);
        expect_run(command, 0, "\"timeout\"", NULL);
        json_auto_t *row = parse_json(out);
        const bool is_measured = strstr(field(row, "reason"), expected) != NULL;
        if (is_measured) {
            assert_string_equal(field(row, "stop_reason"), "timeout");
            assert_true(json_array_size(json_object_get(row, "samples_ns")) > 0);
        }
        if (is_measured) {
            return;
        }
    }
    fail_msg("not one of three limits ran out at measuring: %s", out);
}

// A row without a sample is a failure.
TEST(a_row_that_is_too_late_fails) {
    expect_run(TINY "-b 1 --seq-len 64 -r 3 --timeout 0.0001 -o jsonl", 1, "\"timeout\"", "1 of 1 rows failed");
}

TEST(finds_the_largest_batch) {
    expect_run(TINY "-b 100000 --seq-len 8 -r 1 --max-memory 0.003 --find-batch --output-file $T/found", 0, NULL,
               "the largest batch is");
    json_t *rows = read_rows("found");
    size_t n = json_array_size(rows);
    const json_t *last = json_array_get(rows, n - 1);
    assert_true(n >= 2);
    assert_string_equal(field(last, "status"), "ok");
    assert_non_null(strstr(field(last, "sweep_note"), "largest"));
    json_decref(rows);
    expect_run(TINY "-b 100000 --seq-len 8 -r 1 --max-memory 0.003 --find-batch --output-file $T/found --resume", 0,
               NULL, "the largest batch is");
    rows = read_rows("found");
    assert_int_equal(json_array_size(rows), n); // what was proven is believed
    json_decref(rows);
}

static double batch_of(const json_t *row) { return json_number_value(json_object_get(row, "n_batch")); }

// Results that are computed again are not kept: the same memory holds a larger batch, which ran.
TEST(recomputation_lets_a_larger_batch_in) {
    SKIP_IF(!repeats_paths());
    expect_run("run -m tiny --n-layer 6 --backend cpu -t 1 -w 0 -r 1 --seq-len 64 --recompute none,light,block "
               "--max-memory 0.012 --find-batch --no-peaks --output-file $T/recomputed",
               0, NULL, "the largest batch is");
    json_auto_t *rows = read_rows("recomputed");
    const json_t *none = row_with(rows, "recompute=none");
    const json_t *block = row_with(rows, "recompute=block");
    SM_EACH(row, rows) { assert_string_equal(field(row, "status"), "ok"); }
    assert_true(batch_of(none) < batch_of(row_with(rows, "recompute=light")));
    assert_true(2 * batch_of(none) < batch_of(block));
    assert_string_equal(field(block, "recompute"), "block");
}

// --- whatever ends it ----------------------------------------------------------------------------

#define WORK TINY "--n-layer 1 --d-model 16 --n-head 2 -b 1-3 --seq-len 8,16 --mode naive,fused -r 2 "

static void wait_ms(int ms) {
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&t, NULL);
}

// Waits until the file has a row, or the sweep has ended.
static void wait_for_row(const char *name, pid_t child) {
    struct stat info = {0};
    const char *path = temp_path(name);
    while ((stat(path, &info) != 0 || info.st_size == 0) && !has_ended(child)) {
        wait_ms(1);
    }
}

TEST(killed_sweeps_are_completed) {
    expect_run(WORK "--output-file $T/whole", 0, NULL, NULL);
    SM_FREED char *whole = keys_of("whole");
    assert_int_equal(count_lines(whole), 12);
    int n_killed = 0;
    for (int i = 0; i < (repeats_paths() ? 12 : 4); i++) {
        pid_t child = start_program(WORK "--resume --output-file $T/killed");
        wait_ms(20 + 37 * (i % 5));
        n_killed += end_by(child, SIGKILL) == -1;
    }
    assert_true(n_killed > 0);
    expect_run(WORK "--output-file $T/killed --resume", 0, NULL, NULL);
    SM_FREED char *killed = keys_of("killed");
    assert_string_equal(killed, whole);
    const pid_t child = start_program(TINY "-b 1-9 --seq-len 8 -r 1 --delay 1 --output-file $T/kept.csv");
    wait_for_row("kept.csv", child);
    assert_int_equal(end_by(child, SIGKILL), -1);
    assert_in_range(count_lines_of("kept.csv"), 2, 9); // of 10
}

TEST(ctrl_c_keeps_rows) {
    pid_t child = start_program(WORK "--resume --output-file $T/interrupted");
    wait_for_row("interrupted", child);
    const int code = end_by(child, SIGINT);
    assert_true(code == 130 || code == 0); // 0: it was done by then
    expect_run(WORK "--output-file $T/interrupted --resume", 0, NULL, NULL);
    SM_FREED char *keys = keys_of("interrupted");
    assert_int_equal(count_lines(keys), 12);
}

// An hour's delay: the second row has not run when the first is there for long.
TEST(rows_wait_for_their_delay) {
    const pid_t child = start_program(TINY "-b 1,2 --seq-len 8 -r 1 --delay 3600 --output-file $T/apart");
    wait_for_row("apart", child);
    nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    assert_int_equal(end_by(child, SIGINT), 130);
    SM_FREED char *keys = keys_of("apart");
    assert_int_equal(count_lines(keys), 1);
}

TEST(a_damaged_end_is_set_aside) {
    expect_run(TINY "-b 1,2 --seq-len 8 -r 1 --output-file $T/cut", 0, NULL, NULL);
    SM_FREED char *before = keys_of("cut");
    SM_FREED char *text = temp_text("cut");
    temp_write(temp_path("cut"), text, strlen(text) - 100); // a power cut in the second row
    expect_run(TINY "-b 1,2 --seq-len 8 -r 1 --output-file $T/cut --resume", 0, NULL, "damaged");
    SM_FREED char *after = keys_of("cut");
    assert_string_equal(before, after);
    SM_FREED char *aside = temp_text("cut.damaged");
    assert_true(strlen(aside) > 0);
}

TEST(files_are_guarded) {
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file $T/mine", 0, NULL, NULL);
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file $T/mine", 0, "| 2 |", NULL); // appends
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file $T/mine --resume", 0, NULL, "1 of 1 rows are there already");
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file $T/none/mine", 1, NULL, "none/mine");
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file /dev/null", 1, NULL, "not a regular file");
    int file = open(temp_path("mine"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(file, LOCK_EX), 0);
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file $T/mine --resume", 1, NULL, "another run");
    close(file);
    temp_put_text("whole.json", "[]");
    temp_put_text("whole.json.tmp-1-0", "");
    file = open(temp_path("whole.json.tmp-1-0"), O_RDWR | O_CLOEXEC); // as a run has that writes the file at its end
    assert_int_equal(flock(file, LOCK_EX), 0);
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file $T/whole.json", 1, NULL, "whole.json: another run");
    close(file);
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file $T/whole.json --resume", 2, NULL, "file of lines");
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file $T/whole.json --data $T/none", 1, NULL, "none");
    expect_exit("report $T/whole.json", 1); // without a row it stays
    expect_run(TINY "-b 1 --seq-len 8 -r 1 --output-file $T/whole.json", 0, NULL, NULL);
    expect_exit("report $T/whole.json -o csv", 0);
    shell("test $(ls $T/whole.json* | wc -l) = 1");
    // It waits for a run that may be about to end, and does not replace its rows then.
    shell("run=\"" SM_TEST_BINARY " " TINY "--seq-len 8 -r 1 --output-file $T/both.json\"; $run -b 1,2 --delay 1 "
          ">$T/out 2>&1 & for i in $(seq 500); do ls $T/both.json.tmp* 2>/dev/null && break; sleep 0.02; done; "
          "! $run -b 4 2>$T/err && grep -q 'both.json: another run' $T/err && wait && grep -c median_ns $T/both.json");
}

// And no configuration runs twice.
TEST(a_course_has_a_page_and_its_tables) {
    static const char *const titles[] = {"Forward and backward by size", "Warm-up, and the cold step",
                                         "Modes and precision",          "Memory by context",
                                         "The optimizer's share",        "Recomputation",
                                         "Attention by itself"};
    expect_exit("run --preset cs336-2 -m tiny --vocab 256 --context 64 --seq-len 32 -b 2 -r 2 --backend cpu --no-peaks "
                "-q --head-dim 16 --mode fused --precision fp32 --optimizer adamw --d-model 32 --n-layer 2 --n-head 2 "
                "--d-ff 64 --output-file $T/course.jsonl",
                0);
    SM_FREED char *page = temp_text("course.html");
    SM_FREED char *tables = temp_text("course.tex");
    assert_non_null(strstr(page, "<html"));
    for (size_t i = 0; i < sizeof(titles) / sizeof(titles[0]); i++) {
        FAIL_IF(strstr(tables, titles[i]) == NULL, "no table '%s' in\n%s", titles[i], tables);
    }
    assert_non_null(strstr(tables, "first\\_step ms & forward\\_avg ms"));
    assert_non_null(strstr(tables, "\\end{document}"));
    assert_null(strstr(tables, "Exchanges")); // one process has none
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    assert_int_equal(sm_rows_read(temp_path("course.jsonl"), &rows), SM_OK);
    for (size_t i = 0; i < json_array_size(rows.rows); i++) {
        const json_t *args = json_object_get(json_array_get(rows.rows, i), "run_args");
        for (size_t k = 0; k < i; k++) {
            FAIL_IF(json_equal(args, json_object_get(json_array_get(rows.rows, k), "run_args")),
                    "rows %zu and %zu ran with the same flags", k + 1, i + 1);
        }
    }
}
