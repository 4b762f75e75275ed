// row.h: one result: a configuration, its measurement, and how far it can be trusted. Its fields: row_fields.h.
//
// A field that is not known is SM_ABSENT (integers), NaN (reals), "" (texts) or NULL, and is
// written as null. Times are nanoseconds unless the name says otherwise.
//
// Every configuration that was asked for ends as a row. `status` is
//   ok       measured, and the loss was checked
//   oom      did not fit: `reason` says what was asked and what there is
//   timeout  the time limit came first; the samples so far are there
//   skipped  cannot run here: `reason` says why
//   error    failed, or computed a wrong loss: there is no speed then
#pragma once

#include "backend.h"
#include "bench/tables/record.h"
#include "src/io/file_digest.h"
#include "src/models/model.h"
#include "src/train/phases.h"

enum { SM_ROW_SCHEMA_VERSION = 1, SM_ROW_TEXT_SIZE = 128, SM_ROW_REASON_SIZE = 512 };

#define INTEGER(member, ...)           int64_t member;
#define INTEGERS(member, ...)          sm_integers member;
#define REAL(member, ...)              double member;
#define REALS(member, ...)             sm_reals member;
#define BOOLEAN(member, ...)           bool member;
#define TEXT(member, size, ...)        char member[size];
#define JSON(member, ...)              json_t *member;
#define INTEGER_IN(group, member, ...) int64_t member;
#define REAL_IN(group, member, ...)    double member;
#define TEXT_IN(group, member, ...)    TEXT(member, __VA_ARGS__)
#define JSON_IN(group, member, ...)    json_t *member;
#define GROUP(group)                   struct sm_row_##group {
#define END_GROUP(group) \
    }                    \
    group;

// `phases` are parts of one attribution step that do not overlap; they add up to attribution_ns. `loop` is a training
// loop (loop.h), absent in other rows; `sensors` the machine during the headline pass (sensors.h).
typedef struct {
#include "bench/rows/row_fields.h"

    // Not written: nanoseconds of each op in the attribution step of `phases`, for the profile; {NULL, 0}: none.
    sm_integers op_ns;
    sm_integers op_least_ns; // likewise, the least of all attribution steps for each op
    sm_op_parts *op_parts;   // likewise, of all attribution steps together; NULL: unknown
} sm_row;

typedef struct sm_row_phases sm_row_phases;
typedef struct sm_row_loop sm_row_loop;
typedef struct sm_row_sensors sm_row_sensors;

extern const sm_table sm_row_table;

// Sets every field to absent, except schema_version, build_commit, test_time (now) and an empty warnings array.
void sm_row_init(sm_row *row);
#define SM_ROW(name)                      \
    SM_AT_END(sm_row_free) sm_row name; \
    sm_row_init(&(name))
void sm_row_free(sm_row *row); // frees its contents, not the struct

// The machine's facts: cpu_info, and `context`, of which the row holds a reference.
void sm_row_set_machine(sm_row *row, json_t *context);

void sm_row_set_model(sm_row *row, const sm_model_config *config); // the fields of its config

// The facts of a device, opened or not: backend_used, device, isa, tier, n_threads, gpu_info, its warnings, and
// "device" within the context (which is copied for the row).
void sm_row_set_device(sm_row *row, const char *backend, const sm_device_info *info);

// Copies a text into one of the row's arrays, truncated if necessary.
#define SM_ROW_TEXT(array, text) sm_row_copy_text((array), sizeof(array), (text))
void sm_row_copy_text(char *array, size_t size_bytes, const char *text);

#define sm_row_warn(row, ...) sm_json_note((row)->warnings, __VA_ARGS__)

// Sets status and reason from a failure; the reason is the thread's error message.
void sm_row_fail(sm_row *row, sm_status status);

// Removes every figure of speed from a row (columns marked SPEED in row_fields.h), including samples.
void sm_row_clear_speed(sm_row *row);

// The row as a JSON object with every field; the caller owns it.
json_t *sm_row_to_json(const sm_row *row);

// --- writing rows ------------------------------------------------------------------------

typedef sm_record_writer sm_row_writer;

sm_status sm_row_writer_open(sm_format format, FILE *out, sm_row_writer **writer);

// Writes a row as JSON (sm_row_to_json), which it takes ownership of. A row without a status is written as an error, so
// that no reader takes it for a result.
sm_status sm_row_write_record(sm_row_writer *writer, json_t *row);

// A row of which tables for people also show the number in its file, from 1, as `compare FILE#N` takes it; 0: unknown.
// Takes ownership of `row`.
json_t *sm_row_numbered(json_t *row, size_t number);

// Has a table for people end with a few lines on what its columns mean.
void sm_row_writer_explain(sm_row_writer *writer);

// The meaning of the Markdown table's columns, for new users.
void sm_row_write_legend(bool has_peaks, FILE *out); // without peaks, without what follows from them
