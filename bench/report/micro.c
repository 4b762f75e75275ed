// micro.c: a published profile of one training step by phases, and this report's loops next to it, with a note on its
// errors.
#include "bench/report/report.h"
#include "bench/tables/show.h"

#include <math.h>
#include <string.h>

enum { MAX_LOOPS = 60, NAME_SIZE = 64 };

// Phases that share a column, by their names in a row.
static const struct {
    const char *members[5];
} columns[] = {
    {{"read", "tokenise", "collate", "wait", NULL}},
    {{"transfer", NULL}},
    {{"forward", NULL}},
    {{"backward", NULL}},
    {{"unscale", "update", "loss_scaler", "zero_grad", NULL}},
    {{"launch", "all_reduce", "log", "unaccounted", NULL}},
};

enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]), OPTIMIZER = 4 };

static bool is_loop(const sm_report_row *row) { return row->usable && sm_json_number(row->json, "loop.wall_ns") > 0; }

static double share_of(const json_t *row, int column) {
    double sum_ns = 0;
    for (int i = 0; columns[column].members[i] != NULL; i++) {
        char field[NAME_SIZE];
        snprintf(field, sizeof(field), "loop.%s_ns", columns[column].members[i]);
        sum_ns += sm_json_number(row, field);
    }
    return 100 * sum_ns / sm_json_number(row, "loop.wall_ns");
}

static bool is_naive(const json_t *row) { return strcmp(sm_rows_text(row, "mode"), "naive") == 0; }

// Ignores the mode, and fields that follow from it.
static bool is_same_loop(const json_t *a, const json_t *b) {
    static const char *const fields[] = {"device",   "precision", "n_threads",   "model_type", "n_batch",
                                         "n_seq",    "padding",   "documents",   "n_accum",    "optimizer",
                                         "gpu_info", "cpu_info",  "loop.loader", "vocab",      NULL};
    for (int i = 0; fields[i] != NULL; i++) {
        const json_t *x = sm_json_get(a, fields[i]);
        const json_t *y = sm_json_get(b, fields[i]);
        if (x != y && !json_equal(x, y)) {
            return false;
        }
    }
    return true;
}

// Tokens/s relative to the same loop in mode naive, in percent; NaN: there is none.
static double gain_of(const sm_report_rows *report, const sm_report_row *row) {
    for (size_t i = 0; i < report->n && !is_naive(row->json); i++) {
        const sm_report_row *other = &report->rows[i];
        if (is_loop(other) && is_naive(other->json) && is_same_loop(other->json, row->json)) {
            return 100 * (row->tokens_per_s / other->tokens_per_s - 1);
        }
    }
    return NAN;
}

static void gain_cell(sm_doc *doc, double percent) {
    char text[NAME_SIZE] = "";
    if (isfinite(percent)) {
        snprintf(text, sizeof(text), "%+.1f%%", percent);
    }
    sm_doc_cell(doc, "%s", text);
}

static void write_loop(sm_doc *doc, const sm_report_rows *report, const sm_report_row *row) {
    char how[SM_SERIES_NAME_SIZE];
    char rate[NAME_SIZE];
    sm_report_how(row->json, how, sizeof(how));
    sm_doc_row_begin(doc);
    sm_doc_cell(doc, "%s, %s", row->panel, how);
    sm_doc_cell(doc, "%s", sm_rows_text(row->json, "loop.loader"));
    for (int i = 0; i < N_COLUMNS; i++) {
        sm_doc_number(doc, share_of(row->json, i), 1, "%");
    }
    sm_doc_number(doc, row->step_s * 1e3, 3, "");
    sm_text_count(round(row->tokens_per_s), rate, sizeof(rate));
    sm_doc_cell(doc, "%s", rate);
    gain_cell(doc, gain_of(report, row));
    sm_doc_row_end(doc);
}

static void write_published(sm_doc *doc, const char *name, const char *optimizer, const char *gain) {
    sm_doc_row_begin(doc);
    sm_doc_cell(doc, "%s", name);
    sm_doc_cell(doc, "%s", "");
    for (int i = 0; i < N_COLUMNS; i++) {
        sm_doc_cell(doc, "%s", i == OPTIMIZER ? optimizer : "");
    }
    sm_doc_cell(doc, "%s", "");
    sm_doc_cell(doc, "%s", "");
    sm_doc_cell(doc, "%s", gain);
    sm_doc_row_end(doc);
}

void sm_report_micro(sm_doc *doc, const sm_report_rows *report) {
    size_t n = 0;
    for (size_t i = 0; i < report->n; i++) {
        n += is_loop(&report->rows[i]);
    }
    if (n == 0) {
        return;
    }
    sm_doc_subheading(doc, "Where a loop's time goes");
    sm_doc_text(doc,
                "Published: a step of GPT-2 by phases, which did not wait for the device between them. So forward and "
                "backward, only started in their own phases, were waited for in the optimizer's: 66%% of the step "
                "by that profile, about 10%% in truth. The collator counted twice, by itself and in the wait for "
                "data. And its tokens/s were tokens a step: +20%% by compiling, which by the clock was -5%%.");
    sm_doc_text(doc, "Here phases exclude one another and add up to the step, and tokens/s are tokens by the clock, "
                     "padding left out. Shares are of an instrumented step, ms and tokens/s of undisturbed steps; "
                     "input: reading, tokenising, placing, and waiting for the loader.");
    sm_doc_table_begin(doc, "loop|loader|#input|#transfer|#forward|#backward|#optimizer|#other|#step, ms|#tokens/s|"
                            "#against naive");
    write_published(doc, "published, as printed", "66%", "+20%");
    write_published(doc, "published, in truth", "about 10%", "-5%");
    for (size_t i = 0, shown = 0; i < report->n && shown < MAX_LOOPS; i++) {
        if (is_loop(&report->rows[i])) {
            write_loop(doc, report, &report->rows[i]);
            shown++;
        }
    }
    sm_doc_table_end(doc);
}
