// row_write.c: result rows through the record writer, and the table's legend.
#include "bench/rows/row_write.h"

#include <stdbool.h>
#include <string.h>

#define ROW_NUMBER "row_number"

// The table of rows with their number in front, which no file holds.
static const sm_table *numbered_table(void) {
    enum { MOST_COLUMNS = 256 };
    static const sm_column number = {
        .name = ROW_NUMBER, .type = SM_COLUMN_INTEGER, .unit = "", .heading = "#", .rank = SM_RANK_ALWAYS};
    static sm_column columns[MOST_COLUMNS];
    static sm_table table = {.columns = columns};
    const int n = sm_row_table.n_columns < MOST_COLUMNS ? sm_row_table.n_columns : MOST_COLUMNS - 1;
    columns[0] = number;
    memcpy(columns + 1, sm_row_table.columns, (size_t)n * sizeof(columns[0]));
    table.name = sm_row_table.name;
    table.n_columns = n + 1;
    return &table;
}

sm_status sm_row_writer_open(sm_format format, FILE *out, sm_row_writer **writer) {
    return sm_record_writer_open(sm_format_is_read(format) ? numbered_table() : &sm_row_table, format, out, writer);
}

json_t *sm_row_numbered(json_t *row, size_t number) {
    json_t *copy = number > 0 ? json_copy(row) : json_incref(row);
    json_decref(row);
    if (number > 0 && json_object_set_new(copy, ROW_NUMBER, json_integer((json_int_t)number)) != 0) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

static bool has_status(const json_t *row) {
    static const char *const known[] = {"ok", "oom", "timeout", "skipped", "error"};
    const char *status = json_string_value(json_object_get(row, "status"));
    for (size_t i = 0; status != NULL && i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(status, known[i]) == 0) {
            return true;
        }
    }
    return false;
}

sm_status sm_row_write_record(sm_row_writer *writer, json_t *row) {
    if (row != NULL && !has_status(row)) {
        json_t *status = json_string("error");
        json_t *reason = json_string("internal error: the row says neither that it was measured nor why not");
        if (json_object_set_new(row, "status", status) != 0 || json_object_set_new(row, "reason", reason) != 0) {
            json_decref(row);
            row = NULL; // which fails for want of memory
        }
    }
    return sm_record_write(writer, row);
}

sm_status sm_row_writer_close(sm_row_writer *writer) { return sm_record_writer_close(writer); }

void sm_row_writer_explain(sm_row_writer *writer) {
    static const sm_legend_line legend[] = {
        {"median_ts", "tokens/s: at the median step, and how far its 95% interval reaches."},
        {"mfu", "% of peak: floating-point work against the peak measured on this device."},
        {NULL, "ok: losses, gradients and update agree with the reference."},
        {NULL, "`--wide` shows phases, efficiency, loss, and what each column means;\n"
               "  `stepmark profile` shows where a step's time goes, op by op."},
        {NULL, NULL},
    };
    sm_record_writer_explain(writer, legend);
}

void sm_row_write_legend(bool has_peaks, FILE *out) {
    fprintf(out,
            "\n"
            "- test: what one sample runs; b4s64 = 4 sequences of 64 tokens.\n"
            "- forward, backward, optimizer: time of each phase in a separate, instrumented step;\n"
            "  unaccounted: the share of that step outside of any operation;\n"
            "  timing overhead: how much slower the instrumented step was.\n"
            "- step: median of the plain, uninstrumented samples ± their median absolute deviation.\n"
            "%s"
            "- memory: peak resident memory of the process, or the bytes allocated\n"
            "  on a device with memory of its own.\n"
            "- loss: that of the first step; a row is ok only if drawn losses and operations agree\n"
            "  with the reference, the gradients with differences of the loss, the updates with\n"
            "  the reference's rule, and timed steps come out the same when they are repeated.\n",
            has_peaks ? "- % of peak: floating-point work of the step against the device's measured peak.\n"
                        "- efficiency: shortest possible time (work at peak speed, then the optimizer's memory\n"
                        "  traffic at peak bandwidth) against the step's time.\n"
                      : "");
}
