// run_complete.c: see train/run_complete.h.
#include "cli/train/run_complete.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/runs/metrics.h"
#include "src/io/atomic_file.h"
#include "src/io/json_text.h"

static sm_status write_file(const char *folder, const char *name, const char *text) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n < (int)sizeof path ? sm_atomic_write_all(path, text, strlen(text))
                                : sm_fail(SM_ERR_INVALID, "%s: too long a name", folder);
}

sm_status cli_run_complete(const char *folder) {
    json_t *metrics = NULL;
    char complete[SM_RUN_COMPLETE_SIZE];
    char digest[SM_DIGEST_SIZE];
    SM_TRY(sm_training_metrics_make(folder, &metrics));
    char *text = sm_json_to_text(metrics, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
    sm_status status = text != NULL ? write_file(folder, SM_TRAINING_METRICS_FILE, text)
                                    : sm_fail(SM_ERR_OOM, "%s: no memory for its metrics", folder);
    if (status == SM_OK) {
        sm_digest_bytes(text, strlen(text), digest);
        sm_run_complete_text(metrics, digest, complete);
        status = write_file(folder, SM_RUN_COMPLETE_FILE, complete);
    }
    free(text);
    json_decref(metrics);
    return status;
}
