// report.c: gathers what a page of rows, and one of a leaderboard, is drawn from.
#include "bench/report/report.h"

#include "bench/compare/compare.h"
#include "bench/loop/loop.h"
#include "bench/pages/page.h"
#include "bench/rows/read_rows.h"
#include "bench/rows/identity.h"
#include "bench/rows/row.h"
#include "bench/tables/show.h"

#include <string.h>

enum { MOST_LOOPS = 24 };

static bool is_loop(const sm_report_row *row) {
    return row->is_usable && sm_json_number(row->json, "loop.wall_ns") > 0;
}

// The first loop of the same work, which others are compared with; NULL: this is the first.
static const sm_report_row *baseline_of(const sm_report_rows *report, const sm_report_row *row) {
    for (int i = 0; i < row->index; i++) {
        const sm_report_row *other = &report->rows[i];
        if (is_loop(other) && strcmp(other->work, row->work) == 0 &&
            (sm_identity_difference(other->json, row->json) & SM_SAME_WORK) == 0) {
            return other;
        }
    }
    return NULL;
}

// [{row, baseline, phases: a table}, ...]
static json_t *make_loops(const sm_report_rows *report) {
    json_t *loops = json_array();
    for (size_t i = 0; i < report->n && json_array_size(loops) < MOST_LOOPS; i++) {
        const sm_report_row *row = &report->rows[i];
        if (is_loop(row)) {
            const sm_report_row *baseline = baseline_of(report, row);
            json_t *records = sm_loop_records(row->json, baseline != NULL ? baseline->json : NULL);
            json_array_append_new(loops, json_pack("{s:i, s:o, s:o}", "row", row->index, "baseline",
                                                   baseline != NULL ? json_integer(baseline->index) : json_null(),
                                                   "phases", sm_page_table(&sm_loop_table, records)));
            json_decref(records);
        }
    }
    return loops;
}

// Of the recommendations those with a winner, and why nothing is the fastest; `report --best` prints all.
static json_t *best_of(const json_t *records) {
    json_t *best = json_array();
    SM_EACH(record, records) {
        const char *topic = sm_rows_text(record, "topic");
        if (strcmp(topic, "break-even") != 0 &&
            (strcmp(topic, "fastest") == 0 || sm_rows_text(record, "configuration")[0] != '\0')) {
            json_array_append(best, record);
        }
    }
    return best;
}

sm_status sm_report_write(const sm_rows *rows, const sm_costs *costs, unsigned how, FILE *out) {
    char text[SM_ANSWER_SIZE];
    char reason[SM_ANSWER_SIZE];
    SM_AT_END(sm_report_rows_free) sm_report_rows report = {0};
    SM_OWN(json_t) *published = NULL;
    SM_TRY(sm_bundle_published(&published));
    sm_report_rows_make(rows->rows, &report);
    sm_report_answer(&report, costs, text, reason);
    SM_OWN(json_t) *recommended = sm_recommend(rows->rows);
    SM_OWN(json_t) *best = best_of(recommended);
    SM_OWN(json_t) *loops = make_loops(&report);
    SM_OWN(json_t) *contexts = json_array();
    json_t *page = json_pack("{s:[o, o], s:o, s:o, s:o, s:O, s:O, s:O, s:O, s:O*}", "answer", sm_json_bytes(text),
                             sm_json_bytes(reason), "best", sm_page_table(&sm_recommend_table, best), "table",
                             sm_page_table(&sm_row_table, rows->rows), "rows", sm_report_data(&report, costs, contexts),
                             "contexts", contexts, "loops", loops, "published", published, "warnings", rows->warnings,
                             "rungs", rows->rungs);
    sm_page_write(out, "stepmark: GPT-2 training steps", (const char *const[2]){"group.js", "report.js"}, how, page);
    return SM_OK;
}

void sm_leaderboard_page(const json_t *records, const json_t *refused, FILE *out) {
    json_t *page =
        json_pack("{s:O, s:o, s:o}", "records", records, "table", sm_page_table(&sm_leaderboard_table, records),
                  "refused", sm_page_table(&sm_leaderboard_refused_table, refused));
    sm_page_write(out, "stepmark: leaderboard of GPT-2 training steps", (const char *const[2]){"board.js"}, 0, page);
}
