// The program as its user meets it: exit codes, what goes to which stream, bad input, Ctrl-C.
#include <fcntl.h>

#include "tests/support/run_program.h"

// --- bad input -------------------------------------------------------------------------------

TEST(bad_models) {
    CHECK_ALL({"run -m tiny --seq-len 65", 2, NULL, "longer than the model's context of 64"},
              {"train -m tiny --seq-len 65", 2, NULL, "longer than the model's context of 64"},
              {"walk --seq-len 65", 2, NULL, "longer than the model's context of 64"},
              {"estimate -m tiny --seq-len 65", 2, NULL, "longer than the model's context of 64"},
              {"run -m tiny --n-head 3", 2, NULL, "does not divide into 3 heads"},
              {"estimate -m tiny -b 1048576 --seq-len 16777216 --context 16777216", 1, NULL, "size"},
              {"run -m tiny -b 1048576 --seq-len 64 --backend reference", 1, NULL, "needed by estimate"});
}

TEST(bad_files) {
    CHECK_ALL({"train -m tiny --data $T/missing", 1, NULL, "missing"},
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
              {"train -m tiny --save $T/nowhere", 1, NULL, "nowhere is not a folder"},
              {"train --init -m tiny --save $T/missing/never", 1, NULL, "--save"},
              {"estimate -m tiny >/dev/full", 1, NULL, "stepmark: "}, {"walk >/dev/full", 1, NULL, "stepmark: "});
    assert_int_not_equal(access(temp_path("never"), F_OK), 0);
}

// Every reader of data asks one place what they are.
TEST(data_are_told_apart_everywhere) {
    static const char *const readers[] = {
        "train -m tiny --data",
        "train -m tiny --backend reference --data $T/text.txt --val-data",
        "run -m tiny --backend reference --data",
        "loop -m tiny --backend reference --data",
        "profile -m tiny --backend reference --data",
        "page --backend none --data",
        "walk --full --data",
        "eval --weights $T/model --backend reference --data",
        "train -m tiny --vocab 300 --tokenizer $T/bytes --data",
        "tokenize --tokenizer $T/bytes --output $T/never",
        "tokenize --vocab-size 300 --output $T/never",
    };
    enum { N_IDS = 9 }; // readers of ids, too
    shell("mkdir -p $T/shards $T/mixed && printf '\\037\\213\\010\\000words' >$T/packed && printf "
          "'\\377\\376a\\000b\\000' >$T/wide.txt && seq 1 500 >$T/text.txt && cp $T/text.txt $T/packed $T/mixed && cp "
          "$T/text.txt $T/shards/1 && printf '{\"text\": \"more\"}\\n' >$T/shards/2");
    expect_exit("tokenize --vocab-size 257 --output $T/bytes $T/text.txt", 0);
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        static const struct {
            const char *data, *message;
        } cases[] = {{"packed", "/packed: gzip: gunzip it first"},
                     {"wide.txt", "/wide.txt: UTF-16: convert it: iconv -f UTF-16 -t UTF-8"},
                     {"mixed", "/mixed/packed: gzip"},
                     {"shards", "/shards/2: its format is jsonl, that of files before it text"}};
        for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
            expect_run(textf("%s $T/%s", readers[i], cases[k].data), 1, NULL, cases[k].message);
        }
    }
    shell("mkdir -p $T/ids && for i in 1 2 3; do cp $T/large_ids.bin $T/ids/web_train_$i.bin; done; cp "
          "$T/large_ids.bin $T/ids/web_val_1.bin");
    for (size_t i = 0; i < N_IDS; i++) {
        static const char *const given[] = {"$T/ids", "\"$T/ids/*.bin\""};
        const bool is_text = strstr(readers[i], "--tokenizer") != NULL;
        for (size_t k = 0; k < 2; k++) {
            expect_run(textf("%s %s", readers[i], given[k]), is_text ? 2 : 1, NULL,
                       is_text ? "holds token ids" : "outside the vocabulary of 256; --vocab ");
        }
    }
}

// Each failure is one line that begins with the program's name.
TEST(errors_are_one_line) {
    expect_exit("train -m tiny --data $T/missing", 1);
    assert_int_equal(strncmp(err, "stepmark: ", 10), 0);
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
    assert_string_equal(out, "");
}

// --- results ---------------------------------------------------------------------------------

TEST(estimate_counts_parameters) {
    static const json_int_t expected[] = {124439808, 354823168, 774030080, 1557611200};
    json_auto_t *rows = run_json("estimate -m small,medium,large,xl");
    assert_int_equal(json_array_size(rows), 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(json_integer_value(json_object_get(json_array_get(rows, i), "model_n_params")), expected[i]);
    }
}

TEST(estimate_of_one_configuration) {
    CHECK_ALL({"estimate -m small", 0, "124,439,808", NULL},
              {"estimate --arch llama --optimizer muon -m tiny -o json", 0, "\"model_arch\": \"llama\"", NULL},
              {"estimate --arch llama --optimizer muon -m tiny -o json", 0, "\"optimizer\": \"muon\"", NULL},
              {"estimate -m tiny -b 1,2 --seq-len 8", 0, "- peak: ", NULL},
              {"estimate -m tiny -b 2 --mode naive", 0, "memory.activations_bytes", NULL},
              {"estimate -m tiny --backend cpu --precision fp8", 1, NULL,
               "cpu: no fp8 products: it has no instructions for them; use bf16; for a device that is not here: "
               "--backend reference"},
              {"estimate -m tiny --backend reference --precision fp8", 0, "model_n_params", NULL},
              {"estimate -m tiny --backend reference --mode tuned", 1, NULL, "no kernels to choose among; use fused\n"},
              {"estimate -m tiny --d-model 48 --n-head 3", 0, " 192   F: width of the MLP", NULL});
}

TEST(estimate_crosses_lists) {
    expect_exit("estimate -m tiny -b 1-4*2,6 --seq-len 8-32+8 --mode naive,fused -o jsonl", 0);
    int n = 0;
    for (char *line = strtok(out, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        json_decref(parse_json(line));
        n++;
    }
    assert_int_equal(n, 4 * 4 * 2);
}

TEST(run_prints_every_format) {
    CHECK_ALL(
        {"run -m tiny --backend reference -b 2 --seq-len 8 -w 1 -r 3", 0, "| step b2s8 |", NULL},
        {"run -m tiny --backend reference -b 2 --seq-len 8 -w 1 -r 3 --no-peaks -o csv", 0, "schema_version,", NULL},
        {"run -o sql", 2, NULL, "sqlite3 reads csv"},
        {"run -m tiny --backend reference -b 2 --seq-len 8 -w 1 -r 3 --no-peaks -o jsonl", 0, "\"status\"", NULL},
        {"run -m tiny --backend reference -w 1 -r 3 --no-peaks", 0, "ok", " B="},
        {"run -m tiny --backend reference -b 1 --seq-len 8 -w 0 -r 1 --no-peaks --pass-type "
         "forward,backward,forward-backward,separate",
         0, "fwd b1s8", NULL},
        {"run -m tiny --backend reference -b 1 --seq-len 8 --mode tuned", 1, "skipped", "tuned"},
        {"run -m tiny --backend cpu -b 1 --seq-len 8 -r 1 --no-peaks --precision fp32,tf32", 0, "skipped", "tf32"},
        {"run -m tiny --backend cpu -b 2 --seq-len 8 -r 1 --no-peaks --precision fp16 --loss-scale 1e9", 1, "error",
         "not finite at a loss scale of 1e+09"},
        {"run --weights $T/model --backend reference -b 1 --seq-len 8 -w 0 -r 1 --no-peaks --accum 2 --dropout 0.1", 0,
         "ok", NULL});
}

TEST(run_measures) {
    json_auto_t *row = run_row("run -m tiny --backend cpu -t 1 -b 2 --seq-len 8 -w 1 -r 3");
    assert_int_equal(json_array_size(json_object_get(row, "samples_ns")), 3);
    assert_int_equal(json_integer_value(json_object_get(row, "model_n_params")), 35712);
    assert_int_equal(json_integer_value(json_object_get(row, "n_threads")), 1);
    assert_true(json_is_number(json_object_get(row, "loss_reference")));
    assert_true(json_is_number(json_object_get(row, "mfu")));
    assert_true(json_is_object(json_object_get(row, "context")));
}

static double number_of(const json_t *row, const char *field) {
    assert_true(json_is_number(json_object_get(row, field)));
    return json_number_value(json_object_get(row, field));
}

// Real tokens are those of tokens/s; with the padding they are all positions.
TEST(documents_fill_rows) {
    static const char *const paddings[] = {"max", "batch", "bucket", "packed"};
    for (size_t i = 0; i < sizeof(paddings) / sizeof(paddings[0]); i++) {
        json_auto_t *row = run_row(
            textf("run -m tiny --backend cpu -t 1 -b 2 --seq-len 16 --documents 2-16 --padding %s -w 1 -r 1 --no-peaks",
                  paddings[i]));
        const double real = number_of(row, "real_tokens");
        assert_string_equal(json_string_value(json_object_get(row, "padding")), paddings[i]);
        assert_true(real >= 2 && fabs(real + number_of(row, "padded_tokens") - 32) < 1e-9);
        assert_true(fabs(number_of(row, "median_ts") * number_of(row, "median_ns") / 1e9 / real - 1) < 1e-6);
        assert_true(number_of(row, "real_tokens_per_s") == number_of(row, "median_ts"));
    }
    CHECK_ALL(
        {"run -m tiny -b 2 --seq-len 16 --padding max", 2, NULL,
         "--padding applies to documents; also give --documents"},
        {"run -m tiny -b 2 --seq-len 16 --long-documents cut", 2, NULL, "--long-documents applies to documents"},
        {"run -m tiny -b 2 --seq-len 16 --documents 2-16 --padding tight", 2, NULL, "none, batch, max, "},
        {"run -m tiny -b 2 --seq-len 16 --documents 20-30 --backend cpu", 1, NULL,
         "give --long-documents cut or split"},
        {"run -m tiny -b 2 --seq-len 16 --documents 2-16 --padding none --backend cpu", 1, NULL, "without padding all"},
        {"run -m tiny -b 1048576 --seq-len 1024 --context 1024 --documents 9-30 --backend cpu", 1, NULL,
         "needed by estimate"},
        {"run -m tiny -b 2 --seq-len 16 --documents 1-9223372036854775807 --backend cpu", 1, NULL, "cannot be taken"},
        {"run -m tiny -b 2 --seq-len 16 --documents 9-3 --backend cpu", 1, NULL, "--documents: of 9 to 3 tokens"},
        {"run -m tiny -b 2 --seq-len 16 --documents 256 --backend cpu", 2, NULL, "outside the vocabulary of 256"},
        {"run -m tiny -b 2 --seq-len 16 --documents $T/missing.json --backend cpu", 1, NULL, "missing.json"},
        {"run -m tiny -b 2 --seq-len 16 --documents $T/short.txt --backend cpu", 1, NULL, "short.txt"},
        {"run -m tiny -b 2 --seq-len 16 --documents 255 --data $T/large_ids.bin --data-format bytes --backend cpu", 1,
         NULL, "no documents"},
        {"run -m tiny -b 2 --seq-len 16 --documents 10 --long-documents split --backend cpu -t 1 -w 0 -r 1 --no-peaks",
         0, "documents 10, long ones split, ", NULL},
        {"run -m tiny -b 2 --seq-len 8 --documents 8-30 --long-documents split --padding none --backend cpu -t 1 -w 0 "
         "-r 1 --no-peaks",
         0, "| ok", NULL},
        {"profile -m tiny --backend cpu -t 1 -b 2 --seq-len 16 --documents 2-16 -w 0 -r 1", 0, "- verdict: ", NULL});
}

TEST(attention_is_chosen) {
    CHECK_ALL(
        {"walk --mode fused --attention naive", 0, "attention_forward", NULL},
        {"walk --attention flash", 0, "flash_attention_backward", NULL},
        {"walk --attention dense", 2, NULL, "naive, flash"},
        {"run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 -r 1 --no-peaks --without loss_head,bias_gradient -o json", 0,
         "\"without\": \"bias_gradient,loss_head\"", NULL},
        {"walk --mode fused --attention flash --without flash_attention", 2, NULL, "contradict each other"},
        {"run -m tiny -b 1 --seq-len 8 --attention naive,flash --backend cpu -t 1 -w 0 -r 1 --no-peaks", 0, "| naive ",
         NULL});
}

// The scale grows after every good step, until steps are skipped.
TEST(run_tells_of_skipped_steps) {
    // By this seed a gradient that overflows is among those that are computed again.
    json_auto_t *row = run_row("run -m tiny --backend cpu -t 1 -b 2 --seq-len 8 -w 0 -r 20 --precision fp16 "
                               "--loss-scale-interval 1 --no-peaks --check-seed 51082654");
    assert_string_equal(json_string_value(json_object_get(row, "loss_scale")), "dynamic");
    assert_true(json_is_true(json_object_get(row, "emulated")));
    assert_true(json_integer_value(json_object_get(row, "n_skipped")) > 0);
    assert_true(json_is_integer(json_object_get(json_object_get(row, "phases"), "scaler_ns")));
}

// The row of a run whose checks draw by `seed`; 0: by what they like.
static json_t *run_by_seed(int seed) {
    json_t *row = run_row(textf("run -m tiny --backend cpu -t 1 -b 2 --seq-len 16 -w 0 -r 12 --no-peaks %s",
                                seed > 0 ? textf("--check-seed %d", seed) : ""));
    assert_true(json_integer_value(json_object_get(row, "checks_ns")) > 0);
    return row;
}

static bool has_same(const json_t *a, const json_t *b, const char *name) {
    assert_true(json_is_string(json_object_get(a, name)));
    return json_equal(json_object_get(a, name), json_object_get(b, name)) != 0;
}

// A seed draws the same places each time; who gives none has the row say which it was.
TEST(check_seed_draws_the_places) {
    json_auto_t *first = run_by_seed(7);
    json_auto_t *second = run_by_seed(7);
    json_auto_t *other = run_by_seed(8);
    json_auto_t *random = run_by_seed(0);
    const int drawn = (int)json_integer_value(json_object_get(random, "check_seed"));
    assert_int_equal(json_integer_value(json_object_get(first, "check_seed")), 7);
    assert_true(has_same(first, second, "spot_check") && has_same(first, second, "repeat_check"));
    assert_false(has_same(first, other, "spot_check") && has_same(first, other, "repeat_check"));
    assert_true(drawn > 0);
    json_auto_t *again = run_by_seed(drawn);
    assert_true(has_same(random, again, "spot_check") && has_same(random, again, "repeat_check"));
    expect_exit("run -m tiny --check-seed 0", 2);
    expect_exit("run -m tiny --check-seed x", 2);
}

// A step as tiny as this is mostly clocks; what counts is that the parts make the whole.
// --fit's time is that of all devices together.
TEST(devices_share_the_time) {
    CHECK_ALL({"run -m tiny --fit 20 --backend cpu -r 1 -w 0 --no-peaks", 0, NULL, "to end within 20 s"},
              {"run -m tiny --max-memory 0.0013 --backend cpu -r 1 -w 0 --no-peaks", 0, NULL, "chose B=2 T=64: 1.23 MiB of 1.33 MiB allowed"},
              {"run -m tiny --max-memory 0.0001 --backend cpu -r 1 -w 0 --no-peaks", 1, "oom", "104.86 KiB allowed"},
              {"run -m tiny --fit 20 --backend cpu,reference -r 1 -w 0 --no-peaks", 0, NULL, "to end within 10 s"});
}

// A timeline is the same of a forecast and of a measured step; its allocation is what is foretold, and what a row found
// allocated, but for whole pages.
TEST(timelines_are_what_is_allocated) {
    static const char *const backends[] = {"cpu", "cpu --mode naive", "reference", "opencl"};
    static const char same[] = "peak_alive_bytes peak_op alive_bytes tensor_bytes";
    enum { PAGES_BYTES = 16 * 4096 };
    for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++) {
        run_steady(textf("run -m tiny --backend %s -b 2 --seq-len 32 -w 0 -r 1 --no-peaks -o json", backends[i]));
        json_auto_t *rows = parse_json(out);
        const json_t *row = json_array_get(rows, 0);
        if (json_array_size(rows) == 0 || json_is_null(json_object_get(row, "device_peak_bytes"))) {
            assert_string_equal(backends[i], "opencl"); // which may have no device here
            continue;
        }
        expect_exit(textf("estimate -m tiny --backend %s -b 2 --seq-len 32 --timeline $T/forecast.json", backends[i]),
                    0);
        expect_exit(
            textf("profile -m tiny --backend %s -b 2 --seq-len 32 -w 0 -r 1 --timeline $T/measured.json", backends[i]),
            0);
        json_auto_t *forecast = json_load_file(temp_path("forecast.json"), 0, NULL);
        json_auto_t *measured = json_load_file(temp_path("measured.json"), 0, NULL);
        char names[sizeof(same)], *rest = NULL;
        memcpy(names, same, sizeof(same));
        for (char *name = strtok_r(names, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest)) {
            FAIL_IF(!json_equal(json_object_get(forecast, name), json_object_get(measured, name)), "%s: other %s",
                    backends[i], name);
        }
        const double planned = json_number_value(json_object_get(forecast, "tensor_bytes")) +
                               json_number_value(json_object_get(forecast, "working_bytes"));
        const double allocated = json_number_value(json_object_get(row, "device_peak_bytes"));
        assert_true(planned == json_number_value(json_object_get(row, "estimated_bytes")));
        assert_true(planned > 0 && json_number_value(json_object_get(row, "estimated_rss_bytes")) > planned);
        FAIL_IF(!(planned <= allocated && allocated <= planned + PAGES_BYTES), "%s: %.0f bytes planned, %.0f allocated",
                backends[i], planned, allocated);
    }
}

TEST(profile_adds_up) {
    json_auto_t *rows =
        run_json("profile -m tiny --backend cpu -t 1 -b 2 --seq-len 8 -w 0 -r 1 --by op --trace $T/trace.json");
    size_t n = json_array_size(rows);
    assert_true(n > 10);
    const json_t *total = json_array_get(rows, n - 1);
    json_int_t sum_ns = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        sum_ns += json_integer_value(json_object_get(json_array_get(rows, i), "self_ns"));
    }
    assert_int_equal(sum_ns, json_integer_value(json_object_get(total, "wall_ns")));
    assert_int_equal(json_array_size(json_object_get(total, "verdict")), 1);
    read_file("trace.json", out);
    json_auto_t *trace = parse_json(out);
    assert_true(json_array_size(json_object_get(trace, "traceEvents")) > n);
    expect_exit("profile -m tiny --backend cpu -t 1 -b 2 --seq-len 8 -w 0 -r 1 --by layer --mode naive", 0);
    expect_text("profile", out, "- verdict: ");
    expect_text("profile", out, "- of roofline: ");
    expect_text("profile", out, "| block 1 ");
    CHECK_ALL({"profile -m tiny -b 2,4", 2, NULL, "takes one value"},
              {"profile -m tiny --by phase", 2, NULL, "op, layer, kind"},
              {"profile -m tiny --trace $T/missing/trace.json -t 1 -b 1 --seq-len 8 -w 0 -r 1", 1, NULL, "missing"});
}

TEST(compare_without_rewrites) {
    json_auto_t *rows = run_json("compare --without loss_head,first_write -m tiny -t 1 -b 1 --seq-len 8 -w 0 -r 6");
    assert_int_equal(json_array_size(rows), 2);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        assert_string_equal(json_string_value(json_object_get(row, "status")), "ok");
        assert_string_equal(json_string_value(json_object_get(row, "without")), i == 0 ? "loss_head" : "first_write");
        assert_true(json_number_value(json_object_get(row, "ratio")) > 0);
        assert_true(json_is_number(json_object_get(row, "ratio_ci95_lo")));
    }
}

TEST(free_memory_is_a_part_of_all) {
    json_auto_t *rows = run_json("devices");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        assert_true(json_number_value(json_object_get(row, "free_bytes")) <=
                    json_number_value(json_object_get(row, "memory_bytes")));
    }
}

TEST(peaks_measures_ceilings) {
    json_auto_t *rows = run_json("devices --peaks --backend cpu -t 1 --min-time 0");
    bool memory = false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        bool measured = json_is_number(json_object_get(row, "best"));
        assert_true(measured != json_is_string(json_object_get(row, "reason")));
        memory |= measured && strcmp(json_string_value(json_object_get(row, "where")), "memory") == 0;
    }
    assert_true(memory);
}

TEST(masks_bind_threads) {
    CHECK_ALL({"run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 -r 1 --cpu-mask 1-0", 2, NULL, "cpu mask '1-0'"},
              {"run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 -r 1 --cpu-mask 0x", 2, NULL, "hexadecimal"},
              {"run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 -r 1 --cpu-mask 65000", 2, NULL, "may use"});
}

TEST(torchrun_is_no_launcher) {
    assert_true(setenv("WORLD_SIZE", "2", 1) == 0 && setenv("TORCHELASTIC_RUN_ID", "none", 1) == 0);
    expect_run("train -m tiny --steps 1", 2, NULL, "(WORLD_SIZE), each of which would work alone; give mpirun -n 2");
    assert_true(unsetenv("TORCHELASTIC_RUN_ID") == 0);
    expect_exit("train -m tiny --steps 1", 0);
    assert_true(unsetenv("WORLD_SIZE") == 0);
}

#define RUN_CPU "run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 -r 1 --no-peaks -o json "

// Where the variable makes OpenBLAS leave something out, it is loaded without it, and the rows that use it say so.
TEST(slowing_environment_is_dropped) {
    assert_int_equal(setenv("OPENBLAS_CORETYPE", "Prescott", 1), 0);
    expect_exit(RUN_CPU "--mode naive", 0);
    const bool is_baseline = strstr(out, "\"isa\": \"baseline\"") != NULL; // without AVX2 nothing is held back
    const bool is_dropped = strstr(out, "OPENBLAS_CORETYPE=Prescott was set") != NULL;
    assert_null(strstr(out, "\"blas_core\": null"));
    assert_true(is_baseline || strstr(out, "\"blas_core\": \"Prescott\"") == NULL);
    expect_exit(RUN_CPU "--mode naive --keep-env", 0);
    assert_true(is_dropped == (strstr(out, "OPENBLAS_CORETYPE=Prescott is set") != NULL));
    expect_exit(RUN_CPU, 0); // mode fused calls it on the baseline alone
    if (!is_baseline) {
        assert_null(strstr(out, "=Prescott was set"));
        assert_non_null(strstr(out, "\"blas_core\": null"));
    }
    assert_int_equal(unsetenv("OPENBLAS_CORETYPE"), 0);
}

// An OpenBLAS with kernels that multiply wrongly is loaded with others, and the row says so.
TEST(products_by_openblas) {
#define TINY_BY_OPENBLAS "run -m tiny -b 1 --seq-len 8 -r 1 -w 0 --no-peaks --products openblas --backend "
    CHECK_ALL(
        {TINY_BY_OPENBLAS "cpu -o json", 0, "\"products\": \"openblas ", NULL},
        {"run -m tiny -b 1 --seq-len 8 -r 1 -w 0 --no-peaks --backend cpu -o json", 0, "\"products\": \"own\"", NULL},
        {TINY_BY_OPENBLAS "cpu --precision bf16", 1, "skipped", "use --precision fp32 or --products own"},
        {TINY_BY_OPENBLAS "cpu --mode tuned", 1, "skipped", "mode tuned chooses"},
        {TINY_BY_OPENBLAS "reference", 1, "skipped", "multiplies by its own kernels alone"},
        {"verify --backend cpu --products openblas --filter '^matmul' --max-elems 2000", 0, "0 failed", NULL});
#undef TINY_BY_OPENBLAS
}

TEST(wrong_openblas_is_not_believed) {
    assert_int_equal(setenv("LD_LIBRARY_PATH", SM_TEST_SHIMS "/openblas", 1), 0);
    expect_exit(RUN_CPU "--mode naive", 0);
    assert_non_null(strstr(out, "OpenBLAS multiplies wrongly with its SkylakeX core"));
    assert_non_null(strstr(out, "\"blas_core\": \"Cooperlake\""));
    assert_int_equal(unsetenv("LD_LIBRARY_PATH"), 0);
}

// OpenBLAS computes with what the processor has, also where it does not know the model, and the row tells; a row that
// does not call it says nothing of it.
static void check_openblas(const char *processor) {
    expect_exit(RUN_CPU "--mode naive", 0);
    json_auto_t *rows = parse_json(out);
    const json_t *device = json_object_get(json_object_get(json_array_get(rows, 0), "context"), "device");
    const char *isa = json_string_value(json_object_get(device, "isa"));
    const char *core = json_string_value(json_object_get(device, "blas_core"));
    const char *told = strstr(out, "OpenBLAS does not know this processor");
    const bool has_avx512 = strncmp(isa, "avx512", 6) == 0 || strcmp(isa, "amx") == 0;
    FAIL_IF(has_avx512 ? !has_word("SkylakeX Cooperlake SapphireRapids", core)
                       : strcmp(isa, "avx2") == 0 && !has_word("Haswell Zen Excavator", core),
            "%s: OpenBLAS computes %s by its %s core", processor, isa, core);
    if (told != NULL) {
        assert_non_null(strstr(told, textf("is loaded with its %s core", core)));
    }
    const bool is_baseline = strcmp(isa, "baseline") == 0;
    expect_exit(RUN_CPU, 0);
    assert_true(is_baseline || strstr(out, "OpenBLAS") == NULL);
}

TEST(openblas_leaves_nothing_out) {
    check_openblas("this processor");
#ifndef __SANITIZE_ADDRESS__ // which has to be loaded before anything else
    static const char *const processors[] = {"unknown", "icelake", "zen3", "baseline"};
    const char *processor = set_variable("PROCESSOR", NULL); // this test may run so itself
    const char *preload = set_variable("LD_PRELOAD", SM_TEST_SHIMS "/processor.so");
    for (size_t i = 0; i < sizeof(processors) / sizeof(processors[0]); i++) {
        set_variable("PROCESSOR", processors[i]);
        check_openblas(processors[i]);
    }
    set_variable("LD_PRELOAD", preload);
    set_variable("PROCESSOR", processor);
#endif
}

TEST(walk_shows_the_step) {
    CHECK_ALL({"walk", 0, "attention_forward", NULL}, {"walk --mode fused", 0, "r = x + add", NULL},
              {"walk --mode fused --without residual_layernorm --all", 0, "--- block 1 ---", NULL},
              {"walk --layer 1 --values", 0, "norm ", NULL},
              {"walk -m xl -b 4 --seq-len 1024 -o csv", 0, "h.0.attn.c_attn.weight", NULL});
}

static json_int_t integer(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

// Every op of the step is in the JSON, in its place, with the batch and the settings that the numbers follow from.
TEST(walk_leaves_nothing_out) {
    json_auto_t *walk = run_json("walk --values -b 2 --seq-len 4");
    const json_t *ops = json_object_get(walk, "ops");
    const json_int_t n_ops = integer(walk, "n_ops");
    assert_int_equal(json_array_size(ops), n_ops);
    bool has_block[2] = {false, false};
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i);
        const json_t *operands = json_object_get(op, "operands");
        const json_t *written = json_array_get(operands, json_array_size(operands) - 1);
        assert_int_equal(integer(op, "index"), i);
        assert_true(json_is_number(json_object_get(written, "norm")));
        if (integer(op, "layer") >= 0) {
            has_block[integer(op, "layer")] = true;
        }
    }
    assert_true(has_block[0] && has_block[1]);
    const json_t *last = json_array_get(ops, json_array_size(ops) - 1);
    assert_string_equal(json_string_value(json_object_get(last, "kind")), "adamw");
    const json_t *tokens = json_object_get(walk, "tokens");
    const json_t *targets = json_object_get(walk, "targets");
    assert_int_equal(json_array_size(tokens), 8);
    assert_int_equal(json_array_size(targets), 8);
    for (size_t i = 0; i < 7; i++) {
        assert_true(json_equal(json_array_get(tokens, i + 1), json_array_get(targets, i)));
    }
    assert_true(json_real_value(json_object_get(json_object_get(walk, "hyper"), "beta1")) == 0.9);
    assert_int_equal(integer(json_object_get(walk, "config"), "n_layer"), 2);

    expect_exit("walk -o jsonl", 0);
    json_int_t n_lines = 0;
    for (const char *c = out; *c != '\0'; c++) {
        n_lines += *c == '\n';
    }
    assert_int_equal(n_lines, n_ops);
    expect_exit("walk --layer 1 -o json", 0);
    json_auto_t *layer = parse_json(out);
    assert_int_equal(json_array_size(json_object_get(layer, "ops")), integer(layer, "n_ops_shown"));
    assert_int_equal(integer(layer, "n_ops"), n_ops);
    assert_true(integer(layer, "n_ops_shown") < n_ops);
    CHECK_ALL({"walk", 0, "are left out (--all shows them)", NULL},
              {"walk --values", 0, "hyper    step 1, lr 0.001", NULL});
    expect_exit("walk --all", 0);
    assert_null(strstr(out, "left out"));
}

// Of small operations, in the mode that test_verify leaves out.
TEST(verify_passes) {
    json_auto_t *rows = run_json("verify --backend cpu -t 1 --mode tuned --max-elems 1000");
    assert_true(json_array_size(rows) > 100);
}

TEST(verify_is_filtered) {
    json_auto_t *rows = run_json("verify --backend cpu -t 1 --filter '^bias_forward.*C=5$' --max-elems 100");
    assert_int_equal(json_array_size(rows), 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "subject")), "N=3 C=5");
    expect_run("verify --backend cpu -t 1 --filter nothing", 2, NULL, "leave no comparison");
    expect_run("verify --backend cpu -t 1 --filter '('", 2, NULL, "--filter: '('");
}

TEST(architectures_and_optimizers_are_chosen) {
    CHECK_ALL({"walk --arch gpt2", 0, "GPT-2 tiny:", NULL},
              {"train --optimizer nothing", 2, NULL, "--optimizer: no value 'nothing'; there are adamw"},
              {"train -m tiny --optimizer sgd --nesterov 0.5 --steps 1", 2, NULL, "--nesterov: 0.5 is neither 0 nor 1"},
              {"train -m tiny --nesterov 1 --steps 1", 2, NULL, "--nesterov: AdamW has no such setting"},
              {"train --init -m tiny --save $T/chosen", 0, "GPT-2 tiny", NULL},
              {"train --weights $T/chosen -m small", 2, NULL, "-m small: the model of --weights has another size"},
              {"train --weights $T/chosen -m 0.6B", 2, NULL, "-m 0.6B: the model of"},
              {"train --weights $T/chosen --arch gpt2", 2, NULL, "--arch: the model of --weights fixes it"});
    json_auto_t *row = run_row("run -m tiny --backend cpu -b 1 --seq-len 8 -w 0 -r 1 --no-peaks");
    assert_string_equal(json_string_value(json_object_get(row, "model_arch")), "gpt2");
    assert_string_equal(json_string_value(json_object_get(row, "optimizer")), "adamw");
}

// Runs mode tuned with that cache folder and further options; its row, to be released.
static json_t *run_tuned_with(const char *options, const char *cache) {
    const char *before = set_variable("XDG_CACHE_HOME", temp_path(cache));
    json_t *row =
        run_row(textf("run --backend cpu -m tiny -t 1 -b 1 --seq-len 8 -w 0 -r 1 --no-peaks --mode tuned %s", options));
    set_variable("XDG_CACHE_HOME", before);
    assert_true(json_integer_value(json_object_get(row, "tune_ns")) > 0);
    return row;
}

static json_t *run_tuned(const char *cache) { return run_tuned_with("--progress", cache); }

static void expect_warning(json_t *row, const char *text) {
    SM_FREED char *warnings = json_dumps(json_object_get(row, "warnings"), 0);
    assert_non_null(warnings);
    FAIL_IF(strstr(warnings, text) == NULL, "no warning \"%s\" in %s", text, warnings);
    json_decref(row);
}

// The choice is remembered; a damaged memory is a warning, and the choice is made again.
TEST(tuned_remembers_its_choices) {
    json_decref(run_tuned("cache"));
    expect_text("run --mode tuned", err, "tuning: matmul_forward");
    json_decref(run_tuned("cache"));
    FAIL_IF(strstr(err, "tuning:") != NULL, "the choices were not remembered\n%s", err);
    json_decref(run_tuned_with("--progress --precision bf16", "cache"));
    FAIL_IF(strstr(err, "tuning:") != NULL, "products of bf16 data have one implementation\n%s", err);
    shell("for f in $T/cache/stepmark/tuning/*; do printf '{' >\"$f\"; done");
    expect_warning(run_tuned("cache"), "is not a file of choices");
    expect_text("run --mode tuned", err, "tuning: matmul_forward");
    json_decref(run_tuned("cache"));
    shell("sed -i '/matmul/s/: \".*\"/: \"magic\"/' $T/cache/stepmark/tuning/*");
    expect_warning(run_tuned("cache"), "is unknown here");
    shell("touch $T/no_folder");
    expect_warning(run_tuned("no_folder"), "Not a directory");
}

// --- training --------------------------------------------------------------------------------

// Losses of a log, by step.
static int read_log(const char *name, double *losses, int most) {
    read_file(name, out);
    int n = 0;
    for (char *line = strtok(out, "\n"); line != NULL && n < most; line = strtok(NULL, "\n")) {
        json_auto_t *step = parse_json(line);
        assert_int_equal(json_integer_value(json_object_get(step, "step")), n + 1);
        assert_int_equal(json_integer_value(json_object_get(step, "tokens")), 2 * 2 * 8);
        losses[n++] = json_number_value(json_object_get(step, "loss"));
    }
    return n;
}

#define TINY "train -m tiny --backend reference -b 2 --seq-len 8 --accum 2 --dropout 0.1 --grad-clip 1 "

TEST(training_goes_on_where_it_stopped) {
    double whole[8], parts[8];
    expect_run(TINY "--steps 6 --log $T/whole.jsonl --save $T/whole", 0, "step 6/6 | loss ", NULL);
    expect_exit(TINY "--steps 4 --log $T/parts.jsonl --save $T/parts", 0);
    expect_run(TINY "--steps 2 --log $T/parts.jsonl --save $T/parts --weights $T/parts", 0, "step 6/6 | loss ", NULL);
    assert_int_equal(read_log("whole.jsonl", whole, 8), 6);
    assert_int_equal(read_log("parts.jsonl", parts, 8), 6);
    for (int i = 0; i < 6; i++) {
        assert_true(whole[i] == parts[i]);
    }
    shell("cmp $T/whole/model.safetensors $T/parts/model.safetensors");
}

// The scale is doubled after each good step, until gradients overflow and steps are skipped.
TEST(scaled_training_goes_on_where_it_stopped) {
    double losses[12];
    const char *fp16 = "--precision fp16 --loss-scale-interval 1 -b 2 --seq-len 8 --accum 2 -t 1";
    const char *parts[] = {"--steps 12 --log $T/whole.fp16 --save $T/whole16", "--steps 8 --save $T/parts16",
                           "--steps 4 --save $T/parts16 --weights $T/parts16"};
    for (int i = 0; i < 3; i++) {
        expect_exit(textf("train -m tiny --backend cpu %s %s", fp16, parts[i]), 0);
        if (i == 0) {
            expect_text("train", out, " | norm - | ");
            expect_text("train", out, " | skipped, loss scale now ");
        }
    }
    assert_int_equal(read_log("whole.fp16", losses, 12), 12);
    shell("grep -q '\"grad_norm\": null.*\"skipped\": true' $T/whole.fp16");
    shell("cmp $T/whole16/model.safetensors $T/parts16/model.safetensors");
    shell("cmp $T/whole16/optimizer.safetensors $T/parts16/optimizer.safetensors");
    expect_exit("train -m tiny --backend cpu -b 2 --seq-len 8 --steps 1 --weights $T/parts16", 0); // in fp32
    expect_run("train -m tiny --loss-scale 0", 2, NULL, "--loss-scale: '0'; give dynamic, none, or a number");
}

TEST(diverged_training_keeps_the_saved_model) {
    expect_exit(TINY "--steps 1 --save $T/kept", 0);
    shell("cp $T/kept/model.safetensors $T/kept.before");
    expect_run(TINY "--steps 50 --lr 1e6 --grad-clip 0 --weight-decay 1e6 --weights $T/kept --save $T/kept", 1, NULL,
               "nothing is saved");
    shell("cmp $T/kept/model.safetensors $T/kept.before");
}

// --- Ctrl-C ----------------------------------------------------------------------------------

// Starts the program, and ends it by SIGINT once that stream, "out" or "err", holds the cue; its exit code.
static int interrupt(const char *arguments, const char *stream, const char *cue) {
    shell("rm -f $T/out $T/err");
    const pid_t child = start_program(arguments);
    do {
        usleep(2000);
        assert_false(has_ended(child));
    } while (access(temp_path(stream), F_OK) != 0 || strstr(file_text(temp_path(stream)), cue) == NULL);
    return end_by(child, SIGINT);
}

static void expect_kept(const char *subcommand) {
    const char *arguments =
        textf("%s -m tiny --backend reference -b 1 --seq-len 8 -r 5000 --progress -o json", subcommand);
    assert_int_equal(interrupt(arguments, "err", "measuring 3/"), 130);
    json_auto_t *rows = parse_json(out);
    const json_t *row = json_array_get(rows, 0);
    assert_string_equal(json_string_value(json_object_get(row, "stop_reason")), "interrupted");
    assert_true(json_array_size(json_object_get(row, "samples_ns")) >= 2);
}

TEST(ctrl_c_keeps_what_was_measured) {
    expect_kept("run");
    expect_kept("loop");
}

// Rows and pairs that were whole by then are printed, and no others.
TEST(ctrl_c_keeps_ablations_and_pairs) {
    assert_int_equal(interrupt("compare --without all -m tiny -t 1 -b 1 --seq-len 8 -w 0 -r 100 -o json", "err",
                               "without matmul_epilogue"),
                     130);
    json_auto_t *rows = parse_json(out);
    assert_true(json_array_size(rows) >= 1);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 0), "status")), "ok");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        assert_true(json_integer_value(json_object_get(json_array_get(rows, i), "n_rounds")) > 0);
    }
#define PAIRED "'run -m tiny --backend reference -b 1 --seq-len 8 -w 0 -r 2'"
    assert_int_equal(interrupt("compare --interleaved " PAIRED " " PAIRED " -o json", "err", "pair 8 of at most 100: "),
                     130);
    expect_text("compare", err, "compared: the pairs that were whole");
    json_auto_t *whole = parse_json(out);
    const json_t *row = json_array_get(json_object_get(whole, "comparisons"), 0);
    assert_true(json_is_string(json_object_get(row, "verdict")));
}

// A program that does not listen is ended.
TEST(ctrl_c_ends_a_deaf_comparison) {
    shell("printf '#!/bin/sh\ntrap \"\" TERM INT\necho started >>$T/deaf.log\nwhile :; do sleep 0.2; done\n' >$T/deaf "
          "&& chmod +x $T/deaf");
    pid_t child = start_program("compare --interleaved \"$T/deaf run\" \"$T/deaf run\"");
    shell("for i in $(seq 1200); do test -s $T/deaf.log && exit 0; sleep 0.05; done; exit 1");
    kill(child, SIGINT);
    for (int i = 0; i < 600 && !has_ended(child); i++) { // a minute is generous
        shell("sleep 0.1");
    }
    assert_int_equal(end_by(child, SIGKILL), 130);
}

TEST(ctrl_c_ends_a_training_in_order) {
    assert_int_equal(
        interrupt("train -m tiny -t 1 -b 1 --seq-len 8 --steps 1000000 --save $T/interrupted", "out", "step 3/"), 130);
    expect_text("train", err, "saved after step");
    expect_exit("train --weights $T/interrupted -t 1 -b 1 --seq-len 8 --steps 1", 0);
}

static int set_up(void **state) {
    assert_int_equal(temp_folder_make(state), 0);
    return system(
        SM_TEST_BINARY
        " train --init -m tiny --seed 7 --save $T/model >/dev/null &&printf 'too short' >$T/short.txt &&head -c 2001 "
        "/dev/zero >$T/odd.bin && ln -s missing/folder $T/nowhere &&head -c 4000 /dev/zero | tr '\\0' '\\377' "
        ">$T/large_ids.bin &&mkdir $T/bad_config $T/truncated $T/lying &&cp $T/model/config.json $T/truncated && head "
        "-c 5000 $T/model/model.safetensors >$T/truncated/model.safetensors &&cp $T/model/config.json $T/lying && "
        "printf '\\377\\377\\377\\377\\377\\377\\377\\177{}' >$T/lying/model.safetensors &&cp "
        "$T/model/model.safetensors $T/bad_config &&sed 's/\"n_layer\": 2/\"n_layer\": \"two\"/' $T/model/config.json "
        ">$T/bad_config/config.json");
}

AROUND_ALL(set_up, temp_folder_remove)
