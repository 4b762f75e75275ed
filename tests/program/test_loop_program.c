// test_loop_program.c: `stepmark loop` and `train --profile` as users meet them.
#include "tests/support/run_program.h"
#include "src/train/phases.h"
#include "bench/tables/json_values.h"

#define WORK "-m tiny --backend cpu -b 2 --seq-len 16 -r 6 -w 1 "

TEST(what_cannot_be_is_refused) {
    CHECK_ALL(
        {"loop --loader sometimes " WORK, 2, NULL, "--loader: unknown value 'sometimes'"},
        {"loop --loader inline --queue-depth 3 " WORK, 2, NULL, "--queue-depth: --loader inline makes nothing ahead"},
        {"loop --baseline $T/none.jsonl " WORK, 1, NULL, "none.jsonl: no such file"},
        {"loop --data $T/none.bin " WORK, 1, NULL, "none.bin"},
        {"loop --data $T/short --data-format bytes " WORK, 1, NULL, "short: 5 tokens"},
        {"loop " WORK "-b 2,4", 2, NULL, "--batch-size"},
        {"loop " WORK "--output-file $T/no/such/folder.jsonl", 1, NULL, "folder.jsonl"},
        {"loop " WORK "--tokenizer bytes --data $T/short", 2, NULL, "--data-format bytes"},
        {"loop " WORK "--no-phases --no-peaks", 0, "tokens/s, undisturbed", NULL},
        {"train -m tiny --backend reference -b 1 --seq-len 8 --steps 3 --profile", 0, "step 3/3",
         "has no step whose ops are timed"});
}

// The log may be a pipe: one that nobody reads is refused before anything is measured.
TEST(a_log_goes_into_a_pipe) {
    shell("mkfifo $T/pipe");
    expect_run("loop --progress --log $T/pipe " WORK, 1, NULL, "pipe: cannot be written: a pipe that nobody reads");
    assert_null(strstr(err, "warm-up"));
    shell("timeout 60 cat $T/pipe >$T/log &");
    expect_exit("loop --no-peaks --log $T/pipe " WORK, 0);
    shell("sleep 0.2; test \"$(grep -c '\"loss\"' $T/log)\" -gt 6");
}

static json_t *read_rows(const char *arguments) {
    expect_exit(arguments, 0);
    return parse_json(out);
}

static json_int_t integer_of(const json_t *loop, const char *name) {
    const json_t *value = json_object_get(loop, name);
    FAIL_IF(!json_is_integer(value), "loop.%s is no integer", name);
    return json_integer_value(value);
}

static void expect_phases_add_up(const json_t *row) {
    const json_t *loop = json_object_get(row, "loop");
    json_int_t sum_ns = 0;
#define X(code, member, name, text) sum_ns += integer_of(loop, #member "_ns");
    SM_STEP_PHASE_LIST(X)
#undef X
    assert_int_equal(sum_ns, integer_of(loop, "wall_ns"));
}

// What holds data: most between forward and backward, and nothing but what outlives a step at its end.
static void expect_sizes_over_step(const json_t *row) {
    const json_t *memory = json_object_get(json_object_get(row, "loop"), "memory");
    const json_t *ends = json_object_get(memory, "end_ns");
    const json_t *alive = json_object_get(memory, "alive_bytes");
    const size_t n = json_array_size(alive);
    json_int_t most_bytes = 0, before_ns = 0;
    assert_true(n > 10 && n <= 200 && json_array_size(ends) == n);
    for (size_t i = 0; i < n; i++) {
        const json_int_t bytes = json_integer_value(json_array_get(alive, i));
        const json_int_t end_ns = json_integer_value(json_array_get(ends, i));
        most_bytes = bytes > most_bytes ? bytes : most_bytes;
        assert_true(end_ns >= before_ns);
        before_ns = end_ns;
    }
    assert_true(most_bytes > 0 && 4 * json_integer_value(json_array_get(alive, n - 1)) < most_bytes);
    assert_true(json_integer_value(json_object_get(memory, "held_bytes")) > 16 * 35712 - 1); // AdamW's four of each
    assert_true(json_integer_value(json_object_get(memory, "backward_ns")) >= 1 &&
                json_integer_value(json_object_get(memory, "backward_ns")) <= before_ns);
}

// The row of a loop, to be released with `rows`, whose phases claim all but a hundredth: a busy machine, which stops
// the loop between two of them, has several tries.
static const json_t *measure_loop(const char *arguments, json_t **rows) {
    enum { N_TRIES = 10 };
    const json_t *loop = NULL;
    for (int i = 0; i < N_TRIES; i++) {
        *rows = read_rows(arguments);
        const json_t *row = json_array_get(*rows, 0);
        loop = json_object_get(row, "loop");
        expect_phases_add_up(row);
        if (integer_of(loop, "unaccounted_ns") * 100 <= integer_of(loop, "wall_ns")) {
            return row;
        }
        if (i + 1 < N_TRIES) {
            json_decref(*rows);
        }
    }
    fail_msg("stepmark %s: %lld of %lld ns are unaccounted", arguments, (long long)integer_of(loop, "unaccounted_ns"),
             (long long)integer_of(loop, "wall_ns"));
    return NULL;
}

// On the cpu and, where there is one, on an OpenCL device.
TEST(phases_add_up) {
    static const char *const commands[] = {
        "loop " WORK "-o json --no-peaks",
        "loop " WORK "-o json --no-peaks --loader inline --accum 2",
        "loop " WORK "-o json --no-peaks --loader threads:2 --queue-depth 4 --order shuffled",
        "loop " WORK "-o json --no-peaks --documents 3-12 --padding max",
    };
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        json_auto_t *rows = NULL;
        const json_t *row = measure_loop(commands[i], &rows);
        expect_sizes_over_step(row);
        assert_string_equal(json_string_value(json_object_get(row, "status")), "ok");
        assert_true(json_is_string(json_object_get(json_object_get(row, "loop"), "loader")));
        assert_true(json_is_object(json_object_get(row, "utilisation")));
    }
    static const char opencl[] = "loop -m tiny --backend opencl -b 2 --seq-len 16 -r 6 -w 1 -o json --no-peaks";
    if (run(opencl) == 0) {
        json_auto_t *rows = NULL;
        measure_loop(opencl, &rows);
    }
}

TEST(a_run_is_no_loop) {
    json_auto_t *rows = read_rows("run " WORK "-o json --no-peaks");
    const json_t *loop = json_object_get(json_array_get(rows, 0), "loop");
    assert_true(json_is_null(json_object_get(loop, "loader")));
    assert_true(json_is_null(json_object_get(loop, "wall_ns")));
}

TEST(a_baseline_is_compared_with) {
    expect_exit("loop " WORK "--no-peaks --output-file $T/before.jsonl", 0);
    expect_run("loop " WORK "--no-peaks --loader inline --baseline $T/before.jsonl -o md", 0, "change (95%)", NULL);
    expect_text("loop --baseline", out, "| wait ");    // of the baseline
    expect_text("loop --baseline", out, "| collate "); // of this one
    expect_run("loop " WORK "-b 4 --no-peaks --baseline $T/before.jsonl -o md", 0, NULL,
               "has no loop of the same work; nothing is compared");
}

// The trace has the main line, the device and the loader, and a counter.
TEST(a_trace_has_all_tracks) {
    static char text[OUTPUT_SIZE];
    expect_exit("loop " WORK "--no-peaks --accum 2 --loader threads:2 --trace $T/trace.json", 0);
    read_file("trace.json", text);
    json_auto_t *trace = json_loads(text, 0, NULL);
    assert_non_null(trace);
    const json_t *events = json_object_get(trace, "traceEvents");
    double end_us[16] = {0};
    int n_spans[16] = {0}, n_counts = 0;
    SM_EACH(event, events) {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        const json_int_t track = json_integer_value(json_object_get(event, "tid"));
        const double begin_us = json_number_value(json_object_get(event, "ts"));
        assert_true(track >= 1 && track <= 15);
        n_counts += strcmp(kind, "C") == 0;
        if (strcmp(kind, "X") == 0) {
            assert_true(begin_us >= 0);
            if (track < 3) { // in order, and side by side
                assert_true(begin_us >= end_us[track] - 0.001);
                end_us[track] = begin_us + json_number_value(json_object_get(event, "dur"));
            }
            n_spans[track]++;
        }
    }
    assert_true(n_spans[1] > 0 && n_spans[2] > n_spans[1] && n_spans[10] + n_spans[11] > 0 && n_counts > 0);
}

TEST(a_profiled_training_is_the_same) {
#define TRAINING "train -m tiny --backend reference -b 2 --seq-len 16 --steps 14 --dropout 0.1 "
    expect_exit(TRAINING "--profile --save $T/one", 0);
    expect_text("train --profile", out, "| forward ");
    expect_text("train --profile", out, "| undisturbed ");
    expect_exit(TRAINING "--save $T/other", 0);
    shell("cmp $T/one/model.safetensors $T/other/model.safetensors");
}

static int set_up(void **state) {
    return temp_folder_make(state) == 0 && system("printf 12345 >$T/short") == 0 ? 0 : -1;
}

AROUND_ALL(set_up, temp_folder_remove)
