// The outputs of `run` other than its table: rows also in a file, how much faster the fastest is, and nothing with -q;
// profile's order; schemas; manual pages and completions from the same tables as --help.
#include "tests/support/run_program.h"
#include "bench/compare/compare.h"

#define TINY "run -m tiny -b 1 --seq-len 8 -r 6 -w 1 --backend cpu --no-peaks "

// --- the fastest -------------------------------------------------------------------------------------

// A row whose ten samples lie around that many microseconds.
static json_t *make_row(const char *mode, const char *test, int us) {
    json_t *samples = json_array();
    for (int i = 0; i < 10; i++) {
        json_array_append_new(samples, json_integer(1000LL * us + 7 * i));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:o}", "status", "ok", "mode", mode, "test", test, "model_type",
                     "tiny", "n_batch", test[6] - '0', "median_ns", (json_int_t)(1000LL * us + 30), "samples_ns",
                     samples);
}

static void expect_sentences(json_t *rows, const char *const *expected, size_t n) {
    json_auto_t *sentences = sm_fastest_sentences(rows);
    assert_int_equal(json_array_size(sentences), n);
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(json_string_value(json_array_get(sentences, i)), expected[i]);
    }
    json_decref(rows);
}

TEST(the_fastest_is_named_with_its_interval) {
    static const char *const one[] = {"fused is 1.50 (1.50-1.50) times faster than naive"};
    expect_sentences(json_pack("[oo]", make_row("naive", "step b1s8", 1500), make_row("fused", "step b1s8", 1000)), one,
                     1);
    static const char *const none_apart[] = {
        "naive is not distinct from fused: 1.00 times as fast, anywhere from 1.00 to 1.00"};
    expect_sentences(json_pack("[oo]", make_row("naive", "step b1s8", 1000), make_row("fused", "step b1s8", 1000)),
                     none_apart, 1);
}

static json_t *make_device_row(const char *device, const char *binding, int us) {
    json_t *row = make_row("fused", "step b1s8", us);
    json_object_set_new(row, "device", json_string(device));
    json_object_set_new(row, "binding", binding != NULL ? json_string(binding) : json_null());
    return row;
}

// The binding of threads tells two rows of one device apart; a device without threads shows none.
TEST(a_name_holds_what_tells_rows_apart) {
    static const char *const devices[] = {"opencl:0.0 is 1.50 (1.50-1.50) times faster than cpu"};
    expect_sentences(json_pack("[oo]", make_device_row("cpu", "one a core: processors 0-1", 1500),
                               make_device_row("opencl:0.0", NULL, 1000)),
                     devices, 1);
    json_t *modes = json_pack("[oo]", make_row("naive", "step b1s8", 1500), make_row("fused", "step b1s8", 1000));
    for (size_t i = 0; i < 2; i++) { // a mode has its own attention, which is not said
        json_object_set_new(json_array_get(modes, i), "attention", json_string(i == 0 ? "naive" : "flash"));
    }
    static const char *const usual[] = {"fused is 1.50 (1.50-1.50) times faster than naive"};
    expect_sentences(json_incref(modes), usual, 1);
    static const char *const unusual[] = {"fused attention=naive is 1.50 (1.50-1.50) times faster than naive"};
    json_object_set_new(json_array_get(modes, 1), "attention", json_string("naive"));
    expect_sentences(modes, unusual, 1);
    static const char *const bindings[] = {"processors 0-1 is 1.50 (1.50-1.50) times faster than processor 0"};
    expect_sentences(
        json_pack("[oo]", make_device_row("cpu", "processor 0", 1500), make_device_row("cpu", "processors 0-1", 1000)),
        bindings, 1);
}

TEST(too_few_samples_are_said) {
    json_t *rows = json_pack("[oo]", make_row("naive", "step b1s8", 1500), make_row("fused", "step b1s8", 1000));
    for (size_t i = 0; i < 2; i++) {
        json_t *samples = json_object_get(json_array_get(rows, i), "samples_ns");
        while (json_array_size(samples) > 2) {
            json_array_remove(samples, 2);
        }
    }
    static const char *const few[] = {"fused may be 1.50 times faster than naive: too few samples to tell (-r)"};
    expect_sentences(rows, few, 1);
}

TEST(other_work_is_not_compared) {
    expect_sentences(json_pack("[oo]", make_row("naive", "step b1s8", 1500), make_row("fused", "step b2s8", 1000)),
                     NULL, 0);
    static const char *const named[] = {"step b1s8: fused is 2.00 (2.00-2.00) times faster than naive"};
    expect_sentences(json_pack("[ooo]", make_row("naive", "step b1s8", 2000), make_row("fused", "step b1s8", 1000),
                               make_row("fused", "step b2s8", 1000)),
                     named, 1);
}

// --- outputs -----------------------------------------------------------------------------------------

TEST(rows_go_to_a_file_as_well) {
    CHECK_ALL({TINY "--output-file $T/rows.jsonl", 0, "| step b1s8 |", NULL},
              {TINY "--output-file $T/rows.jsonl -o csv", 0, "schema_version,", NULL},
              {"report --best $T/rows.jsonl", 0, NULL, NULL},
              {TINY "--output-file $T/rows.csv -o json", 0, "\"schema_version\"", NULL},
              {TINY "--output-file $T/rows.json | true", 0, NULL, NULL}, // the file has them, read or not
              {TINY "--output-file $T/none/rows.json", 1, NULL, "--output-file: "});
    read_file("rows.jsonl", out);
    assert_non_null(strchr(out, '\n'));
    assert_non_null(strchr(strchr(out, '\n') + 1, '\n')); // appended to
    read_file("rows.csv", out);
    assert_memory_equal(out, "schema_version,", 15);
    read_file("rows.json", out);
    json_auto_t *rows = parse_json(out);
    assert_int_equal(json_array_size(rows), 1);
}

TEST(quiet_is_quiet) {
    expect_exit(TINY "-q", 0);
    assert_null(strstr(err, "fused, step"));
    expect_run(TINY, 0, NULL, "fused, step");
}

TEST(a_list_ends_with_a_sentence) {
    expect_exit(TINY "--mode naive,fused", 0);
    if (strstr(out, "No verdict") == NULL) { // another says why
        expect_text("--mode naive,fused", out, " times");
    }
}

TEST(profile_is_sorted_and_cut) {
    json_auto_t *records = run_json("profile -m tiny -b 1 --seq-len 8 -r 2 -w 1 --sort work --top 3");
    assert_int_equal(json_array_size(records), 5);
    for (size_t i = 0; i < 2; i++) {
        assert_true(json_number_value(json_object_get(json_array_get(records, i), "flops")) >=
                    json_number_value(json_object_get(json_array_get(records, i + 1), "flops")));
    }
    assert_string_equal(json_string_value(json_object_get(json_array_get(records, 4), "line")), "total");
}

// --- schemas and pages -------------------------------------------------------------------------------

// Every field that the schema requires is there, also in the objects within.
static void expect_required(const char *what, const json_t *schema, const json_t *record) {
    const json_t *required = json_object_get(schema, "required");
    assert_true(json_array_size(required) > 0);
    for (size_t k = 0; k < json_array_size(required); k++) {
        const char *name = json_string_value(json_array_get(required, k));
        const json_t *property = json_object_get(json_object_get(schema, "properties"), name);
        const json_t *value = json_object_get(record, name);
        FAIL_IF(value == NULL, "%s: no field %s", what, name);
        if (json_is_object(value) && json_object_get(property, "properties") != NULL) {
            expect_required(what, property, value);
        }
    }
}

TEST(records_are_as_their_schema) {
    static const struct {
        const char *command, *arguments;
    } cases[] = {
        {"devices", "devices -o json"},
        {"estimate", "estimate -m tiny -b 1 -o json"},
        {"verify", "verify --backend cpu --filter ^bias --max-elems 100 -o json"},
        {"devices --peaks", "devices --peaks -t 1 --min-time 0.001 -o json"},
        {"run", "run -m tiny -b 1 --seq-len 8 -r 2 -w 0 --no-peaks --backend reference --precision fp32,tf32 -o json"},
        {"loop", "loop -m tiny -b 1 --seq-len 8 -r 2 -w 0 --no-peaks -t 1 -o json"},
        {"profile", "profile -m tiny -b 1 --seq-len 8 -r 2 -w 0 -t 1 -o json"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        expect_exit(textf("%s --schema", cases[i].command), 0);
        json_auto_t *schema = parse_json(out);
        expect_exit(cases[i].arguments, 0);
        json_auto_t *records = parse_json(out);
        assert_true(json_array_size(json_object_get(schema, "required")) > 3 && json_array_size(records) > 0);
        for (size_t k = 0; k < json_array_size(records); k++) {
            expect_required(cases[i].arguments, schema, json_array_get(records, k));
        }
    }
    CHECK_ALL({"page --schema", 2, NULL, "--schema is a flag of devices, run, "});
}

TEST(pages_name_every_flag) {
    CHECK_ALL({"--manual", 0, ".Nm stepmark", NULL}, {"--manual run", 0, ".It Fl m , Fl \\-model\\-size Ar", NULL},
              {"--manual nonsense", 2, NULL, "unknown subcommand"},
              {"--completion bash", 0, "complete -F _stepmark stepmark", NULL},
              {"--completion zsh", 0, "#compdef stepmark", NULL},
              {"--completion fish", 0, "complete -c stepmark -f", NULL}, {"--complete ''", 0, "\ntrain\t", NULL},
              {"--complete run --preci", 0, "words\n--precision\t", NULL},
              {"--complete run --precision fp32,b", 0, "\nfp32,bf16\t", NULL},
              {"--complete run --precision = b", 0, "\nbf16\t", NULL},
              {"--complete run --precision=fp32,b", 0, "\n--precision=fp32,bf16\t", NULL},
              {"--complete train --init --see", 0, "words\n--seed\t", NULL},
              {"--complete train --save ''", 0, "folders\n", NULL}, {"--complete report ''", 0, "files\n", NULL},
              {"--complete none ''", 0, NULL, NULL}, {"--completion csh", 2, NULL, "bash, zsh or fish"},
              {"--version", 0, "instruction sets: ", NULL});
}

AROUND_ALL(temp_cache_make, temp_folder_remove)
