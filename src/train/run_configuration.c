#include "src/train/trainer.h"

#include "embedded.h"
#include "src/data/data_files.h"
#include "src/io/json_text.h"

enum { MOST_WARMUP_STEPS = 500 };

sm_status sm_train_source_digest(sm_train_source *source) {
    if (source->digest[0] != '\0') {
        return SM_OK;
    }
    if (source->path != NULL) {
        SM_AT_END(sm_data_files_free) sm_data_files files = {0};
        SM_TRY(sm_data_files_list((char *const *)&source->path, 1, &files));
        return sm_files_digest(files.paths, files.n_files, source->digest, &source->size_bytes);
    }
    const sm_embedded *text = sm_embedded_find(SM_EMBEDDED_TEXT);
    source->size_bytes = (int64_t)text->size_bytes;
    sm_bytes_digest(text->text, text->size_bytes, source->digest);
    return SM_OK;
}

static sm_status set_source(json_t *configuration, const char *name, sm_train_source source) {
    json_t *described = json_null();
    if (source.tokens != NULL) {
        SM_TRY(sm_train_source_digest(&source));
        described = json_pack(
            "{s: o, s: I, s: I, s: s, s: o*}", "path", source.path != NULL ? sm_json_name(source.path) : json_null(),
            "bytes", (json_int_t)source.size_bytes, "tokens", (json_int_t)sm_tokens_count(source.tokens), "digest",
            source.digest, "tokenizer", source.tokenizer != NULL ? sm_json_name(source.tokenizer) : NULL);
    }
    json_object_set_new(configuration, name, described);
    return SM_OK;
}

static void set_work(const sm_train_settings *s, int64_t n_steps, json_t *configuration) {
    const sm_plan *plan = s->session->plan;
    const int64_t n_processes = sm_comm_size(s->comm);
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"seq_len", plan->T},
        {"micro_batch", plan->B},
        {"global_batch", s->global_batch},
        {"grad_accum", s->global_batch / plan->B / n_processes},
        {"n_processes", n_processes},
        {"steps", n_steps},
        {"seed", (int64_t)s->seed},
        {"val_every", s->val_every},
        {"val_batches", s->val_batches},
        {"save_every", s->save_every},
    };
    for (size_t i = 0; i < SM_COUNT(numbers); i++) {
        json_object_set_new(configuration, numbers[i].name, json_integer(numbers[i].value));
    }
    json_object_set_new(configuration, "order", json_string(sm_order_name(s->order)));
}

sm_schedule sm_train_schedule(const sm_train_settings *s, int64_t n_steps) {
    const int64_t share = n_steps / 3 < MOST_WARMUP_STEPS ? n_steps / 3 : MOST_WARMUP_STEPS;
    return (sm_schedule){.kind = s->schedule,
                         .lr = s->optimizer.lr,
                         .final_fraction = s->final_fraction,
                         .warmup_steps = s->warmup_steps == SM_WARMUP_SHARE ? share : s->warmup_steps,
                         .n_steps = n_steps};
}

sm_status sm_run_configuration(const sm_train_settings *s, int64_t n_steps, json_t **configuration) {
    json_auto_t *made = json_object();
    *configuration = NULL;
    json_object_update(made, (json_t *)s->configuration);
    set_work(s, n_steps, made);
    sm_step_settings settings = s->optimizer;
    json_t *optimizer = json_object();
    json_object_set_new(made, "optimizer", optimizer);
    json_object_set_new(optimizer, "name", json_string(s->session->plan->optimizer->name));
    for (int i = 0; i < sm_setting_count(); i++) {
        const double value = *sm_setting_of(&settings, sm_setting_at(i));
        if (!isnan(value)) {
            json_object_set_new(optimizer, sm_setting_at(i)->name, json_real(value));
        }
    }
    // A constant rate has no lowest one.
    const sm_schedule schedule = sm_train_schedule(s, n_steps);
    json_t *described = json_pack("{s: s, s: I, s: I}", "kind", sm_schedule_name(schedule.kind), "warmup_steps",
                                  (json_int_t)schedule.warmup_steps, "n_steps", (json_int_t)schedule.n_steps);
    json_object_set_new(made, "schedule", described);
    if (schedule.kind != SM_SCHEDULE_CONSTANT) {
        json_object_set_new(described, "final_fraction", json_real(schedule.final_fraction));
    }
    SM_TRY(set_source(made, "data", s->data));
    SM_TRY(set_source(made, "val_data", s->validation));
    *configuration = json_incref(made);
    return SM_OK;
}
