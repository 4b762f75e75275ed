// rows_foreign.c: see read_rows.h.
#include "bench/rows/read_rows.h"

#include "bench/tables/show.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

// An object with both fields is of that kind; the first match counts.
static const struct {
    const char *fields[2];
    const char *kind;
} objects[] = {
    {{"step", "loss"}, "a training log (`stepmark train --log`)"},
    {{"line", "self_ns"}, "the output of `stepmark profile`"},
    {{"ceiling", "best"}, "the output of `stepmark devices --peaks`"},
    {{"comparisons", "verdict"}, "the output of `stepmark compare`"},
    {{"verdict", "basis"}, "the output of `stepmark compare`"},
    {{"topic", "figure"}, "the output of `stepmark report --best`"},
    {{"memory", "traffic"}, "the output of `stepmark estimate`"},
    {{"check", "subject"}, "the output of `stepmark verify`"},
    {{"without", "ratio"}, "the output of `stepmark compare --without all`"},
    {{"range", "equation"}, "the output of `stepmark walk`"},
    {{"backend", "driver"}, "the output of `stepmark devices`"},
    {{"traceEvents", "traceEvents"}, "a trace of events"},
    {{"$schema", "properties"}, "a JSON Schema"},
    {{"n_layer", "n_head"}, "a model's config.json"},
};

// Known beginnings of text.
static const struct {
    const char *begin;
    const char *kind;
} texts[] = {
    {"schema_version,", "rows as CSV (-o csv)"},
    {"CREATE TABLE", "rows as SQL (-o sql)"},
    {"All rows:", "a table as Markdown (-o md)"},
    {"|", "a table as Markdown (-o md)"},
    {"# ", "a page as Markdown"},
    {"<!DOCTYPE html", "an HTML page"},
    {"<html", "an HTML page"},
    {"%PDF", "a PDF"},
};

enum { MOST_FIELDS = 4 };

// "JSON of another kind, with step, loss". Omits names that are not plain words, as the text goes to a terminal.
static void name_fields(const json_t *object, char *text, size_t size_bytes) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const char *key = NULL;
    json_t *value = NULL;
    int n = 0;
    snprintf(text, size_bytes, "JSON of another kind");
    json_object_foreach((json_t *)object, key, value) {
        bool is_plain = key[0] != '\0' && key[strspn(key, letters)] == '\0' && strlen(key) < 32;
        if (is_plain && n < MOST_FIELDS) {
            sm_append(text, size_bytes, "%s%s", n++ == 0 ? ", with " : ", ", key);
        }
    }
}

void sm_foreign_text(const char *file_text, size_t file_bytes, const json_t *first_object, char *text,
                     size_t size_bytes) {
    const char *kind = NULL;
    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]) && kind == NULL && first_object != NULL; i++) {
        const bool is_it = json_object_get(first_object, objects[i].fields[0]) != NULL &&
                           json_object_get(first_object, objects[i].fields[1]) != NULL;
        kind = is_it ? objects[i].kind : NULL;
    }
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]) && kind == NULL && first_object == NULL; i++) {
        const size_t length = strlen(texts[i].begin);
        kind = file_bytes >= length && memcmp(file_text, texts[i].begin, length) == 0 ? texts[i].kind : NULL;
    }
    if (first_object != NULL && kind == NULL) {
        name_fields(first_object, text, size_bytes);
    } else {
        snprintf(text, size_bytes, "%s", kind != NULL ? kind : file_bytes == 0 ? "empty" : "");
    }
}
