// config_keys.h: keys of a model's config.json, read with suspicion. Messages name path and key: SM_ERR_FORMAT where a
// value has the wrong type, SM_ERR_INVALID where it is out of range, SM_ERR_UNSUPPORTED where stepmark does not compute
// it.
#ifndef STEPMARK_CONFIG_KEYS_H
#define STEPMARK_CONFIG_KEYS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "status.h"

// There, and not null.
bool sm_config_has(const json_t *root, const char *key);

// A whole number of at least 1.
sm_status sm_config_size(const char *path, const json_t *root, const char *key, int64_t *value);

// A number from `least` (included) to below `most`; `fallback` where the key is absent.
sm_status sm_config_real(const char *path, const json_t *root, const char *key, double fallback, double least,
                         double most, double *value);

// A text that must be one of `accepted`, a list that ends with NULL.
sm_status sm_config_check_text(const char *path, const json_t *root, const char *key, const char *const *accepted);

// true or false; `fallback` where the key is absent.
sm_status sm_config_switch(const char *path, const json_t *root, const char *key, bool fallback, bool *value);

// true or false, of which `only` is the one supported; so is an absent key.
sm_status sm_config_check_switch(const char *path, const json_t *root, const char *key, bool only);

// The object that a model writes, from these fields; it takes ownership of their values. NULL: out of memory, also for
// a value.
typedef struct {
    const char *key;
    json_t *value;
} sm_config_field;

json_t *sm_config_pack(const sm_config_field *fields, size_t n_fields);

#endif
