// ask.h: cache lines that are going to be used, asked for a few at a time between arithmetic, so that neither waits
// for the other. (A processor has few places for lines under way: one that is asked for many at once stands still.)
#ifndef STEPMARK_BACKENDS_CPU_COMMON_ASK_H
#define STEPMARK_BACKENDS_CPU_COMMON_ASK_H

#include "backends/cpu/common/product.h"

enum { CPU_LINE_ELEMS = 64 / sizeof(cpu_data) };

// Rows of lines, ld elements apart.
typedef struct {
    const cpu_data *next;
    int64_t ld;
    int64_t row_lines;
    int64_t line; // in the row
    int64_t left; // lines, in all
    int64_t each; // so many at a time
} cpu_lines;

// Those of n_rows rows of `length` elements, to be asked for in n_times.
static inline cpu_lines cpu_lines_of(const cpu_data *first, int64_t ld, int64_t n_rows, int64_t length,
                                     int64_t n_times) {
    const int64_t row_lines = cpu_divide_up(length, CPU_LINE_ELEMS);
    const int64_t left = n_rows * row_lines;
    return (cpu_lines){
        .next = first, .ld = ld, .row_lines = row_lines, .left = left, .each = cpu_divide_up(left, n_times)};
}

// Those of a product's b, a slice of k and some columns, to be asked for in n_times. No columns: none.
static inline cpu_lines cpu_lines_of_b(const cpu_product *p, cpu_range ks, cpu_range cols, int64_t n_times) {
    const int64_t depth = ks.end - ks.first;
    const int64_t n_cols = cols.end - cols.first;
    if (n_cols <= 0) {
        return (cpu_lines){.left = 0};
    }
    const cpu_data *b = p->b + ks.first * p->b_row + cols.first * p->b_col;
    return p->b_col == 1 ? cpu_lines_of(b, p->b_row, depth, n_cols, n_times)
                         : cpu_lines_of(b, p->b_col, n_cols, depth, n_times);
}

static inline void cpu_step_line(cpu_lines *lines) {
    lines->next += CPU_LINE_ELEMS;
    lines->left--;
    if (++lines->line == lines->row_lines) {
        lines->line = 0;
        lines->next += lines->ld - lines->row_lines * CPU_LINE_ELEMS;
    }
}

// To be read, but not soon: into the second-level cache.
static inline void cpu_ask_to_read(cpu_lines *lines) {
    for (int64_t i = 0; i < lines->each && lines->left > 0; i++) {
        __builtin_prefetch(lines->next, 0, 2);
        cpu_step_line(lines);
    }
}

// To be written, or read soon.
static inline void cpu_ask_to_write(cpu_lines *lines) {
    for (int64_t i = 0; i < lines->each && lines->left > 0; i++) {
        __builtin_prefetch(lines->next, 1);
        cpu_step_line(lines);
    }
}

// What a product's tile asks for while it is computed: in every CPU_ASK_STEPS packed steps of k.
enum { CPU_ASK_STEPS = 16 };
typedef struct {
    cpu_lines b;      // the next panel, as it lies
    cpu_lines result; // the place of this tile
    cpu_lines beside; // read or written with it
} cpu_asking;

static inline void cpu_ask(cpu_asking *asking) {
    cpu_ask_to_read(&asking->b);
    cpu_ask_to_write(&asking->result);
    cpu_ask_to_write(&asking->beside);
}

#endif
