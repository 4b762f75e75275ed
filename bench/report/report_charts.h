// report_charts.h: the pictures of a report.
#ifndef STEPMARK_REPORT_CHARTS_H
#define STEPMARK_REPORT_CHARTS_H

#include "report_plot.h"
#include "report_rows.h"

// X(code, heading, what is said where no row has what it needs)
#define SM_CHART_LIST(X)                                                                           \
    X(SM_CHART_THROUGHPUT, "Tokens per second against batch", "no row has a batch and a time")     \
    X(SM_CHART_MEMORY, "Memory against batch", "no row has a batch and a memory peak")             \
    X(SM_CHART_WARMUP, "Time before the steady state", "no row says what came before its samples") \
    X(SM_CHART_SPEEDUP, "Speed-up over a matched baseline",                                        \
      "no two rows of the same work differ in only one of mode, precision, threads or device")     \
    X(SM_CHART_SPREAD, "Spread of the step time", "no row has raw samples")                        \
    X(SM_CHART_DISTRIBUTION, "Distribution of the step time", "no row has raw samples")            \
    X(SM_CHART_ROOFLINE, "Roofline", "no row has its work, its memory traffic and the device's ceilings")

typedef enum {
#define X(code, heading, missing) code,
    SM_CHART_LIST(X)
#undef X
        SM_CHART_COUNT
} sm_chart;

const char *sm_chart_heading(sm_chart chart);
const char *sm_chart_missing(sm_chart chart);

// Adds every chart that the rows have data for. At most SM_MAX_PANELS panels and SM_MAX_SERIES lines
// in each; the captions say what found no place.
sm_status sm_report_charts(const sm_report_rows *report, sm_plots *plots);

// Charts of samples and of the machine's ceilings (report_charts_samples.c), each of one panel.
sm_status sm_chart_spread(const sm_report_rows *report, const char *panel, sm_plots *plots);
sm_status sm_chart_distribution(const sm_report_rows *report, const char *panel, sm_plots *plots);
void sm_chart_roofline(const sm_report_rows *report, sm_plots *plots);

// The rows of a panel with one batch: that which most series have; the first row of each series.
// At most SM_MAX_SERIES; their number is returned.
int sm_chart_rows_at_batch(const sm_report_rows *report, const char *panel, const sm_report_row **rows);

#endif
