// append_file.h: opening files to which lines are added during the work: logs, rows.
#ifndef STEPMARK_APPEND_FILE_H
#define STEPMARK_APPEND_FILE_H

#include "status.h"

// Opens `path` for writing, and makes it if it does not exist; `how`: O_APPEND, O_TRUNC or 0. A pipe or a terminal will
// do, except a pipe without a reader, which would block for ever. The caller closes *fd. SM_ERR_IO with the path and
// the reason.
sm_status sm_append_open(const char *path, int how, int *fd);

#endif
