// report.c: gathers what a page of rows, and one of a leaderboard, is drawn from.
#include "bench/report/report.h"

#include "bench/loop/loop.h"
#include "bench/pages/page.h"
#include "bench/rows/identity.h"
#include "bench/rows/row.h"
#include "bench/tables/show.h"

#include <string.h>

enum { MOST_LOOPS = 24 };

// --- the rows, for the page's script to show and export -------------------------------------------

// Limit over all rows. If there are more, rows with many samples keep every second, third, ... of them.
enum { MOST_SAMPLES = 150000, FEWEST_OF_A_ROW = 50, MOST_CONTEXTS = 64, NO_CONTEXT = -1 };

// Fields that follow from others, or matter only on the measured machine.
static const char left_out[] = "samples_ts losses warmup_samples_ns context backends";
static const char *const left_out_of_context[] = {"load", "argv", "memory_available_bytes", "sensors_absent", "device"};

// Every n-th value, so that at most `most` remain.
static json_t *thinned(const json_t *samples, size_t most) {
    json_t *kept = json_array();
    const size_t step = (json_array_size(samples) + most - 1) / most;
    for (size_t i = 0; i < json_array_size(samples); i += step) {
        json_array_append(kept, json_array_get(samples, i));
    }
    return kept;
}

// A copy without nulls, also in nested objects.
static json_t *without_nulls(const json_t *object, size_t most_samples) {
    json_t *copy = json_object();
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)object, name, value) {
        if (json_is_null(value) || sm_is_word_of(name, left_out)) {
            continue;
        }
        const bool is_long = json_array_size(value) > most_samples && strncmp(name, "samples", 7) == 0;
        json_object_set_new(copy, name,
                            json_is_object(value) ? without_nulls(value, most_samples)
                            : is_long             ? thinned(value, most_samples)
                                                  : json_incref(value));
    }
    return copy;
}

// The index of a machine's facts among those kept; NO_CONTEXT: none, or no room.
static int context_index(const json_t *row, json_t *contexts) {
    SM_OWN(json_t) *context = json_copy(json_object_get(row, "context"));
    int index = NO_CONTEXT;
    for (size_t i = 0; i < SM_COUNT(left_out_of_context); i++) {
        json_object_del(context, left_out_of_context[i]);
    }
    int n = (int)json_array_size(contexts);
    for (int i = 0; i < n && index == NO_CONTEXT; i++) {
        index = json_equal(context, json_array_get(contexts, (size_t)i)) ? i : NO_CONTEXT;
    }
    if (json_is_object(context) && index == NO_CONTEXT && n < MOST_CONTEXTS &&
        json_array_append(contexts, context) == 0) {
        index = n;
    }
    return index;
}

// What is not "" is set.
static void set(json_t *entry, const char *name, const char *text) {
    if (text[0] != '\0') {
        json_object_set_new(entry, name, sm_json_bytes(text));
    }
}

// Only a row that supports a verdict has a reason and a cost.
static json_t *entry_of(const sm_report_row *row, const sm_costs *costs, size_t most_samples, json_t *contexts) {
    json_t *copy = without_nulls(row->json, most_samples);
    const int context = context_index(row->json, contexts);
    if (context != NO_CONTEXT) {
        json_object_set_new(copy, "context", json_integer(context));
    }
    json_t *entry = json_pack("{s:o, s:o, s:o, s:b}", "row", copy, "device", sm_json_bytes(row->device), "work",
                              sm_json_bytes(row->work), "is_usable", row->is_usable);
    set(entry, "mode", SM_TEXT_MODE(row->json));
    set(entry, "precision", SM_TEXT_PRECISION(row->json));
    set(entry, "doubt", row->doubt);
    if (row->doubt[0] == '\0') {
        set(entry, "why", SM_ROWS_BOUND(row->json));
        set(entry, "cost", SM_COSTS_TEXT(costs, row->json, row->tokens_per_s));
    }
    return entry;
}

// [{row: {...}, device, work, mode, precision, doubt, why, cost}, ...]. row.context is an index into `contexts`, an array
// that this fills.
static json_t *make_data(const sm_report_rows *report, const sm_costs *costs, json_t *contexts) {
    const size_t share = report->n > 0 ? MOST_SAMPLES / report->n : 0;
    json_t *rows = json_array();
    for (size_t i = 0; i < report->n; i++) {
        json_array_append_new(
            rows, entry_of(&report->rows[i], costs, share > FEWEST_OF_A_ROW ? share : FEWEST_OF_A_ROW, contexts));
    }
    return rows;
}

// --- the pages --------------------------------------------------------------------------------------

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
    sm_report_rows_make(rows->rows, &report);
    sm_report_answer(&report, costs, text, reason);
    SM_OWN(json_t) *recommended = sm_recommend(rows->rows);
    SM_OWN(json_t) *best = best_of(recommended);
    SM_OWN(json_t) *loops = make_loops(&report);
    SM_OWN(json_t) *contexts = json_array();
    json_t *page = json_pack("{s:[o, o], s:o, s:o, s:o, s:O, s:O, s:o, s:O, s:O*}", "answer", sm_json_bytes(text),
                             sm_json_bytes(reason), "best", sm_page_table(&sm_recommend_table, best), "table",
                             sm_page_table(&sm_row_table, rows->rows), "rows", make_data(&report, costs, contexts),
                             "contexts", contexts, "loops", loops, "published", sm_bundle_published(), "warnings",
                             rows->warnings, "rungs", rows->rungs);
    sm_page_write(out, "stepmark: GPT-2 training steps", (const char *const[2]){"group.js", "report.js"}, how, page);
    return SM_OK;
}

void sm_leaderboard_page(const json_t *records, const json_t *refused, FILE *out) {
    json_t *page =
        json_pack("{s:O, s:o, s:o}", "records", records, "table", sm_page_table(&sm_leaderboard_table, records),
                  "refused", sm_page_table(&sm_leaderboard_refused_table, refused));
    sm_page_write(out, "stepmark: leaderboard of GPT-2 training steps", (const char *const[2]){"board.js"}, 0, page);
}
