// text.c: a laid-out table on a terminal.
#include "bench/tables/layout.h"
#include "bench/tables/screen.h"

enum { GAP = 2, LEAST_TEXT = 24, LEAST_CELL = 10, WIDTH_ELSEWHERE = 80 };

static int total_width(const sm_layout *l) {
    int width = GAP * (l->n_shown - 1);
    for (int j = 0; j < l->n_shown; j++) {
        width += l->widths[j];
    }
    return width;
}

// The width with a minimal last column, whose text can continue below.
static int least_width(const sm_layout *l) {
    const int last = l->n_shown - 1;
    const bool wraps = !sm_layout_is_number(l, last) && l->widths[last] > LEAST_TEXT;
    return total_width(l) - (wraps ? l->widths[last] - LEAST_TEXT : 0);
}

static int rank_of(const sm_layout *l, int j) {
    const sm_column *column = &l->table->columns[l->shown[j]];
    return column->rank > 0 ? column->rank : SM_RANK_ALWAYS; // it varies, or no column has a rank
}

// The least important column; -1 if all must stay.
static int least_missed(const sm_layout *l) {
    int least = -1;
    for (int j = 0; j < l->n_shown; j++) {
        least = rank_of(l, j) < SM_RANK_ALWAYS && (least < 0 || rank_of(l, j) <= rank_of(l, least)) ? j : least;
    }
    return least;
}

// Removes a column and its cells.
static void leave_out(sm_layout *l, int j) {
    size_t n_kept = 0;
    const size_t n_columns = (size_t)l->n_shown;
    for (size_t i = 0; i < sm_layout_rows(l) * n_columns; i++) {
        if (i % n_columns == (size_t)j) {
            free(l->cells[i]);
        } else {
            l->cells[n_kept++] = l->cells[i];
        }
    }
    l->n_shown--;
    memmove(&l->shown[j], &l->shown[j + 1], (size_t)(l->n_shown - j) * sizeof(*l->shown));
    memmove(&l->widths[j], &l->widths[j + 1], (size_t)(l->n_shown - j) * sizeof(*l->widths));
}

// The least width of a column whose cells continue below: of its longest word; numbers are not broken.
static int least_wrapped(const sm_layout *l, int j) {
    int least = 0;
    for (size_t row = 0; row < sm_layout_rows(l); row++) {
        const bool is_whole = row > 0 && sm_layout_is_number(l, j);
        for (const char *word = sm_layout_cell(l, row, j); *word != '\0'; word += strspn(word, " ")) {
            const size_t n_bytes = is_whole ? strlen(word) : strcspn(word, " ");
            const int width = sm_text_width_of(word, n_bytes);
            least = width > least ? width : least;
            word += n_bytes;
        }
    }
    least = sm_layout_is_number(l, j) || least > LEAST_CELL ? least : LEAST_CELL;
    return least < l->widths[j] ? least : l->widths[j];
}

// Narrows the widest columns until the table fits, and has their cells continue below; false: it cannot.
static bool wrap_columns(sm_layout *l, int width) {
    while (total_width(l) > width) {
        int widest = -1;
        for (int j = 0; j < l->n_shown; j++) {
            const bool is_wider = widest < 0 || l->widths[j] > l->widths[widest];
            widest = is_wider && l->widths[j] > least_wrapped(l, j) ? j : widest;
        }
        if (widest < 0) {
            return false;
        }
        l->widths[widest]--;
    }
    return true;
}

// Bytes of the part of a text that fits into `width`, up to the end of a word.
static int part_of(const char *text, int width) {
    int end = 0, n = 0;
    for (int i = 0; text[i] != '\0'; i++) {
        n += ((unsigned char)text[i] & 0xC0) != 0x80;
        if (n > width) {
            return end > 0 ? end : i;
        }
        end = text[i + 1] == ' ' || text[i + 1] == '\0' ? i + 1 : end;
    }
    return end;
}

// A row, on as many lines as its longest cell needs; the last column may be wider than the table.
static void write_row(const sm_layout *l, size_t row, int width, FILE *out) {
    SM_FREED const char **rest = sm_malloc((size_t)l->n_shown * sizeof(*rest));
    bool is_whole = false;
    for (int j = 0; j < l->n_shown; j++) {
        rest[j] = sm_layout_cell(l, row, j);
    }
    while (!is_whole) {
        int column = 0, before = 0; // before: spaces before the next cell
        is_whole = true;
        for (int j = 0; j < l->n_shown; j++) {
            const bool is_last = j + 1 == l->n_shown && total_width(l) > width;
            const int n_bytes = is_last ? (int)strlen(rest[j]) : part_of(rest[j], l->widths[j]);
            SM_FREED char *part = sm_strndup(rest[j], (size_t)n_bytes);
            const int padding = is_last ? 0 : l->widths[j] - sm_text_width(part);
            const bool right = sm_layout_is_number(l, j);
            if (part[0] != '\0') {
                sm_put_repeated(out, ' ', before + (right ? padding : 0));
                sm_screen_put_within(out, width, column + (right ? padding : 0), 0, part);
                before = 0;
            }
            before += GAP + (part[0] == '\0' ? l->widths[j] : right ? 0 : padding);
            column += l->widths[j] + GAP;
            rest[j] += n_bytes + (rest[j][n_bytes] == ' ');
            is_whole = is_whole && rest[j][0] == '\0';
        }
        fputc('\n', out);
    }
}

// A record with one line for each column that has a value.
static void write_upright(const sm_layout *l, size_t row, int width, FILE *out) {
    int widest = 0;
    for (int j = 0; j < l->n_shown; j++) {
        const int wide = sm_text_width(sm_layout_cell(l, 0, j));
        widest = wide > widest ? wide : widest;
    }
    for (int j = 0; j < l->n_shown; j++) {
        const char *heading = sm_layout_cell(l, 0, j);
        const char *cell = sm_layout_cell(l, row, j);
        if (strcmp(cell, "-") == 0) {
            continue;
        }
        fputs(heading, out);
        sm_put_repeated(out, ' ', widest + GAP - sm_text_width(heading));
        sm_screen_put_within(out, width, widest + GAP, 0, cell);
        fputc('\n', out);
    }
}

static void write_records(sm_layout *l, int width, FILE *out) {
    const size_t n_rows = sm_layout_rows(l);
    const bool is_one = n_rows == 2 && total_width(l) > width;
    for (int j = least_missed(l); !is_one && least_width(l) > width && j >= 0; j = least_missed(l)) {
        leave_out(l, j);
    }
    const bool is_table = !is_one && (least_width(l) <= width || wrap_columns(l, width));
    for (size_t row = is_table ? 0 : 1; row < n_rows; row++) {
        if (is_table) {
            write_row(l, row, width, out);
        } else {
            fputs(row > 1 ? "\n" : "", out);
            write_upright(l, row, width, out);
        }
    }
}

void sm_text_write(const sm_table *table, const json_t *records, const sm_legend_line *legend, FILE *out) {
    SM_AT_END(sm_layout_free) sm_layout l = {.table = table, .records = records, .is_text = true};
    const int width = sm_screen_width(out) > 0 ? sm_screen_width(out) : WIDTH_ELSEWHERE;
    sm_layout_make(&l);
    if (l.n_shown > 0) {
        write_records(&l, width, out);
        SM_FREED char *common = sm_layout_common_text(&l); // below the table: a reader meets the figures first
        fputs(common[0] != '\0' ? "\n" : "", out);
        sm_screen_put_within(out, width, 0, 2, common);
        fputs(common[0] != '\0' ? "\n" : "", out);
    }
    for (int i = 0; i < l.n_notes; i++) {
        SM_FREED char *note = sm_layout_note_text(&l, i);
        fputs(i > 0 ? "- " : "\n- ", out);
        sm_screen_put_within(out, width, 2, 0, note);
        fputc('\n', out);
    }
    sm_layout_explain(&l, legend, out);
}
