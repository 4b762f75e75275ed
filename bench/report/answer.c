// answer.c: which device is fastest, by how much, in what setting, what bounds it, and what it costs, as a sentence. It
// is about the work that most rows did.
#include <math.h>
#include <string.h>

#include "bench/report/report.h"
#include "bench/tables/show.h"

enum { SETTING_SIZE = SM_REPORT_NAME_SIZE + 160, MOST_DEVICES = 32 };

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

// Ranked ones first, the fastest first. Returns their number.
static int find_entries(const sm_report_rows *report, const char *work, const sm_report_row *entries[MOST_DEVICES]) {
    int n = 0;
    for (size_t i = 0; i < report->n; i++) {
        const sm_report_row *row = &report->rows[i];
        int k = 0;
        if (!has_figure(row) || strcmp(row->work, work) != 0) {
            continue;
        }
        while (k < n && strcmp(entries[k]->device, row->device) != 0) {
            k++;
        }
        if (k == MOST_DEVICES || (k < n && !comes_before(row, entries[k]))) {
            continue;
        }
        n += k == n;
        for (; k > 0 && comes_before(row, entries[k - 1]); k--) {
            entries[k] = entries[k - 1];
        }
        entries[k] = row;
    }
    return n;
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

static void text_sentence(const char *work, const sm_report_row *const *entries, int n, char *text, size_t size_bytes) {
    const sm_report_row *a = entries[0];
    char setting[SETTING_SIZE];
    const char *rate = SM_TEXT_COUNT(a->tokens_per_s);
    text_setting(a, setting, sizeof(setting));
    if (!is_ranked(a)) {
        snprintf(text, size_bytes, "No verdict for %s: %s.", work, a->doubt);
        return;
    }
    if (n < 2 || !is_ranked(entries[1])) {
        snprintf(text, size_bytes, "For %s, %s reaches %s tokens/s with %s%s.", work, a->device, rate, setting,
                 n > 1 ? "; the figures of the others support no verdict" : "");
        return;
    }
    const sm_report_row *b = entries[1];
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
    const sm_report_row *entries[MOST_DEVICES];
    const char *work = find_work(report);
    const int n = work != NULL ? find_entries(report, work, entries) : 0;
    snprintf(text, SM_ANSWER_SIZE, "%s", report->n > 0 ? "No row has figures." : "");
    reason[0] = '\0';
    if (n == 0) {
        return NULL;
    }
    text_sentence(work, entries, n, text, SM_ANSWER_SIZE);
    if (!is_ranked(entries[0])) {
        return NULL;
    }
    const char *why = SM_ROWS_BOUND(entries[0]->json);
    const char *cost = SM_COSTS_TEXT(costs, entries[0]->json, entries[0]->tokens_per_s);
    snprintf(reason, SM_ANSWER_SIZE, why[0] != '\0' ? "It is %s." : "%s", why);
    sm_append_part(reason, SM_ANSWER_SIZE, " ", cost);
    sm_append(reason, SM_ANSWER_SIZE, "%s", cost[0] != '\0' ? "." : "");
    return entries[0];
}
