// hf_config.c: config.json as a file; the model's own code reads the rest.
#include "src/io/input_file.h"
#include "src/io/json_text.h"
#include "src/models/config_keys.h"
#include "src/weights/model_folder.h"

enum { MAX_CONFIG_BYTES = 1 << 20 };

// ---- reading ----

static sm_status find_model(const char *path, const json_t *root, const sm_model **model) {
    const json_t *type = json_object_get(root, "model_type");
    const char *name = json_string_value(type);
    char known[256] = ""; // "'gpt2', 'llama'"
    SM_FAIL_IF(type == NULL, SM_ERR_FORMAT, "%s: has no model_type", path);
    SM_FAIL_IF(name == NULL, SM_ERR_FORMAT, "%s: model_type is not a string", path);
    for (int i = 0; i < sm_model_count(); i++) {
        *model = sm_model_at(i);
        if (strcmp(name, (*model)->hf_model_type) == 0) {
            return SM_OK;
        }
        sm_append(known, sizeof known, "%s'%s'", i > 0 ? ", " : "", (*model)->hf_model_type);
    }
    return sm_fail(SM_ERR_UNSUPPORTED, "%s: model_type is '%.64s'; supported: %s", path,
                   sm_is_printable(name) ? name : "?", known);
}

// "architectures" may be missing. It names the head, which must be the one that is trained here.
static sm_status check_architectures(const char *path, const json_t *root, const sm_model *model) {
    const json_t *names = json_object_get(root, "architectures");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        bool is_known = false;
        for (int k = 0; name != NULL && k < 2 && model->hf_architectures[k] != NULL; k++) {
            is_known |= strcmp(name, model->hf_architectures[k]) == 0;
        }
        SM_FAIL_IF(
            !is_known, SM_ERR_UNSUPPORTED, "%s: architectures has '%.64s'; of model_type '%s' only '%s' is supported",
            path, name != NULL && sm_is_printable(name) ? name : "?", model->hf_model_type, model->hf_architectures[0]);
    }
    return SM_OK;
}

sm_status sm_hf_config_read(const char *path, sm_model_config *config) {
    json_auto_t *root = NULL;
    sm_model_config read = {0};
    SM_TRY(sm_json_read(path, MAX_CONFIG_BYTES, &root));
    SM_TRY(find_model(path, root, &read.model));
    SM_TRY(check_architectures(path, root, read.model));
    SM_TRY(sm_config_check(path, "", root, sm_config_common));
    SM_TRY(read.model->read_config(path, root, &read));
    const sm_status status = sm_model_check(&read);
    SM_FAIL_IF(status != SM_OK, status, "%s: %s", path, sm_error_message());
    *config = read;
    return SM_OK;
}

// ---- writing ----

// As many significant digits as all numbers need to read back as the same.
static int digits_of_reals(json_t *root) {
    const char *key;
    json_t *value;
    int digits = 1;
    json_object_foreach(root, key, value) {
        for (; json_is_real(value) && digits < 17; digits++) {
            if (strtod(SM_TEXT_IN(64, "%.*g", digits, json_real_value(value)), NULL) == json_real_value(value)) {
                break;
            }
        }
    }
    return digits;
}

sm_status sm_hf_config_write(const char *path, const sm_model_config *config, double dropout_p) {
    json_auto_t *root = config->model->write_config(config, dropout_p);
    const size_t digits = (size_t)digits_of_reals(root);
    return sm_json_write(path, root, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(digits));
}
