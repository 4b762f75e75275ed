// crossover.c: from which length on flash attention is faster than naive. See compare.h.
#include "bench/compare/compare.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/rows/read_rows.h"
#include "bench/tables/show.h"

enum { NAME_SIZE = 256 };

// What two rows of an op must share, but for the length: "cpu fp32 separate B=8 NH=1 HS=16".
static void name_of(const json_t *row, char name[NAME_SIZE]) {
    snprintf(name, NAME_SIZE, "%s %s %s", sm_rows_text(row, "device"), sm_rows_text(row, "precision"),
             sm_rows_text(row, "pass_type"));
    for (const char *word = sm_rows_text(row, "shape"); *word != '\0'; word += strspn(word, " ")) {
        const size_t length = strcspn(word, " ");
        const size_t used = strlen(name);
        if (strncmp(word, "T=", 2) != 0 && strncmp(word, "C=", 2) != 0) {
            snprintf(name + used, NAME_SIZE - used, " %.*s", (int)length, word);
        }
        word += length;
    }
}

// The row of that op and name with that length; NULL: none has a time.
static const json_t *find(const json_t *rows, const char *op, const char *name, double T) {
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        char own[NAME_SIZE];
        name_of(row, own);
        if (strcmp(sm_rows_text(row, "op"), op) == 0 && strcmp(own, name) == 0 && sm_json_number(row, "n_seq") == T &&
            sm_json_number(row, "median_ns") > 0) {
            return row;
        }
    }
    return NULL;
}

// The least length from which flash is faster at every measured length; NaN: none. *longest: of both.
static double crossing(const json_t *rows, const char *name, double *longest) {
    const json_t *row;
    size_t i;
    double slower = 0; // the longest at which flash is not faster
    double from = INFINITY;
    *longest = 0;
    for (int pass = 0; pass < 2; pass++) {
        json_array_foreach(rows, i, row) {
            const double T = sm_json_number(row, "n_seq");
            const json_t *naive = find(rows, "attention", name, T);
            const json_t *flash = find(rows, "flash_attention", name, T);
            if (naive == NULL || flash == NULL) {
                continue;
            }
            const bool is_faster = sm_json_number(flash, "median_ns") < sm_json_number(naive, "median_ns");
            *longest = fmax(*longest, T);
            slower = is_faster ? slower : fmax(slower, T);
            from = pass == 1 && T > slower ? fmin(from, T) : from;
        }
    }
    return isfinite(from) ? from : NAN;
}

// The rows of attention that bear a verdict; *n_doubted: of the others, and why of the first.
static json_t *without_doubt(const json_t *all, size_t *n_doubted, char first_doubt[SM_DOUBT_SIZE]) {
    json_t *rows = json_array();
    json_t *row;
    size_t i;
    *n_doubted = 0;
    json_array_foreach(all, i, row) {
        char doubt[SM_DOUBT_SIZE];
        const char *op = sm_rows_text(row, "op");
        if (strcmp(op, "attention") != 0 && strcmp(op, "flash_attention") != 0) {
            continue;
        }
        if (!sm_doubt_row(row, doubt)) {
            json_array_append(rows, row);
        } else if ((*n_doubted)++ == 0) {
            memcpy(first_doubt, doubt, SM_DOUBT_SIZE);
        }
    }
    return rows;
}

json_t *sm_crossover_sentences(const json_t *all) {
    char doubt[SM_DOUBT_SIZE];
    size_t n_doubted;
    json_t *sentences = json_array();
    SM_OWN(json_t) *told = json_object();
    json_t *rows = without_doubt(all, &n_doubted, doubt);
    const json_t *row;
    size_t i;
    json_array_foreach(rows, i, row) {
        char name[NAME_SIZE];
        double longest;
        name_of(row, name);
        if (strcmp(sm_rows_text(row, "op"), "flash_attention") != 0 || json_object_get(told, name) != NULL) {
            continue;
        }
        json_object_set_new(told, name, json_true());
        const double from = crossing(rows, name, &longest);
        if (longest > 0 && isnan(from)) {
            json_array_append_new(sentences, json_sprintf("%s: naive attention is faster up to T=%.0f", name, longest));
        } else if (longest > 0) {
            json_array_append_new(sentences, json_sprintf("%s: flash attention is faster from T=%.0f on", name, from));
        }
    }
    if (n_doubted > 0) {
        json_array_append_new(sentences, json_sprintf("No verdict on %zu of %zu rows of attention: %s", n_doubted,
                                                      n_doubted + json_array_size(rows), doubt));
    }
    json_decref(rows);
    return sentences;
}
