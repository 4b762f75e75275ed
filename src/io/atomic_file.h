// atomic_file.h: writes a file so that its name always means a complete file.
//
// Bytes go to a temporary name in the same folder; commit makes them durable (fsync), renames the file, and makes the
// name durable (fsync of the folder). A reader, also after a crash, sees the old file or the new one, never a part. The
// next write to the path removes what a killed process left.
#pragma once

#include <sys/types.h>

#include "os/files.h"
#include "src/io/file_digest.h"

typedef struct sm_atomic_file sm_atomic_file;

// Whether `path` may be replaced, with the permissions of the new file, 0 without an old. SM_ERR_IO: no regular file.
sm_status sm_atomic_check(const char *path, mode_t *permissions);

// Starts a file that will be named `path`. A replaced file's permissions are kept; a symbolic link is itself replaced;
// a folder, a device or a pipe is refused. SM_ERR_IO names the path and the reason.
sm_status sm_atomic_open(const char *path, sm_atomic_file **file);

// Likewise of a file that is written for long: SM_ERR_IO, after seconds, if another process is writing it.
sm_status sm_atomic_open_alone(const char *path, sm_atomic_file **file);

// Appends. After a failure (such as a full disk) only close is valid.
sm_status sm_atomic_write(sm_atomic_file *file, const void *data, size_t size_bytes);

// Computes the digest of all bytes written after this call; commit stores it in *digest.
void sm_atomic_take_digest(sm_atomic_file *file, char digest[SM_FILE_DIGEST_SIZE]);

// Completes the file.
sm_status sm_atomic_commit(sm_atomic_file *file);

// Without a commit, `path` is unchanged. The temporary is gone. NULL is fine.
void sm_atomic_close(sm_atomic_file *file);
SM_OWNABLE(sm_atomic_file, sm_atomic_close)

// Opens, writes and commits a whole file.
sm_status sm_atomic_write_all(const char *path, const void *data, size_t size_bytes);

// The path that a format makes, at most PATH_MAX - 1 bytes. SM_ERR_IO: longer.
sm_status sm_make_path(char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Makes the name durable after a rename to `path`.
sm_status sm_sync_folder_of(const char *path);

// Makes a folder in an existing parent; an existing folder is fine.
sm_status sm_make_folder(const char *path);

// Opens files to which a run appends lines: logs, rows.

// Opens `path` for writing and creates it if missing; `how`: O_APPEND, O_TRUNC or 0. Pipes and terminals are accepted,
// except a pipe without a reader, which would block forever. The caller closes *fd. SM_ERR_IO has path and reason.
sm_status sm_append_open(const char *path, int how, int *fd);

// Names for unfinished work: a file or folder PATH.tmp-PID-N next to PATH, renamed to PATH when complete.
//
// Its process holds a lock on it (flock), which the system releases however the process ends. So making a temporary for
// PATH removes those of killed processes, and leaves those of running ones alone.

// Makes an empty folder, open as *fd: the lock lasts until *fd is closed. The caller frees *name.
sm_status sm_temporary_folder(const char *path, char **name, int *fd);

// Removes a file, or a folder with its files. False: it still exists, errno says why.
bool sm_temporary_remove(const char *name);

// The end of a temporary: removes and frees it, unless it was renamed and *name is NULL.
void sm_temporary_drop(char **name);
