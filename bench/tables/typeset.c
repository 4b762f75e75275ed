// typeset.c: a table for papers: LaTeX with the lines of the package booktabs, or Typst.
#include <stdlib.h>
#include <string.h>

#include "bench/tables/layout.h"
#include "bench/tables/record.h"

// Writes what the language would read as markup with a backslash, or, in LaTeX, by its name; what the usual fonts of LaTeX
// show as another character, and "--", which they show as a dash, so, too.
static void put_text(const char *text, bool is_latex, FILE *out) {
    static const char characters[] = "\\~^<>|-";
    static const char *const names[] = {"\\textbackslash{}",
                                        "\\textasciitilde{}",
                                        "\\textasciicircum{}",
                                        "\\textless{}",
                                        "\\textgreater{}",
                                        "\\textbar{}",
                                        "{-}"};
    const char *special = is_latex ? "&%$#_{}" : "\\#$*_`<>@[]=~-+/\"'";
    for (; *text != '\0'; text++) {
        const char *at = is_latex ? strchr(characters, *text) : NULL;
        if (at != NULL) {
            fputs(names[at - characters], out);
        } else {
            fputs(strchr(special, *text) != NULL ? "\\" : "", out);
            fputc(*text, out);
        }
    }
}

static void put_row(const sm_layout *l, size_t row, bool is_latex, FILE *out) {
    for (int j = 0; j < l->n_shown; j++) {
        fputs(!is_latex ? "[" : j > 0 ? " & " : "", out);
        put_text(sm_layout_cell(l, row, j), is_latex, out);
        fputs(is_latex ? "" : "], ", out);
    }
}

static void put_latex(const sm_layout *l, FILE *out) {
    fputs("\\begin{tabular}{", out);
    for (int j = 0; j < l->n_shown; j++) {
        fputc(sm_layout_is_number(l, j) ? 'r' : 'l', out);
    }
    fputs("}\n\\toprule\n", out);
    for (size_t row = 0; row < sm_layout_rows(l); row++) {
        put_row(l, row, true, out);
        fputs(row == 0 ? " \\\\\n\\midrule\n" : " \\\\\n", out);
    }
    fputs("\\bottomrule\n\\end{tabular}\n", out);
}

static void put_typst(const sm_layout *l, FILE *out) {
    fprintf(out, "#table(\n  columns: %d,\n  align: (", l->n_shown);
    for (int j = 0; j < l->n_shown; j++) {
        fputs(sm_layout_is_number(l, j) ? "right, " : "left, ", out);
    }
    fputs("),\n", out);
    for (size_t row = 0; row < sm_layout_rows(l); row++) {
        fputs(row == 0 ? "  table.header(" : "  ", out);
        put_row(l, row, false, out);
        fputs(row == 0 ? "),\n" : "\n", out);
    }
    fputs(")\n", out);
}

void sm_typeset_write(const sm_table *table, const json_t *records, sm_format format, FILE *out) {
    sm_layout layout = {.table = table, .records = records, .is_text = true, .is_page = true};
    sm_layout_make(&layout);
    if (layout.n_shown > 0) {
        // As comments: what all rows share, and the notes.
        const bool is_latex = format == SM_FORMAT_LATEX;
        const char *comment = is_latex ? "%" : "//";
        for (int i = -1; i < layout.n_notes; i++) {
            char *text = i < 0 ? sm_layout_common_text(&layout) : sm_layout_note_text(&layout, i);
            if (text[0] != '\0') {
                fprintf(out, "%s %s\n", comment, text);
            }
            free(text);
        }
        (is_latex ? put_latex : put_typst)(&layout, out);
    }
    sm_layout_free(&layout);
}
