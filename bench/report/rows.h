// rows.h: rows as a report sees them: one struct of plain numbers and short names a row.
//
//   panel   what may share a picture: the model and the work but for the batch: "small, 64 tokens, step";
//           of rows that ran code of the user's own, apart: "..., own code"
//   device  which processor or card of which machine: it has one colour throughout a page
//   series  what a line of a picture is of: device, mode, precision, threads, as far as they differ
//           between the rows of the report
#ifndef STEPMARK_BENCH_REPORT_ROWS_H
#define STEPMARK_BENCH_REPORT_ROWS_H

#include "status.h"
#include "bench/tables/json_values.h"

#include <stdbool.h>
#include <stddef.h>

enum { SM_SERIES_NAME_SIZE = 160, SM_MAX_SERIES = 10, SM_MAX_PANELS = 6 };

// NaN if the row has no value. Times in seconds.
typedef struct {
    const json_t *json;
    int index;
    const char *status;
    const char *host;
    bool usable; // has figures
    char panel[SM_SERIES_NAME_SIZE];
    char machine[SM_SERIES_NAME_SIZE]; // its processor or card; with the host's name if several hosts have it
    char device[SM_SERIES_NAME_SIZE];
    char series[SM_SERIES_NAME_SIZE];
    int panel_id; // index in sm_report_rows.panels
    int device_id;
    int series_id;
    int colour;                                       // the device's; in a report of one device the series'
    int style;                                        // shape and dashes
    double batch, tokens_per_s, tokens_lo, tokens_hi; // the interval of the median, or the quartiles
    double step_s;
    double memory_bytes; // of a device with its own memory, otherwise of the process
    double open_s, build_s, tune_s, first_step_s, warmup_s;
    double flops, bytes, peak_flops, peak_bandwidth;
} sm_report_row;

typedef struct {
    const char *name;
    int id;
    size_t n_usable; // rows with figures
    double most_tokens_per_s;
} sm_report_panel;

typedef struct {
    sm_report_row *rows;
    size_t n;
    sm_report_panel *panels; // those with figures; most rows first
    int n_panels;
    int n_devices;
    int n_series;
} sm_report_rows;

sm_status sm_report_rows_make(const json_t *rows, sm_report_rows *report);
void sm_report_rows_free(sm_report_rows *report);

// The row with the most tokens/s of each series of a panel, or of each device, best first: at most SM_MAX_SERIES.
// Returns the number of all; *n of them are in `rows`.
int sm_report_best(const sm_report_rows *report, int panel_id, bool by_device, const sm_report_row *rows[SM_MAX_SERIES],
                   int *n);

// The rows whose series appear in a panel's charts: the fastest of each device, then the fastest others. Returns their
// number.
int sm_report_chosen(const sm_report_rows *report, int panel_id, const sm_report_row *rows[SM_MAX_SERIES]);

// The rows of a panel at one batch, which most of its chosen series have; one of each. Returns their number.
int sm_report_at_batch(const sm_report_rows *report, int panel_id, const sm_report_row *rows[SM_MAX_SERIES]);

// "cpu avx512 fused fp32 t2": all fields on how a row ran.
void sm_report_how(const json_t *row, char *text, size_t size_bytes);

// "batch 4", or "batch not named".
void sm_report_batch(const sm_report_row *row, char *text, size_t size_bytes);

#endif
