// speedups.c: groups rows by their work, and compares their samples. See compare.h.
#include "bench/compare/compare.h"

#include "bench/rows/identity.h"
#include "bench/rows/read_rows.h"
#include "bench/rows/row.h"
#include "bench/stats/stats.h"
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
        sm_append(name, NAME_SIZE, "%s%s", name[0] != '\0' && text[0] != '\0' ? " " : "", text);
        if (strcmp(column->name, "n_threads") == 0 && text[0] != '\0') {
            sm_append(name, NAME_SIZE, " thread%s", strcmp(text, "1") == 0 ? "" : "s");
        }
    }
}

static void say(const group *g, const json_t *slow, bool names_test, json_t *sentences) {
    double *samples[2];
    size_t n[2];
    char fast_name[NAME_SIZE];
    char slow_name[NAME_SIZE];
    char text[SENTENCE_SIZE];
    sm_rows_samples(g->rows[0], "samples_ns", &samples[0], &n[0]);
    sm_rows_samples(slow, "samples_ns", &samples[1], &n[1]);
    const sm_difference d = sm_compare_unpaired(samples[0], n[0], samples[1], n[1], 0.05);
    free(samples[0]);
    free(samples[1]);
    name_row(g, g->rows[0], fast_name);
    name_row(g, slow, slow_name);
    if (!isfinite(d.estimate) || fast_name[0] == '\0' || strcmp(fast_name, slow_name) == 0) {
        return;
    }
    const char *test = names_test ? sm_rows_text(slow, "test") : "";
    snprintf(text, sizeof(text), "%s%s", test, test[0] != '\0' ? ": " : "");
    if (!d.has_interval) {
        sm_append(text, sizeof(text), "%s may be %.2f times faster than %s: too few samples to tell (-r)", fast_name,
                  exp(d.estimate), slow_name);
    } else if (d.lo > 0) {
        sm_append(text, sizeof(text), "%s is %.2f (%.2f-%.2f) times faster than %s", fast_name, exp(d.estimate),
                  exp(d.lo), exp(d.hi), slow_name);
    } else {
        sm_append(text, sizeof(text), "%s is not distinct from %s: %.2f times as fast, anywhere from %.2f to %.2f",
                  fast_name, slow_name, exp(d.estimate), exp(d.lo), exp(d.hi));
    }
    json_array_append_new(sentences, sm_json_text(text));
}

json_t *sm_fastest_sentences(const json_t *rows) {
    const size_t n_rows = json_array_size(rows);
    group g = {.rows = sm_malloc((n_rows + 1) * sizeof(const json_t *))};
    group doubted = {.rows = sm_malloc((n_rows + 1) * sizeof(const json_t *))};
    json_t *sentences = json_array();
    for (size_t first = 0; first < n_rows; first++) {
        collect(rows, first, &g);
        const bool names_test = g.n < n_rows;
        // Moves the rows without a verdict from a group of several to `doubted`.
        size_t n = 0;
        for (size_t i = 0; i < g.n && g.n > 1; i++) {
            char doubt[SM_DOUBT_SIZE];
            if (sm_doubt_row(g.rows[i], doubt)) {
                doubted.rows[doubted.n++] = g.rows[i];
            } else {
                g.rows[n++] = g.rows[i];
            }
        }
        g.n = n;
        for (size_t i = 1; i < g.n && json_array_size(sentences) < MOST_SENTENCES; i++) {
            say(&g, g.rows[i], names_test, sentences);
        }
    }
    if (doubted.n > 0) {
        char doubt[SM_DOUBT_SIZE];
        char of_some[64] = "";
        sm_doubt_row(doubted.rows[0], doubt);
        if (doubted.n < n_rows) {
            snprintf(of_some, sizeof(of_some), " on %zu of %zu rows", doubted.n, n_rows);
        }
        json_array_append_new(sentences, json_sprintf("No verdict%s: %s", of_some, doubt));
    }
    free(g.rows);
    free(doubted.rows);
    return sentences;
}
