// speedups.c: what is said after a run: which row is how much faster, and where attentions cross. See compare.h.
#include "bench/compare/compare.h"

enum { NAME_SIZE = 256, SENTENCE_SIZE = 1024, MOST_SENTENCES = 8 };

typedef struct {
    const json_t **rows; // of one work, the fastest first
    size_t n;
} group;

static int by_median(const void *a, const void *b) {
    const double x = sm_json_number(*(const json_t *const *)a, "median_ns");
    const double y = sm_json_number(*(const json_t *const *)b, "median_ns");
    return (x > y) - (x < y);
}

static bool varies(const group *g, const sm_column *column) {
    char first[SM_IDENTITY_VALUE_SIZE], other[SM_IDENTITY_VALUE_SIZE];
    bool varied = false;
    sm_identity_value(g->rows[0], column, first);
    for (size_t i = 1; i < g->n && !varied; i++) {
        sm_identity_value(g->rows[i], column, other);
        varied = strcmp(first, other) != 0;
    }
    return varied;
}

// A row's name within its group, of the columns that vary: "fused bf16". The mode's text has all columns of the mode,
// and a device's name the place of its threads.
static void name_row(const group *g, const json_t *row, char name[NAME_SIZE]) {
    bool has_device = false, has_mode = false;
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
        is_mode ? (void)sm_text_mode(row, text, sizeof(text)) : sm_identity_value(row, column, text);
        sm_append_part(name, NAME_SIZE, " ", text);
        if (strcmp(column->name, "n_threads") == 0 && text[0] != '\0') {
            sm_append(name, NAME_SIZE, " thread%s", strcmp(text, "1") == 0 ? "" : "s");
        }
    }
}

static void say(const group *g, const json_t *slow, bool names_test, json_t *sentences) {
    char fast_name[NAME_SIZE], slow_name[NAME_SIZE], text[SENTENCE_SIZE];
    const sm_difference d = sm_compare_samples(g->rows[0], slow, "samples_ns", 0.05);
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

// A configuration's rounds as one row, with the samples of all that support a verdict.
static json_t *pool_rounds(const json_t *rows) {
    char doubt[SM_DOUBT_SIZE];
    SM_OWN(json_t) *known = json_object();
    json_t *pooled = json_array();
    SM_EACH(row, rows) {
        const char *key = sm_rows_text(row, "sweep_key");
        const char *round = strstr(key, " round=");
        SM_FREED char *name = sm_strndup(key, round != NULL ? (size_t)(round - key) : strlen(key));
        json_t *before = name[0] != '\0' ? json_object_get(known, name) : NULL;
        if (before == NULL) {
            json_array_append_new(pooled, json_deep_copy(row));
            json_object_set(known, name, json_array_get(pooled, json_array_size(pooled) - 1));
        } else if (!sm_row_is_ok(before) || sm_doubt_row(before, doubt)) {
            json_object_update(before, (json_t *)row);
        } else if (sm_row_is_ok(row) && !sm_doubt_row(row, doubt)) {
            json_array_extend(json_object_get(before, "samples_ns"), json_object_get(row, "samples_ns"));
        }
    }
    return pooled;
}

json_t *sm_fastest_sentences(const json_t *all) {
    SM_OWN(json_t) *rows = pool_rounds(all);
    const size_t n_rows = json_array_size(rows);
    char doubt[SM_DOUBT_SIZE], first_doubt[SM_DOUBT_SIZE];
    size_t n_doubted = 0;
    json_t *sentences = json_array();
    SM_OWN(json_t) *groups = sm_identity_groups(rows, SM_SAME_WORK, sm_row_is_ok);
    SM_FREED const json_t **sorted = sm_malloc((n_rows + 1) * sizeof(*sorted));
    SM_EACH(of_work, groups) {
        const size_t n = json_array_size(of_work);
        group g = {sorted, 0};
        SM_EACH(row, of_work) { sorted[row_at] = row; }
        qsort(sorted, n, sizeof(*sorted), by_median);
        for (size_t i = 0; i < n; i++) { // of several those without a verdict do not take part
            if (n == 1 || !sm_doubt_row(sorted[i], doubt)) {
                sorted[g.n++] = sorted[i];
            } else if (n_doubted++ == 0) {
                memcpy(first_doubt, doubt, sizeof(first_doubt));
            }
        }
        for (size_t i = 1; i < g.n && json_array_size(sentences) < MOST_SENTENCES; i++) {
            say(&g, sorted[i], n < n_rows, sentences);
        }
    }
    if (n_doubted > 0) {
        const char *of_some = n_doubted < n_rows ? SM_TEXT_IN(64, " on %zu of %zu rows", n_doubted, n_rows) : "";
        json_array_append_new(sentences, json_sprintf("No verdict%s: %s", of_some, first_doubt));
    }
    return sentences;
}

// --- from which length on flash attention is faster than naive -----------------------------------------

// The work that two rows of an op must share, but for the length: "cpu fp32 separate B=8 NH=1 HS=16".
static void name_of_op(const json_t *row, char name[NAME_SIZE]) {
    const char *words = sm_rows_text(row, "shape");
    snprintf(name, NAME_SIZE, "%s %s %s", sm_rows_text(row, "device"), sm_rows_text(row, "precision"),
             sm_rows_text(row, "pass_type"));
    for (char word[NAME_SIZE]; sm_next_word(&words, word, sizeof(word));) {
        if (strncmp(word, "T=", 2) != 0 && strncmp(word, "C=", 2) != 0) {
            sm_append_part(name, NAME_SIZE, " ", word);
        }
    }
}

// The times of rows that bear a verdict: {name: {length: {op: ns}}}. *n_doubted: of the others, and why of the first.
static json_t *times_of_attention(const json_t *rows, size_t *n_doubted, size_t *n_all, char why[SM_DOUBT_SIZE]) {
    json_t *times = json_object();
    *n_doubted = *n_all = 0;
    SM_EACH(row, rows) {
        char name[NAME_SIZE], doubt[SM_DOUBT_SIZE];
        const char *op = sm_rows_text(row, "op");
        const char *length = SM_TEXT_IN(32, "%.0f", sm_json_number(row, "n_seq"));
        if (!sm_is_word_of(op, "attention flash_attention")) {
            continue;
        }
        (*n_all)++;
        if (sm_doubt_row(row, doubt) && (*n_doubted)++ == 0) {
            memcpy(why, doubt, SM_DOUBT_SIZE);
        }
        if (doubt[0] == '\0' && sm_json_number(row, "median_ns") > 0) {
            name_of_op(row, name);
            SM_OWN(json_t) *of_row = json_pack("{s:{s:{s:O}}}", name, length, op, sm_json_get(row, "median_ns"));
            json_object_update_recursive(times, of_row);
        }
    }
    return times;
}

json_t *sm_crossover_sentences(const json_t *rows) {
    char doubt[SM_DOUBT_SIZE];
    size_t n_doubted, n_all;
    json_t *sentences = json_array();
    SM_OWN(json_t) *times = times_of_attention(rows, &n_doubted, &n_all, doubt);
    const char *name, *length;
    json_t *by_length, *by_op;
    json_object_foreach(times, name, by_length) {
        double longest = 0, slower = 0, from = INFINITY; // longest: of both ops; slower: at which flash is not faster
        for (int pass = 0; pass < 2; pass++) {
            json_object_foreach(by_length, length, by_op) {
                const double T = strtod(length, NULL);
                const double naive_ns = sm_json_number(by_op, "attention");
                const double flash_ns = sm_json_number(by_op, "flash_attention");
                const bool are_both = naive_ns > 0 && flash_ns > 0;
                longest = are_both ? fmax(longest, T) : longest;
                slower = are_both && !(flash_ns < naive_ns) ? fmax(slower, T) : slower;
                from = are_both && pass == 1 && T > slower ? fmin(from, T) : from;
            }
        }
        if (longest > 0) {
            json_array_append_new(
                sentences, isfinite(from) ? json_sprintf("%s: flash attention is faster from T=%.0f on", name, from)
                                          : json_sprintf("%s: naive attention is faster up to T=%.0f", name, longest));
        }
    }
    if (n_doubted > 0) {
        json_array_append_new(sentences,
                              json_sprintf("No verdict on %zu of %zu rows of attention: %s", n_doubted, n_all, doubt));
    }
    return sentences;
}
