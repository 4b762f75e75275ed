// ask.h: prefetches cache lines, a few at a time between arithmetic, so that neither waits for the other. (A processor
// tracks few pending lines and stalls if many are requested at once.)
#pragma once

#include "backends/cpu/common/product.h"

enum { CPU_LINE_ELEMS = 64 / sizeof(cpu_data) };

// Rows of lines, ld elements apart.
typedef struct {
    const cpu_data *next;
    int64_t ld;
    int64_t row_lines;
    int64_t line; // within the row
    int64_t left; // lines in all
    int64_t each; // lines at a time
} cpu_lines;

// The lines of n_rows rows of `length` elements, to be prefetched in n_times parts.
static inline cpu_lines cpu_lines_of(const cpu_data *first, int64_t ld, int64_t n_rows, int64_t length,
                                     int64_t n_times) {
    const int64_t row_lines = cpu_divide_up(length, CPU_LINE_ELEMS);
    const int64_t left = n_rows * row_lines;
    return (cpu_lines){
        .next = first, .ld = ld, .row_lines = row_lines, .left = left, .each = cpu_divide_up(left, n_times)};
}

// The lines of a matmul's b, for a slice of k and some columns, to be prefetched in n_times parts. No columns: none.
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

// Prefetches for a later read, into L2.
static inline void cpu_ask_to_read(cpu_lines *lines) {
    for (int64_t i = 0; i < lines->each && lines->left > 0; i++) {
        __builtin_prefetch(lines->next, 0, 2);
        cpu_step_line(lines);
    }
}

// Prefetches for a write, or for a read that comes soon.
static inline void cpu_ask_to_write(cpu_lines *lines) {
    for (int64_t i = 0; i < lines->each && lines->left > 0; i++) {
        __builtin_prefetch(lines->next, 1);
        cpu_step_line(lines);
    }
}

// Memory that a matmul's tile prefetches while it is computed: every CPU_ASK_STEPS packed steps of k.
enum { CPU_ASK_STEPS = 16 };
typedef struct {
    cpu_lines b;      // the next panel, before packing
    cpu_lines result; // the destination of this tile
    cpu_lines beside; // read or written together with it
} cpu_asking;

static inline void cpu_ask(cpu_asking *asking) {
    cpu_ask_to_read(&asking->b);
    cpu_ask_to_write(&asking->result);
    cpu_ask_to_write(&asking->beside);
}
