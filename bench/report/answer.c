// answer.c: the beginning of a report: which device is fastest, by how much, in what setting, what bounds it, and what
// it costs; a picture and a card of each device. It is about the work that most rows did.
#include <string.h>

#include "bench/compare/noise_verdict.h"
#include "bench/report/report.h"
#include "bench/tables/show.h"

enum { SETTING_SIZE = SM_SERIES_NAME_SIZE + 64, WHY_SIZE = 256 };

// --- the fastest of each device ----------------------------------------------------------------

typedef struct {
    const sm_report_row *row;
    bool is_ranked; // its figure supports a verdict
} entry;

static bool is_steady_enough(const sm_report_row *row) {
    char doubt[SM_DOUBT_SIZE];
    return !sm_doubt_row(row->json, doubt);
}

static bool comes_before(const entry *a, const entry *b) {
    return a->is_ranked != b->is_ranked ? a->is_ranked : a->row->tokens_per_s > b->row->tokens_per_s;
}

// Ranked ones first, the fastest first. Returns their number.
static int find_entries(const sm_report_rows *report, int panel_id, entry entries[SM_MAX_SERIES]) {
    int n = 0;
    for (size_t i = 0; i < report->n; i++) {
        const entry e = {&report->rows[i], is_steady_enough(&report->rows[i])};
        int k = 0;
        if (!e.row->usable || e.row->panel_id != panel_id || !(e.row->tokens_per_s > 0)) {
            continue;
        }
        while (k < n && entries[k].row->device_id != e.row->device_id) {
            k++;
        }
        if (k == SM_MAX_SERIES || (k < n && !comes_before(&e, &entries[k]))) {
            continue;
        }
        n += k == n;
        for (; k > 0 && comes_before(&e, &entries[k - 1]); k--) {
            entries[k] = entries[k - 1];
        }
        entries[k] = e;
    }
    return n;
}

// --- texts -------------------------------------------------------------------------------------

// "fused fp32, batch 4, 2 threads": without the device.
static void text_setting(const sm_report_row *row, char *text, size_t size_bytes) {
    char mode[SM_SERIES_NAME_SIZE];
    char precision[64];
    char batch[64];
    const double n_threads = sm_json_number(row->json, "n_threads");
    const bool is_card = sm_rows_text(row->json, "gpu_info")[0] != '\0';
    sm_text_mode(row->json, mode, sizeof(mode));
    sm_text_precision(row->json, precision, sizeof(precision));
    sm_report_batch(row, batch, sizeof(batch));
    const int used = snprintf(text, size_bytes, "%s %s, %s", mode, precision, batch);
    if (n_threads > 0 && !is_card && used < (int)size_bytes) {
        snprintf(text + used, size_bytes - (size_t)used, ", %.0f thread%s", n_threads, sm_plural((size_t)n_threads));
    }
}

// --- the sentence ------------------------------------------------------------------------------

static void text_sentence(const char *work, const entry *entries, int n, char *text, size_t size_bytes) {
    const sm_report_row *a = entries[0].row;
    char setting[SETTING_SIZE];
    char rate[32];
    text_setting(a, setting, sizeof(setting));
    sm_text_count(a->tokens_per_s, rate, sizeof(rate));
    if (!entries[0].is_ranked) {
        char doubt[SM_DOUBT_SIZE];
        sm_doubt_row(a->json, doubt);
        snprintf(text, size_bytes, "No verdict for %s: %s.", work, doubt);
        return;
    }
    if (n < 2 || !entries[1].is_ranked) {
        snprintf(text, size_bytes, "For %s, %s reaches %s tokens/s with %s%s.", work, a->device, rate, setting,
                 n > 1 ? "; the figures of the others are too noisy to rank" : "");
        return;
    }
    const sm_report_row *b = entries[1].row;
    const double lo = a->tokens_lo / b->tokens_hi;
    if (lo > 1) {
        snprintf(text, size_bytes, "For %s, %s is the fastest: %s tokens/s with %s, %.2f (%.2f to %.2f) times %s.",
                 work, a->device, rate, setting, a->tokens_per_s / b->tokens_per_s, lo, a->tokens_hi / b->tokens_lo,
                 b->device);
    } else {
        snprintf(text, size_bytes, "For %s, no device is the fastest: %s (%s tokens/s, %s) is not told apart from %s.",
                 work, a->device, rate, setting, b->device);
    }
}

static void text_reason(const sm_report_row *row, const sm_costs *costs, char *text, size_t size_bytes) {
    char why[WHY_SIZE];
    char cost[SM_COST_TEXT_SIZE];
    sm_rows_bound(row->json, why, sizeof(why));
    sm_costs_text(costs, row->json, row->tokens_per_s, cost);
    snprintf(text, size_bytes, "%s%s%s%s%s%s", why[0] != '\0' ? "It is " : "", why, why[0] != '\0' ? "." : "",
             why[0] != '\0' && cost[0] != '\0' ? " " : "", cost, cost[0] != '\0' ? "." : "");
}

const sm_report_row *sm_report_answer_text(const sm_report_rows *report, const sm_costs *costs,
                                           char text[SM_ANSWER_SIZE], char reason[SM_ANSWER_SIZE]) {
    entry entries[SM_MAX_SERIES];
    const sm_report_panel *panel = report->panels;
    const int n = report->n_panels > 0 ? find_entries(report, panel->id, entries) : 0;
    text[0] = '\0';
    reason[0] = '\0';
    if (n == 0) {
        return NULL;
    }
    text_sentence(panel->name, entries, n, text, SM_ANSWER_SIZE);
    if (!entries[0].is_ranked) {
        return NULL;
    }
    text_reason(entries[0].row, costs, reason, SM_ANSWER_SIZE);
    return entries[0].row;
}

// --- picture and cards -------------------------------------------------------------------------

static void draw(const char *work, const entry *entries, int n, sm_figures *figures) {
    json_t *figure = sm_figure_add(figures, "intervals", "answer", "Which device is fastest?",
                                   "The fastest setting of each device; bars: 95% interval. Grey: too noisy to rank.");
    sm_figure_axis(figures, figure, "x", "tokens per second", "linear");
    json_t *panel = sm_figure_panel(figures, figure, work);
    for (int k = 0; k < n; k++) {
        const sm_report_row *r = entries[k].row;
        char setting[SETTING_SIZE];
        text_setting(r, setting, sizeof(setting));
        sm_figure_append(figures, panel, "points",
                         json_pack("{s:o, s:i, s:o, s:o, s:o, s:i, s:o, s:b}", "name", sm_json_bytes(r->device),
                                   "series", sm_figure_series(figures, figure, r->device, r->colour, 0), "x",
                                   sm_json_real(r->tokens_per_s), "lo", sm_json_real(r->tokens_lo), "hi",
                                   sm_json_real(r->tokens_hi), "row", r->index, "text",
                                   sm_json_bytes(entries[k].is_ranked ? setting : "too noisy to rank"), "is_grey",
                                   !entries[k].is_ranked));
    }
    sm_figure_close(figures, figure, "points", 2);
}

static void write_facts(sm_doc *doc, const entry *e, const sm_costs *costs) {
    const sm_report_row *r = e->row;
    char text[WHY_SIZE + SETTING_SIZE];
    const double joules = sm_json_number(r->json, "energy_per_token_j");
    sm_text_count(r->tokens_per_s, text, sizeof(text));
    sm_append_spread(sm_json_number(r->json, "noise_percent"), text, sizeof(text));
    sm_doc_fact(doc, "tokens/s", text);
    text_setting(r, text, sizeof(text));
    sm_doc_fact(doc, "with", text);
    sm_rows_bound(r->json, text, sizeof(text));
    sm_doc_fact(doc, "why", text);
    sm_text_bytes(r->memory_bytes, text, sizeof(text));
    sm_doc_fact(doc, "memory", text);
    if (joules > 0) {
        snprintf(text, sizeof(text), "%.3g J a token", joules);
        sm_doc_fact(doc, "energy", text);
    }
    sm_costs_text(costs, r->json, r->tokens_per_s, text);
    sm_doc_fact(doc, "cost", text);
    if (!e->is_ranked) {
        sm_doubt_row(r->json, text);
        sm_doc_fact(doc, "not ranked", text);
    }
}

void sm_report_answer(sm_doc *doc, const sm_report_rows *report, const sm_costs *costs, sm_figures *figures) {
    entry entries[SM_MAX_SERIES];
    char text[SM_ANSWER_SIZE];
    char reason[SM_ANSWER_SIZE];
    const sm_report_panel *panel = report->panels;
    const int n = report->n_panels > 0 ? find_entries(report, panel->id, entries) : 0;
    (void)sm_report_answer_text(report, costs, text, reason);
    sm_doc_text(doc, "%s", n > 0 ? text : "No row has figures.");
    if (reason[0] != '\0') {
        sm_doc_text(doc, "%s", reason);
    }
    if (doc->html && n > 0) {
        draw(panel->name, entries, n, figures);
        if (json_array_size(figures->list) > 0) {
            sm_doc_figures(doc, figures, 0);
        }
        for (int k = 0; k < n; k++) {
            sm_doc_card_begin(doc, k, n, entries[k].row->colour, entries[k].row->device);
            write_facts(doc, &entries[k], costs);
            sm_doc_card_end(doc, k, n);
        }
    }
}
