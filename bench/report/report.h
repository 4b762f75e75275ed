// report.h: what is said of any set of rows: a sentence, and a page that draws itself (report.js).
#pragma once

#include "bench/compare/compare.h"

// The sentence: which device is fastest at the work that most rows did, by how much and in what setting; and the reason
// and the cost after it. Returns the place of the row that is the answer; -1: there is no verdict.
enum { SM_ANSWER_SIZE = 1024 };
int sm_report_answer(const json_t *rows, const sm_costs *costs, char text[SM_ANSWER_SIZE], char reason[SM_ANSWER_SIZE]);

// Writes the page: self-contained HTML. `how` as for sm_page_write(). `costs` may be NULL.
sm_status sm_report_write(const sm_rows *rows, const sm_costs *costs, unsigned how, FILE *out);

// The leaderboard as a page. board: [records, refused], as from sm_leaderboard_make().
sm_status sm_leaderboard_page(void *board, FILE *out);
