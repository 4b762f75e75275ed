// Output on a terminal: no subcommand writes a line that is wider than its columns, 80 or 120, and tables of fixed rows
// are as in tests/golden/screens, on one of these widths or both (STEPMARK_WRITE_SCREENS=1 rewrites these).
#define OWN_MAIN
#include "tests/support/terminal.h"
#include "tests/support/training_runs.h"
#include "tests/support/whole.h"

#include "bench/loop/loop.h"
#include "bench/tables/screen.h"

#define ROWS SM_TEST_GOLDEN_DIR "/screens/rows.jsonl"

static const int widths[] = {80, 120};
static char screen[SCREEN_SIZE];

static void expect_fits(const char *what, int n_columns) {
    const char *line = too_wide(screen, n_columns);
    FAIL_IF(line != NULL, "%s on %d columns: too wide: %.*s", what, n_columns, (int)strcspn(line, "\n"), line);
}

static void run_command(const char *arguments, int n_columns, int expected) {
    const int code = run_on_terminal(n_columns, textf("%s %s </dev/null", SM_TEST_BINARY, arguments), screen);
    FAIL_IF(code != expected, "stepmark %s: exit code %d, not %d\n%s", arguments, code, expected, screen);
    expect_fits(arguments, n_columns);
}

// --- no line is too wide -------------------------------------------------------------------------

TEST(every_subcommand_fits) {
    static const struct {
        const char *arguments;
        int code;
    } cases[] = {
        {"", 2},
        {"--help", 0},
        {"--version", 0},
        {"nonsense", 2},
        {"run --nonsense", 2},
        {"devices", 0},
        {"run -m tiny -b 1 --seq-len 8 -r 6 -w 1 --backend cpu --no-peaks", 0},
        {"profile -m tiny -b 1 --seq-len 8 -r 2 -w 1 -t 1", 0},
        {"loop -m tiny -b 1 --seq-len 8 -r 2 -w 1 --no-peaks --output-file $T/loop.jsonl --trace $T/loop.json", 0},
        {"loop -m tiny -b 1 --seq-len 8 -r 2 -w 1 --loader inline --no-peaks --baseline $T/loop.jsonl", 0},
        {"compare --without all -m tiny -b 1 --seq-len 8 -r 1 -w 0 -t 1", 0},
        {"train -m tiny -b 1 --seq-len 8 --steps 2", 0},
        {"train -m tiny -b 1 --seq-len 8 --steps 12 --profile -t 1", 0},
        {"run -m tiny -b 1 --seq-len 8 --mode naive,fused -r 3 -w 1 --backend cpu --no-peaks", 0},
        {"devices --peaks --min-time 0.001 -t 1", 0},
        {"verify --backend cpu --filter ^bias --max-elems 1000", 0},
        {"ladder softmax --min-time 0 --no-peaks", 0},
        {"page", 2},
        {"walk", 0},
        {"walk --values", 0},
        {"estimate -m tiny -b 1", 0},
        {"estimate -m tiny,small -b 1,2 --seq-len 64 --mode naive,fused", 0},
        {"run -m tiny -b 1,2 --seq-len 8 --dry-run --backend cpu", 0},
        {"advise -m tiny -b 1,2 --seq-len 8 --accum 1 --precision fp32 --recompute light --mode fused -t 1 -w 0 -r 2",
         0},
        {"report --best " ROWS, 0},
        {"compare " ROWS " " ROWS, 0},
        {"compare " ROWS "#99", 2},
        {"report " ROWS, 0},
        {"report " ROWS " -o md --output $T/report.md", 0},
        {"train --init -m tiny --save $T/model", 0},
        {"generate --weights $T/model --prompt once --tokens 8", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]) && repeats_paths(); i++) {
        run_command(cases[i].arguments, 80, cases[i].code);
    }
    assert_int_equal(run_on_terminal(80, SM_TEST_BINARY " report " ROWS " -o csv", screen), 0);
    assert_non_null(too_wide(screen, 2000)); // data are not changed
}

TEST(every_help_fits) {
    static char all[SCREEN_SIZE];
    run_command("--help", 120, 0);
    memcpy(all, screen, sizeof(all));
    int n = 0;
    for (const char *line = strstr(all, "\n  "); line != NULL && line[3] != '-'; line = strstr(line + 1, "\n  ")) {
        char name[32];
        if (line[3] == ' ') {
            continue; // a purpose continued from the line above
        }
        assert_int_equal(sscanf(line, " %31s", name), 1);
        run_command(textf("%s --help", name), 80, 0);
        assert_non_null(strstr(screen, "Examples"));
        n++;
    }
    assert_true(n >= 15);
    run_command("train --help", 44, 0);
    assert_non_null(strstr(screen, "--arch gpt2|llama|qwen3\n          architecture, in the size of -m;\n"));
}

// --- what is asked first -------------------------------------------------------------------------

TEST(result_is_short) {
    run_command("run -m tiny -b 2 --seq-len 8 -r 6 -w 1 --backend cpu --mode naive,fused -q --no-peaks", 80, 0);
    static const char *const shown[] = {"tokens/s (95%)", "status", "ok", "--wide", "naive", "fused"};
    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++) {
        FAIL_IF(strstr(screen, shown[i]) == NULL, "the result does not show %s:\n%s", shown[i], screen);
    }
    if (strstr(screen, " times") == NULL && strstr(screen, "No verdict") == NULL) { // which of them: test_no_verdict
        fail_msg("the result neither compares the modes nor says why it does not:\n%s", screen);
    }
    assert_null(strstr(screen, "against the reference"));
    assert_null(strstr(screen, "| "));
}

TEST(wide_has_everything) {
    assert_int_equal(run_on_terminal(400,
                                     textf("%s run -m tiny -b 2 --seq-len 8 -r 6 -w 1 --backend cpu --wide --no-peaks",
                                           SM_TEST_BINARY),
                                     screen),
                     0);
    assert_non_null(strstr(screen, "| forward ms |"));
    assert_non_null(strstr(screen, "against the reference"));
}

TEST(name_alone_says_what_to_try) {
    run_command("", 80, 2);
    assert_non_null(strstr(screen, "stepmark devices"));
    assert_non_null(strstr(screen, "stepmark run"));
    assert_non_null(strstr(screen, "stepmark profile"));
    for (int i = 0; i < sm_model_count(); i++) {
        assert_non_null(strstr(screen, sm_model_at(i)->title));
    }
}

// A program that flushes in the middle of a line shows the part so far, and continues there.
static int write_parts(int screen_fd, SM_UNUSED const void *ctx) {
    FILE *out = sm_screen_open(fdopen(screen_fd, "w"), true);
    fputs("one", out);
    fflush(out);
    fprintf(out, " two\n%s %s\n", "a line that is too wide for the terminal on which it is shown,",
            "it goes on in the next");
    fputs("the end", out);
    return fflush(out) == 0 ? 0 : 1;
}

TEST(a_part_of_a_line_is_shown) {
    assert_int_equal(write_on_terminal(80, write_parts, NULL, screen), 0);
    assert_string_equal(screen,
                        "one two\na line that is too wide for the terminal on which it is shown, it goes on in the\n"
                        "  next\nthe end");
}

// A training in a folder has a screen that stays at the end, one of it, and above it what was said meanwhile.
TEST(a_training_has_a_live_screen) {
    static const char train[] =
        "train -m tiny -b 1 --seq-len 8 --steps 12 --val-data $T/text --data $T/text --val-every 4 "
        "--val-batches 1 --sample-every 5 --prompt a --vocab 256 --run $T/seen -t 1";
    shell("yes 'a text' | head -c 4000 >$T/text");
    for (int i = 0; i < 2; i++) {
        static const char *const more[] = {"", "-q"};
        shell("rm -rf $T/seen");
        run_command(textf("%s %s", train, more[i]), 80, 0);
        const char *bar = strstr(screen, "step 12 of 12 \xE2\x96\x88"); // a full block
        assert_int_equal(bar != NULL, i == 0);
        assert_int_equal(strstr(screen, "step 12/12 | loss") == NULL, i == 0);
        assert_null(strchr(screen, '\033'));
        if (bar != NULL) {
            assert_non_null(strstr(screen, "sample | "));
            assert_non_null(strstr(bar, "validation o "));
            assert_non_null(strstr(bar, " tokens/s"));
            assert_non_null(strstr(bar, "best validation loss"));
            assert_null(strstr(strstr(screen, " tokens/s") + 1, " tokens/s"));
        }
    }
}

// Nothing that a terminal obeys, or that turns a line's direction, reaches it: whatever a stream is cut into.
static const char controls[] = "a\033[2J\007b\tc\xC2\x9B"
                               "31m\177\xE2\x80\xAE\xE2\x81\xA6\xE2\x80\x8F \x9B \xC3\xA9 \xE2\x82\xAC\xE2\x80 \xC3\n";

static int write_controls(int screen_fd, const void *part_bytes) {
    FILE *out = sm_screen_open(fdopen(screen_fd, "w"), false);
    for (int i = 0; controls[i] != '\0'; i++) {
        fputc(controls[i], out);
        if (i % *(const int *)part_bytes == 0) {
            fflush(out);
        }
    }
    return fflush(out) == 0 ? 0 : 1;
}

TEST(controls_are_escaped) {
    for (int part_bytes = 1; part_bytes < 8; part_bytes++) {
        assert_int_equal(write_on_terminal(200, write_controls, &part_bytes, screen), 0);
        assert_string_equal(screen, "a\\u001b[2J\\u0007b\tc\\u009b31m\\u007f\\u202e\\u2066\\u200f \\x9b \xC3\xA9 "
                                    "\xE2\x82\xAC\\xe2\\x80 \\xc3\n");
    }
}

// Of rows, models and names alike; what is no terminal gets a model's bytes as they are.
TEST(what_strangers_wrote_is_escaped) {
    static const char *const rows[] = {"compare $T/row.json#1 --allow-own-code", "report --best $T/row.json",
                                       "report --rank --no-reference $T/row.json", "compare $T/row.json $T/row.json"};
    assert_int_equal(
        system("printf '[{\"schema_version\":1,\"status\":\"ok\",\"backend\":\"cpu\",\"device\":\"cpu\\"
               "302\\233[31m\",\"model_type\":\"\\342\\200\\256tiny\",\"n_batch\":1,\"n_seq\":8,"
               "\"median_ns\":1000,\"median_ts\":100,\"cpu_info\":\"\\342\\200\\256x\",\"run_args\":[\"--a\\302\\"
               "233=1\"]}]' >$T/row.json"),
        0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *command = textf("%s %s", SM_TEST_BINARY, rows[i]);
        (void)run_on_terminal(100, command, screen);
        FAIL_IF(strstr(screen, "\xC2\x9B") != NULL || strstr(screen, "\xE2\x80\xAE") != NULL, "%s: %s", command,
                screen);
    }
    shell(SM_TEST_BINARY " train --init -m tiny --vocab 256 --save $T/model 2>/dev/null");
    static const struct {
        const char *how, *seen;
    } cases[] = {{"", "a\\u001b[2Jb"}, {"--raw", "a\033[2Jb"}, {"2>/dev/null | cat", "a\033[2Jb"}}; // one writer
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *command =
            textf(SM_TEST_BINARY " generate --weights $T/model --tokens 1 --prompt \"$(printf 'a\\033[2Jb')\" %s",
                  cases[i].how);
        assert_int_equal(run_on_terminal(100, command, screen), 0);
        FAIL_IF(strstr(screen, cases[i].seen) == NULL, "%s: %s", command, screen);
    }
}

// --- goldens -------------------------------------------------------------------------------------

// A file's size, as "27 kB", depends on the build: the number of digits is left.
static void hide_sizes(void) {
    for (char *unit = strstr(screen, " kB"); unit != NULL; unit = strstr(unit + 1, " kB")) {
        for (char *digit = unit; digit > screen && strchr("0123456789.", digit[-1]) != NULL; digit--) {
            digit[-1] = 'N';
        }
    }
}

// On 120 columns most have the same on fewer lines: these have tables that stand upright on 80, or more columns.
static bool has_golden(const char *name, int n_columns) {
    if (n_columns == 120) {
        return has_word("exercise leaderboard modes one_row", name);
    }
    return strcmp(name, "exercise") != 0; // one_row stands upright
}

static void compare_with_golden(const char *name, int n_columns) {
    expect_fits(name, n_columns);
    if (!has_golden(name, n_columns)) {
        return;
    }
    hide_sizes();
    const char *path = textf(SM_TEST_GOLDEN_DIR "/screens/%s.%d.txt", name, n_columns);
    if (getenv("STEPMARK_WRITE_SCREENS") != NULL) {
        temp_write(path, screen, strlen(screen));
    }
    FAIL_IF(strcmp(file_text(path), screen) != 0, "%s (STEPMARK_WRITE_SCREENS=1 rewrites it): the screen is now\n%s",
            path, screen);
}

typedef struct {
    const char *name;
    bool is_loop; // of the file of loops, the last against the first
    int last;     // row of the file
} shown;

// The first rows of a file as the program prints them.
static int print_rows(int screen_fd, const void *ctx) {
    const shown *s = ctx;
    FILE *out = fdopen(screen_fd, "w");
    SM_OWN(FILE) *file = fopen(s->is_loop ? SM_TEST_GOLDEN_DIR "/screens/loops.jsonl" : ROWS, "r");
    json_auto_t *rows = json_array();
    for (int i = 0; i <= s->last; i++) {
        assert_int_equal(json_array_append_new(rows, json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL)), 0);
    }
    if (s->is_loop) {
        const json_t *before = s->last > 0 ? json_array_get(rows, 0) : NULL;
        json_auto_t *records = sm_loop_records(json_array_get(rows, (size_t)s->last), before);
        ok(sm_record_write_all(&sm_loop_table, SM_FORMAT_TEXT, out, records));
    } else {
        sm_row_writer *writer = NULL;
        ok(sm_row_writer_open(SM_FORMAT_TEXT, out, &writer));
        SM_EACH(row, rows) { ok(sm_row_write_record(writer, json_incref(row))); }
        sm_row_writer_explain(writer);
        ok(sm_record_writer_close(writer, SM_OK));
    }
    return fclose(out) == 0 ? 0 : 1;
}

TEST(goldens_of_rows) {
    static const shown cases[] = {{"one_row", false, 0},
                                  {"modes", false, 3},
                                  {"devices_and_oom", false, 5},
                                  {"loop", true, 0},
                                  {"loop_and_baseline", true, 1}};
    for (size_t i = 0; i < 2 * SM_COUNT(cases); i++) {
        assert_int_equal(write_on_terminal(widths[i % 2], print_rows, &cases[i / 2], screen), 0);
        compare_with_golden(cases[i / 2].name, widths[i % 2]);
    }
}

// Rows of all that `advise` may ask for below, whatever it asks for, so that nothing is measured: batches of 4 and 8 in
// each round. A configuration that does not fit has none, as its row is made of an estimate.
enum { N_ADVICE_ROUNDS = 24 };

static json_t *make_advice_row(int batch, const char *recompute, const char *precision, int round) {
    const bool is_tf32 = strcmp(precision, "tf32") == 0;
    const double per_sequence_ns = (strcmp(precision, "bf16") == 0 ? 2e5 : 3e5) * (recompute[0] == 'b' ? 1.25 : 1);
    const double step_ns = 2e5 + per_sequence_ns * batch;
    char again[32] = "";
    json_t *samples = json_array();
    for (int i = 0; i < 9 && !is_tf32; i++) {
        json_array_append_new(samples, json_integer((json_int_t)(step_ns * (1 + 0.002 * ((7 * i + 3 * round) % 9)))));
    }
    if (round > 1) {
        snprintf(again, sizeof(again), " round=%d", round);
    }
    json_t *row = json_pack("{s:i, s:o, s:s, s:s, s:s, s:s}", "schema_version", 1, "samples_ns", samples, "device",
                            "cpu", "model_type", "tiny", "model_arch", "gpt2", "status", is_tf32 ? "skipped" : "ok");
    json_object_set_new(row, "sweep_key",
                        json_sprintf("model-size=tiny batch-size=%d seq-len=64 recompute=%s attention=flash accum=1 "
                                     "backend=cpu threads=1 precision=%s mode=fused warmup=1 repetitions=9 no-peaks "
                                     "no-phases%s",
                                     batch, recompute, precision, again));
    json_object_set_new(row, "estimated_bytes", json_integer(1000000 + 250000 * batch));
    if (is_tf32) {
        json_object_set_new(row, "reason", json_string("cpu: no tf32 products"));
        return row;
    }
    json_object_set_new(row, "real_tokens", json_real(64.0 * batch));
    json_object_set_new(row, "median_ns", json_integer((json_int_t)(step_ns * 1.008)));
    json_object_set_new(row, "min_ns", json_integer((json_int_t)step_ns));
    json_object_set_new(row, "peak_rss_bytes", json_integer(12000000 + 500000 * batch));
    return row;
}

static void write_advice_rows(FILE *file) {
    static const char *const recomputes[] = {"light", "block"};
    static const char *const precisions[] = {"fp32", "tf32", "bf16"};
    for (int i = 0; i < 12 * N_ADVICE_ROUNDS; i++) {
        json_auto_t *row =
            make_advice_row(i % 2 == 0 ? 4 : 8, recomputes[i / 2 % 2], precisions[i / 4 % 3], i / 12 + 1);
        json_dumpf(row, file, JSON_COMPACT);
        fputc('\n', file);
    }
}

TEST(goldens_of_commands) {
    static const struct {
        const char *name, *arguments;
    } cases[] = {
        {"recommend", "report --best " ROWS},
        {"compare", "compare " ROWS " " ROWS},
        {"first_words", ""},
        {"advice", "advise -m tiny --seq-len 64 --backend cpu -t 1 -b 4,8,4096 --accum 1 --precision fp32,tf32,bf16 "
                   "--mode fused --attention flash --recompute light,block --max-memory 0.02 -r 9 -q "
                   "--output-file $T/advice.jsonl --resume"}, // write_advice_rows: nothing runs
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int k = 0; k < 2; k++) {
            run_command(cases[i].arguments, widths[k], cases[i].arguments[0] != '\0' ? 0 : 2);
            compare_with_golden(cases[i].name, widths[k]);
        }
    }
    assert_true(system("grep -q '\"process_ns\": *[0-9]' $T/advice.jsonl") != 0); // no process ran for the advice
}

// In the folder of the files, so that their names have a length.
TEST(goldens_of_files) {
    static const struct {
        const char *name, *arguments;
    } cases[] = {
        {"walk", "walk -m tiny --n-layer 1 --at attention_forward"},
        {"page", "page -m tiny --backend none --output page.html"},
        {"exercise", "exercise"},
        {"tokenizer", "tokenize --vocab-size 300 --output tok text.txt"},
        {"tokenizer_show", "tokenize --show --tokenizer tok 'Once upon a time'"},
        {"tokenize", "tokenize --tokenizer tok --val-percent 0 --output ids text.txt"},
        {"bundle", "report rows.jsonl --bundle rows.bundle"},
        {"leaderboard", "report --rank rows.bundle"},
        {"check_run", "report --check one two four"},
        {"scaling", "report --scaling one two four"},
    };
    static const made_run runs[] = {
        {.name = "one", .n_processes = 1, .global_batch = 4, .n_steps = 40, .step_ms = 40},
        {.name = "two", .n_processes = 2, .global_batch = 4, .n_steps = 40, .step_ms = 21, .comm_ms = 0.7},
        {.name = "four", .n_processes = 4, .global_batch = 4, .n_steps = 40, .step_ms = 12, .comm_ms = 1.1},
    };
    char program[PATH_MAX];
    assert_non_null(realpath(SM_TEST_BINARY, program));
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        make_run(&runs[i]);
    }
    for (int k = 0; k < 2; k++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            assert_int_equal(
                run_on_terminal(widths[k], textf("cd $T && %s %s </dev/null", program, cases[i].arguments), screen), 0);
            compare_with_golden(cases[i].name, widths[k]);
        }
        shell("cd $T && rm -r page.html tok ids rows.bundle");
    }
}

static int make_folder(void **state) {
    const bool made = temp_folder_make(state) == 0 && setenv("XDG_CACHE_HOME", temp_folder, 1) == 0;
    FILE *rows = made ? fopen(temp_path("advice.jsonl"), "w") : NULL;
    if (rows == NULL) {
        return -1;
    }
    write_advice_rows(rows);
    return fclose(rows) == 0
               ? system("cp " ROWS " $T && "
                        "echo 'Once upon a time there was a text. It had one line, and it was short.' >$T/text.txt")
               : -1;
}

int main(void) {
    setenv("TERM", "xterm", 1);
    return cmocka_run_group_tests(tests, make_folder, temp_folder_remove);
}
