// markdown.c: a laid-out table as Markdown.
#include "bench/tables/layout.h"
#include "bench/tables/screen.h"

#include <stdlib.h>

void sm_markdown_text(const char *text, FILE *out) {
    SM_FREED char *clean = sm_clean_text(text, true);
    fputs(clean, out);
}

static void write_line(const sm_layout *l, size_t row, FILE *out) {
    for (int j = 0; j < l->n_shown; j++) {
        const char *cell = sm_layout_cell(l, row, j);
        int padding = l->widths[j] - sm_text_width(cell);
        bool right = sm_layout_is_number(l, j);
        bool last = j + 1 == l->n_shown;
        fputs("| ", out);
        sm_put_repeated(out, ' ', right ? padding : 0);
        fputs(cell, out);
        sm_put_repeated(out, ' ', right || last ? 0 : padding);
        fputs(" ", out);
    }
    fputs("|\n", out);
}

static void write_table(const sm_layout *l, FILE *out) {
    if (l->n_shown == 0) {
        return;
    }
    char *common = sm_layout_common_text(l);
    fprintf(out, common[0] != '\0' ? "%s\n\n" : "%s", common);
    free(common);
    write_line(l, 0, out);
    for (int j = 0; j < l->n_shown; j++) {
        bool right = sm_layout_is_number(l, j);
        bool last = j + 1 == l->n_shown;
        int width = last && !right ? sm_text_width(sm_layout_cell(l, 0, j)) : l->widths[j];
        fputs("|", out);
        sm_put_repeated(out, '-', right ? width + 1 : width + 2);
        fputs(right ? ":" : "", out);
    }
    fputs("|\n", out);
    for (size_t row = 1; row < sm_layout_rows(l); row++) {
        write_line(l, row, out);
    }
    for (int i = 0; i < l->n_notes; i++) {
        char *note = sm_layout_note_text(l, i);
        fprintf(out, "%s- %s\n", i > 0 ? "" : "\n", note);
        free(note);
    }
}

void sm_markdown_write(const sm_table *table, const json_t *records, const sm_legend_line *legend, FILE *out) {
    sm_layout l = {.table = table, .records = records};
    sm_layout_make(&l);
    write_table(&l, out);
    sm_layout_explain(&l, legend, out);
    sm_layout_free(&l);
}
