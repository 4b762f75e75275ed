// append_file.h: opening files that lines are added to while work goes on: logs, rows.
#ifndef STEPMARK_APPEND_FILE_H
#define STEPMARK_APPEND_FILE_H

#include "status.h"

// Opens `path` for writing, and makes it where it is not there; `how`: O_APPEND, O_TRUNC or 0. A pipe or a terminal
// will do, but for a pipe that nobody reads, which would be waited for without end. The caller closes *fd. SM_ERR_IO
// with the path and the reason.
sm_status sm_append_open(const char *path, int how, int *fd);

#endif
