// training_runs.h: run folders made by hand: run.json and log.jsonl as a training writes them, with known step times.
#pragma once

#include "tests/support/temp_folder.h"
#include "bench/runs/runs.h"

enum { RUN_SEQ_LEN = 8, RUN_EPOCH_STEPS = 10 };

typedef struct {
    const char *name;
    int n_processes, global_batch, n_steps;
    const char *mode;
    double step_ms;            // of step s: step_ms (1 + jitter of s)
    double comm_ms, hidden_ms; // hidden: 0: 1.5
    int64_t data_bytes;        // 0: 1000
    int interrupted_at;        // 0: one start; else a second one resumes from there
    int n_hosts;               // 0: one
} made_run;

// Between -1 and 1, never the same pattern twice.
static inline double jitter_of(int step, int n_processes) { return sin(12.9898 * step + 78.233 * n_processes); }

static inline double made_step_ms(const made_run *run, int step) {
    return run->step_ms * (1 + 0.02 * jitter_of(step, run->n_processes));
}

static inline json_t *made_configuration(const made_run *run) {
    json_t *c = json_pack(
        "{s:{s:s, s:s, s:s, s:s, s:s}, s:{s:s, s:i, s:i}, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:s, s:f, s:{s:s, s:f}, "
        "s:{s:s, s:i}, s:i, s:s, s:{s:s, s:I, s:s}, s:n}",
        "engine", "name", "stepmark", "build_commit", "0123456789ab", "mode", run->mode != NULL ? run->mode : "fused",
        "backend", "cpu", "isa", "avx2", "model", "arch", "gpt2", "n_layer", 2, "vocab", 256, "seq_len", RUN_SEQ_LEN,
        "micro_batch", 1, "global_batch", run->global_batch, "grad_accum", run->global_batch / run->n_processes,
        "n_processes", run->n_processes, "n_threads", 1, "shard", "none", "precision", "fp32", "dropout", 0.0,
        "optimizer", "name", "adamw", "lr", 1e-3, "schedule", "kind", "constant", "n_steps", run->n_steps, "seed", 42,
        "order", "sequential", "data", "path", run->name, "bytes",
        (json_int_t)(run->data_bytes != 0 ? run->data_bytes : 1000), "digest", "fnv1a64:0", "val_data");
    assert_non_null(c);
    return c;
}

static inline json_t *made_start(const made_run *run, int from_step, int to_step, const char *reason, double wall_ms) {
    json_t *hosts = json_array();
    for (int i = 0; i < run->n_processes; i++) {
        json_array_append_new(hosts, json_sprintf("host%d", run->n_hosts > 1 ? i % run->n_hosts : 0));
    }
    json_t *s = json_pack("{s:s, s:i, s:f, s:i, s:o, s:{}, s:{s:s}, s:{s:{s:s}}, s:n, s:{s:i, s:s, s:f, s:I}}",
                          "time_utc", "2026-11-22T10:00:00Z", "from_step", from_step, "startup_ms", 500.0, "processes",
                          run->n_processes, "hosts", hosts, "environment", "host", "name", "one", "hardware", "cpu",
                          "name", "some cpu", "scheduler", "end", "step", to_step, "reason", reason, "wall_ms", wall_ms,
                          "max_memory_bytes", (json_int_t)123456);
    assert_non_null(s);
    return s;
}

// The log: a validation of 30 ms after each epoch, a checkpoint of 20 ms after each step that divides by 5. Returns
// the ms of steps first..last and of what followed them.
static inline double made_log(const made_run *run, FILE *log, int first, int last) {
    double sum_ms = 0;
    for (int s = first; s <= last; s++) {
        double ms = made_step_ms(run, s);
        sum_ms += ms;
        fprintf(log,
                "{\"step\": %d, \"loss\": %.9g, \"grad_norm\": 1, \"lr\": 0.001, \"ms\": %.9g, \"tokens\": %d, "
                "\"epoch\": %d, \"data_ms\": 0.25, \"comm_ms\": %.9g%s}\n",
                s, 5.0 / s, ms, run->global_batch * RUN_SEQ_LEN, 1 + (s - 1) / RUN_EPOCH_STEPS,
                run->n_processes > 1 ? run->comm_ms : 0.0,
                run->n_processes > 1 ? textf(", \"comm_hidden_ms\": %.9g, \"comm_bytes\": 4096",
                                             run->hidden_ms > 0 ? run->hidden_ms : 1.5)
                                     : "");
        if (s % RUN_EPOCH_STEPS == 0) {
            fprintf(log, "{\"kind\": \"validation\", \"step\": %d, \"loss\": %.9g, \"tokens\": 64, \"ms\": 30}\n", s,
                    6.0 / s);
            fprintf(log, "{\"kind\": \"epoch\", \"epoch\": %d, \"step\": %d}\n", s / RUN_EPOCH_STEPS, s);
            sum_ms += 30;
        }
        if (s % 5 == 0) {
            fprintf(log, "{\"kind\": \"checkpoint\", \"step\": %d, \"ms\": 20, \"background_ms\": null}\n", s);
            sum_ms += 20;
        }
    }
    return sum_ms;
}

static inline void write_json(const char *folder, const char *name, const json_t *value) {
    assert_int_equal(json_dump_file(value, textf("%s/%s", folder, name), JSON_INDENT(1)), 0);
}

// The folder with run.json and log.jsonl. Each start of the processes ran 100 ms beyond what the log tells.
static inline char *make_run_files(const made_run *run) {
    char *folder = temp_path(run->name);
    json_t *starts = json_array();
    const int cut = run->interrupted_at;
    shell(textf("mkdir -p %s", folder));
    FILE *log = fopen(textf("%s/log.jsonl", folder), "w");
    assert_non_null(log);
    if (cut > 0) {
        json_array_append_new(starts, made_start(run, 0, cut, "signal", 600 + made_log(run, log, 1, cut)));
    }
    json_array_append_new(
        starts, made_start(run, cut, run->n_steps, "complete", 600 + made_log(run, log, cut + 1, run->n_steps)));
    fclose(log);
    json_auto_t *whole =
        json_pack("{s:i, s:s, s:o, s:s, s:o}", "schema_version", 1, "run_id", run->name, "configuration",
                  made_configuration(run), "command_line", "stepmark train", "starts", starts);
    assert_non_null(whole);
    write_json(folder, "run.json", whole);
    return folder;
}

// Likewise with training_metrics.json and RUN_COMPLETE.txt.
static inline void complete_run(const char *folder) {
    char digest[SM_DIGEST_SIZE], text[SM_RUN_COMPLETE_SIZE];
    json_auto_t *metrics = NULL;
    expect_ok(folder, sm_training_metrics_make(folder, &metrics));
    write_json(folder, SM_TRAINING_METRICS_FILE, metrics);
    expect_ok(folder, sm_digest_file(textf("%s/%s", folder, SM_TRAINING_METRICS_FILE), digest));
    sm_run_complete_text(metrics, digest, text);
    temp_write(textf("%s/%s", folder, SM_RUN_COMPLETE_FILE), text, strlen(text));
}

static inline char *make_run(const made_run *run) {
    char *folder = make_run_files(run);
    complete_run(folder);
    return folder;
}
