// loops.h: a report's part on training loops: their time, their bottleneck, the load of the machine.
#ifndef STEPMARK_BENCH_REPORT_LOOPS_H
#define STEPMARK_BENCH_REPORT_LOOPS_H

#include "bench/pages/doc.h"
#include "bench/report/rows.h"

bool sm_report_has_loops(const sm_report_rows *report);

// Figures: stacked phases, compared with the panel's first loop; utilisation, memory and power over time.
sm_status sm_report_loop_figures(const sm_report_rows *report, sm_figures *figures);

// Tables: the verdict of each loop, and its phases in a closed section.
sm_status sm_report_loop_tables(sm_doc *doc, const sm_report_rows *report);

#endif
