// file_digest.h: the digest of a file's contents as text, "xxh3:2d06800538d394c2": 64-bit XXH3, as `xxhsum -H3` prints
// it. It is as fast as memory, so gigabytes can be checked. It detects accidental changes (but for one chance in 2^64),
// not deliberate ones.
#pragma once

#include "status.h"

enum { SM_FILE_DIGEST_SIZE = 24 };

// Digests bytes piece by piece.
typedef struct sm_digester sm_digester;

sm_digester *sm_digester_open(void);
void sm_digester_add(sm_digester *digester, const void *data, size_t size_bytes);
void sm_digester_text(const sm_digester *digester, char text[SM_FILE_DIGEST_SIZE]); // of the bytes so far
void sm_digester_close(sm_digester *digester);                                      // NULL is fine
SM_OWNABLE(sm_digester, sm_digester_close)

void sm_bytes_digest(const void *data, size_t size_bytes, char text[SM_FILE_DIGEST_SIZE]);

// The digest of a whole regular file, and its size. SM_ERR_IO names a path that cannot be read.
sm_status sm_file_digest(const char *path, char text[SM_FILE_DIGEST_SIZE], int64_t *size_bytes);

// The digest of several files in order, and their total size.
sm_status sm_files_digest(char *const *paths, int64_t n_paths, char text[SM_FILE_DIGEST_SIZE], int64_t *size_bytes);

// The digest of a measurement's input, "fnv1a64:cbf29ce484222325", as rows and blocks have it.
enum { SM_DIGEST_SIZE = 32 };

void sm_digest_bytes(const void *data, size_t size_bytes, char digest[SM_DIGEST_SIZE]);
sm_status sm_digest_file(const char *path, char digest[SM_DIGEST_SIZE]);
sm_status sm_digest_files(char *const *paths, int n_paths, char digest[SM_DIGEST_SIZE]);
