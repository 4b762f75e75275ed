// report_rows.h: rows as a report sees them: one struct of plain numbers and short names a row.
//
//   panel   what may share a picture: the model and the work but for the batch: "small, 64 tokens, step"
//   series  what a line of a picture is of: device, mode, precision, threads, as far as they differ
//           between the rows of the report
#ifndef STEPMARK_REPORT_ROWS_H
#define STEPMARK_REPORT_ROWS_H

#include "json_values.h"
#include "status.h"

#include <stdbool.h>
#include <stddef.h>

enum { SM_SERIES_NAME_SIZE = 160, SM_MAX_SERIES = 8, SM_MAX_PANELS = 4 };

// NaN where the row does not say. Times in seconds.
typedef struct {
    const json_t *json;
    const char *status;
    bool usable; // has figures
    char panel[SM_SERIES_NAME_SIZE];
    char series[SM_SERIES_NAME_SIZE];
    double batch, tokens_per_s, tokens_lo, tokens_hi; // the interval of the median, or the quartiles
    double step_s;
    double memory_bytes; // of the device where it has memory of its own, else of the process
    double open_s, build_s, tune_s, first_step_s, warmup_s;
    double flops, bytes, peak_flops, peak_bandwidth;
} sm_report_row;

typedef struct {
    sm_report_row *rows;
    size_t n;
} sm_report_rows;

sm_status sm_report_rows_make(const json_t *rows, sm_report_rows *report);
void sm_report_rows_free(sm_report_rows *report);

// Distinct texts in the order of their first row, at most `max`; how many there are in all is returned.
typedef struct {
    const char *names[16];
    int n;
} sm_names;

typedef const char *(*sm_name_of)(const sm_report_row *row); // NULL: the row does not count
int sm_report_names(const sm_report_rows *report, sm_name_of name_of, int max, sm_names *names);

// Panels that have rows with figures, those with most rows first.
int sm_report_panels(const sm_report_rows *report, sm_names *panels);

// Series of a panel that have rows with figures. More than SM_MAX_SERIES is returned where some found no place.
int sm_report_series(const sm_report_rows *report, const char *panel, sm_names *series);

// "cpu avx512 fused fp32 t2": everything that names how a row ran.
void sm_report_how(const json_t *row, char *text, size_t size_bytes);

// "batch 4", or "batch not named".
void sm_report_batch(const sm_report_row *row, char *text, size_t size_bytes);

#endif
