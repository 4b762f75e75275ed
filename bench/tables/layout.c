// layout.c: chooses columns, collects notes and fills cells.
#include "bench/tables/layout.h"

#include "bench/tables/show.h"

#include <ctype.h>

// Every byte that does not continue a UTF-8 sequence begins one.
int sm_text_width_of(const char *text, size_t size_bytes) {
    int width = 0;
    for (size_t i = 0; i < size_bytes; i++) {
        width += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return width;
}

int sm_text_width(const char *text) { return sm_text_width_of(text, strlen(text)); }

char *sm_clean_text(const char *text, bool escapes) {
    enum { MOST_BYTES = 4 }; // of what one is written as
    char *cell = sm_malloc(MOST_BYTES * strlen(text) + 1);
    char *end = cell;
    while (*text != '\0') {
        int length = sm_utf8_length(text);
        if (length == 0) { // a sequence cut by a full buffer
            *end++ = '?';
            text++;
            continue;
        }
        const char *written = sm_control_length(text) > 0                    ? " "
                              : !escapes                                     ? NULL
                              : *text == '<'                                 ? "&lt;"
                              : *text == '|'                                 ? "\\|"
                              : *text == '(' && end > cell && end[-1] == ']' ? "\\(" // a link or an image
                              : *text == '`'                                 ? "\\`"
                              : *text == '\\'                                ? "\\\\"
                                                                             : NULL;
        size_t n_bytes = written != NULL ? strlen(written) : (size_t)length;
        memcpy(end, written != NULL ? written : text, n_bytes);
        end += n_bytes;
        text += length;
    }
    *end = '\0';
    return cell;
}

void sm_layout_show(const sm_layout *l, const sm_column *column, const json_t *record, char text[SM_CELL_SIZE]) {
    const sm_show usual = column->show != NULL ? column->show : sm_show_by_type(column->type);
    text[0] = '\0';
    (l->is_text && column->brief != NULL ? column->brief : usual)(record, column, text, SM_CELL_SIZE);
}

const char *sm_layout_heading(const sm_layout *l, const sm_column *column) {
    return l->is_text && column->brief_heading != NULL ? column->brief_heading : column->heading;
}

// The first record that says anything about a column; NULL: none. `varied`: whether another says something else.
static const json_t *first_told(const sm_layout *l, const sm_column *column, bool *varied) {
    const json_t *first = NULL;
    char first_text[SM_CELL_SIZE], text[SM_CELL_SIZE];
    bool has_silent = false;
    *varied = false;
    SM_EACH(record, l->records) {
        sm_layout_show(l, column, record, text);
        const bool is_silent = text[0] == '\0';
        has_silent = has_silent || is_silent;
        *varied = *varied || (first != NULL && !is_silent && strcmp(text, first_text) != 0);
        if (first == NULL && !is_silent) {
            first = record;
            strcpy(first_text, text);
        }
    }
    *varied = *varied || (first != NULL && has_silent && column->view != SM_SHOWN_WHEN_VARIED);
    return first;
}

static bool is_note(const sm_column *column) {
    return column->heading != NULL && (column->view == SM_SHOWN_AS_NOTES || column->view == SM_SHOWN_BELOW);
}

static void choose_column(sm_layout *l, int i, bool ranked) {
    const sm_column *column = &l->table->columns[i];
    bool varied = false;
    if (column->heading == NULL || is_note(column) || first_told(l, column, &varied) == NULL) {
        return;
    }
    const bool is_hidden = ranked && column->rank == 0 && column->view == SM_SHOWN;
    if (is_hidden || (!varied && column->view == SM_SHOWN_IF_VARIED)) {
        return;
    }
    const bool once = l->is_text && !l->is_page && !varied && column->type == SM_COLUMN_TEXT &&
                      column->rank < SM_RANK_ALWAYS && json_array_size(l->records) > 1;
    const bool is_common = once || column->view == SM_SHOWN_WHEN_VARIED || column->view == SM_SHOWN_WHEN_SOME;
    *(!varied && is_common ? &l->common[l->n_common++] : &l->shown[l->n_shown++]) = i;
}

static void put_clean(const sm_layout *l, const char *text, FILE *out) {
    SM_FREED char *clean = sm_clean_text(text, !l->is_text);
    fputs(clean, out);
}

char *sm_layout_common_text(const sm_layout *l) {
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = sm_memstream(&text, &size_bytes);
    for (int i = 0; i < l->n_common; i++) {
        char value[SM_CELL_SIZE];
        bool varied;
        const sm_column *column = &l->table->columns[l->common[i]];
        sm_layout_show(l, column, first_told(l, column, &varied), value);
        fprintf(out, "%s%s ",
                i > 0                                            ? ", "
                : l->is_text && json_array_size(l->records) == 1 ? ""
                                                                 : "All rows: ",
                sm_layout_heading(l, column));
        put_clean(l, value, out);
    }
    sm_memstream_close(out);
    return text;
}

// --- notes ---------------------------------------------------------------------------------------

// After "0.0026", or "2.1e-05".
static const char *skip_figure(const char *text) {
    static const char figures[] = "0123456789.,";
    text += strspn(text, figures);
    bool has_exponent = text[0] == 'e' && (text[1] == '-' || text[1] == '+') && isdigit((unsigned char)text[2]);
    return has_exponent ? text + 2 + strspn(text + 2, figures) : text;
}

// Whether texts differ only in numbers.
static bool same_but_figures(const char *a, const char *b) {
    for (;;) {
        bool has_figure = isdigit((unsigned char)*a);
        if (has_figure != (isdigit((unsigned char)*b) != 0)) {
            return false;
        }
        if (has_figure) {
            a = skip_figure(a);
            b = skip_figure(b);
        } else if (*a != *b || *a == '\0') {
            return *a == *b;
        } else {
            a++;
            b++;
        }
    }
}

static bool has_note(const json_t *record, const sm_note *n) {
    SM_EACH(text, sm_json_get(record, n->column->name)) {
        const char *other = json_is_string(text) ? json_string_value(text) : "";
        if (n->has_variants ? same_but_figures(other, n->text) : strcmp(other, n->text) == 0) {
            return true;
        }
    }
    return false;
}

// If there are more notes than a reader compares, and they differ only in their figures, the first stands for all.
static void join_notes(sm_layout *l) {
    enum { MOST_VARIANTS = 3 };
    for (int i = 0; i < l->n_notes; i++) {
        sm_note *first = &l->notes[i];
        int n = 0, n_kept = i + 1;
        for (int k = i; k < l->n_notes; k++) {
            n += l->notes[k].column == first->column && same_but_figures(l->notes[k].text, first->text);
        }
        first->has_variants = n > MOST_VARIANTS;
        for (int k = i + 1; k < l->n_notes; k++) {
            const sm_note *other = &l->notes[k];
            if (!first->has_variants || other->column != first->column || !same_but_figures(other->text, first->text)) {
                l->notes[n_kept++] = *other;
            }
        }
        l->n_notes = n_kept;
    }
}

static void collect_notes(sm_layout *l) {
    const size_t n_records = json_array_size(l->records);
    int n_marks = 0;
    for (int i = 0; i < l->table->n_columns; i++) {
        const sm_column *column = &l->table->columns[i];
        for (size_t r = 0; r < n_records && is_note(column); r++) {
            SM_EACH(text, sm_json_get(json_array_get(l->records, r), column->name)) {
                bool is_there = !json_is_string(text);
                for (int n = 0; n < l->n_notes && !is_there; n++) {
                    is_there = l->notes[n].column == column && strcmp(l->notes[n].text, json_string_value(text)) == 0;
                }
                if (!is_there) { // a note for each different text
                    SM_PUSH(l->notes, l->n_notes, (sm_note){.column = column, .text = json_string_value(text)});
                }
            }
        }
    }
    join_notes(l);
    for (int i = 0; i < l->n_notes; i++) {
        sm_note *n = &l->notes[i];
        for (size_t r = 0; r < n_records; r++) {
            n->n_records += has_note(json_array_get(l->records, r), n);
        }
        bool of_some = (size_t)n->n_records < n_records && n->column->view == SM_SHOWN_AS_NOTES;
        n->mark = of_some ? ++n_marks : 0;
    }
}

// --- cells ---------------------------------------------------------------------------------------

static void fill_cell(sm_layout *l, size_t row, int j, const char *text) {
    char *cell = sm_clean_text(text[0] != '\0' ? text : "-", !l->is_text);
    l->cells[row * (size_t)l->n_shown + (size_t)j] = cell;
    const int width = sm_text_width(cell);
    l->widths[j] = width > l->widths[j] ? width : l->widths[j];
}

static void fill_cells(sm_layout *l) {
    char text[SM_CELL_SIZE];
    for (int j = 0; j < l->n_shown; j++) {
        const sm_column *column = &l->table->columns[l->shown[j]];
        fill_cell(l, 0, j, sm_layout_heading(l, column));
        SM_EACH(record, l->records) {
            sm_layout_show(l, column, record, text);
            for (int n = 0; n < l->n_notes && j + 1 == l->n_shown; n++) { // "ok [1] [3]"
                if (l->notes[n].mark > 0 && has_note(record, &l->notes[n])) {
                    sm_append(text, sizeof(text), "%s[%d]", text[0] != '\0' ? " " : "- ", l->notes[n].mark);
                }
            }
            fill_cell(l, record_at + 1, j, text);
        }
    }
}

// --- the whole -----------------------------------------------------------------------------------

size_t sm_layout_rows(const sm_layout *l) { return json_array_size(l->records) + 1; }

const char *sm_layout_cell(const sm_layout *l, size_t row, int j) {
    return l->cells[row * (size_t)l->n_shown + (size_t)j];
}

bool sm_layout_is_number(const sm_layout *l, int j) {
    sm_column_type type = l->table->columns[l->shown[j]].type;
    return type == SM_COLUMN_INTEGER || type == SM_COLUMN_REAL;
}

char *sm_layout_note_text(const sm_layout *l, int index) {
    const sm_note *n = &l->notes[index];
    char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = sm_memstream(&text, &size_bytes);
    if (n->mark > 0) {
        fprintf(out, "[%d] ", n->mark);
    }
    fprintf(out, "%s: ", n->column->heading);
    put_clean(l, n->text, out);
    if (n->has_variants) {
        fprintf(out, " (the figures are those of the first of %d such rows)", n->n_records);
    }
    sm_memstream_close(out);
    return text;
}

void sm_layout_choose(sm_layout *l) {
    const size_t n_columns = (size_t)l->table->n_columns;
    l->shown = sm_calloc(n_columns, sizeof(*l->shown));
    l->common = sm_calloc(n_columns, sizeof(*l->common));
    l->widths = sm_calloc(n_columns, sizeof(*l->widths));
    bool ranked = false; // a reader at a terminal asks for some columns first
    for (size_t i = 0; l->is_text && !l->is_page && i < n_columns; i++) {
        ranked = ranked || l->table->columns[i].rank > 0;
    }
    for (size_t i = 0; i < n_columns; i++) {
        choose_column(l, (int)i, ranked);
    }
}

void sm_layout_make(sm_layout *l) {
    sm_layout_choose(l);
    if (l->n_shown == 0) {
        return;
    }
    l->cells = sm_calloc(sm_layout_rows(l) * (size_t)l->n_shown, sizeof(*l->cells));
    collect_notes(l);
    fill_cells(l);
}

void sm_layout_explain(const sm_layout *l, const sm_legend_line *legend, FILE *out) {
    fputs(legend != NULL ? "\n" : "", out);
    for (const sm_legend_line *line = legend; line != NULL && line->text != NULL; line++) {
        bool is_shown = line->column == NULL;
        for (int j = 0; j < l->n_shown && !is_shown; j++) {
            is_shown = strcmp(l->table->columns[l->shown[j]].name, line->column) == 0;
        }
        if (is_shown) {
            fprintf(out, "- %s\n", line->text);
        }
    }
}

void sm_layout_free(sm_layout *l) {
    for (size_t i = 0; l->cells != NULL && i < sm_layout_rows(l) * (size_t)l->n_shown; i++) {
        free(l->cells[i]);
    }
    free(l->cells);
    free(l->notes);
    free(l->widths);
    free(l->common);
    free(l->shown);
}
