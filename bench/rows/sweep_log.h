// sweep_log.h: the file of a run's rows: one JSON object for each line, appended in one write and made durable before
// the next configuration starts. However the sweep ends, the file has every finished row; the current configuration has
// none and runs again.
#ifndef STEPMARK_SWEEP_LOG_H
#define STEPMARK_SWEEP_LOG_H

#include "bench/rows/read_rows.h"

typedef struct sm_sweep_log sm_sweep_log;

// Opens `path`, creates it if missing, and locks it against a second run. An incomplete last line is moved to "PATH.damaged"; sm_sweep_log_rows(log)->warnings reports this and other anomalies.
sm_status sm_sweep_log_open(const char *path, sm_sweep_log **log);

// Only reads the file, if it exists: makes, locks and moves nothing; nothing may be appended.
sm_status sm_sweep_log_look(const char *path, sm_sweep_log **log);
void sm_sweep_log_close(sm_sweep_log *log); // NULL is fine
SM_OWNABLE(sm_sweep_log, sm_sweep_log_close)

// The row with this sweep_key; NULL if there is none. Borrowed.
json_t *sm_sweep_log_find(const sm_sweep_log *log, const char *key);

// Appends a row with a new sweep_key. After a failure (a full disk) the file is unchanged.
sm_status sm_sweep_log_append(sm_sweep_log *log, json_t *row);

const sm_rows *sm_sweep_log_rows(const sm_sweep_log *log);

#endif
