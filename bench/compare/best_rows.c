// best_rows.c: see best_rows.h.
#include "bench/compare/best_rows.h"

#include "bench/rows/identity.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_SIZE = 512 };

static const sm_column columns[] = {
    SM_TEXT("topic", "subject of the recommendation", .heading = "topic"),
    SM_TEXT("group", "rows compared", .heading = "among", .view = SM_SHOWN_WHEN_VARIED),
    SM_TEXT("configuration", "the one", .heading = "configuration"),
    SM_TEXT("figure", "why", .heading = "figure"),
    SM_REAL("value", "", "the figure as a number"),
    SM_TEXT("unit", "of value"),
    SM_TEXT("caution", "limits of its reliability", .heading = "caution"),
};

const sm_table sm_recommend_table = {"recommendations", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

// --- rows ------------------------------------------------------------------------------------------

void sm_recommend_group(const json_t *row, char *text, size_t size_bytes) {
    const char *gpu = sm_rows_text(row, "gpu_info");
    const char *own_code = sm_rows_own_code(row);
    char model[128];
    sm_rows_model(row, model, sizeof(model));
    snprintf(text, size_bytes, "%s (%s), %s, %s s%.0f%s%s", sm_rows_text(row, "device"),
             gpu[0] != '\0' ? gpu : sm_rows_text(row, "cpu_info"), model, sm_rows_text(row, "pass_type"),
             sm_json_number(row, "n_seq"), own_code[0] != '\0' ? ", " : "", own_code);
}

// "step b4s512 fused fp32 2 threads": the row within its group.
static void name_configuration(const json_t *row, char *text, size_t size_bytes) {
    double n_threads = sm_json_number(row, "n_threads");
    char mode[64];
    char precision[64];
    sm_text_mode(row, mode, sizeof(mode));
    sm_text_precision(row, precision, sizeof(precision));
    int used = snprintf(text, size_bytes, "%s %s %s", sm_rows_text(row, "test"), mode, precision);
    if (n_threads > 0 && used > 0 && (size_t)used < size_bytes) {
        used += snprintf(text + used, size_bytes - (size_t)used, ", %.0f threads", n_threads);
    }
    if (sm_rows_other_optimizer(row)[0] != '\0' && used > 0 && (size_t)used < size_bytes) {
        snprintf(text + used, size_bytes - (size_t)used, ", %s", sm_rows_other_optimizer(row));
    }
}

static bool is_ok(const json_t *row) {
    return strcmp(sm_rows_status(row), "ok") == 0 && sm_json_number(row, "median_ns") > 0;
}

// A group's name, with the dimensions in which it differs from another group of that name.
static void name_group(const json_t *groups, const json_t *row, char *text, size_t size_bytes) {
    char other[GROUP_SIZE];
    char own[GROUP_SIZE] = "";
    size_t g;
    json_t *group;
    sm_recommend_group(row, text, size_bytes);
    json_array_foreach((json_t *)groups, g, group) {
        const json_t *first = json_array_get(group, 0);
        sm_recommend_group(first, other, sizeof(other));
        if (own[0] == '\0' && strcmp(other, text) == 0) {
            sm_identity_own_text(row, first, SM_PART(SM_IDENTITY_WORK), own, sizeof(own));
        }
    }
    const size_t used = strlen(text);
    snprintf(text + used, size_bytes - used, "%s%s", own[0] != '\0' ? ", " : "", own);
}

// --- records ---------------------------------------------------------------------------------------

static void add_record(json_t *records, const char *topic, const char *group, const char *configuration,
                       const char *figure, double value, const char *unit, const char *caution) {
    json_t *record = json_object();
    sm_json_put(record, {"topic", sm_json_text(topic)}, {"group", sm_json_text(group)},
                {"configuration", sm_json_text(configuration)}, {"figure", sm_json_text(figure)},
                {"value", sm_json_real(value)}, {"unit", sm_json_text(unit)}, {"caution", sm_json_text(caution)});
    json_array_append_new(records, record);
}

// --- the best of a group -----------------------------------------------------------------------------

static void figure_text(const sm_contest *contest, double value, char *text, size_t size_bytes) {
    char number[64];
    if (contest->least_wins) {
        snprintf(number, sizeof(number), "%.1f", value);
    } else {
        sm_text_count(value, number, sizeof(number));
    }
    snprintf(text, size_bytes, "%s%s%s", number, contest->least_wins ? "" : " ", contest->unit);
}

static void name_row(const json_t *row, bool with_device, char *text, size_t size_bytes) {
    int used = with_device ? snprintf(text, size_bytes, "%.60s ", sm_rows_text(row, "device")) : 0;
    name_configuration(row, text + used, size_bytes - (size_t)used);
}

void sm_recommend_doubt(const sm_contest *contest, const sm_outcome *o, char *text, size_t size_bytes) {
    char first[GROUP_SIZE];
    char figure[128];
    if (o->first == NULL) {
        snprintf(text, size_bytes, "no verdict on %s", o->doubt);
        return;
    }
    const bool same_device =
        o->rival == NULL || strcmp(sm_rows_text(o->first, "device"), sm_rows_text(o->rival, "device")) == 0;
    name_row(o->first, !same_device, first, sizeof(first));
    figure_text(contest, o->figure.value, figure, sizeof(figure));
    int used = snprintf(text, size_bytes, "%s at %s", first, figure);
    size_t end = used > 0 && (size_t)used < size_bytes ? (size_t)used : size_bytes - 1;
    if (o->rival == NULL) {
        char noise[256];
        sm_noise_text(o->first, noise, sizeof(noise));
        snprintf(text + end, size_bytes - end, " is %s", noise);
        return;
    }
    char rival[GROUP_SIZE];
    char more[64] = "";
    name_row(o->rival, !same_device, rival, sizeof(rival));
    figure_text(contest, o->rival_figure.value, figure, sizeof(figure));
    if (o->n_rivals > 1) {
        snprintf(more, sizeof(more), " and %zu more", o->n_rivals - 1);
    }
    snprintf(text + end, size_bytes - end, " is not distinct from %s at %s%s: take more samples", rival, figure, more);
}

// `rows`: those of a group that are ok.
static sm_status award(const json_t *groups, const json_t *const *rows, size_t n, const sm_contest *contest,
                       json_t *records) {
    char group[GROUP_SIZE];
    char text[3 * GROUP_SIZE];
    char figure[128];
    char caution[SM_DOUBT_SIZE * 3];
    sm_outcome o;
    SM_TRY(sm_judge_contest(contest, rows, n, &o));
    if (o.first == NULL && !(sm_is_all_doubt(&o) && contest == sm_contests)) {
        return SM_OK; // a single one is not the best; and a missing verdict is reported once
    }
    name_group(groups, o.first != NULL ? o.first : rows[0], group, sizeof(group));
    if (!sm_is_won(&o)) {
        sm_recommend_doubt(contest, &o, text, sizeof(text));
        add_record(records, contest->topic, group, "", "", NAN, contest->unit, text);
        return SM_OK;
    }
    name_configuration(o.first, text, sizeof(text));
    figure_text(contest, o.figure.value, figure, sizeof(figure));
    snprintf(caution, sizeof(caution), "%s%s", o.doubt[0] != '\0' ? "not ranked: " : "", o.doubt);
    add_record(records, contest->topic, group, text, figure, o.figure.value, contest->unit, caution);
    return SM_OK;
}

static sm_status award_group(const json_t *groups, const json_t *group, json_t *records) {
    sm_status status = SM_OK;
    size_t i;
    json_t *row;
    const size_t n = json_array_size(group);
    const json_t **rows = sm_calloc(n + 1, sizeof(*rows));
    json_array_foreach((json_t *)group, i, row) { rows[i] = row; }
    for (int c = 0; c < SM_CONTEST_COUNT; c++) {
        SM_TRY_GOTO(award(groups, rows, n, &sm_contests[c], records));
    }
cleanup:
    free(rows);
    return status;
}

// --- break-even --------------------------------------------------------------------------------------

static double or_zero(double value) { return isfinite(value) ? value : 0; }

// The cost of starting, beyond the steps themselves.
static double start_ns(const json_t *row) {
    return or_zero(sm_json_number(row, "build_ns")) + or_zero(sm_json_number(row, "tune_ns")) +
           or_zero(sm_json_number(row, "first_step_ns")) - sm_json_number(row, "median_ns");
}

static void break_even(const json_t *groups, const json_t *slow, const json_t *fast, json_t *records) {
    char group[GROUP_SIZE];
    char configuration[GROUP_SIZE];
    char figure[256];
    double gain_ns = sm_json_number(slow, "median_ns") - sm_json_number(fast, "median_ns");
    double extra_ns = start_ns(fast) - start_ns(slow);
    double steps = extra_ns > 0 ? ceil(extra_ns / gain_ns) : 0;
    name_group(groups, fast, group, sizeof(group));
    name_configuration(fast, configuration, sizeof(configuration));
    snprintf(figure, sizeof(figure), "%.0f steps: starts %.3g ms %s than %s, each step is %.3g ms shorter", steps,
             fabs(extra_ns) / 1e6, extra_ns > 0 ? "later" : "sooner", sm_rows_text(slow, "mode"), gain_ns / 1e6);
    add_record(records, "break-even", group, configuration, figure, steps, "steps", "");
}

static bool is_faster_beyond_doubt(const json_t *fast, const json_t *slow) {
    char doubt[SM_DOUBT_SIZE];
    return sm_json_number(fast, "ci95_hi_ns") < sm_json_number(slow, "ci95_lo_ns") &&
           sm_judge_row(fast) == SM_NOISE_STEADY && sm_judge_row(slow) == SM_NOISE_STEADY &&
           !sm_doubt_row(fast, doubt) && !sm_doubt_row(slow, doubt);
}

// Every pair of a group that differs only in mode, with one significantly faster.
static void break_evens(const json_t *groups, const json_t *group, json_t *records) {
    const size_t n = json_array_size(group);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            const json_t *slow = json_array_get(group, i);
            const json_t *fast = json_array_get(group, j);
            // Cheap tests first: there may be many pairs.
            if (strcmp(sm_rows_text(slow, "mode"), sm_rows_text(fast, "mode")) != 0 &&
                is_faster_beyond_doubt(fast, slow) && sm_identity_difference(slow, fast) == SM_PART(SM_FACTOR_MODE)) {
                break_even(groups, slow, fast, records);
            }
        }
    }
}

// --- what did not fit ----------------------------------------------------------------------------------

static double tokens(const json_t *row) { return sm_json_number(row, "n_batch") * sm_json_number(row, "n_seq"); }

// Whether two rows differ in nothing but batch and length.
static bool is_like(const json_t *a, const json_t *b) {
    char text[GROUP_SIZE];
    const int n = sm_identity_text(a, b, SM_FACTORS | SM_PART(SM_IDENTITY_WORK), text, sizeof(text));
    return n == 0 || (n == 1 && strncmp(text, "n_seq ", strlen("n_seq ")) == 0);
}

static void advise_smaller(const json_t *rows, const json_t *oom, json_t *records) {
    const json_t *best = NULL;
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row) {
        if (is_ok(row) && is_like(row, oom) && tokens(row) < tokens(oom) &&
            (best == NULL || tokens(row) > tokens(best))) {
            best = row;
        }
    }
    char group[GROUP_SIZE];
    char configuration[GROUP_SIZE];
    char figure[GROUP_SIZE];
    sm_recommend_group(oom, group, sizeof(group));
    name_configuration(oom, configuration, sizeof(configuration));
    if (best == NULL) {
        add_record(records, "did not fit", group, configuration, "no smaller work of this kind was run", NAN, "",
                   "`stepmark run --find-batch` with its flags finds and runs the largest that fits");
        return;
    }
    snprintf(figure, sizeof(figure), "%s ran", sm_rows_text(best, "test"));
    add_record(records, "did not fit", group, configuration, figure, sm_json_number(best, "n_batch"), "batch", "");
}

static void advise_on_failures(const json_t *rows, json_t *records) {
    size_t i;
    json_t *row;
    json_array_foreach((json_t *)rows, i, row) {
        bool is_probe = sm_rows_text(row, "sweep_note")[0] != '\0'; // an intermediate step of a search
        if (strcmp(sm_rows_status(row), "oom") == 0 && !is_probe) {
            advise_smaller(rows, row, records);
        }
    }
}

// Rows that are compared: the same work but for the batch, on the same device, and none or all with own code.
static bool is_of_group(const json_t *row, const json_t *first) {
    const unsigned parts = SM_PART(SM_IDENTITY_WORK) | SM_PART(SM_FACTOR_MACHINE) | SM_PART(SM_FACTOR_DEVICE);
    return sm_identity_order(row, first, parts) == 0 && strcmp(sm_rows_own_code(row), sm_rows_own_code(first)) == 0;
}

// Groups the ok rows: arrays, in the order of their first rows.
static void group_rows(const json_t *rows, json_t *groups) {
    size_t i;
    size_t g;
    json_t *row;
    json_t *group;
    json_array_foreach((json_t *)rows, i, row) {
        json_t *own = NULL;
        if (!is_ok(row)) {
            continue;
        }
        json_array_foreach(groups, g, group) {
            own = own == NULL && is_of_group(row, json_array_get(group, 0)) ? group : own;
        }
        if (own == NULL) {
            own = json_array();
            json_array_append_new(groups, own);
        }
        json_array_append(own, row);
    }
}

sm_status sm_recommend(const json_t *rows, json_t **records) {
    sm_status status = SM_OK;
    json_t *made = json_array();
    json_t *groups = json_array();
    size_t g;
    json_t *group;
    *records = NULL;
    group_rows(rows, groups);
    json_array_foreach(groups, g, group) { SM_TRY_GOTO(award_group(groups, group, made)); }
    json_array_foreach(groups, g, group) { break_evens(groups, group, made); }
    advise_on_failures(rows, made);
    *records = json_incref(made);
cleanup:
    json_decref(made);
    json_decref(groups);
    return status;
}
