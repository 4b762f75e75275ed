// markdown.c: lays out a table: all cells as texts first, then the widths, then the lines.
#include "markdown.h"

#include "show.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// A note under the table. Those that differ in their figures alone are one.
typedef struct {
    const sm_column *column;
    const char *text; // of the first record that has it; the record's
    bool has_variants;
    int n_records;
    int mark; // in the lines of the records that have it; 0 where all have it
} note;

typedef struct {
    const sm_table *table;
    const json_t *records;
    FILE *out;
    int *shown; // column indices, left to right
    int n_shown;
    char **cells; // (n_records + 1) x n_shown; row 0 holds the headings
    int *widths;  // n_shown, in characters
    note *notes;
    int n_notes;
} layout;

// Characters on the screen: every byte that does not continue a UTF-8 sequence begins one.
static int width_of(const char *text) {
    int width = 0;
    for (; *text != '\0'; text++) {
        width += ((unsigned char)*text & 0xC0) != 0x80;
    }
    return width;
}

// What a character is written as where it would be markup; NULL: as it is.
static const char *escaped(char c) {
    switch (c) {
    case '<': return "&lt;";
    case '|': return "\\|";
    case '`': return "\\`";
    case '\\': return "\\\\";
    default: return NULL;
    }
}

// Copies a text so that it stays a text and in its cell: control characters become spaces, markup is escaped,
// what is not UTF-8 (a sequence cut by a full buffer) becomes '?'. NULL when out of memory.
static char *cell_text(const char *text) {
    enum { MOST_BYTES = 4 }; // of what one is written as
    char *cell = malloc(MOST_BYTES * strlen(text) + 1);
    if (cell == NULL) {
        return NULL;
    }
    char *end = cell;
    while (*text != '\0') {
        int length = sm_utf8_length(text);
        if (length == 0) {
            *end++ = '?';
            text++;
            continue;
        }
        const char *written = sm_control_length(text) > 0 ? " " : escaped(*text);
        size_t n_bytes = written != NULL ? strlen(written) : (size_t)length;
        memcpy(end, written != NULL ? written : text, n_bytes);
        end += n_bytes;
        text += length;
    }
    *end = '\0';
    return cell;
}

sm_status sm_markdown_text(const char *text, FILE *out) {
    char *clean = cell_text(text);
    if (clean == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory to lay out a table");
    }
    fputs(clean, out);
    free(clean);
    return SM_OK;
}

static void show(const sm_column *column, const json_t *record, char text[SM_CELL_SIZE]) {
    sm_show by_type = sm_show_by_type(column->type);
    text[0] = '\0';
    (column->show != NULL ? column->show : by_type)(record, column, text, SM_CELL_SIZE);
}

// The first record that says anything about a column; NULL if none does. `varied` tells whether
// another says something else.
static const json_t *first_told(const layout *l, const sm_column *column, bool *varied) {
    const json_t *first = NULL;
    char first_text[SM_CELL_SIZE];
    char text[SM_CELL_SIZE];
    *varied = false;
    for (size_t i = 0; i < json_array_size(l->records); i++) {
        const json_t *record = json_array_get(l->records, i);
        show(column, record, text);
        if (text[0] == '\0') {
            continue;
        }
        if (first == NULL) {
            first = record;
            strcpy(first_text, text);
        } else if (strcmp(text, first_text) != 0) {
            *varied = true;
        }
    }
    return first;
}

static bool is_note(const sm_column *column) {
    return column->heading != NULL && (column->view == SM_SHOWN_AS_NOTES || column->view == SM_SHOWN_BELOW);
}

static void choose_columns(layout *l) {
    for (int i = 0; i < l->table->n_columns; i++) {
        const sm_column *column = &l->table->columns[i];
        if (column->heading == NULL || is_note(column)) {
            continue;
        }
        bool varied = false;
        bool told = first_told(l, column, &varied) != NULL;
        if (told && (varied || column->view == SM_SHOWN)) {
            l->shown[l->n_shown++] = i;
        }
    }
}

// "All rows: model small, mode fused": what would be the same in every line of the table.
static sm_status write_common(const layout *l) {
    const char *before = "All rows: ";
    for (int i = 0; i < l->table->n_columns; i++) {
        const sm_column *column = &l->table->columns[i];
        bool varied = false;
        const json_t *told = NULL;
        if (column->heading != NULL && column->view == SM_SHOWN_WHEN_VARIED) {
            told = first_told(l, column, &varied);
        }
        if (told == NULL || varied) {
            continue;
        }
        char text[SM_CELL_SIZE];
        show(column, told, text);
        fprintf(l->out, "%s%s ", before, column->heading);
        SM_TRY(sm_markdown_text(text, l->out));
        before = ", ";
    }
    fputs(before[0] == ',' ? "\n\n" : "", l->out);
    return SM_OK;
}

// --- notes ---------------------------------------------------------------------------------------

// Behind "0.0026", or "2.1e-05".
static const char *skip_figure(const char *text) {
    static const char figures[] = "0123456789.,";
    text += strspn(text, figures);
    bool has_exponent = text[0] == 'e' && (text[1] == '-' || text[1] == '+') && isdigit((unsigned char)text[2]);
    return has_exponent ? text + 2 + strspn(text + 2, figures) : text;
}

static bool same_kind(const char *a, const char *b) {
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

static bool has_note(const json_t *record, const note *n) {
    size_t k;
    json_t *text;
    json_array_foreach(sm_json_get(record, n->column->name), k, text) {
        if (json_is_string(text) && same_kind(json_string_value(text), n->text)) {
            return true;
        }
    }
    return false;
}

static sm_status add_note(layout *l, const sm_column *column, const char *text) {
    for (int i = 0; i < l->n_notes; i++) {
        note *known = &l->notes[i];
        if (known->column == column && same_kind(known->text, text)) {
            known->has_variants = known->has_variants || strcmp(known->text, text) != 0;
            return SM_OK;
        }
    }
    note *notes = realloc(l->notes, ((size_t)l->n_notes + 1) * sizeof(*notes));
    if (notes == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory to lay out a table");
    }
    l->notes = notes;
    notes[l->n_notes++] = (note){.column = column, .text = text};
    return SM_OK;
}

static sm_status collect_column(layout *l, const sm_column *column) {
    for (size_t i = 0; i < json_array_size(l->records); i++) {
        size_t k;
        json_t *text;
        json_array_foreach(sm_json_get(json_array_get(l->records, i), column->name), k, text) {
            if (json_is_string(text)) {
                SM_TRY(add_note(l, column, json_string_value(text)));
            }
        }
    }
    return SM_OK;
}

static sm_status collect_notes(layout *l) {
    const size_t n_records = json_array_size(l->records);
    int n_marks = 0;
    for (int i = 0; i < l->table->n_columns; i++) {
        const sm_column *column = &l->table->columns[i];
        if (is_note(column)) {
            SM_TRY(collect_column(l, column));
        }
    }
    for (int i = 0; i < l->n_notes; i++) {
        note *n = &l->notes[i];
        for (size_t r = 0; r < n_records; r++) {
            n->n_records += has_note(json_array_get(l->records, r), n);
        }
        bool of_some = (size_t)n->n_records < n_records && n->column->view == SM_SHOWN_AS_NOTES;
        n->mark = of_some ? ++n_marks : 0;
    }
    return SM_OK;
}

// Appends the marks of a record's notes to a text: "ok [1] [3]".
static void append_marks(const layout *l, const json_t *record, char text[SM_CELL_SIZE]) {
    for (int i = 0; i < l->n_notes; i++) {
        const note *n = &l->notes[i];
        size_t used = strlen(text);
        if (n->mark > 0 && has_note(record, n)) {
            snprintf(text + used, SM_CELL_SIZE - used, "%s[%d]", used > 0 ? " " : "- ", n->mark);
        }
    }
}

// --- cells ---------------------------------------------------------------------------------------

static sm_status fill_cell(layout *l, size_t row, int j, const char *text) {
    char *cell = cell_text(text[0] != '\0' ? text : "-");
    if (cell == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory to lay out a table");
    }
    l->cells[row * (size_t)l->n_shown + (size_t)j] = cell;
    int width = width_of(cell);
    if (width > l->widths[j]) {
        l->widths[j] = width;
    }
    return SM_OK;
}

static sm_status fill_cells(layout *l) {
    char text[SM_CELL_SIZE];
    for (int j = 0; j < l->n_shown; j++) {
        const sm_column *column = &l->table->columns[l->shown[j]];
        SM_TRY(fill_cell(l, 0, j, column->heading));
        for (size_t i = 0; i < json_array_size(l->records); i++) {
            show(column, json_array_get(l->records, i), text);
            if (j + 1 == l->n_shown) {
                append_marks(l, json_array_get(l->records, i), text);
            }
            SM_TRY(fill_cell(l, i + 1, j, text));
        }
    }
    return SM_OK;
}

static bool aligned_right(const layout *l, int j) {
    sm_column_type type = l->table->columns[l->shown[j]].type;
    return type == SM_COLUMN_INTEGER || type == SM_COLUMN_REAL;
}

static void put_repeated(FILE *out, char c, int n) {
    for (int i = 0; i < n; i++) {
        fputc(c, out);
    }
}

static void write_line(const layout *l, size_t row) {
    for (int j = 0; j < l->n_shown; j++) {
        const char *cell = l->cells[row * (size_t)l->n_shown + (size_t)j];
        int padding = l->widths[j] - width_of(cell);
        bool right = aligned_right(l, j);
        bool last = j + 1 == l->n_shown;
        fputs("| ", l->out);
        put_repeated(l->out, ' ', right ? padding : 0);
        fputs(cell, l->out);
        put_repeated(l->out, ' ', right || last ? 0 : padding);
        fputs(" ", l->out);
    }
    fputs("|\n", l->out);
}

static void write_rule(const layout *l) {
    for (int j = 0; j < l->n_shown; j++) {
        bool right = aligned_right(l, j);
        bool last = j + 1 == l->n_shown;
        int width = last && !right ? width_of(l->cells[j]) : l->widths[j];
        fputs("|", l->out);
        put_repeated(l->out, '-', right ? width + 1 : width + 2);
        fputs(right ? ":" : "", l->out);
    }
    fputs("|\n", l->out);
}

static sm_status write_notes(const layout *l) {
    for (int i = 0; i < l->n_notes; i++) {
        const note *n = &l->notes[i];
        char mark[32] = "";
        if (n->mark > 0) {
            snprintf(mark, sizeof(mark), "[%d] ", n->mark);
        }
        fprintf(l->out, "%s- %s%s: ", i > 0 ? "" : "\n", mark, n->column->heading);
        SM_TRY(sm_markdown_text(n->text, l->out));
        if (n->has_variants) {
            fprintf(l->out, " (figures of the first of %d rows)", n->n_records);
        }
        fputc('\n', l->out);
    }
    return SM_OK;
}

static sm_status write_table(layout *l) {
    size_t n_rows = json_array_size(l->records) + 1;
    choose_columns(l);
    if (l->n_shown == 0) {
        return SM_OK;
    }
    l->cells = calloc(n_rows * (size_t)l->n_shown, sizeof(*l->cells));
    if (l->cells == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory to lay out a table of %zu rows", n_rows);
    }
    SM_TRY(collect_notes(l));
    SM_TRY(fill_cells(l));
    SM_TRY(write_common(l));
    write_line(l, 0);
    write_rule(l);
    for (size_t row = 1; row < n_rows; row++) {
        write_line(l, row);
    }
    return write_notes(l);
}

sm_status sm_markdown_write(const sm_table *table, const json_t *records, FILE *out) {
    layout l = {.table = table, .records = records, .out = out};
    sm_status status = SM_OK;
    l.shown = calloc((size_t)table->n_columns, sizeof(*l.shown));
    l.widths = calloc((size_t)table->n_columns, sizeof(*l.widths));
    if (l.shown == NULL || l.widths == NULL) {
        status = sm_fail(SM_ERR_OOM, "no memory to lay out a table of %d columns", table->n_columns);
        goto cleanup;
    }
    SM_TRY_GOTO(write_table(&l));
cleanup:
    if (l.cells != NULL) {
        for (size_t i = 0; i < (json_array_size(records) + 1) * (size_t)l.n_shown; i++) {
            free(l.cells[i]);
        }
    }
    free(l.cells);
    free(l.notes);
    free(l.widths);
    free(l.shown);
    return status;
}
