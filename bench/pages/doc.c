// doc.c: see pages/doc.h.
#include "bench/pages/doc.h"

#include "bench/pages/page.h"
#include "bench/tables/json_values.h"
#include "bench/tables/layout.h"
#include "bench/tables/show.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_SIZE = 2048, MOST_OPEN_CARDS = 3, N_COLOURS = 12 };

// --- escaping ------------------------------------------------------------------------------

static void put_markdown(FILE *out, char c) {
    if (c == '<') {
        fputs("&lt;", out);
        return;
    }
    if (strchr("\\|*_`[]#&", c) != NULL && c != '\0') {
        fputc('\\', out);
    }
    fputc(c, out);
}

// The Markdown counterpart of sm_page_text().
static void put_text(const sm_doc *doc, const char *text) {
    if (doc->html) {
        sm_page_text(doc->out, text);
        return;
    }
    while (*text != '\0') {
        int length = sm_utf8_length(text);
        bool is_control = sm_control_length(text) > 0;
        if (length > 1 && !is_control) {
            fwrite(text, 1, (size_t)length, doc->out);
        } else {
            char c = length == 0 ? '?' : is_control ? ' ' : *text;
            put_markdown(doc->out, c);
        }
        text += length > 0 ? length : 1;
    }
}

static void put_formatted(const sm_doc *doc, const char *format, va_list arguments) {
    char text[TEXT_SIZE];
    vsnprintf(text, sizeof(text), format, arguments);
    put_text(doc, text);
}

// --- page ----------------------------------------------------------------------------------

void sm_doc_begin(sm_doc *doc, const char *title) {
    if (doc->html) {
        sm_page_begin(doc->out, title, NULL);
        return;
    }
    fputs("# ", doc->out);
    put_text(doc, title);
    fputs("\n", doc->out);
}

void sm_doc_end(sm_doc *doc, const char *const *scripts) {
    if (doc->html) {
        sm_page_end(doc->out, scripts);
    }
}

void sm_doc_heading(sm_doc *doc, const char *id, const char *text) {
    if (doc->html) {
        fprintf(doc->out, "<h2 id=\"%s\">", id);
    } else {
        fputs("\n## ", doc->out);
    }
    put_text(doc, text);
    fputs(doc->html ? "</h2>\n" : "\n\n", doc->out);
}

void sm_doc_subheading(sm_doc *doc, const char *text) {
    fputs(doc->html ? "<h3>" : "\n### ", doc->out);
    put_text(doc, text);
    fputs(doc->html ? "</h3>\n" : "\n\n", doc->out);
}

void sm_doc_text(sm_doc *doc, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs(doc->html ? "<p>" : "", doc->out);
    put_formatted(doc, format, arguments);
    fputs(doc->html ? "</p>\n" : "\n\n", doc->out);
    va_end(arguments);
}

void sm_doc_items_begin(sm_doc *doc) { fputs(doc->html ? "<ul>\n" : "", doc->out); }

void sm_doc_item(sm_doc *doc, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs(doc->html ? "<li>" : "- ", doc->out);
    put_formatted(doc, format, arguments);
    fputs(doc->html ? "</li>\n" : "\n", doc->out);
    va_end(arguments);
}

void sm_doc_items_end(sm_doc *doc) { fputs(doc->html ? "</ul>\n" : "\n", doc->out); }

// --- tables --------------------------------------------------------------------------------

static void put_heading(sm_doc *doc, const char *heading, size_t length) {
    char text[TEXT_SIZE];
    bool is_number = heading[0] == '#';
    doc->is_number[doc->n_columns++] = is_number;
    snprintf(text, sizeof(text), "%.*s", (int)length - is_number, heading + is_number);
    fputs(!doc->html ? " " : is_number ? "<th class=\"n\">" : "<th>", doc->out);
    put_text(doc, text);
    fputs(doc->html ? "</th>" : " |", doc->out);
}

void sm_doc_table_begin(sm_doc *doc, const char *headings) {
    doc->n_columns = 0;
    fputs(doc->html ? "<div class=\"wide\"><table class=\"sorts-by\">\n<thead><tr>" : "|", doc->out);
    for (const char *from = headings; from != NULL && doc->n_columns < SM_DOC_MAX_COLUMNS;) {
        size_t length = strcspn(from, "|");
        put_heading(doc, from, length);
        from = from[length] == '|' ? from + length + 1 : NULL;
    }
    fputs(doc->html ? "</tr></thead>\n<tbody>\n" : "\n|", doc->out);
    for (int i = 0; i < doc->n_columns && !doc->html; i++) {
        fputs(doc->is_number[i] ? "---:|" : "---|", doc->out);
    }
    fputs(doc->html ? "" : "\n", doc->out);
}

void sm_doc_row_begin(sm_doc *doc) {
    doc->column = 0;
    fputs(doc->html ? "<tr>" : "|", doc->out);
}

void sm_doc_cell(sm_doc *doc, const char *format, ...) {
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    bool is_number = doc->column < doc->n_columns && doc->is_number[doc->column++];
    fputs(!doc->html ? " " : is_number ? "<td class=\"n\">" : "<td>", doc->out);
    put_text(doc, text[0] != '\0' ? text : "-");
    fputs(doc->html ? "</td>" : " |", doc->out);
}

void sm_doc_number(sm_doc *doc, double value, int decimals, const char *unit) {
    if (isfinite(value)) {
        sm_doc_cell(doc, "%.*f%s", decimals, value, unit);
    } else {
        sm_doc_cell(doc, "-");
    }
}

void sm_doc_row_end(sm_doc *doc) { fputs(doc->html ? "</tr>\n" : "\n", doc->out); }

void sm_doc_table_end(sm_doc *doc) { fputs(doc->html ? "</tbody></table></div>\n" : "\n", doc->out); }

void sm_doc_part_begin(sm_doc *doc, const char *id, const char *title) {
    if (!doc->html) {
        sm_doc_heading(doc, id, title);
        return;
    }
    fprintf(doc->out, "<details class=\"part\" id=\"%s\"><summary><h2>", id);
    put_text(doc, title);
    fputs("</h2></summary>\n", doc->out);
}

void sm_doc_part_end(sm_doc *doc) { fputs(doc->html ? "</details>\n" : "", doc->out); }

void sm_doc_folded_begin(sm_doc *doc, const char *title) {
    if (!doc->html) {
        sm_doc_subheading(doc, title);
        return;
    }
    fputs("<details><summary>", doc->out);
    put_text(doc, title);
    fputs("</summary>\n", doc->out);
}

void sm_doc_folded_end(sm_doc *doc) { fputs(doc->html ? "</details>\n" : "", doc->out); }

// --- tables of records -----------------------------------------------------------------------

static bool is_number(const sm_column *column) {
    return column->type == SM_COLUMN_INTEGER || column->type == SM_COLUMN_REAL;
}

static void put_record_cell(sm_doc *doc, const sm_column *column, const json_t *record) {
    char text[SM_CELL_SIZE] = "";
    double value = sm_json_number(record, column->name);
    (column->show != NULL ? column->show : sm_show_by_type(column->type))(record, column, text, sizeof(text));
    fputs(is_number(column) ? "<td class=n" : "<td class=name", doc->out);
    if (is_number(column) && isfinite(value)) {
        fprintf(doc->out, " data-v=%.9g", value);
    }
    fputc('>', doc->out);
    put_text(doc, text[0] != '\0' ? text : "-");
    fputs("</td>", doc->out);
}

static void put_record_head(sm_doc *doc, const sm_column *column) {
    bool is_facet = column->type == SM_COLUMN_TEXT || column->view == SM_SHOWN_WHEN_VARIED;
    fprintf(doc->out, "<th%s%s title=\"", is_number(column) ? " class=n" : "", is_facet ? " data-facet" : "");
    put_text(doc, column->description);
    fputs("\">", doc->out);
    put_text(doc, column->heading);
    fputs("</th>", doc->out);
}

static void put_records(sm_doc *doc, const char *id, const sm_layout *l) {
    size_t i;
    json_t *record;
    fprintf(doc->out, "<div class=\"wide tall\" id=\"%s\"><table class=\"sorts-by\"><thead><tr>", id);
    for (int j = 0; j < l->n_shown; j++) {
        put_record_head(doc, &l->table->columns[l->shown[j]]);
    }
    fputs("</tr></thead>\n<tbody>\n", doc->out);
    json_array_foreach((json_t *)l->records, i, record) {
        fprintf(doc->out, "<tr data-row=%zu>", i);
        for (int j = 0; j < l->n_shown; j++) {
            put_record_cell(doc, &l->table->columns[l->shown[j]], record);
        }
        fputs("</tr>\n", doc->out);
    }
    fputs("</tbody></table></div>\n", doc->out);
}

sm_status sm_doc_records(sm_doc *doc, const char *id, const sm_table *table, const json_t *records) {
    sm_layout l = {.table = table, .records = records};
    char *common = NULL;
    sm_status status = SM_OK;
    SM_TRY_GOTO(sm_layout_make(&l));
    SM_TRY_GOTO(sm_layout_common_text(&l, &common));
    if (common[0] != '\0') {
        sm_doc_text(doc, "%s.", common);
    }
    put_records(doc, id, &l);
cleanup:
    sm_layout_free(&l);
    free(common);
    return status;
}

// --- cards -----------------------------------------------------------------------------------

void sm_doc_card_begin(sm_doc *doc, int k, int n, int colour, const char *name) {
    if (k == MOST_OPEN_CARDS) {
        fprintf(doc->out, "</div>\n<details class=\"part\"><summary>%d more device%s</summary>", n - k,
                sm_plural((size_t)(n - k)));
    }
    if (k == 0 || k == MOST_OPEN_CARDS) {
        fputs("<div class=cards>\n", doc->out);
    }
    fprintf(doc->out, "<div class=card><b><i class=dot style=color:var(--s%d)></i>", (colour - 1) % N_COLOURS + 1);
    put_text(doc, name);
    fputs("</b><dl class=facts>", doc->out);
}

void sm_doc_fact(sm_doc *doc, const char *name, const char *value) {
    if (value[0] != '\0') {
        fprintf(doc->out, "<dt>%s</dt><dd>", name);
        put_text(doc, value);
        fputs("</dd>", doc->out);
    }
}

void sm_doc_card_end(sm_doc *doc, int k, int n) {
    fputs("</dl></div>\n", doc->out);
    if (k == n - 1) {
        fputs(n > MOST_OPEN_CARDS ? "</div></details>\n" : "</div>\n", doc->out);
    }
}

// --- figures ---------------------------------------------------------------------------------

static void put_figure(sm_doc *doc, const json_t *figure) {
    bool is_broad = json_array_size(json_object_get(figure, "panels")) > 1;
    fprintf(doc->out, "<figure%s><h3>", is_broad ? " class=\"broad\"" : "");
    put_text(doc, json_string_value(json_object_get(figure, "title")));
    fputs("</h3><div data-figure=\"", doc->out);
    put_text(doc, json_string_value(json_object_get(figure, "id")));
    fputs("\"></div><figcaption>", doc->out);
    put_text(doc, json_string_value(json_object_get(figure, "caption")));
    fputs("</figcaption></figure>\n", doc->out);
}

void sm_doc_figures(sm_doc *doc, const sm_figures *figures, size_t first) {
    fputs("<noscript><p>The pictures are drawn by a script, which this browser does not run; the tables hold the same "
          "figures.</p></noscript>\n<div class=\"charts\">\n",
          doc->out);
    for (size_t i = first; i < json_array_size(figures->list); i++) {
        put_figure(doc, json_array_get(figures->list, i));
    }
    fputs("</div>\n", doc->out);
}
