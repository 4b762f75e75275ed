// fuzz_rows.c: result rows, as other programs may write them.

#include "harness_support.h"
#include "bench/rows/read_rows.h"

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    size_t i;
    json_t *row;
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    SM_FREED char *text = fuzz_text(data, size_bytes);
    if (sm_rows_parse("rows", text, size_bytes, &rows) == SM_OK) {
        json_array_foreach(rows.rows, i, row) {
            size_t n;
            sm_rows_status(row);
            SM_FREED double *values = sm_rows_samples(row, "samples_ns", &n);
        }
    }
}
