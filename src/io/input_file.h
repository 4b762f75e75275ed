// input_file.h: reads files from other sources, which are not trusted.
#pragma once

#include "status.h"

// Whether a folder holds a file of that name; `path`, of PATH_MAX bytes, becomes its path.
bool sm_file_is_in(const char *folder, const char *name, char *path);

// Opens a regular file for reading; folders, devices and pipes are refused without waiting. The caller closes *fd.
// SM_ERR_IO names the path and the reason; SM_ERR_FORMAT: a Git LFS pointer, not the file.
sm_status sm_input_open(const char *path, int *fd, int64_t *size_bytes);

// Reads exactly size_bytes at an offset. SM_ERR_IO if the file is too short (it may have shrunk).
sm_status sm_input_read(int fd, const char *path, int64_t offset_bytes, void *data, size_t size_bytes);

// Reads a regular file of at most most_bytes (else SM_ERR_FORMAT) whole; *text ends with a 0; the caller frees it.
sm_status sm_input_whole(const char *path, int64_t most_bytes, char **text, size_t *size_bytes);

// Opens a regular file for reading from beginning to end. The caller closes *file, here and below.
sm_status sm_input_file(const char *path, FILE **file);

// Likewise a file or a pipe. SM_ERR_IO: a folder, a device (it may have no end), a pipe without a writer (may block).
sm_status sm_input_stream(const char *path, FILE **file);

// Reads such a file or pipe whole; *text ends with a byte of 0, and the caller frees it. SM_ERR_FORMAT: too large.
sm_status sm_input_text(const char *path, size_t most_bytes, char **text, size_t *size_bytes);

// Whether a text from such a file may be used in a message: it has no control characters.
bool sm_is_printable(const char *text);

// The bytes of a byte order mark at the beginning of a text in UTF-8, which some editors write: 3 or 0.
size_t sm_mark_bytes(const char *text, size_t size_bytes);
