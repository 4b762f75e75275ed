// fuzz_sweep_log.c: a sweep's file of rows, for `run --resume`.
#include <unistd.h>

#include "harness_support.h"
#include "bench/rows/read_rows.h"

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    sm_sweep_log *log = NULL;
    const char *path = fuzz_path("rows.jsonl");
    fuzz_write(path, data, size_bytes);
    if (sm_sweep_log_open(path, false, &log) == SM_OK) {
        sm_sweep_log_find(log, "a");
        json_t *row = json_pack("{s:s}", "sweep_key", "fuzz");
        fuzz_expect(sm_sweep_log_append(log, row) == SM_OK, "a row is appended");
        json_decref(row);
        fuzz_expect(sm_sweep_log_find(log, "fuzz") != NULL, "a row that was appended is found");
        sm_sweep_log_close(log);
    }
    unlink(fuzz_path("rows.jsonl.damaged"));
}
