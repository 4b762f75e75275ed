// charts.h: the charts of a report. Each is a figure of small panels, one for each work; a chart with a single point is
// left out.
#ifndef STEPMARK_BENCH_REPORT_CHARTS_H
#define STEPMARK_BENCH_REPORT_CHARTS_H

#include "bench/pages/figure.h"
#include "bench/report/rows.h"

// X(code, id, heading, text if no row has the data)
#define SM_CHART_LIST(X)                                                                                           \
    X(SM_CHART_SIDE_BY_SIDE, "side-by-side", "Which is fastest at each work?",                                     \
      "side by side: no two configurations did the same work")                                                     \
    X(SM_CHART_THROUGHPUT, "throughput", "Which batch is fastest?",                                                \
      "tokens per second against batch: no configuration ran with two batches")                                    \
    X(SM_CHART_MEMORY, "memory", "Which batch fits in memory?",                                                    \
      "memory against batch: no configuration ran with two batches and a memory peak")                             \
    X(SM_CHART_SPEEDUP, "speedup", "What does each change gain?",                                                  \
      "speed-up: no configuration ran with two batches, next to one that differs in only one of mode, precision, " \
      "threads or device")                                                                                         \
    X(SM_CHART_PHASES, "phases", "Where does a step's time go?",                                                   \
      "where a step's time goes: no row has an attribution pass")                                                  \
    X(SM_CHART_WARMUP, "warmup", "How long until it is steady?",                                                   \
      "time before the steady state: no row says what came before its samples")                                    \
    X(SM_CHART_SPREAD, "spread", "How steady is a step?", "spread of the step time: no row has raw samples")       \
    X(SM_CHART_DISTRIBUTION, "distribution", "Are there slow steps?",                                              \
      "distribution of the step time: no row has raw samples")                                                     \
    X(SM_CHART_ROOFLINE, "roofline", "What bounds a step?",                                                        \
      "roofline: no row has its work, its memory traffic and the device's ceilings")

typedef enum {
#define X(code, id, heading, missing) code,
    SM_CHART_LIST(X)
#undef X
        SM_CHART_COUNT
} sm_chart;

const char *sm_chart_id(sm_chart chart);
const char *sm_chart_missing(sm_chart chart); // "memory against batch: ..."

// Each adds its charts if rows have the data: at most SM_MAX_PANELS panels each, and SM_MAX_SERIES lines in a panel.
// The last two chart samples and the machine's ceilings (report/charts_samples.c).
sm_status sm_report_charts(const sm_report_rows *report, sm_figures *figures);
void sm_chart_start(const sm_report_rows *report, sm_figures *figures);
void sm_chart_samples(const sm_report_rows *report, sm_figures *figures);
void sm_chart_roofline(const sm_report_rows *report, sm_figures *figures);

json_t *sm_chart_begin(sm_figures *figures, sm_chart chart, const char *kind, const char *caption);
int sm_chart_n_panels(const sm_report_rows *report);

// The panel of report->panels[p] at one batch, with its rows (sm_report_at_batch).
json_t *sm_chart_panel_at_batch(const sm_report_rows *report, int p, sm_figures *figures, json_t *figure,
                                const sm_report_row *rows[SM_MAX_SERIES], int *n);

#endif
