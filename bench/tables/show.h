// show.h: the display of a value: 4 digits, a suitable unit, thousands separated.
#pragma once

#include "bench/tables/table.h"

// Texts of numbers, which they return; "" if the value is not finite.
const char *sm_text_ms(double ns, char *text, size_t size_bytes);                          // "1873", "812.3", "0.041"
const char *sm_text_spread(double percent, char text[32]);                                 // "0.6%", "23%", "over 50%"
void sm_append_spread(double percent, char *text, size_t size_bytes);                      // " ± 0.6%", after a figure
const char *sm_text_count(double value, char *text, size_t size_bytes);                    // "124,439,808"
const char *sm_text_bytes(double bytes, char *text, size_t size_bytes);                    // "2.87 GiB"
const char *sm_text_scaled(double value, const char *unit, char *text, size_t size_bytes); // "1.24 TFLOP"

// The same where it is used, cli_say("%s ms", SM_TEXT_MS(ns)): it lives as long as the block around.
#define SM_TEXT_MS(ns)              sm_text_ms((double)(ns), (char[32]){""}, 32)
#define SM_TEXT_SPREAD(percent)     sm_text_spread((percent), (char[32]){""})
#define SM_TEXT_COUNT(value)        sm_text_count((double)(value), (char[32]){""}, 32)
#define SM_TEXT_BYTES(bytes)        sm_text_bytes((double)(bytes), (char[32]){""}, 32)
#define SM_TEXT_SCALED(value, unit) sm_text_scaled((value), (unit), (char[32]){""}, 32)

// "fused", "fused recompute=block padding=max", "fused with OP=FILE"; "bf16 (emulated)"
const char *sm_text_mode(const json_t *record, char *text, size_t size_bytes);
const char *sm_text_precision(const json_t *record, char *text, size_t size_bytes);
#define SM_TEXT_MODE(record)      sm_text_mode((record), (char[192]){""}, 192)
#define SM_TEXT_PRECISION(record) sm_text_precision((record), (char[64]){""}, 64)

const char *sm_text_value(const json_t *record, const char *name, char *text,
                          size_t size_bytes); // as it is; "" if null

// The ending of a noun after a number: "" after 1, otherwise "s".
const char *sm_plural(size_t n);

// Whether a word is one of those that blanks divide.
bool sm_is_word_of(const char *word, const char *words);

// Text under `name`; "" if it is null or not a text.
const char *sm_json_word(const json_t *record, const char *name);

// Number under `name`; NaN if it is null or not a number.
double sm_json_number(const json_t *record, const char *name);

// sm_show functions: the column's own field, in that form.
void sm_show_plain(const json_t *record, const sm_column *column, char *text, size_t size_bytes);
void sm_show_real(const json_t *record, const sm_column *column, char *text, size_t size_bytes); // by its format
void sm_show_ms(const json_t *record, const sm_column *column, char *text, size_t size_bytes);   // of ns
void sm_show_mean(const json_t *record, const sm_column *column, char *text,
                  size_t size_bytes); // "12.3 ± 0.4", with sd
void sm_show_count(const json_t *record, const sm_column *column, char *text, size_t size_bytes);
void sm_show_rate(const json_t *record, const sm_column *column, char *text, size_t size_bytes); // "349 ± 0.6%"
void sm_show_bytes(const json_t *record, const sm_column *column, char *text, size_t size_bytes);
void sm_show_scaled(const json_t *record, const sm_column *column, char *text, size_t size_bytes); // unit: the column's
void sm_show_percent(const json_t *record, const sm_column *column, char *text, size_t size_bytes);   // of a fraction
void sm_show_precision(const json_t *record, const sm_column *column, char *text, size_t size_bytes); // with `emulated`
void sm_show_yes_no(const json_t *record, const sm_column *column, char *text, size_t size_bytes);

// The function of a column without `show`.
sm_show sm_show_by_type(sm_column_type type);

// Columns for the facts of a table with one configuration.
#define SM_COLUMN_OF_MODEL SM_SHARED_COLUMN("model", "size of the model by name", "model")
#define SM_COLUMN_OF_TEST  SM_SHARED_COLUMN("test", "b = batch, s = sequence length", "test")
#define SM_COLUMNS_OF_DEVICE                                                                             \
    SM_TEXT("precision", "fp32, tf32, tf32x3, bf16x6, bf16, fp16 or fp8", .heading = "precision",        \
            .view = SM_SHOWN_WHEN_VARIED, .show = sm_show_precision),                                    \
        SM_BOOLEAN("emulated", "the device widens the data, for lack of instructions"),                  \
        SM_SHARED_COLUMN("device", "device that ran", "device"),                                         \
        SM_SHARED_COLUMN("name", "of the processor or card", "on"),                                      \
        SM_SHARED_COLUMN("isa", "instruction set of the kernels", "isa"),                                \
        SM_INTEGER("n_threads", "", "threads used", .heading = "threads", .view = SM_SHOWN_WHEN_VARIED), \
        SM_SHARED_COLUMN("binding", "where they run", "binding"),                                        \
        SM_SHARED_COLUMN("own_kernels", "kernels of the user's own that ran", "own kernels")
