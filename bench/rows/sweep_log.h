// sweep_log.h: the file that a sweep's rows go to: a JSON object a line, each appended in one
// write and made durable before the next configuration starts. Whatever ends the sweep, the file
// holds every row that was finished; the configuration that was under way has none and runs again.
#ifndef STEPMARK_SWEEP_LOG_H
#define STEPMARK_SWEEP_LOG_H

#include "bench/rows/read_rows.h"

typedef struct sm_sweep_log sm_sweep_log;

// Opens `path`, made if need be, and locks it against a second sweep. A file with rows needs
// `resume`. A last line that is cut short goes to "PATH.damaged" and out of the file; that and
// what else is odd in it is said by sm_sweep_log_rows(log)->warnings.
sm_status sm_sweep_log_open(const char *path, bool resume, sm_sweep_log **log);

// Only reads what is there, if it is there: nothing is made, locked or set aside, nor may anything be appended.
sm_status sm_sweep_log_look(const char *path, bool resume, sm_sweep_log **log);
void sm_sweep_log_close(sm_sweep_log *log); // NULL is fine

// The row whose field sweep_key is `key`; NULL if there is none. Borrowed.
json_t *sm_sweep_log_find(const sm_sweep_log *log, const char *key);

// Appends a row, whose sweep_key no other row has. On failure (a full disk) the file is as before.
sm_status sm_sweep_log_append(sm_sweep_log *log, json_t *row);

const sm_rows *sm_sweep_log_rows(const sm_sweep_log *log);

#endif
