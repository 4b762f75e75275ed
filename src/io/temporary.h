// temporary.h: names for unfinished work: a file or folder PATH.tmp-PID-N next to PATH, renamed to PATH when complete.
//
// Its process holds a lock on it (flock), which the system releases however the process ends. So making a temporary for
// PATH removes those of killed processes, and leaves those of running ones alone.
#ifndef STEPMARK_TEMPORARY_H
#define STEPMARK_TEMPORARY_H

#include <stdbool.h>

#include "status.h"

// Makes an empty file or folder, open as *fd: the lock lasts until *fd is closed. The caller frees *name.
sm_status sm_temporary_file(const char *path, char **name, int *fd);
sm_status sm_temporary_folder(const char *path, char **name, int *fd);

// Removes a file, or a folder with its files. False: it still exists, errno says why.
bool sm_temporary_remove(const char *name);

#endif
