// speedups.c: groups rows by their work, and compares their samples.
#include "bench/compare/speedups.h"

#include "bench/compare/noise_verdict.h"
#include "bench/rows/identity.h"
#include "bench/rows/read_rows.h"
#include "bench/rows/row.h"
#include "bench/stats/compare_stats.h"
#include "bench/tables/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 256, SENTENCE_SIZE = 1024, MOST_SENTENCES = 8 };

typedef struct {
    const json_t **rows; // of one work, the fastest first
    size_t n;
} group;

static bool has_figures(const json_t *row) {
    return strcmp(sm_rows_text(row, "status"), "ok") == 0 && sm_json_number(row, "median_ns") > 0;
}

static int by_median(const void *a, const void *b) {
    const double x = sm_json_number(*(const json_t *const *)a, "median_ns");
    const double y = sm_json_number(*(const json_t *const *)b, "median_ns");
    return (x > y) - (x < y);
}

// Collects the rows with the work of rows[first], if none before it has it.
static void collect(const json_t *rows, size_t first, group *g) {
    const json_t *of = json_array_get(rows, first);
    g->n = 0;
    for (size_t i = 0; i < json_array_size(rows) && has_figures(of); i++) {
        const json_t *row = json_array_get(rows, i);
        if (!has_figures(row) || sm_identity_order(row, of, SM_SAME_WORK) != 0) {
            continue;
        }
        if (i < first) {
            g->n = 0;
            return;
        }
        g->rows[g->n++] = row;
    }
    qsort(g->rows, g->n, sizeof(*g->rows), by_median);
}

static bool varies(const group *g, const sm_column *column) {
    char first[SM_IDENTITY_VALUE_SIZE];
    char other[SM_IDENTITY_VALUE_SIZE];
    bool varied = false;
    sm_identity_value(g->rows[0], column, first);
    for (size_t i = 1; i < g->n && !varied; i++) {
        sm_identity_value(g->rows[i], column, other);
        varied = strcmp(first, other) != 0;
    }
    return varied;
}

static void append(char *name, const char *text) {
    const size_t used = strlen(name);
    snprintf(name + used, NAME_SIZE - used, "%s%s", used > 0 && text[0] != '\0' ? " " : "", text);
}

// A row's name within its group, of the columns that vary: "fused bf16". The mode's text has all columns of the mode, and
// a device's name the place of its threads.
static void name_row(const group *g, const json_t *row, char name[NAME_SIZE]) {
    bool has_device = false;
    bool has_mode = false;
    name[0] = '\0';
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const sm_column *column = &sm_row_table.columns[i];
        const bool is_mode = column->identity == SM_FACTOR_MODE || column->identity == SM_FACTOR_LOADER;
        char text[NAME_SIZE] = "";
        if (column->identity < SM_FACTOR_MACHINE || strcmp(column->name, "backend_used") == 0 ||
            (is_mode && has_mode) || (has_device && strcmp(column->name, "binding") == 0) || !varies(g, column)) {
            continue;
        }
        has_device |= column->identity == SM_FACTOR_DEVICE;
        has_mode |= is_mode;
        if (is_mode) {
            sm_text_mode(row, text, sizeof(text));
        } else {
            sm_identity_value(row, column, text);
        }
        append(name, text);
        if (strcmp(column->name, "n_threads") == 0 && text[0] != '\0') {
            append(name, strcmp(text, "1") == 0 ? "thread" : "threads");
        }
    }
}

static sm_status differ(const json_t *fast, const json_t *slow, sm_difference *difference) {
    double *a = NULL;
    double *b = NULL;
    size_t n_a = 0;
    size_t n_b = 0;
    sm_rows_samples(fast, "samples_ns", &a, &n_a);
    sm_status status = SM_OK;
    if (status == SM_OK) {
        sm_rows_samples(slow, "samples_ns", &b, &n_b);
    }
    *difference = (sm_difference){.estimate = NAN};
    if (status == SM_OK && n_a > 0 && n_b > 0) {
        status = sm_compare_unpaired(a, n_a, b, n_b, 0.05, difference);
    }
    free(a);
    free(b);
    return status;
}

static sm_status say(const group *g, const json_t *slow, bool names_test, json_t *sentences) {
    sm_difference d;
    char fast_name[NAME_SIZE];
    char slow_name[NAME_SIZE];
    char text[SENTENCE_SIZE];
    SM_TRY(differ(g->rows[0], slow, &d));
    name_row(g, g->rows[0], fast_name);
    name_row(g, slow, slow_name);
    if (!isfinite(d.estimate) || fast_name[0] == '\0' || strcmp(fast_name, slow_name) == 0) {
        return SM_OK;
    }
    const char *test = names_test ? sm_rows_text(slow, "test") : "";
    const int used = snprintf(text, sizeof(text), "%s%s", test, test[0] != '\0' ? ": " : "");
    char *sentence = text + used;
    const size_t room = sizeof(text) - (size_t)used;
    if (!d.has_interval) {
        snprintf(sentence, room, "%s may be %.2f times faster than %s: too few samples to tell (-r)", fast_name,
                 exp(d.estimate), slow_name);
    } else if (d.lo > 0) {
        snprintf(sentence, room, "%s is %.2f (%.2f-%.2f) times faster than %s", fast_name, exp(d.estimate), exp(d.lo),
                 exp(d.hi), slow_name);
    } else {
        snprintf(sentence, room, "%s is not distinct from %s: %.2f times as fast, anywhere from %.2f to %.2f",
                 fast_name, slow_name, exp(d.estimate), exp(d.lo), exp(d.hi));
    }
    json_array_append_new(sentences, sm_json_text(text));
    return SM_OK;
}

// Moves the rows without a verdict from a group of several to `doubted`.
static void set_apart(group *g, group *doubted) {
    size_t n = 0;
    for (size_t i = 0; i < g->n && g->n > 1; i++) {
        char doubt[SM_DOUBT_SIZE];
        if (sm_doubt_row(g->rows[i], doubt)) {
            doubted->rows[doubted->n++] = g->rows[i];
        } else {
            g->rows[n++] = g->rows[i];
        }
    }
    g->n = n;
}

static void say_doubt(const group *doubted, size_t n_rows, json_t *sentences) {
    char doubt[SM_DOUBT_SIZE];
    char text[SENTENCE_SIZE];
    if (doubted->n == 0) {
        return;
    }
    sm_doubt_row(doubted->rows[0], doubt);
    const int used = doubted->n == n_rows
                         ? snprintf(text, sizeof(text), "No verdict")
                         : snprintf(text, sizeof(text), "No verdict on %zu of %zu rows", doubted->n, n_rows);
    snprintf(text + used, sizeof(text) - (size_t)used, ": %s", doubt);
    json_array_append_new(sentences, sm_json_text(text));
}

static sm_status say_all(const json_t *rows, group *g, group *doubted, json_t *sentences) {
    for (size_t first = 0; first < json_array_size(rows); first++) {
        collect(rows, first, g);
        const bool names_test = g->n < json_array_size(rows);
        set_apart(g, doubted);
        for (size_t i = 1; i < g->n && json_array_size(sentences) < MOST_SENTENCES; i++) {
            SM_TRY(say(g, g->rows[i], names_test, sentences));
        }
    }
    say_doubt(doubted, json_array_size(rows), sentences);
    return SM_OK;
}

sm_status sm_fastest_sentences(const json_t *rows, json_t **sentences) {
    const size_t size_bytes = (json_array_size(rows) + 1) * sizeof(const json_t *);
    group g = {.rows = sm_malloc(size_bytes)};
    group doubted = {.rows = sm_malloc(size_bytes)};
    json_t *made = json_array();
    sm_status status = say_all(rows, &g, &doubted, made);
    free(g.rows);
    free(doubted.rows);
    if (status != SM_OK) {
        json_decref(made);
        made = NULL;
    }
    *sentences = made;
    return status;
}
