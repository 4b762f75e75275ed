// report.h: what is said of any set of rows: a sentence, and a page that draws itself (report.js).
#ifndef STEPMARK_BENCH_REPORT_H
#define STEPMARK_BENCH_REPORT_H

#include "bench/compare/compare.h"
#include "bench/rows/read_rows.h"

// The rows of a report: their names for readers, and whether they support a verdict.
//
//   work    what may be compared: the model and the work but for the batch: "small, 64 tokens, step"; of rows that ran
//           code of the user's own, apart: "..., own code"
//   device  which processor or card of which machine
//   doubt   why a row has no rank, reason or cost anywhere; "": it has

enum { SM_REPORT_NAME_SIZE = 160 };

// NaN if the row has no value.
typedef struct {
    const json_t *json;
    int index;
    const char *host;
    bool is_usable; // has figures
    char work[SM_REPORT_NAME_SIZE];
    char machine[SM_REPORT_NAME_SIZE]; // its processor or card; with the host's name if several hosts have it
    char device[SM_REPORT_NAME_SIZE];
    char doubt[SM_DOUBT_SIZE];
    double tokens_per_s, tokens_lo, tokens_hi; // the interval of the median, or the quartiles
} sm_report_row;

typedef struct {
    sm_report_row *rows;
    size_t n;
} sm_report_rows;

void sm_report_rows_make(const json_t *rows, sm_report_rows *report);
void sm_report_rows_free(sm_report_rows *report);

// The sentence: which device is fastest; and the reason and the cost after it. Returns the row that is the answer; NULL:
// there is no verdict.
enum { SM_ANSWER_SIZE = 1024 };
const sm_report_row *sm_report_answer(const sm_report_rows *report, const sm_costs *costs, char text[SM_ANSWER_SIZE],
                                      char reason[SM_ANSWER_SIZE]);

// Writes the page: self-contained HTML. `how` as for sm_page_write(). `costs` may be NULL.
sm_status sm_report_write(const sm_rows *rows, const sm_costs *costs, unsigned how, FILE *out);

// The leaderboard as a page; both arrays as from sm_leaderboard_make().
void sm_leaderboard_page(const json_t *records, const json_t *refused, FILE *out);

#endif
