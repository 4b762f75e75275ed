// digest.h: the digest of a measurement's input, as a short text: "fnv1a64:cbf29ce484222325". Equal texts: the same
// bytes, but for one chance in 2^64.
#ifndef STEPMARK_DIGEST_H
#define STEPMARK_DIGEST_H

#include "status.h"

enum { SM_DIGEST_SIZE = 32 };

void sm_digest_bytes(const void *data, size_t size_bytes, char digest[SM_DIGEST_SIZE]);

// Of a whole file, or of several in order; SM_ERR_IO with the path where one cannot be read.
sm_status sm_digest_file(const char *path, char digest[SM_DIGEST_SIZE]);
sm_status sm_digest_files(char *const *paths, int n_paths, char digest[SM_DIGEST_SIZE]);

#endif
