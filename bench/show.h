// show.h: what a person sees of a value: 4 digits, a unit that fits, thousands apart.
#ifndef STEPMARK_SHOW_H
#define STEPMARK_SHOW_H

#include "record.h"

// Texts of numbers; "" where the value is not finite.
void sm_text_ms(double ns, char *text, size_t size_bytes);                          // "1873", "812.3", "0.041"
void sm_text_count(double value, char *text, size_t size_bytes);                    // "124,439,808"
void sm_text_bytes(double bytes, char *text, size_t size_bytes);                    // "2.87 GiB"
void sm_text_scaled(double value, const char *unit, char *text, size_t size_bytes); // "1.24 TFLOP"
void sm_text_precision(const json_t *record, char *text, size_t size_bytes);        // "bf16 (emulated)"

// Number under `name`; NaN when it is null or no number.
double sm_json_number(const json_t *record, const char *name);

// sm_show functions: the column's own field, in that form.
void sm_show_plain(const json_t *record, const sm_column *column, char *text, size_t size_bytes); // any type
void sm_show_real(const json_t *record, const sm_column *column, char *text, size_t size_bytes);  // "10.94"
void sm_show_ms(const json_t *record, const sm_column *column, char *text, size_t size_bytes);    // of ns
void sm_show_count(const json_t *record, const sm_column *column, char *text, size_t size_bytes);
void sm_show_bytes(const json_t *record, const sm_column *column, char *text, size_t size_bytes);
void sm_show_scaled(const json_t *record, const sm_column *column, char *text, size_t size_bytes); // unit: the column's
void sm_show_percent(const json_t *record, const sm_column *column, char *text, size_t size_bytes);   // of a fraction
void sm_show_precision(const json_t *record, const sm_column *column, char *text, size_t size_bytes); // with `emulated`
void sm_show_yes_no(const json_t *record, const sm_column *column, char *text, size_t size_bytes);

// What a column without a `show` uses.
sm_show sm_show_by_type(sm_column_type type);

#endif
