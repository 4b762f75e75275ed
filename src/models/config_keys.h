// config_keys.h: reads and checks keys of a model's config.json. Messages name path and key: SM_ERR_FORMAT for a value
// of the wrong type, SM_ERR_INVALID for one out of range, SM_ERR_UNSUPPORTED for a feature that stepmark does not
// compute.
#pragma once

#include <jansson.h>

#include "status.h"

// True if the key is present and not null.
bool sm_config_has(const json_t *root, const char *key);

// A whole number of at least 1.
sm_status sm_config_size(const char *path, const json_t *root, const char *key, int64_t *value);

// A number from `least` (included) to below `most`; `fallback` where the key is absent.
sm_status sm_config_real(const char *path, const json_t *root, const char *key, double fallback, double least,
                         double most, double *value);

// true or false; `fallback` where the key is absent.
sm_status sm_config_switch(const char *path, const json_t *root, const char *key, bool fallback, bool *value);

// Keys that transformers gives a meaning which stepmark computes for some values only. Keys that are neither in such a
// list nor read as above have no meaning for the architecture, or none for its loss (dropout, tokens' ids).
typedef struct {
    const char *key;
    const char *computed; // the values, as a JSON array; the message names the first
} sm_config_rule;

// Refuses values that are not computed; absent keys are fine. `place` precedes the keys in messages: "rope_scaling.".
// `rules` ends with a NULL key.
sm_status sm_config_check(const char *path, const char *place, const json_t *root, const sm_config_rule *rules);

// The rules for keys that every architecture has.
extern const sm_config_rule sm_config_common[];

// Makes a model's object from these fields; it takes ownership of their values.
typedef struct {
    const char *key;
    json_t *value;
} sm_config_field;

json_t *sm_config_pack(const sm_config_field *fields, size_t n_fields);
