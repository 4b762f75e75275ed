// json_values.h: C values as JSON values that are always valid. Absent values and those without a JSON form (NaN,
// infinity) become null; bytes that are not UTF-8 become U+FFFD.
#pragma once

#include "status.h"
#include "utf8.h"

#include <jansson.h>

SM_OWNABLE(json_t, json_decref)

// An integer that is not known.
#define SM_ABSENT INT64_MIN

// Each returns a new reference.
json_t *sm_json_integer(int64_t value);   // SM_ABSENT -> null
json_t *sm_json_real(double value);       // not finite -> null
json_t *sm_json_text(const char *bytes);  // NULL or "" -> null
json_t *sm_json_bytes(const char *bytes); // as sm_json_text, but "" stays ""
json_t *sm_json_integers(const int64_t *values, int64_t n);
json_t *sm_json_reals(const double *values, int64_t n);

// Appends a text, of up to 640 bytes, to an array, unless it is there.
void sm_json_note(json_t *array, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Takes the first of `words`, which are then those after it; false: there was none.
bool sm_next_word(const char **words, char *word, size_t size_bytes);

// Bytes of the control character that `text` begins with, or 0: what a terminal obeys, 1 (U+0001 to U+001F, U+007F) or
// 2 (U+0080 to U+009F), and what turns a text's direction, 3 (U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069).
int sm_control_length(const char *text);

// The place of this very value in an array, from 1; 0: it is not there.
size_t sm_json_place(const json_t *array, const json_t *value);

// Each value of a JSON array in turn, which the loop declares: SM_EACH(row, rows) { ... }. `break` ends it.
#define SM_EACH(value, array)                                                                                    \
    for (size_t value##_at = 0, value##_on = 1; value##_on && value##_at < json_array_size(array); value##_at++) \
        for (json_t *value = (value##_on = 0, json_array_get(array, value##_at)); value != NULL;                 \
             value = NULL, value##_on = 1)

// A JSON value as one line of text; the caller frees it. The flags write reals with 12
// significant digits: these hold every figure that is measured, and keep 0.1 from printing as 0.1000...01.
#define SM_JSON_DUMP_FLAGS (JSON_ENCODE_ANY | JSON_REAL_PRECISION(12))
char *sm_json_dump(const json_t *value);

// The value under a dotted name, "phases.forward_ns"; NULL if there is none. Borrowed.
json_t *sm_json_get(const json_t *object, const char *name);

// Sets it, making the objects on the way. Takes `value` over, also when it fails: 0 done, -1 `value` is NULL, or
// something on the way is no object.
int sm_json_set_new(json_t *object, const char *name, json_t *value);

// Likewise several: sm_json_put(record, {"n", json_integer(n)}, {"test", sm_json_text(test)}). Returns the object.
typedef struct {
    const char *name;
    json_t *value;
} sm_json_member;
json_t *sm_json_put_members(json_t *object, const sm_json_member *members, size_t n);
#define sm_json_put(object, ...)                                       \
    sm_json_put_members(object, (const sm_json_member[]){__VA_ARGS__}, \
                        sizeof((const sm_json_member[]){__VA_ARGS__}) / sizeof(sm_json_member))

// Copies members from another object: "n_seq precision tokens=summary.tokens", the last under another name.
json_t *sm_json_copy(json_t *object, const json_t *from, const char *words);
