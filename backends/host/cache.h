// cache.h: files in the user's cache folder: $XDG_CACHE_HOME/stepmark, or ~/.cache/stepmark.
//
// Files there may be lost, stale or damaged at any time. Readers check entries; a failure to write one is not an error.
#pragma once

#include <limits.h>

#include "status.h"

// Path of the entry of `key`: CACHE/stepmark/FOLDER/HASH, where HASH is the key's, in hexadecimal. The entry should
// contain its whole key. SM_ERR_IO: there is no home folder.
sm_status host_cache_path(const char *folder, const char *key, char path[PATH_MAX]);

// Reads a whole entry, followed by a zero byte: the caller frees *data. *data is NULL if there is none. Entries are
// trusted (they may be code), so only a regular file of at most HOST_CACHE_MAX_BYTES is read that this user owns and no
// one else can write, in a folder with the same properties. SM_ERR_IO has the reason.
#define HOST_CACHE_MAX_BYTES ((size_t)256 << 20)
sm_status host_cache_read(const char *path, char **data, size_t *size_bytes);

// Writes a whole entry, first under a temporary name, so that readers see the old or the new one. Makes the parent
// folders. SM_ERR_IO names the path and the reason.
sm_status host_cache_write(const char *path, const void *data, size_t size_bytes);
