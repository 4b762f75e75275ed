#include "bench/pages/page.h"

#include <math.h>

#include "embedded.h"
#include "bench/rows/identity.h"
#include "bench/tables/layout.h"
#include "bench/tables/show.h"

// Files of pages are next to the code that uses them, and have unique names.
static void put_asset(FILE *out, const char *file_name) {
    const sm_embedded *file = sm_embedded_find_below("", file_name);
    if (file != NULL) {
        fwrite(file->text, 1, file->size_bytes, out);
    }
}

void sm_page_text(FILE *out, const char *text) {
    static const char markup[] = "&<>\"'";
    static const char *const names[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    while (*text != '\0') {
        const int length = sm_utf8_length(text);
        const bool is_control = sm_control_length(text) > 0;
        const char *special = strchr(markup, *text);
        if (length == 0 || is_control) {
            fputc(is_control ? ' ' : '?', out);
        } else if (special != NULL) {
            fputs(names[special - markup], out);
        } else {
            fwrite(text, 1, (size_t)length, out);
        }
        text += length > 0 ? length : 1;
    }
}

// --- page ------------------------------------------------------------------------------------

void sm_page_begin(FILE *out, const char *title, const char *const *styles) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "script-src 'unsafe-inline' 'wasm-unsafe-eval'; img-src data:\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n<title>",
          out);
    sm_page_text(out, title);
    fputs("</title>\n<style>\n", out);
    put_asset(out, "page.css");
    for (int i = 0; styles != NULL && styles[i] != NULL; i++) {
        put_asset(out, styles[i]);
    }
    fputs("</style>\n</head>\n<body>\n<h1>", out);
    sm_page_text(out, title);
    fputs("</h1>\n", out);
}

void sm_page_end(FILE *out, const char *const *scripts) {
    fputs("<script>\n'use strict';\n", out);
    put_asset(out, "page.js");
    for (int i = 0; scripts != NULL && scripts[i] != NULL; i++) {
        put_asset(out, scripts[i]);
    }
    fputs("</script>\n</body>\n</html>\n", out);
}

void sm_page_json(FILE *out, const char *id, const json_t *value) {
    SM_FREED char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(12) | JSON_ENCODE_ANY);
    fprintf(out, "<script type=\"application/json\" id=\"%s\">", id);
    for (const char *at = text; *at != '\0'; at++) {
        *at == '<' ? fputs("\\u003c", out)
                   : fputc(*at, out); // an end of the element, or a comment, could begin with it
    }
    fputs("</script>\n", out);
}

// --- pages that draw themselves ----------------------------------------------------------------

void sm_page_write(FILE *out, const char *title, const char *const scripts[2], unsigned how, json_t *data) {
    const char *all[] = {"chart.js", "figure.js", scripts[0], scripts[1], NULL, NULL};
    if (how == SM_PAGE_RELOADS) {
        all[scripts[1] != NULL ? 4 : 3] = "reload.js";
    }
    sm_page_begin(out, title, NULL);
    fputs("<noscript><p>A script draws this page; this browser does not run it.</p></noscript>\n", out);
    sm_page_json(out, "page", data);
    json_decref(data);
    sm_page_end(out, all);
}

static json_t *column_json(const sm_layout *l, const sm_column *column) {
    const bool is_number = column->type == SM_COLUMN_INTEGER || column->type == SM_COLUMN_REAL;
    return json_pack("{s:s, s:s, s:s, s:s, s:b, s:b, s:i}", "name", column->name, "heading",
                     sm_layout_heading(l, column), "about", column->description, "part",
                     sm_identity_name((sm_identity)column->identity), "number", is_number, "varied",
                     column->view >= SM_SHOWN_WHEN_VARIED && column->view <= SM_SHOWN_IF_VARIED, "rank", column->rank);
}

static json_t *cell_json(const sm_layout *l, const sm_column *column, const json_t *record) {
    char text[SM_CELL_SIZE];
    const double value = sm_json_number(record, column->name);
    sm_layout_show(l, column, record, text);
    json_t *cell = sm_json_bytes(text);
    return isfinite(value) && text[0] != '\0' ? json_pack("[o, f]", cell, value) : cell;
}

json_t *sm_page_table(const sm_table *table, const json_t *records) {
    SM_AT_END(sm_layout_free) sm_layout l = {.table = table, .records = records, .is_text = true, .is_page = true};
    sm_layout_choose(&l);
    SM_FREED char *shared = sm_layout_common_text(&l);
    json_t *made = json_pack("{s:[], s:o, s:[]}", "columns", "shared", sm_json_bytes(shared), "rows");
    for (int j = 0; j < l.n_shown; j++) {
        json_array_append_new(json_object_get(made, "columns"), column_json(&l, &table->columns[l.shown[j]]));
    }
    SM_EACH(record, records) {
        json_t *row = json_array();
        for (int j = 0; j < l.n_shown; j++) {
            json_array_append_new(row, cell_json(&l, &table->columns[l.shown[j]], record));
        }
        json_array_append_new(json_object_get(made, "rows"), row);
    }
    return made;
}
