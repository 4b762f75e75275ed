// train_facts.c: see train/train.h.
#include "cli/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/rows/machine.h"
#include "bench/runs/metrics.h"
#include "bench/tables/json_values.h"
#include "src/io/atomic_file.h"

static json_t *describe_model(const cli_options *options, const sm_model_config *c) {
    const char *size = options->model.weights != NULL ? options->model.weights : options->model.models.texts[0];
    json_t *model =
        sm_model_fields_to_json(c, json_pack("{s: s, s: o}", "arch", c->model->name, "size", sm_json_bytes(size)));
    (void)json_object_set_new(model, "n_params", json_integer(sm_model_n_params(c)));
    return model;
}

json_t *cli_train_configuration(const cli_options *options, const cli_job *job, const sm_device *device) {
    return json_pack(
        "{s: {s: s, s: s, s: s, s: s, s: s, s: s}, s: o, s: i, s: s, s: s, s: f, s: s, s: s, s: s, s: o, s: o*, s: s*, "
        "s: s*, s: s*}",
        "engine", "name", "stepmark", "build_commit", sm_build_commit(), "mode", sm_mode_name(job->mode), "backend",
        device->backend->name, "isa", device->info.isa, "tier", device->info.tier, "model",
        describe_model(options, &job->config), "n_threads", device->info.n_threads, "precision",
        cli_precision_name(job->precision), "recompute", sm_recompute_name(cli_recompute(job)), "dropout",
        options->work.dropout, "loss_scale", cli_loss_scale(options, job->precision), "shard",
        options->processes.shard != 0 ? "optimizer" : "none", "gradients",
        options->processes.gradient_format != 0 ? "bf16" : "fp32", "weights", sm_json_text(options->model.weights),
        "own_kernels", device->info.own_kernels[0] != '\0' ? sm_json_bytes(device->info.own_kernels) : NULL,
        "documents", options->work.documents, "padding",
        options->work.documents != NULL ? sm_padding_name(cli_padding(options)) : NULL, "long_documents",
        options->work.documents != NULL ? sm_long_document_name((sm_long_document)options->work.long_documents) : NULL);
}

enum { HOST_BYTES = 64 };

sm_status cli_train_facts(const cli_options *options, const sm_session *session, sm_comm *comm, json_t **facts) {
    const char *transport = sm_exchange_transport(session->exchange);
    *facts = sm_training_facts(options->argc, options->argv, &session->device->info);
    const int n = sm_comm_size(comm);
    char mine[HOST_BYTES] = "";
    SM_FREED char *all = sm_calloc((size_t)n, HOST_BYTES);
    SM_OWN(json_t) *hosts = json_array();
    (void)gethostname(mine, sizeof(mine) - 1);
    SM_TRY(sm_comm_gather(comm, mine, sizeof(mine), all));
    for (int i = 0; i < n; i++) {
        json_array_append_new(hosts, json_string(all + (size_t)i * HOST_BYTES));
    }
    if (transport[0] != '\0') {
        json_object_set_new(*facts, "transport", json_string(transport));
    }
    json_object_set(*facts, "hosts", hosts);
    json_object_set_new(*facts, "processes", json_integer(sm_comm_size(comm)));
    return SM_OK;
}

json_t *cli_train_end_facts(const sm_session *session, const sm_sensors *sensors, const sm_reading *before) {
    const int64_t resident_bytes = sm_machine_peak_rss_bytes();
    json_t *facts = json_pack("{s: I}", "max_memory_bytes",
                              session->device->info.is_host_processor && resident_bytes > 0
                                  ? (json_int_t)resident_bytes
                                  : (json_int_t)session->executable->memory_bytes);
    // Absent if they cannot be read.
    sm_reading after;
    SM_AT_END(sm_row_free) sm_row row = {0};
    sm_sensors_read(sensors, &after);
    sm_row_init(&row);
    const sm_row_sensors *s = &row.sensors;
    sm_sensors_report(sensors, before, &after, 1, NAN, &row);
    json_object_set_new(facts, "other_cpus", sm_json_real(s->other_cpus));
    json_object_set_new(facts, "own_cpus", sm_json_real(s->own_cpus));
    json_object_set_new(facts, "steal_share", sm_json_real(s->steal_share));
    json_object_set_new(facts, "involuntary_switches", json_integer(s->involuntary_switches));
    return facts;
}

// --- the end of a run ----------------------------------------------------------------------------

static sm_status write_file(const char *folder, const char *name, const char *text) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n < (int)sizeof path ? sm_atomic_write_all(path, text, strlen(text))
                                : sm_fail(SM_ERR_INVALID, "%s: too long a name", folder);
}

sm_status cli_run_complete(const char *folder) {
    SM_OWN(json_t) *metrics = NULL;
    char complete[SM_RUN_COMPLETE_SIZE], digest[SM_DIGEST_SIZE];
    SM_TRY(sm_training_metrics_make(folder, &metrics));
    SM_FREED char *text = json_dumps(metrics, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    sm_status status = write_file(folder, SM_TRAINING_METRICS_FILE, text);
    if (status == SM_OK) {
        sm_digest_bytes(text, strlen(text), digest);
        sm_run_complete_text(metrics, digest, complete);
        status = write_file(folder, SM_RUN_COMPLETE_FILE, complete);
    }
    return status;
}

sm_status cli_train_keep_tokenizer(const char *tokenizer, const char *run, const char *name) {
    char folder[PATH_MAX];
    SM_OWN(sm_tokenizer) *t = NULL;
    if (tokenizer == NULL) {
        return SM_OK;
    }
    SM_FAIL_IF(snprintf(folder, sizeof folder, "%s/%s", run, name) >= (int)sizeof folder, SM_ERR_IO,
               "%.100s...: the path is too long", run);
    SM_TRY(sm_tokenizer_read(tokenizer, &t));
    return sm_tokenizer_write(t, folder);
}
