// The program as its user meets it: exit codes, what goes to which stream, bad input, Ctrl-C.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_SIZE = 1 << 20, COMMAND_SIZE = 1024 };

static char folder[] = "/tmp/stepmark_test_XXXXXX"; // $T of the command lines
static char out[OUTPUT_SIZE];
static char err[OUTPUT_SIZE];

static void read_file(const char *name, char *text) {
    char path[COMMAND_SIZE];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t n = fread(text, 1, OUTPUT_SIZE - 1, file);
    text[n] = '\0';
    fclose(file);
}

// Runs `arguments` through the shell and fills `out` and `err`; the exit code.
static int run(const char *arguments) {
    char command[COMMAND_SIZE];
    snprintf(command, sizeof(command), "(%s %s) >%s/out 2>%s/err </dev/null", SM_TEST_BINARY, arguments, folder,
             folder);
    int status = system(command);
    read_file("out", out);
    read_file("err", err);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_exit(const char *arguments, int expected) {
    int code = run(arguments);
    if (code != expected) {
        fail_msg("stepmark %s: exit code %d, not %d\n%s%s", arguments, code, expected, out, err);
    }
}

static void expect_text(const char *arguments, const char *stream, const char *text) {
    if (text != NULL && strstr(stream, text) == NULL) {
        fail_msg("stepmark %s: does not say \"%s\"\n%s%s", arguments, text, out, err);
    }
}

typedef struct {
    const char *arguments;
    int code;
    const char *out;
    const char *err;
} expectation;

static void check_all(const expectation *cases, size_t n) {
    for (size_t i = 0; i < n; i++) {
        expect_exit(cases[i].arguments, cases[i].code);
        expect_text(cases[i].arguments, out, cases[i].out);
        expect_text(cases[i].arguments, err, cases[i].err);
    }
}

#define CHECK_ALL(cases) check_all(cases, sizeof(cases) / sizeof((cases)[0]))

// --- help ------------------------------------------------------------------------------------

static void help_and_version(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"--version", 0, "stepmark 0.", NULL},        {"--help", 0, "usage: stepmark SUBCOMMAND", NULL},
        {"", 2, NULL, "usage: stepmark SUBCOMMAND"},  {"devices --help", 0, "Exit codes", NULL},
        {"run --help", 0, "-b, --batch-size", NULL},  {"train --help", 0, "--grad-clip", NULL},
        {"verify --help", 0, "--mode", NULL},         {"walk -h", 0, "--values", NULL},
        {"profile --help", 0, "--trace", NULL},       {"ablate --help", 0, "--repetitions", NULL},
        {"peaks --help", 0, "--min-time", NULL},      {"estimate --help", 0, "--seq-len", NULL},
        {"init --help", 0, "--save", NULL},           {"--list-devices", 0, "reference", NULL},
        {"run --list-devices", 0, "reference", NULL},
    };
    CHECK_ALL(cases);
}

// --- bad input -------------------------------------------------------------------------------

static void bad_flags(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"rnu", 2, NULL, "did you mean 'run'?"},
        {"run --bakend cpu", 2, NULL, "unknown flag --bakend; did you mean --backend?"},
        {"run --zzzzzz", 2, NULL, "unknown flag --zzzzzz"},
        {"run -Q", 2, NULL, "unknown flag -Q"},
        {"run extra", 2, NULL, "unexpected argument 'extra'"},
        {"run --progress=1", 2, NULL, "--progress takes no argument"},
        {"run -b", 2, NULL, "--batch-size: needs an argument"},
        {"estimate --steps 3", 2, NULL, "--steps is a flag of train"},
        {"run -b 0", 2, NULL, "--batch-size: 0 is out of range"},
        {"run -b -3", 2, NULL, "--batch-size: -3 is out of range"},
        {"run -b 1,,2", 2, NULL, "--batch-size: empty entry"},
        {"run -b 4x", 2, NULL, "'4x' is not a whole number"},
        {"run -b 4-1", 2, NULL, "never reaches its end"},
        {"run -b 1-1000000", 2, NULL, "more than 256 values"},
        {"run -b 99999999999999999999999", 2, NULL, "out of range"},
        {"run -t 0", 2, NULL, "--threads: 0 is out of range"},
        {"run -o yaml", 2, NULL, "md|csv|json|jsonl|sql"},
        {"run --mode fast", 2, NULL, "naive|fused|tuned"},
        {"run -m smal", 2, NULL, "did you mean small?"},
        {"run --backend cup", 2, NULL, "did you mean cpu?"},
        {"run -m tiny --backend cpu --isa mmx", 2, NULL, "mmx"},
        {"run --without loss_haed", 2, NULL, "did you mean loss_head?"},
        {"train --lr nan", 2, NULL, "--lr: nan is out of range"},
        {"train --lr fast", 2, NULL, "--lr: 'fast' is not a number"},
        {"train -b 1,2", 2, NULL, "--batch-size: takes one value"},
        {"walk --layer 2", 2, NULL, "the blocks are 0 to 1"},
        {"init", 2, NULL, "--save"},
    };
    CHECK_ALL(cases);
}

static void bad_models(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"run -m tiny --seq-len 65", 2, NULL, "longer than the model's context of 64"},
        {"train -m tiny --seq-len 65", 2, NULL, "longer than the model's context of 64"},
        {"walk --seq-len 65", 2, NULL, "longer than the model's context of 64"},
        {"estimate -m tiny --seq-len 65", 2, NULL, "longer than the model's context of 64"},
        {"run -m tiny --n-head 3", 2, NULL, "does not divide into 3 heads"},
        {"estimate -m tiny -b 1048576 --seq-len 16777216 --context 16777216", 1, NULL, "size"},
        {"run -m tiny -b 1048576 --seq-len 64 --backend reference", 1, NULL, "tokens"},
    };
    CHECK_ALL(cases);
}

static void bad_files(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"train -m tiny --data $T/missing", 1, NULL, "missing"},
        {"train -m tiny --data $T", 1, NULL, "stepmark: "},
        {"train -m tiny --data $T/short.txt", 1, NULL, "short.txt"},
        {"run -m tiny --backend reference --data $T/short.txt -b 4 --seq-len 64", 1, "error", "short.txt"},
        {"train -m tiny --data $T/odd.bin --data-format uint16", 1, NULL, "odd.bin"},
        {"train -m tiny --data $T/large_ids.bin", 1, NULL, "large_ids.bin"},
        {"train -m tiny --vocab 50 --context 64", 1, NULL, "50"},
        {"train -m tiny --data $T/odd.bin --data-format llmc", 1, NULL, "odd.bin"},
        {"train --weights $T/missing", 1, NULL, "missing"},
        {"run --backend reference --weights $T/bad_config --seq-len 8 -b 1", 1, NULL, "n_layer"},
        {"train --weights $T/truncated --seq-len 8", 1, NULL, "model.safetensors"},
        {"train --weights $T/lying --seq-len 8", 1, NULL, "model.safetensors"},
        {"run --backend reference --weights $T/model --vocab 100", 2, NULL, "--vocab"},
        {"train -m tiny --log $T/missing/log.jsonl --save $T/never", 1, NULL, "--log"},
        {"train -m tiny --save $T/missing/never", 1, NULL, "--save"},
        {"train -m tiny --save $T/short.txt", 1, NULL, "--save"},
        {"init -m tiny --save $T/missing/never", 1, NULL, "--save"},
        {"estimate -m tiny >/dev/full", 1, NULL, "stepmark: "},
        {"walk >/dev/full", 1, NULL, "stepmark: "},
    };
    CHECK_ALL(cases);
    char never[COMMAND_SIZE];
    snprintf(never, sizeof(never), "%s/never", folder);
    assert_int_not_equal(access(never, F_OK), 0);
}

// Each failure is one line that begins with the program's name.
static void errors_are_one_line(void **state) {
    (void)state;
    expect_exit("train -m tiny --data $T/missing", 1);
    assert_int_equal(strncmp(err, "stepmark: ", 10), 0);
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
    assert_string_equal(out, "");
}

// --- results ---------------------------------------------------------------------------------

static json_t *parse_json(const char *text) {
    json_error_t error;
    json_t *value = json_loads(text, 0, &error);
    if (value == NULL) {
        fail_msg("line %d: %s\n%s", error.line, error.text, text);
    }
    return value;
}

static void estimate_counts_parameters(void **state) {
    (void)state;
    static const json_int_t expected[] = {124439808, 354823168, 774030080, 1557611200};
    expect_exit("estimate -m small,medium,large,xl -o json", 0);
    json_t *rows = parse_json(out);
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, i), "model_n_params")), expected[i]);
    }
    json_decref(rows);
}

static void estimate_of_one_configuration(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"estimate -m small", 0, "124,439,808", NULL},
        {"estimate -m tiny -b 2 --mode naive", 0, "memory.activations_bytes", NULL},
        {"estimate -m tiny --d-model 48 --n-head 3", 0, " 192   F, width inside the MLP", NULL},
    };
    CHECK_ALL(cases);
}

static void estimate_crosses_lists(void **state) {
    (void)state;
    expect_exit("estimate -m tiny -b 1-4*2,6 --seq-len 8-32+8 --mode naive,fused -o jsonl", 0);
    int n = 0;
    for (char *line = strtok(out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_decref(parse_json(line));
        n++;
    }
    assert_int_equal(n, 4 * 4 * 2);
}

static void run_prints_every_format(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"run -m tiny --backend reference -b 2 --seq-len 8 -w 1 -r 3", 0, "| step b2s8 |", NULL},
        {"run -m tiny --backend reference -b 2 --seq-len 8 -w 1 -r 3 -o csv", 0, "schema_version,", NULL},
        {"run -m tiny --backend reference -b 2 --seq-len 8 -w 1 -r 3 -o sql", 0, "INSERT INTO", NULL},
        {"run -m tiny --backend reference -b 2 --seq-len 8 -w 1 -r 3 -o jsonl", 0, "\"status\"", NULL},
        {"run -m tiny --backend reference -w 1 -r 3", 0, "ok", "chose B="},
        {"run -m tiny --backend reference -b 1 --seq-len 8 -w 0 -r 1 --pass-type "
         "forward,backward,forward-backward,separate",
         0, "fwd b1s8", NULL},
        {"run -m tiny --backend reference -b 1 --seq-len 8 --mode tuned", 1, "skipped", "tuned"},
        {"run -m tiny --backend reference -b 1 --seq-len 8 -r 1 --precision fp32,bf16", 0, "skipped", "bf16"},
        {"run --weights $T/model --backend reference -b 1 --seq-len 8 -w 0 -r 1 --accum 2 --dropout 0.1", 0, "ok",
         NULL},
    };
    CHECK_ALL(cases);
}

static void run_measures(void **state) {
    (void)state;
    expect_exit("run -m tiny --backend cpu -t 1 -b 2 --seq-len 8 -w 1 -r 3 -o json", 0);
    json_t *rows = parse_json(out);
    const json_t *row = json_array_get(rows, 0);
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(json_string_value(json_object_get(row, "status")), "ok");
    assert_int_equal(json_array_size(json_object_get(row, "samples_ns")), 3);
    assert_int_equal(json_integer_value(json_object_get(row, "model_n_params")), 35712);
    assert_int_equal(json_integer_value(json_object_get(row, "n_threads")), 1);
    assert_true(json_is_number(json_object_get(row, "loss_reference")));
    assert_true(json_is_number(json_object_get(row, "mfu")));
    assert_true(json_is_object(json_object_get(row, "context")));
    json_decref(rows);
}

// A step as tiny as this is mostly clocks; what counts is that the parts make the whole.
// What the planner and the kernels foretell is what is allocated, but for whole pages.
static void memory_is_foretold(void **state) {
    (void)state;
    expect_exit("run -m tiny --mode naive,fused -b 2 --seq-len 32 -w 0 -r 1 --no-peaks -o json", 0);
    json_t *rows = json_loads(out, 0, NULL);
    assert_true(json_array_size(rows) >= 2);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        double estimated = json_number_value(json_object_get(row, "estimated_bytes"));
        double allocated = json_number_value(json_object_get(row, "device_peak_bytes"));
        double process = json_number_value(json_object_get(row, "estimated_rss_bytes"));
        if (!(estimated > 0 && fabs(allocated / estimated - 1) <= 0.05 && process > estimated)) {
            fail_msg("row %zu: %.0f bytes foretold, %.0f allocated, %.0f for the process", i, estimated, allocated,
                     process);
        }
    }
    json_decref(rows);
}

static void profile_adds_up(void **state) {
    (void)state;
    expect_exit("profile -m tiny -t 1 -b 2 --seq-len 8 -w 0 -r 1 --by op --trace $T/trace.json -o json", 0);
    json_t *rows = parse_json(out);
    size_t n = json_array_size(rows);
    assert_true(n > 10);
    const json_t *total = json_array_get(rows, n - 1);
    json_int_t sum_ns = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        sum_ns += json_integer_value(json_object_get(json_array_get(rows, i), "self_ns"));
    }
    assert_int_equal(sum_ns, json_integer_value(json_object_get(total, "wall_ns")));
    assert_int_equal(json_array_size(json_object_get(total, "verdict")), 1);
    json_decref(rows);
    read_file("trace.json", out);
    json_t *trace = parse_json(out);
    assert_true(json_array_size(json_object_get(trace, "traceEvents")) > n);
    json_decref(trace);
    static const expectation cases[] = {
        {"profile -m tiny -t 1 -b 2 --seq-len 8 -w 0 -r 1", 0, "- verdict: This step is bound by", NULL},
        {"profile -m tiny -t 1 -b 2 --seq-len 8 -w 0 -r 1 --by layer --mode naive", 0, "| block 1 ", NULL},
        {"profile -m tiny -b 2,4", 2, NULL, "takes one value"},
        {"profile -m tiny --by phase", 2, NULL, "op|layer|kind"},
        {"profile -m tiny --trace $T/missing/trace.json -t 1 -b 1 --seq-len 8 -w 0 -r 1", 1, NULL, "missing"},
    };
    CHECK_ALL(cases);
}

static void ablate_measures_every_rewrite(void **state) {
    (void)state;
    expect_exit("ablate -m tiny -t 1 -b 1 --seq-len 8 -w 0 -r 6 --without loss_head -o json", 0);
    json_t *rows = parse_json(out);
    assert_true(json_array_size(rows) >= 2);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        assert_string_equal(json_string_value(json_object_get(row, "status")), "ok");
        assert_string_not_equal(json_string_value(json_object_get(row, "without")), "loss_head");
        assert_true(json_number_value(json_object_get(row, "ratio")) > 0);
        assert_true(json_is_number(json_object_get(row, "ratio_ci95_lo")));
    }
    json_decref(rows);
}

static void peaks_measures_ceilings(void **state) {
    (void)state;
    expect_exit("peaks --backend cpu -t 1 --min-time 0 -o json", 0);
    json_t *rows = parse_json(out);
    bool memory = false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        bool measured = json_is_number(json_object_get(row, "best"));
        assert_true(measured != json_is_string(json_object_get(row, "reason")));
        memory |= measured && strcmp(json_string_value(json_object_get(row, "where")), "memory") == 0;
    }
    assert_true(memory);
    json_decref(rows);
}

static void masks_bind_threads(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 -r 1 --cpu-mask 1-0", 2, NULL, "cpu mask '1-0'"},
        {"run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 -r 1 --cpu-mask 0x", 2, NULL, "hexadecimal"},
        {"run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 -r 1 --cpu-mask 65000", 2, NULL, "may use"},
    };
    CHECK_ALL(cases);
}

// Where the variable makes OpenBLAS leave something out, the program starts anew without it, and says so.
static void slowing_environment_is_dropped(void **state) {
    (void)state;
    assert_int_equal(setenv("OPENBLAS_CORETYPE", "Prescott", 1), 0);
    expect_exit("devices", 0);
    bool anew = strstr(err, "starting anew") != NULL;
    assert_true(anew == (strstr(out, "OPENBLAS_CORETYPE=Prescott was set") != NULL));
    expect_exit("devices --keep-env", 0);
    assert_null(strstr(err, "starting anew"));
    assert_true(anew == (strstr(out, "OPENBLAS_CORETYPE=Prescott is set") != NULL));
    assert_int_equal(unsetenv("OPENBLAS_CORETYPE"), 0);
}

static void walk_shows_the_step(void **state) {
    (void)state;
    static const expectation cases[] = {
        {"walk", 0, "attention_forward", NULL},
        {"walk --mode fused", 0, "residual_layernorm_forward", NULL},
        {"walk --mode fused --without residual_layernorm --all", 0, "--- block 1 ---", NULL},
        {"walk --layer 1 --values", 0, "norm ", NULL},
        {"walk -m xl -b 4 --seq-len 1024 -o csv", 0, "h.0.attn.c_attn.weight", NULL},
    };
    CHECK_ALL(cases);
    expect_exit("walk --values -o json", 0);
    json_t *rows = parse_json(out);
    const json_t *last = json_array_get(rows, json_array_size(rows) - 1);
    assert_string_equal(json_string_value(json_object_get(last, "kind")), "adamw");
    json_decref(rows);
}

static void verify_passes(void **state) {
    (void)state;
    expect_exit("verify --backend cpu -t 1 --mode fused,tuned -o json", 0);
    json_t *rows = parse_json(out);
    assert_true(json_array_size(rows) > 100);
    json_decref(rows);
}

static void verify_is_filtered(void **state) {
    (void)state;
    expect_exit("verify --backend cpu -t 1 --filter '^bias_forward.*C=5$' --max-elems 100 -o json", 0);
    json_t *rows = parse_json(out);
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "subject")), "N=3 C=5");
    json_decref(rows);
    expect_exit("verify --backend cpu -t 1 --filter nothing", 2);
    assert_non_null(strstr(err, "leave no comparison"));
    expect_exit("verify --backend cpu -t 1 --filter '('", 2);
    assert_non_null(strstr(err, "--filter: '('"));
}

// Runs mode tuned with that cache folder and further options; its row, to be released.
static json_t *run_tuned_with(const char *options, const char *cache) {
    char *before = getenv("XDG_CACHE_HOME") != NULL ? strdup(getenv("XDG_CACHE_HOME")) : NULL;
    char path[COMMAND_SIZE];
    snprintf(path, sizeof(path), "%s/%s", folder, cache);
    setenv("XDG_CACHE_HOME", path, 1);
    snprintf(path, sizeof(path), "run --backend cpu -m tiny -t 1 -b 1 --seq-len 8 -w 0 -r 1 --mode tuned %s -o json",
             options);
    expect_exit(path, 0);
    if (before != NULL) {
        setenv("XDG_CACHE_HOME", before, 1);
    } else {
        unsetenv("XDG_CACHE_HOME");
    }
    free(before);
    json_t *rows = parse_json(out);
    json_t *row = json_incref(json_array_get(rows, 0));
    json_decref(rows);
    assert_string_equal(json_string_value(json_object_get(row, "status")), "ok");
    assert_true(json_integer_value(json_object_get(row, "tune_ns")) > 0);
    return row;
}

static json_t *run_tuned(const char *cache) { return run_tuned_with("--progress", cache); }

static void expect_warning(json_t *row, const char *text) {
    char *warnings = json_dumps(json_object_get(row, "warnings"), 0);
    assert_non_null(warnings);
    if (strstr(warnings, text) == NULL) {
        fail_msg("no warning \"%s\" in %s", text, warnings);
    }
    free(warnings);
    json_decref(row);
}

// What was chosen is remembered; what is wrong with the memory is a warning and a choice made anew.
static void tuned_remembers_its_choices(void **state) {
    (void)state;
    json_decref(run_tuned("cache"));
    expect_text("run --mode tuned", err, "tuning: matmul_forward");
    json_decref(run_tuned("cache"));
    if (strstr(err, "tuning:") != NULL) {
        fail_msg("the choices were not remembered\n%s", err);
    }
    json_decref(run_tuned_with("--progress --precision bf16", "cache"));
    expect_text("run --mode tuned", err, ", bf16, overwrites");
    json_decref(run_tuned_with("--progress --precision bf16", "cache"));
    if (strstr(err, "tuning:") != NULL) {
        fail_msg("the choices of bf16 data were not remembered\n%s", err);
    }
    assert_int_equal(system("for f in $T/cache/stepmark/tuning/*; do printf '{' >\"$f\"; done"), 0);
    expect_warning(run_tuned("cache"), "is not a file of choices");
    expect_text("run --mode tuned", err, "tuning: matmul_forward");
    json_decref(run_tuned("cache"));
    assert_int_equal(system("sed -i '/matmul/s/: \".*\"/: \"magic\"/' $T/cache/stepmark/tuning/*"), 0);
    expect_warning(run_tuned("cache"), "is not known here");
    assert_int_equal(system("touch $T/no_folder"), 0);
    expect_warning(run_tuned("no_folder"), "Not a directory");
}

// --- training --------------------------------------------------------------------------------

// Losses of a log, by step.
static int read_log(const char *name, double *losses, int most) {
    read_file(name, out);
    int n = 0;
    for (char *line = strtok(out, "\n"); line != NULL && n < most; line = strtok(NULL, "\n")) {
        json_t *step = parse_json(line);
        assert_int_equal(json_integer_value(json_object_get(step, "step")), n + 1);
        assert_int_equal(json_integer_value(json_object_get(step, "tokens")), 2 * 2 * 8);
        losses[n++] = json_number_value(json_object_get(step, "loss"));
        json_decref(step);
    }
    return n;
}

#define TINY "train -m tiny --backend reference -b 2 --seq-len 8 --accum 2 --dropout 0.1 --grad-clip 1 "

static void training_goes_on_where_it_stopped(void **state) {
    (void)state;
    double whole[8];
    double parts[8];
    expect_exit(TINY "--steps 6 --log $T/whole.jsonl --save $T/whole", 0);
    expect_text("train", out, "step 6/6 | loss ");
    expect_exit(TINY "--steps 4 --log $T/parts.jsonl --save $T/parts", 0);
    expect_exit(TINY "--steps 2 --log $T/parts.jsonl --save $T/parts --weights $T/parts", 0);
    expect_text("train", out, "step 6/6 | loss ");
    assert_int_equal(read_log("whole.jsonl", whole, 8), 6);
    assert_int_equal(read_log("parts.jsonl", parts, 8), 6);
    for (int i = 0; i < 6; i++) {
        assert_true(whole[i] == parts[i]);
    }
    assert_int_equal(system("cmp $T/whole/model.safetensors $T/parts/model.safetensors"), 0);
}

static void diverged_training_keeps_the_saved_model(void **state) {
    (void)state;
    expect_exit(TINY "--steps 1 --save $T/kept", 0);
    assert_int_equal(system("cp $T/kept/model.safetensors $T/kept.before"), 0);
    expect_exit(TINY "--steps 50 --lr 1e6 --grad-clip 0 --weight-decay 1e6 --weights $T/kept --save $T/kept", 1);
    expect_text("train", err, "nothing is saved");
    assert_int_equal(system("cmp $T/kept/model.safetensors $T/kept.before"), 0);
}

// --- Ctrl-C ----------------------------------------------------------------------------------

// Starts the program, sends SIGINT once its stream `fd` (1 or 2) says `cue`, and waits. `err`
// gets what it said there; the other stream goes to the file "out".
static int interrupt(char *const *argv, int fd, const char *cue) {
    int ends[2];
    char path[COMMAND_SIZE];
    snprintf(path, sizeof(path), "%s/out", folder);
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], fd);
        dup2(open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600), 3 - fd);
        close(ends[0]);
        close(ends[1]);
        execv(argv[0], argv);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    bool sent = false;
    for (ssize_t n; (n = read(ends[0], err + used, OUTPUT_SIZE - 1 - used)) > 0;) {
        used += (size_t)n;
        err[used] = '\0';
        if (!sent && strstr(err, cue) != NULL) {
            sent = kill(child, SIGINT) == 0;
        }
    }
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(sent);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void ctrl_c_keeps_what_was_measured(void **state) {
    (void)state;
    char *argv[] = {SM_TEST_BINARY, "run", "-m", "tiny", "--backend",  "reference", "-b",   "1",
                    "--seq-len",    "8",   "-r", "5000", "--progress", "-o",        "json", NULL};
    assert_int_equal(interrupt(argv, 2, "measuring 3/"), 130);
    read_file("out", out);
    json_t *rows = parse_json(out);
    const json_t *row = json_array_get(rows, 0);
    assert_string_equal(json_string_value(json_object_get(row, "stop_reason")), "interrupted");
    assert_true(json_array_size(json_object_get(row, "samples_ns")) >= 2);
    json_decref(rows);
}

static void ctrl_c_ends_a_training_in_order(void **state) {
    (void)state;
    char save[COMMAND_SIZE];
    snprintf(save, sizeof(save), "%s/interrupted", folder);
    char *argv[] = {SM_TEST_BINARY, "train", "-m",      "tiny",    "-t",     "1",  "-b", "1",
                    "--seq-len",    "8",     "--steps", "1000000", "--save", save, NULL};
    assert_int_equal(interrupt(argv, 1, "step 3/"), 130);
    read_file("out", out);
    assert_non_null(strstr(out, "saved after step"));
    expect_exit("train --weights $T/interrupted -t 1 -b 1 --seq-len 8 --steps 1", 0);
}

// --- setup -----------------------------------------------------------------------------------

static int set_up(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL || setenv("T", folder, 1) != 0) {
        return -1;
    }
    return system(SM_TEST_BINARY
                  " init -m tiny --seed 7 --save $T/model >/dev/null &&"
                  "printf 'too short' >$T/short.txt &&"
                  "head -c 2001 /dev/zero >$T/odd.bin &&"
                  "head -c 4000 /dev/zero | tr '\\0' '\\377' >$T/large_ids.bin &&"
                  "mkdir $T/bad_config $T/truncated $T/lying &&"
                  "cp $T/model/config.json $T/truncated && head -c 5000 $T/model/model.safetensors "
                  ">$T/truncated/model.safetensors &&"
                  "cp $T/model/config.json $T/lying && printf '\\377\\377\\377\\377\\377\\377\\377\\177{}' "
                  ">$T/lying/model.safetensors &&"
                  "cp $T/model/model.safetensors $T/bad_config &&"
                  "sed 's/\"n_layer\": 2/\"n_layer\": \"two\"/' $T/model/config.json >$T/bad_config/config.json");
}

static int tear_down(void **state) {
    (void)state;
    return system("rm -r \"$T\"");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_and_version),
        cmocka_unit_test(bad_flags),
        cmocka_unit_test(bad_models),
        cmocka_unit_test(bad_files),
        cmocka_unit_test(errors_are_one_line),
        cmocka_unit_test(estimate_counts_parameters),
        cmocka_unit_test(estimate_of_one_configuration),
        cmocka_unit_test(estimate_crosses_lists),
        cmocka_unit_test(run_prints_every_format),
        cmocka_unit_test(run_measures),
        cmocka_unit_test(memory_is_foretold),
        cmocka_unit_test(profile_adds_up),
        cmocka_unit_test(ablate_measures_every_rewrite),
        cmocka_unit_test(peaks_measures_ceilings),
        cmocka_unit_test(masks_bind_threads),
        cmocka_unit_test(slowing_environment_is_dropped),
        cmocka_unit_test(walk_shows_the_step),
        cmocka_unit_test(verify_passes),
        cmocka_unit_test(verify_is_filtered),
        cmocka_unit_test(tuned_remembers_its_choices),
        cmocka_unit_test(training_goes_on_where_it_stopped),
        cmocka_unit_test(diverged_training_keeps_the_saved_model),
        cmocka_unit_test(ctrl_c_keeps_what_was_measured),
        cmocka_unit_test(ctrl_c_ends_a_training_in_order),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
