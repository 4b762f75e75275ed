// report_doc.c: see report_doc.h.
#include "report_doc.h"

#include "json_values.h"
#include "report_page.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { TEXT_SIZE = 2048, MAX_COLUMNS = 24 };

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

// In Markdown, as sm_page_text() does in HTML.
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

void sm_doc_end(sm_doc *doc) {
    if (doc->html) {
        sm_page_end(doc->out, NULL);
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

void sm_doc_table_begin(sm_doc *doc, const char *headings, const char *folded_title) {
    bool numbers[MAX_COLUMNS] = {false};
    doc->n_columns = 0;
    if (doc->html) {
        if (folded_title != NULL) {
            fputs("<details><summary>", doc->out);
            put_text(doc, folded_title);
            fputs("</summary>", doc->out);
        }
        fputs(folded_title != NULL ? "<div class=\"wide folded\"><table>\n<thead><tr>"
                                   : "<div class=\"wide\"><table>\n<thead><tr>",
              doc->out);
    } else {
        fputs("|", doc->out);
    }
    for (const char *from = headings; doc->n_columns < MAX_COLUMNS; doc->n_columns++) {
        char heading[TEXT_SIZE];
        size_t length = strcspn(from, "|");
        bool is_number = from[0] == '#';
        numbers[doc->n_columns] = is_number;
        snprintf(heading, sizeof(heading), "%.*s", (int)length - is_number, from + is_number);
        fputs(!doc->html ? " " : is_number ? "<th class=\"n\">" : "<th>", doc->out);
        put_text(doc, heading);
        fputs(doc->html ? "</th>" : " |", doc->out);
        if (from[length] == '\0') {
            doc->n_columns++;
            break;
        }
        from += length + 1;
    }
    fputs(doc->html ? "</tr></thead>\n<tbody>\n" : "\n|", doc->out);
    for (int i = 0; i < doc->n_columns && !doc->html; i++) {
        fputs(numbers[i] ? "---:|" : "---|", doc->out);
    }
    fputs(doc->html ? "" : "\n", doc->out);
}

void sm_doc_row_begin(sm_doc *doc) { fputs(doc->html ? "<tr>" : "|", doc->out); }

// What begins with a digit or a sign is a number to the eye.
void sm_doc_cell(sm_doc *doc, const char *format, ...) {
    char text[TEXT_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    bool is_number = text[0] != '\0' && strchr("+-0123456789", text[0]) != NULL;
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

void sm_doc_table_end(sm_doc *doc, bool folded) {
    if (doc->html) {
        fputs(folded ? "</tbody></table></div></details>\n" : "</tbody></table></div>\n", doc->out);
    } else {
        fputs("\n", doc->out);
    }
}

void sm_doc_figure(sm_doc *doc, const char *svg, const char *caption) {
    fprintf(doc->out, "<figure>\n%s\n<figcaption>", svg);
    put_text(doc, caption);
    fputs("</figcaption>\n</figure>\n", doc->out);
}
