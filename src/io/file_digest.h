// file_digest.h: the digest of a file's contents, as a short text: "xxh3:2d06800538d394c2", XXH3 of 64 bits, which
// `xxhsum -H3` prints as well. As fast as memory, so that files of gigabytes can be checked. Equal texts mean the same
// bytes, except by one chance in 2^64 or by a change that is meant to be hidden.
#ifndef STEPMARK_FILE_DIGEST_H
#define STEPMARK_FILE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

enum { SM_FILE_DIGEST_SIZE = 24 };

// Of bytes that come piece by piece.
typedef struct sm_digester sm_digester;

sm_digester *sm_digester_open(void); // NULL: no memory
void sm_digester_add(sm_digester *digester, const void *data, size_t size_bytes);
void sm_digester_text(const sm_digester *digester, char text[SM_FILE_DIGEST_SIZE]); // of what came so far
void sm_digester_close(sm_digester *digester);                                      // NULL is fine

void sm_bytes_digest(const void *data, size_t size_bytes, char text[SM_FILE_DIGEST_SIZE]);

// The digest of a whole regular file, with its size. SM_ERR_IO with the path where it cannot be read.
sm_status sm_file_digest(const char *path, char text[SM_FILE_DIGEST_SIZE], int64_t *size_bytes);

// The digest of several files, one after another, and their total size.
sm_status sm_files_digest(char *const *paths, int64_t n_paths, char text[SM_FILE_DIGEST_SIZE], int64_t *size_bytes);

#endif
