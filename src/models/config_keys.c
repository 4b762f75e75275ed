// config_keys.c: see config_keys.h.
#include "src/models/config_keys.h"

#include <string.h>

#include "src/io/input_file.h"

bool sm_config_has(const json_t *root, const char *key) {
    const json_t *item = json_object_get(root, key);
    return item != NULL && !json_is_null(item);
}

sm_status sm_config_size(const char *path, const json_t *root, const char *key, int64_t *value) {
    const json_t *item = json_object_get(root, key);
    if (item == NULL) {
        return sm_fail(SM_ERR_FORMAT, "%s: has no %s", path, key);
    }
    if (!json_is_integer(item)) {
        return sm_fail(SM_ERR_FORMAT, "%s: %s is not a whole number", path, key);
    }
    *value = json_integer_value(item);
    if (*value < 1 || *value > INT32_MAX) {
        return sm_fail(SM_ERR_INVALID, "%s: %s is %lld; it must be 1 to %d", path, key, (long long)*value, INT32_MAX);
    }
    return SM_OK;
}

sm_status sm_config_real(const char *path, const json_t *root, const char *key, double fallback, double least,
                         double most, double *value) {
    const json_t *item = json_object_get(root, key);
    *value = fallback;
    if (item == NULL) {
        return SM_OK;
    }
    if (!json_is_number(item)) {
        return sm_fail(SM_ERR_FORMAT, "%s: %s is not a number", path, key);
    }
    *value = json_number_value(item);
    if (!(*value >= least && *value < most)) {
        return sm_fail(SM_ERR_INVALID, "%s: %s is %g; it must be at least %g and below %g", path, key, *value, least,
                       most);
    }
    return SM_OK;
}

sm_status sm_config_check_text(const char *path, const json_t *root, const char *key, const char *const *accepted) {
    const char *value = json_string_value(json_object_get(root, key));
    if (value == NULL) {
        return sm_fail(SM_ERR_FORMAT, "%s: %s is not a string", path, key);
    }
    for (int i = 0; accepted[i] != NULL; i++) {
        if (strcmp(value, accepted[i]) == 0) {
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_UNSUPPORTED, "%s: %s is '%.64s'; only '%s' is supported", path, key,
                   sm_is_printable(value) ? value : "?", accepted[0]);
}

sm_status sm_config_switch(const char *path, const json_t *root, const char *key, bool fallback, bool *value) {
    const json_t *item = json_object_get(root, key);
    *value = item == NULL ? fallback : json_is_true(item);
    if (item != NULL && !json_is_boolean(item)) {
        return sm_fail(SM_ERR_FORMAT, "%s: %s is neither true nor false", path, key);
    }
    return SM_OK;
}

sm_status sm_config_check_switch(const char *path, const json_t *root, const char *key, bool only) {
    bool value = false;
    SM_TRY(sm_config_switch(path, root, key, only, &value));
    if (value != only) {
        return sm_fail(SM_ERR_UNSUPPORTED, "%s: %s is %s; only %s is supported", path, key, only ? "false" : "true",
                       only ? "true" : "false");
    }
    return SM_OK;
}

json_t *sm_config_pack(const sm_config_field *fields, size_t n_fields) {
    json_t *root = json_object();
    bool complete = root != NULL;
    for (size_t i = 0; i < n_fields; i++) {
        complete = json_object_set_new(root, fields[i].key, fields[i].value) == 0 && complete;
    }
    if (!complete) {
        json_decref(root);
        return NULL;
    }
    return root;
}
