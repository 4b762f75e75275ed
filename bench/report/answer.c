// answer.c: which device is fastest, by how much, in what setting, what bounds it, and what it costs, as a sentence. It
// is about the work that most rows did.
#include <math.h>
#include <string.h>

#include "bench/report/report.h"
#include "bench/tables/show.h"

enum { SETTING_SIZE = SM_REPORT_NAME_SIZE + 160 };

// --- the fastest of each device ----------------------------------------------------------------

static bool is_ranked(const sm_report_row *row) { return row->doubt[0] == '\0'; }

static bool comes_before(const sm_report_row *a, const sm_report_row *b) {
    return is_ranked(a) != is_ranked(b) ? is_ranked(a) : a->tokens_per_s > b->tokens_per_s;
}

static bool has_figure(const sm_report_row *row) { return row->is_usable && row->tokens_per_s > 0; }

// The work that most rows with figures did; NULL: no row has figures.
static const char *find_work(const sm_report_rows *report) {
    const char *work = NULL;
    int most = 0;
    for (size_t i = 0; i < report->n; i++) {
        int n = 0;
        for (size_t k = 0; k < report->n; k++) {
            n += has_figure(&report->rows[k]) && strcmp(report->rows[k].work, report->rows[i].work) == 0;
        }
        work = n > most ? report->rows[i].work : work;
        most = n > most ? n : most;
    }
    return work;
}

// The fastest row of that work, a ranked one if there is any, on another device than `except`; NULL: none.
static const sm_report_row *find_fastest(const sm_report_rows *report, const char *work, const sm_report_row *except) {
    const sm_report_row *best = NULL;
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        if (has_figure(row) && strcmp(row->work, work) == 0 &&
            (except == NULL || strcmp(row->device, except->device) != 0) && (best == NULL || comes_before(row, best))) {
            best = row;
        }
    }
    return best;
}

// --- the sentence ------------------------------------------------------------------------------

// "fused fp32, batch 4, 2 threads": without the device.
static void text_setting(const sm_report_row *row, char *text, size_t size_bytes) {
    const double n_threads = sm_json_number(row->json, "n_threads");
    const double n_batch = sm_json_number(row->json, "n_batch");
    snprintf(text, size_bytes, "%s %s, batch ", SM_TEXT_MODE(row->json), SM_TEXT_PRECISION(row->json));
    sm_append(text, size_bytes, isfinite(n_batch) ? "%.0f" : "not named", n_batch);
    if (n_threads > 0 && sm_rows_text(row->json, "gpu_info")[0] == '\0') {
        sm_append(text, size_bytes, ", %.0f thread%s", n_threads, sm_plural((size_t)n_threads));
    }
}

// `b`: the fastest of another device, or NULL.
static void text_sentence(const char *work, const sm_report_row *a, const sm_report_row *b, char *text,
                          size_t size_bytes) {
    char setting[SETTING_SIZE];
    const char *rate = SM_TEXT_COUNT(a->tokens_per_s);
    text_setting(a, setting, sizeof(setting));
    if (!is_ranked(a)) {
        snprintf(text, size_bytes, "No verdict for %s: %s.", work, a->doubt);
        return;
    }
    if (b == NULL || !is_ranked(b)) {
        snprintf(text, size_bytes, "For %s, %s reaches %s tokens/s with %s%s.", work, a->device, rate, setting,
                 b != NULL ? "; the figures of the others support no verdict" : "");
        return;
    }
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

const sm_report_row *sm_report_answer(const sm_report_rows *report, const sm_costs *costs, char text[SM_ANSWER_SIZE],
                                      char reason[SM_ANSWER_SIZE]) {
    const char *work = find_work(report);
    const sm_report_row *a = work != NULL ? find_fastest(report, work, NULL) : NULL;
    snprintf(text, SM_ANSWER_SIZE, "%s", report->n > 0 ? "No row has figures." : "");
    reason[0] = '\0';
    if (a != NULL) {
        text_sentence(work, a, find_fastest(report, work, a), text, SM_ANSWER_SIZE);
    }
    if (a == NULL || !is_ranked(a)) {
        return NULL;
    }
    const char *why = SM_ROWS_BOUND(a->json);
    const char *cost = SM_COSTS_TEXT(costs, a->json, a->tokens_per_s);
    snprintf(reason, SM_ANSWER_SIZE, why[0] != '\0' ? "It is %s." : "%s", why);
    sm_append_part(reason, SM_ANSWER_SIZE, " ", cost);
    sm_append(reason, SM_ANSWER_SIZE, "%s", cost[0] != '\0' ? "." : "");
    return a;
}
