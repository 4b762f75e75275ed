// model.c: what all architectures share.
#include "src/models/model.h"

const sm_model_size *sm_model_size_find(const sm_model *model, const char *name) {
    for (const sm_model_size *size = model->sizes; size < model->sizes + model->n_sizes; size++) {
        if (strcmp(size->name, name) == 0 || (size->alias != NULL && strcmp(size->alias, name) == 0)) {
            return size;
        }
    }
    return NULL;
}

enum { VOCAB_ALIGNMENT = 64 }; // full tiles and aligned rows for every kernel

int64_t sm_model_padded_vocab(const sm_model_config *config) {
    return (config->vocab + VOCAB_ALIGNMENT - 1) / VOCAB_ALIGNMENT * VOCAB_ALIGNMENT;
}

int64_t sm_model_n_params(const sm_model_config *config) {
    sm_param_spec specs[SM_MAX_PARAM_KINDS];
    return sm_param_count(specs, config->model->params(config, specs), config->n_layer);
}

int64_t sm_model_n_kv_head(const sm_model_config *config) {
    return config->n_kv_head > 0 ? config->n_kv_head : config->n_head;
}

int64_t sm_model_head_dim(const sm_model_config *config) {
    return config->head_dim > 0 ? config->head_dim : config->d_model / config->n_head;
}

typedef enum { SIZE, OPTIONAL, WORD, SWITCH, REAL } field_type;

static const char *const activation_words[] = {
#define X(CODE, name, f, slope) #name,
    SM_ACTIVATION_LIST(X)
#undef X
};

static const struct {
    sm_model_field_info info;
    field_type type;
    size_t at; // in a config
    int64_t most;
} fields[] = {
#define COLUMN_SIZE(column, member)     #column, NULL
#define COLUMN_OPTIONAL(column, member) #column, NULL
#define COLUMN_WORD(column, member)     #column, member##_words
#define COLUMN_SWITCH(column, member)   #column, NULL
#define COLUMN_REAL(column, member)     NULL, NULL
#define KEPT(type, member, column, view, heading, meaning, most) \
    {{#member, heading, COLUMN_##type(column, member)}, type, offsetof(sm_model_config, member), most},
#define FLAG(type, member, column, view, heading, meaning, most, ...) \
    KEPT(type, member, column, view, heading, meaning, most)
    SM_MODEL_FIELDS(FLAG, KEPT)
#undef FLAG
#undef KEPT
};

const sm_model_field_info *sm_model_field_get_info(sm_model_field field) { return &fields[field].info; }

static int64_t value_of(const sm_model_config *config, int field) {
    const void *at = (const char *)config + fields[field].at;
    switch (fields[field].type) {
    case SIZE:
    case OPTIONAL: return *(const int64_t *)at;
    case WORD: return *(const int *)at;
    case SWITCH: return *(const bool *)at;
    case REAL: break;
    }
    return 0;
}

sm_model_config sm_model_told(const sm_model_config *config) {
    sm_model_config told = *config;
    told.n_kv_head = sm_model_n_kv_head(config);
    told.head_dim = sm_model_head_dim(config);
    return told;
}

static bool has(const sm_model *model, int field) { return (model->fields >> field & 1u) != 0; }

void sm_model_field_text(const sm_model_config *config, sm_model_field field, char text[SM_FIELD_TEXT_SIZE]) {
    const sm_model_config told = sm_model_told(config);
    const int64_t value = value_of(&told, (int)field);
    text[0] = '\0';
    if (fields[field].type != WORD) {
        snprintf(text, SM_FIELD_TEXT_SIZE, "%lld", (long long)value);
    } else if (has(config->model, (int)field)) {
        snprintf(text, SM_FIELD_TEXT_SIZE, "%s", fields[field].info.words[value]);
    }
}

static json_t *to_json(const sm_model_config *told, int field) {
    const int64_t value = value_of(told, field);
    char text[SM_FIELD_TEXT_SIZE];
    switch (fields[field].type) {
    case WORD:
        sm_model_field_text(told, (sm_model_field)field, text);
        return text[0] != '\0' ? json_string(text) : json_null();
    case SWITCH: return json_boolean(value != 0);
    default: return value != 0 ? json_integer(value) : json_null();
    }
}

json_t *sm_model_fields_to_json(const sm_model_config *config, json_t *object) {
    const sm_model_config told = sm_model_told(config);
    for (int i = 0; i < SM_MODEL_FIELD_COUNT; i++) {
        const char *column = fields[i].info.column;
        if (column != NULL) {
            json_object_set_new(object, column, to_json(&told, i));
        }
    }
    return object;
}

static sm_status check_fields(const sm_model_config *config) {
    for (int i = 0; i < SM_MODEL_FIELD_COUNT; i++) {
        const int64_t value = value_of(config, i);
        const bool is_usual = value == 0 || (i == SM_MODEL_n_kv_head && value == config->n_head);
        if (fields[i].type == REAL) {
            continue;
        }
        SM_FAIL_IF(value < (fields[i].type == SIZE) || value > fields[i].most, SM_ERR_INVALID,
                   "%s is %lld; it must be 1 to %lld", fields[i].info.name, (long long)value,
                   (long long)fields[i].most);
        SM_FAIL_IF(fields[i].type != SIZE && !is_usual && !has(config->model, i), SM_ERR_INVALID,
                   "%s: is no part of %s's config; leave it out", fields[i].info.name, config->model->title);
    }
    return SM_OK;
}

sm_status sm_model_check(const sm_model_config *config) {
    SM_TRY(check_fields(config));
    SM_FAIL_IF(config->head_dim == 0 && config->d_model % config->n_head != 0, SM_ERR_INVALID,
               "d_model %lld does not divide into %lld heads; choose n_head so that it does",
               (long long)config->d_model, (long long)config->n_head);
    SM_FAIL_IF(config->n_head % sm_model_n_kv_head(config) != 0, SM_ERR_INVALID,
               "n_kv_head %lld does not divide n_head %lld; choose it so that as many heads share each",
               (long long)config->n_kv_head, (long long)config->n_head);
    SM_FAIL_IF(!(config->norm_eps >= 0 && config->norm_eps < 1), SM_ERR_INVALID,
               "norm_eps is %g; it must be at least 0 and below 1", config->norm_eps);
    return config->model->check != NULL ? config->model->check(config) : SM_OK;
}

static const sm_model *const models[] = {
#define X(name) &sm_model_##name,
    SM_MODEL_LIST(X)
#undef X
};

int sm_model_count(void) { return (int)SM_COUNT(models); }

const sm_model *sm_model_at(int index) { return models[index]; }
