// json_text.h: JSON to text and from a file, whole or not at all.
#pragma once

#include <jansson.h>

#include "status.h"

// A file's name as a JSON string; a note instead if it is not UTF-8, which JSON requires.
json_t *sm_json_name(const char *name);

// Reads an object from a file of at most max_bytes; duplicate keys are refused. SM_ERR_IO or _FORMAT names the path.
sm_status sm_json_read(const char *path, int64_t max_bytes, json_t **root);

// A value of a line of data as Python's json reads it: with NUL, Infinity and numbers of any size, which are no numbers
// here, and the last of duplicate keys. NULL: none; `error`, which may be NULL, says why.
json_t *sm_json_line(const char *text, size_t n, json_error_t *error);

// Replaces a file (atomic_file.h) by the text that json_dumps makes with those flags.
sm_status sm_json_write(const char *path, const json_t *root, size_t flags);
