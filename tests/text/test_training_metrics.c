// A training's metrics: every figure follows from the log, resumed runs are one run, what is written fits its schema;
// and check-run finds what does not agree.
#include "tests/support/run_program.h"
#include "tests/support/training_runs.h"
#include "bench/stats/stats.h"
#include "bench/tables/show.h"

static const made_run plain = {
    .name = "plain", .n_processes = 2, .global_batch = 4, .n_steps = 25, .step_ms = 10, .comm_ms = 0.5};

static json_t *metrics_of(const char *folder) {
    json_t *metrics = NULL;
    expect_ok(folder, sm_training_metrics_make(folder, &metrics));
    return metrics;
}

static void expect_number(const json_t *metrics, const char *name, double expected) {
    double value = sm_json_number(metrics, name);
    FAIL_IF(!(fabs(value - expected) <= 1e-8 * fabs(expected)), "%s is %.15g, not %.15g", name, value, expected);
}

// --- figures -------------------------------------------------------------------------------------

TEST(figures) {
    const char *folder = make_run_files(&plain);
    json_auto_t *m = metrics_of(folder);
    double times[25], sum_ms = 0, of_last_epoch_ms = 0;
    for (int s = 1; s <= 25; s++) {
        times[s - 1] = made_step_ms(&plain, s) / 1e3;
        sum_ms += made_step_ms(&plain, s);
        of_last_epoch_ms += s > 20 ? made_step_ms(&plain, s) : 0;
    }
    const sm_stats stats = sm_stats_of_reals(times, 25);
    expect_number(m, "summary.timed_steps_sec", sum_ms / 1e3);
    expect_number(m, "summary.step_time_mean_sec", sum_ms / 25e3);
    expect_number(m, "summary.step_time_p50_sec", stats.median);
    expect_number(m, "summary.step_time_p95_sec", stats.p95);
    expect_number(m, "summary.validation_sec", 2 * 0.030);
    expect_number(m, "summary.checkpoint_sec", 5 * 0.020);
    expect_number(m, "summary.startup_sec", 0.5);
    expect_number(m, "summary.other_sec", 0.1);
    expect_number(m, "summary.total_wall_time_sec", sum_ms / 1e3 + 0.06 + 0.1 + 0.5 + 0.1);
    expect_number(m, "summary.tokens_processed_global", 25 * 4 * RUN_SEQ_LEN);
    expect_number(m, "summary.micro_steps", 25 * 2);
    expect_number(m, "summary.mean_tokens_per_sec_global", 25 * 4 * RUN_SEQ_LEN / (sum_ms / 1e3));
    expect_number(m, "summary.best_val_loss", 6.0 / 20);
    expect_number(m, "summary.dataload_time_mean_sec", 0.25e-3);
    expect_number(m, "summary.comm_exposed_time_mean_sec", 0.5e-3);
    expect_number(m, "summary.comm_hidden_time_mean_sec", 1.5e-3);
    expect_number(m, "summary.comm_bytes_per_step", 4096);
    expect_number(m, "summary.max_memory_bytes", 123456);
    assert_int_equal(json_array_size(json_object_get(m, "epochs")), 3);
    const json_t *last = json_array_get(json_object_get(m, "epochs"), 2);
    expect_number(last, "steps", 5);
    expect_number(last, "timed_steps_sec", of_last_epoch_ms / 1e3);
    expect_number(last, "epoch_wall_time_sec", of_last_epoch_ms / 1e3 + 0.020);
    assert_true(json_is_null(json_object_get(last, "val_loss_avg_global")));
}

// But for its starts, a run that was resumed is the run that was not.
TEST(resumed) {
    made_run run = plain;
    run.name = "resumed";
    run.interrupted_at = 12;
    const char *folder = make_run_files(&run);
    const char *whole_folder = make_run_files(&plain);
    json_auto_t *m = metrics_of(folder);
    json_auto_t *whole = metrics_of(whole_folder);
    assert_int_equal(json_array_size(json_object_get(m, "starts")), 2);
    expect_number(m, "summary.startup_sec", 1.0);
    expect_number(m, "summary.other_sec", 0.2);
    expect_number(m, "summary.timed_steps_sec", sm_json_number(whole, "summary.timed_steps_sec"));
    assert_true(json_equal(json_object_get(m, "epochs"), json_object_get(whole, "epochs")));
    assert_string_equal(json_string_value(sm_json_get(m, "completion.log_digest")),
                        json_string_value(sm_json_get(whole, "completion.log_digest")));
}

// Blocks of a series whose neighbours are alike are wider apart than its values, taken one by one, would let expect.
TEST(interval_of_the_mean) {
    double series[400], spread = 0;
    for (int i = 0; i < 400; i++) {
        series[i] = 10 + jitter_of(i, 1);
    }
    double independent = sm_stats_mean_ci95_half(series, 400);
    for (int i = 0; i < 400; i++) {
        series[i] = 10 + jitter_of(i / 20, 1);
        spread += (series[i] - 10) * (series[i] - 10) / 400;
    }
    double alike = sm_stats_mean_ci95_half(series, 400);
    assert_true(independent < 1.5 * 1.96 * sqrt(0.5 / 400));
    assert_true(alike > 3 * 1.96 * sqrt(spread / 400));
    assert_true(isnan(sm_stats_mean_ci95_half(series, 4)));
    // 5, 10 and 20 blocks of the values 1, 2, ...: Student's t of one less, times their standard error.
    static const struct {
        int n, n_blocks;
        double half;
    } cases[] = {{5, 5, 2.7764 * 0.70710678}, {20, 10, 2.2622 * 0.95742711}, {100, 20, 2.0930 * 1.32287566}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int k = 0; k < cases[i].n; k++) {
            series[k] = 1 + k * cases[i].n_blocks / cases[i].n;
        }
        assert_true(fabs(sm_stats_mean_ci95_half(series, cases[i].n) - cases[i].half) < 1e-6);
    }
}

static void edit(const char *folder, const char *command) { shell(textf("cd %s && %s", folder, command)); }

TEST(broken_logs) {
    static const struct {
        const char *edit;
        sm_status status;
        const char *says;
    } cases[] = {
        {"sed -i '3d' log.jsonl", SM_ERR_FORMAT, "line 3: step 4 stands where step 3 belongs|missing"},
        {"sed -i '3p' log.jsonl", SM_ERR_FORMAT, "line 4: step 3 stands where step 4 belongs|repeated"},
        {"truncate -s -5 log.jsonl", SM_ERR_FORMAT, "cut short"},
        {"sed -i '2s/.*/nonsense/' log.jsonl", SM_ERR_FORMAT, "line 2: no JSON object"},
        {"sed -i '2s/\"ms\"/\"us\"/' log.jsonl", SM_ERR_FORMAT, "line 2: no line of a step"},
        {"sed -i '2s/\"ms\": /\"ms\": -/' log.jsonl", SM_ERR_FORMAT, "line 2: no line of a step"},
        {"sed -i '2s/\"epoch\": 1/\"epoch\": 7/' log.jsonl", SM_ERR_FORMAT, "line 3: an earlier epoch"},
        {": > log.jsonl", SM_ERR_FORMAT, "has no step"},
        {"rm log.jsonl", SM_ERR_IO, "log.jsonl: cannot open"},
        {"rm run.json", SM_ERR_IO, "train --run"},
        {"sed -i 's/\"schema_version\": 1/\"schema_version\": 9/' run.json", SM_ERR_FORMAT, "schema_version is not 1"},
        {"sed -i 's/\"starts\"/\"ends\"/' run.json", SM_ERR_FORMAT, "\"starts\" is missing"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *folder = make_run_files(&plain);
        json_t *metrics = NULL;
        edit(folder, cases[i].edit);
        expect_failure(cases[i].edit, sm_training_metrics_make(folder, &metrics), cases[i].status, cases[i].says);
        assert_null(metrics);
    }
}

// --- the schema ----------------------------------------------------------------------------------

static bool is_type(const json_t *value, const char *type) {
    return (strcmp(type, "object") == 0 && json_is_object(value)) ||
           (strcmp(type, "array") == 0 && json_is_array(value)) ||
           (strcmp(type, "string") == 0 && json_is_string(value)) ||
           (strcmp(type, "integer") == 0 && json_is_integer(value)) ||
           (strcmp(type, "number") == 0 && json_is_number(value)) ||
           (strcmp(type, "boolean") == 0 && json_is_boolean(value)) ||
           (strcmp(type, "null") == 0 && json_is_null(value));
}

static bool has_type(const json_t *value, const json_t *types) {
    bool has = json_is_string(types) && is_type(value, json_string_value(types));
    for (size_t i = 0; i < json_array_size(types); i++) {
        has = has || is_type(value, json_string_value(json_array_get(types, i)));
    }
    return has;
}

// The parts of JSON Schema that the document uses: type, const, required, properties, items. A member that the document
// does not know is wrong, too: then the document is old.
static void check_schema(const char *name, const json_t *value, const json_t *schema) {
    const json_t *properties = json_object_get(schema, "properties");
    const json_t *constant = json_object_get(schema, "const");
    const char *key;
    size_t i;
    json_t *item;
    FAIL_IF(!has_type(value, json_object_get(schema, "type")), "%s: not of the schema's type", name);
    assert_true(constant == NULL || json_equal(value, constant));
    json_array_foreach(json_object_get(schema, "required"), i, item) {
        FAIL_IF(json_object_get(value, json_string_value(item)) == NULL, "%s.%s is missing", name,
                json_string_value(item));
    }
    json_object_foreach((json_t *)value, key, item) {
        if (properties == NULL) {
            break;
        }
        const char *member = textf("%.150s.%.80s", name, key);
        FAIL_IF(json_object_get(properties, key) == NULL, "%s is not in the schema", member);
        check_schema(member, item, json_object_get(properties, key));
    }
    json_array_foreach(value, i, item) {
        if (json_object_get(schema, "items") != NULL) {
            check_schema(name, item, json_object_get(schema, "items"));
        }
    }
}

TEST(schema) {
    static const made_run runs[] = {
        {.name = "schema", .n_processes = 1, .global_batch = 4, .n_steps = 25, .step_ms = 10},
        {.name = "short", .n_processes = 1, .global_batch = 4, .n_steps = 1, .step_ms = 10},
        {.name = "two", .n_processes = 2, .global_batch = 4, .n_steps = 25, .step_ms = 10},
    };
    json_auto_t *document = json_load_file("docs/training_metrics.schema.json", 0, NULL);
    assert_non_null(document);
    for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
        const char *folder = make_run_files(&runs[i]);
        json_auto_t *m = metrics_of(folder);
        check_schema(runs[i].name, m, document);
    }
}

TEST(facts) {
    static char program[] = "stepmark";
    char *argv[] = {program, NULL};
    unsetenv("SLURM_JOB_ID");
    json_t *f = sm_training_facts(1, argv, NULL);
    assert_true(json_is_null(json_object_get(f, "scheduler")));
    assert_true(json_is_object(sm_json_get(f, "hardware.cpu")));
    json_decref(f);
    setenv("SLURM_JOB_ID", "77", 1);
    setenv("SLURM_JOB_NUM_NODES", "2", 1);
    setenv("SLURM_RESTART_COUNT", "1", 1);
    setenv("SLURM_JOB_USER", "somebody", 1);
    f = sm_training_facts(1, argv, NULL);
    expect_number(f, "scheduler.job_id", 77);
    expect_number(f, "scheduler.n_nodes", 2);
    expect_number(f, "scheduler.restart_count", 1);
    assert_non_null(sm_json_get(f, "scheduler.variables.SLURM_JOB_ID"));
    assert_null(sm_json_get(f, "scheduler.variables.SLURM_JOB_USER"));
    unsetenv("SLURM_JOB_ID");
    json_decref(f);
}

// --- check-run -------------------------------------------------------------------------------------

// Runs check-run's work on folders or files; the verdict, its message kept.
static sm_status check(char *const *paths, int n, sm_work work) {
    SM_AT_END(sm_training_runs_free) sm_training_runs runs = {0};
    sm_training_runs_read(paths, n, &runs);
    sm_training_runs_compare(&runs, work);
    return sm_training_runs_verdict(&runs);
}

TEST(one_run) {
    static const struct {
        const char *edit;
        const char *says; // NULL: it is valid
    } cases[] = {
        {"true", NULL},
        {"rm RUN_COMPLETE.txt", "RUN_COMPLETE.txt: cannot open|not complete"},
        {"rm training_metrics.json", "training_metrics.json"},
        {"echo '{\"a\\x1b\"' > training_metrics.json", "training_metrics.json: not JSON"},
        {"echo >> training_metrics.json", "has the digest"},
        {"echo '{\"kind\": \"note\"}' >> log.jsonl", "completion.log_"},
        {"sed -i '5s/\"ms\": 9/\"ms\": 8/; 5s/\"ms\": 1/\"ms\": 2/' log.jsonl", "in the log"},
        {"sed -i '5d' log.jsonl", "steps are missing"},
        {"sed -i 's/\"tokens\": 32/\"tokens\": 31/' log.jsonl", "tokens_processed_global"},
        {"sed -i 's/\"seed\": 42/\"seed\": 43/' run.json", "training_config.seed is 42, and 43 in the log"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *folder = make_run(&plain);
        edit(folder, cases[i].edit);
        sm_status status = check(&folder, 1, SM_WORK_FIXED);
        if (cases[i].says == NULL) {
            expect_ok(cases[i].edit, status);
        } else {
            expect_failure(cases[i].edit, status, SM_ERR_INVALID, cases[i].says);
        }
        edit(folder, "rm -f RUN_COMPLETE.txt training_metrics.json");
    }
}

// Figures that do not follow from one another, in metrics without a log.
TEST(metrics_alone) {
    static const struct {
        const char *name;
        double value;
        const char *says;
    } cases[] = {
        {"summary.tokens_processed_global", 801, "the epochs' sum is 800"},
        {"summary.steps", 24, "the epochs' sum is 25"},
        {"summary.timed_steps_sec", 1, "summary.timed_steps_sec is 1,"},
        {"summary.validation_sec", 1, "the epochs' sum is 0.06"},
        {"summary.startup_sec", 1, "summary.untimed_sec"},
        {"summary.mean_tokens_per_sec_global", 1, "tokens / timed seconds"},
        {"summary.other_sec", -1, "its parts' sum"},
        {"training_config.global_batch", 5, "sequence length"},
        {"training_config.micro_batch", 2, "micro-batch x accumulation x processes is 8"},
        {"completion.last_step", 26, "from the first to the last is 26"},
    };
    const char *folder = make_run_files(&plain);
    char *path = temp_path("metrics.json");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        json_auto_t *m = metrics_of(folder);
        assert_int_equal(sm_json_set_new(m, cases[i].name, json_real(cases[i].value)), 0);
        assert_int_equal(json_dump_file(m, path, 0), 0);
        expect_failure(cases[i].name, check(&path, 1, SM_WORK_FIXED), SM_ERR_INVALID, cases[i].says);
    }
}

TEST(together) {
    static const made_run one = {.name = "one", .n_processes = 1, .global_batch = 4, .n_steps = 25, .step_ms = 20};
    static const made_run two = {.name = "two", .n_processes = 2, .global_batch = 4, .n_steps = 25, .step_ms = 11};
    static const made_run weak = {.name = "weak", .n_processes = 2, .global_batch = 8, .n_steps = 25, .step_ms = 21};
    static const struct {
        made_run second;
        const char *says;
    } cases[] = {
        {{.name = "mode", .n_processes = 2, .global_batch = 4, .n_steps = 25, .step_ms = 11, .mode = "naive"},
         "mode: training_config.engine.mode is \"naive\", and \"fused\" in |one"},
        {{.name = "steps", .n_processes = 2, .global_batch = 4, .n_steps = 30, .step_ms = 11},
         "training_config.schedule.n_steps is 30, and 25 in"},
        {{.name = "data", .n_processes = 2, .global_batch = 4, .n_steps = 25, .step_ms = 11, .data_bytes = 999},
         "training_config.data.bytes is 999, and 1000 in"},
        {{.name = "batch", .n_processes = 2, .global_batch = 6, .n_steps = 25, .step_ms = 11},
         "training_config.global_batch is 6, and 4 in"},
    };
    char *paths[2] = {make_run(&one), make_run(&two)};
    expect_ok("strong", check(paths, 2, SM_WORK_FIXED));
    expect_failure("strong as weak", check(paths, 2, SM_WORK_FIXED_A_PROCESS), SM_ERR_INVALID,
                   "global_batch / n_processes is 2, and 4 in");
    paths[1] = make_run(&weak);
    expect_ok("weak", check(paths, 2, SM_WORK_FIXED_A_PROCESS));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        paths[1] = make_run(&cases[i].second);
        expect_failure(cases[i].second.name, check(paths, 2, SM_WORK_FIXED), SM_ERR_INVALID, cases[i].says);
    }
}

// --- the published table ---------------------------------------------------------------------------

// The rows of the published table (scaling.h) in the schema that it was published in: one engine on one device and
// another on more, and a wall time that holds validation and checkpoints.
static void published_run(const char *name, int n_gpus, const char *engine, double tokens_per_s, double wall_s) {
    json_auto_t *m =
        json_pack("{s:s, s:s, s:{s:s, s:s, s:{s:s}, s:{s:s}, s:{s:s}, s:i, s:i, s:i, s:i, s:i, s:i}, s:[], "
                  "s:{s:i, s:i, s:f, s:f}}",
                  "schema_version", "2.0", "run_id", name, "training_config", "engine", engine, "precision", "fp32",
                  "model", "arch", "gpt2", "optimizer", "name", "adamw", "data", "path", "train_small.bin", "seed", 42,
                  "seq_len", 512, "global_batch", 16, "micro_batch", 4, "grad_accum", 16 / (4 * n_gpus), "n_processes",
                  n_gpus, "epochs", "summary", "steps", 3561, "tokens_processed_global", 29171712,
                  "total_wall_time_sec", wall_s, "mean_tokens_per_sec_global", tokens_per_s);
    assert_int_equal(json_dump_file(m, temp_path(name), 0), 0);
}

TEST(published) {
    published_run("gpu1.json", 1, "single-device trainer", 29600, 1017.6);
    published_run("gpu2.json", 2, "distributed trainer", 57289, 522.0);
    published_run("gpu4.json", 4, "distributed trainer", 100791, 296.1);
#define PUBLISHED "$T/gpu1.json $T/gpu2.json $T/gpu4.json"
    CHECK_ALL({"report --check " PUBLISHED, 1,
               "training_config.engine is \"distributed trainer\", and \"single-device trainer\" in", NULL},
              {"report --check " PUBLISHED, 1,
               "summary.timed_steps_sec is missing: the wall time includes validation and checkpoints", NULL},
              {"report --scaling " PUBLISHED, 1, NULL, "summary.timed_steps_sec is missing"},
              {"report --check -o json $T/gpu1.json", 1, "\"status\": \"rejected\"", NULL});
}
