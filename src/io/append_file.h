// append_file.h: opens files to which a run appends lines: logs, rows.
#ifndef STEPMARK_APPEND_FILE_H
#define STEPMARK_APPEND_FILE_H

#include "status.h"

// Opens `path` for writing and creates it if missing; `how`: O_APPEND, O_TRUNC or 0. Pipes and terminals are accepted,
// except a pipe without a reader, which would block forever. The caller closes *fd. SM_ERR_IO with the path and the
// reason.
sm_status sm_append_open(const char *path, int how, int *fd);

#endif
