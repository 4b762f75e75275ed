// atomic_file.h: writing a file so that its name only ever stands for a complete one.
//
// Bytes go to a temporary name in the same folder; commit makes them durable (fsync), gives them the final name
// (rename) and makes the name durable (fsync of the folder). A reader that opens the path meanwhile, or after a crash,
// sees the old file or the new one, never a part. The next write to that path removes the remains of a killed process
// (temporary.h).
#ifndef STEPMARK_ATOMIC_FILE_H
#define STEPMARK_ATOMIC_FILE_H

#include <stddef.h>
#include <sys/types.h>

#include "status.h"
#include "src/io/file_digest.h"

typedef struct sm_atomic_file sm_atomic_file;

// Whether `path` may be replaced: SM_OK with the permissions that the new file takes over from it, 0 if it is not
// there. SM_ERR_IO if it is no regular file.
sm_status sm_atomic_check(const char *path, mode_t *permissions);

// Starts a file that will be named `path`. A regular file of that name keeps its permissions
// when it is replaced; a symbolic link is replaced itself; a folder, a device or a pipe is
// refused. SM_ERR_IO names the path and the reason.
sm_status sm_atomic_open(const char *path, sm_atomic_file **file);

// Appends. After a failure (disk full, for one) only abandon makes sense.
sm_status sm_atomic_write(sm_atomic_file *file, const void *data, size_t size_bytes);

// Computes the digest of the bytes written from now on, and stores it as *digest when the file is committed.
// SM_ERR_OOM.
sm_status sm_atomic_take_digest(sm_atomic_file *file, char digest[SM_FILE_DIGEST_SIZE]);

// Ends the file: `file` is gone afterwards, and so is the temporary, whatever is returned.
sm_status sm_atomic_commit(sm_atomic_file *file);

// Removes the temporary; `path` stays as it was. NULL is fine.
void sm_atomic_abandon(sm_atomic_file *file);

// The four steps above for bytes that are all at hand.
sm_status sm_atomic_write_all(const char *path, const void *data, size_t size_bytes);

// Makes the name itself durable, after a rename to `path`.
sm_status sm_sync_folder_of(const char *path);

// Makes a folder whose parent exists; one that is there already is fine.
sm_status sm_make_folder(const char *path);

#endif
