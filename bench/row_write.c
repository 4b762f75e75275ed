// row_write.c: result rows through the record writer, and the table's legend.
#include "row_write.h"

sm_status sm_row_writer_open(sm_format format, FILE *out, sm_row_writer **writer) {
    return sm_record_writer_open(&sm_row_table, format, out, writer);
}

sm_status sm_row_write(sm_row_writer *writer, const sm_row *row) {
    return sm_record_write(writer, sm_row_to_json(row));
}

sm_status sm_row_writer_close(sm_row_writer *writer) { return sm_record_writer_close(writer); }

void sm_row_write_legend(FILE *out) {
    fputs("\n"
          "- test: what one sample runs; b4s64 = 4 sequences of 64 tokens.\n"
          "- forward, backward, optimizer: time of each phase in a separate, instrumented step;\n"
          "  unaccounted: the share of that step outside of any operation;\n"
          "  timed apart: how much longer that step took than a plain one.\n"
          "- step: median of the plain, uninstrumented samples ± their median absolute deviation.\n"
          "- % of peak: floating-point work of the step against the device's measured peak.\n"
          "- efficiency: shortest possible time (work at peak speed, then the optimizer's memory\n"
          "  traffic at peak bandwidth) against the step's time.\n"
          "- memory: peak resident memory of the process, or what is allocated on a device of its own.\n"
          "- loss: mean over the tokens that the check compares; a row is ok only if each of them\n"
          "  agrees with the reference.\n",
          out);
}
