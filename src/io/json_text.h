// json_text.h: JSON as text, and from a file, whole or not at all.
#ifndef STEPMARK_JSON_TEXT_H
#define STEPMARK_JSON_TEXT_H

#include <jansson.h>
#include <stdint.h>

#include "status.h"

// The text of `value`, by jansson's flags; the caller frees it. NULL if `value` is NULL or memory is short. (json_dumps
// drops a key, and says nothing, when an allocation for it fails.)
char *sm_json_to_text(const json_t *value, size_t flags);

// A file's name; of one that is not UTF-8, which JSON cannot hold, only that.
json_t *sm_json_name(const char *name);

// A file of at most max_bytes that holds an object, no key of which is there twice. SM_ERR_IO or SM_ERR_FORMAT names
// the path.
sm_status sm_json_read(const char *path, int64_t max_bytes, json_t **root);

#endif
