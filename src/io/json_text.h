// json_text.h: JSON as text, whole or not at all.
#ifndef STEPMARK_JSON_TEXT_H
#define STEPMARK_JSON_TEXT_H

#include <jansson.h>

// The text of `value`, by jansson's flags; the caller frees it. NULL if `value` is NULL or memory is short. (json_dumps
// drops a key, and says nothing, when an allocation for it fails.)
char *sm_json_to_text(const json_t *value, size_t flags);

#endif
