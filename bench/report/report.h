// report.h: what is said of any set of rows: a sentence, and a page that draws itself (report.js).
#ifndef STEPMARK_BENCH_REPORT_H
#define STEPMARK_BENCH_REPORT_H

#include "bench/compare/costs.h"
#include "bench/report/rows.h"
#include "bench/rows/read_rows.h"

// The sentence: which device is fastest; and the reason and the cost after it. Returns the row that is the answer; NULL:
// there is no verdict.
enum { SM_ANSWER_SIZE = 1024 };
const sm_report_row *sm_report_answer(const sm_report_rows *report, const sm_costs *costs, char text[SM_ANSWER_SIZE],
                                      char reason[SM_ANSWER_SIZE]);

// Writes the page: self-contained HTML. `how` as for sm_page_write(). `costs` may be NULL.
sm_status sm_report_write(const sm_rows *rows, const sm_costs *costs, unsigned how, FILE *out);

// The rows for the page's script: [{row: {...}, device, work, mode, precision, doubt, why, cost}, ...]. row.context is
// an index into `contexts`, an array that this fills.
json_t *sm_report_data(const sm_report_rows *report, const sm_costs *costs, json_t *contexts);

// The leaderboard as a page; both arrays as from sm_leaderboard_make().
void sm_leaderboard_page(const json_t *records, const json_t *refused, FILE *out);

#endif
