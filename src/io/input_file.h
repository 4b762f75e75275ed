// input_file.h: reading files that others wrote, and that are not trusted.
#ifndef STEPMARK_INPUT_FILE_H
#define STEPMARK_INPUT_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "status.h"

// Opens a regular file for reading; folders, devices and pipes are refused (and never waited
// for). The caller closes *fd. SM_ERR_IO names the path and the reason.
sm_status sm_input_open(const char *path, int *fd, int64_t *size_bytes);

// Reads exactly size_bytes from an offset. SM_ERR_IO when they are not there (any more).
sm_status sm_input_read(int fd, const char *path, int64_t offset_bytes, void *data, size_t size_bytes);

// Opens for reading from beginning to end: a pipe or a device will do. SM_ERR_IO for a folder, and for a pipe without a
// writer, which would block for ever. The caller closes *file.
sm_status sm_input_stream(const char *path, FILE **file);

// Whether a text out of such a file may go into a message: no control characters.
bool sm_is_printable(const char *text);

#endif
