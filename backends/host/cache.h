// cache.h: files in the user's cache folder: $XDG_CACHE_HOME/stepmark, or ~/.cache/stepmark.
//
// What lies there may be lost, stale or broken at any time. Whoever reads an entry checks it; whoever cannot
// write one goes on without.
#ifndef STEPMARK_BACKENDS_HOST_CACHE_H
#define STEPMARK_BACKENDS_HOST_CACHE_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "fnv1a.h"
#include "status.h"

// sm_fnv1a() for the backends.
#define HOST_HASH_START SM_FNV1A_START
uint64_t host_hash(uint64_t hash, const void *data, size_t size_bytes);

// Path of the entry of `key`: CACHE/stepmark/FOLDER/HASH, where HASH is the key's, in hexadecimal. The entry should
// hold its whole key. SM_ERR_IO: there is no home.
sm_status host_cache_path(const char *folder, const char *key, char path[PATH_MAX]);

// Reads an entry whole, with a zero after it: the caller frees *data. *data is NULL where there is none. What lies
// there is trusted, as far as code, so only a regular file of this user's that no one else can write is read, out of a
// folder of which the same holds, and at most HOST_CACHE_MAX_BYTES of it. SM_ERR_IO says what is wrong with it.
#define HOST_CACHE_MAX_BYTES ((size_t)256 << 20)
sm_status host_cache_read(const char *path, char **data, size_t *size_bytes);

// Writes an entry whole, under a temporary name first, so that a reader meets the old one or the new one. Makes
// the folders above it. SM_ERR_IO says which path, and why.
sm_status host_cache_write(const char *path, const void *data, size_t size_bytes);

#endif
