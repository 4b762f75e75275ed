// speedups.c: groups rows by their work, and compares their samples.
#include "bench/compare/speedups.h"

#include "bench/compare/noise_verdict.h"
#include "bench/rows/read_rows.h"
#include "bench/stats/compare_stats.h"
#include "bench/tables/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 256, SENTENCE_SIZE = 1024, MOST_SENTENCES = 8 };

// Rows that agree in these fields did the same work.
static const char *const work_fields[] = {"model_arch", "model_type", "model_n_params", "test",       "n_batch",
                                          "n_seq",      "n_accum",    "vocab",          "data_digest"};

// Fields that may differ, in the order in which names show them.
static const char *const factor_fields[] = {"device",    "isa",       "tier",       "mode",   "precision",
                                            "optimizer", "n_threads", "loss_scale", "binding"};

// Fields included in the text of a mode (sm_text_mode).
static const char *const mode_fields[] = {"mode", "recompute", "attention", "own_kernels"};

enum {
    N_WORK = sizeof(work_fields) / sizeof(work_fields[0]),
    N_FACTORS = sizeof(factor_fields) / sizeof(factor_fields[0]),
    N_MODE = sizeof(mode_fields) / sizeof(mode_fields[0]),
};

typedef struct {
    const json_t **rows; // of one work, the fastest first
    size_t n;
} group;

static bool agree(const json_t *a, const json_t *b, const char *field) {
    const json_t *x = json_object_get(a, field);
    const json_t *y = json_object_get(b, field);
    return x == y || json_equal(x, y); // both lack it, or have the same
}

static bool same_work(const json_t *a, const json_t *b) {
    for (size_t i = 0; i < N_WORK; i++) {
        if (!agree(a, b, work_fields[i])) {
            return false;
        }
    }
    return true;
}

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
        if (!has_figures(row) || !same_work(row, of)) {
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

static bool varies(const group *g, const char *field) {
    for (size_t i = 1; i < g->n; i++) {
        if (!agree(g->rows[0], g->rows[i], field)) {
            return true;
        }
    }
    return false;
}

static bool is_mode(const char *field) { return strcmp(field, "mode") == 0; }

// Whether the field distinguishes rows. A device's name also covers the place of its threads.
static bool tells_apart(const group *g, const char *field) {
    bool any_varies = varies(g, field);
    for (size_t i = 0; i < N_MODE && is_mode(field); i++) {
        any_varies |= varies(g, mode_fields[i]);
    }
    return any_varies && !(strcmp(field, "binding") == 0 && varies(g, "device"));
}

static void append(char *name, const char *text) {
    const size_t used = strlen(name);
    snprintf(name + used, NAME_SIZE - used, "%s%s", used > 0 && text[0] != '\0' ? " " : "", text);
}

// A row's name within its group: "fused bf16".
static void name_row(const group *g, const json_t *row, char name[NAME_SIZE]) {
    name[0] = '\0';
    for (size_t i = 0; i < N_FACTORS; i++) {
        char text[NAME_SIZE] = "";
        const json_t *value = json_object_get(row, factor_fields[i]);
        if (!tells_apart(g, factor_fields[i])) {
            continue;
        }
        if (is_mode(factor_fields[i])) {
            sm_text_mode(row, text, sizeof(text));
        } else if (json_is_string(value)) {
            snprintf(text, sizeof(text), "%s", json_string_value(value));
        } else if (json_is_integer(value)) {
            const json_int_t n = json_integer_value(value);
            snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT " thread%s", n, n == 1 ? "" : "s");
        }
        append(name, text);
    }
}

static sm_status differ(const json_t *fast, const json_t *slow, sm_difference *difference) {
    double *a = NULL;
    double *b = NULL;
    size_t n_a = 0;
    size_t n_b = 0;
    sm_status status = sm_rows_samples(fast, "samples_ns", &a, &n_a);
    if (status == SM_OK) {
        status = sm_rows_samples(slow, "samples_ns", &b, &n_b);
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
    return json_array_append_new(sentences, sm_json_text(text)) == 0 ? SM_OK
                                                                     : sm_fail(SM_ERR_OOM, "no memory for a sentence");
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

static sm_status say_doubt(const group *doubted, size_t n_rows, json_t *sentences) {
    char doubt[SM_DOUBT_SIZE];
    char text[SENTENCE_SIZE];
    if (doubted->n == 0) {
        return SM_OK;
    }
    sm_doubt_row(doubted->rows[0], doubt);
    const int used = doubted->n == n_rows
                         ? snprintf(text, sizeof(text), "No verdict")
                         : snprintf(text, sizeof(text), "No verdict on %zu of %zu rows", doubted->n, n_rows);
    snprintf(text + used, sizeof(text) - (size_t)used, ": %s", doubt);
    return json_array_append_new(sentences, sm_json_text(text)) == 0 ? SM_OK
                                                                     : sm_fail(SM_ERR_OOM, "no memory for a sentence");
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
    return say_doubt(doubted, json_array_size(rows), sentences);
}

sm_status sm_fastest_sentences(const json_t *rows, json_t **sentences) {
    const size_t size_bytes = (json_array_size(rows) + 1) * sizeof(const json_t *);
    group g = {.rows = malloc(size_bytes)};
    group doubted = {.rows = malloc(size_bytes)};
    json_t *made = json_array();
    sm_status status = g.rows != NULL && doubted.rows != NULL && made != NULL
                           ? say_all(rows, &g, &doubted, made)
                           : sm_fail(SM_ERR_OOM, "no memory to compare rows");
    free(g.rows);
    free(doubted.rows);
    if (status != SM_OK) {
        json_decref(made);
        made = NULL;
    }
    *sentences = made;
    return status;
}
