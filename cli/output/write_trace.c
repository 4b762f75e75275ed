// write_trace.c: see output/write_trace.h.
#include "cli/output/write_trace.h"

#include <stdlib.h>
#include <string.h>

#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "src/io/atomic_file.h"

sm_status cli_write_trace(const json_t *trace, const char *path) {
    char *text = json_dumps(trace, JSON_COMPACT | JSON_REAL_PRECISION(15));
    if (text == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for the trace", path);
    }
    sm_status status = sm_atomic_write_all(path, text, strlen(text));
    free(text);
    if (status == SM_OK) {
        cli_note("wrote %s; open it at ui.perfetto.dev or chrome://tracing", path);
    }
    return status;
}
