// digest.c: see digest.h.
#include "bench/tables/digest.h"

#include "fnv1a.h"
#include "src/io/input_file.h"

#include <inttypes.h>
#include <unistd.h>

enum { PART_BYTES = 1 << 16 };

static void set_text(uint64_t hash, char digest[SM_DIGEST_SIZE]) {
    snprintf(digest, SM_DIGEST_SIZE, "fnv1a64:%016" PRIx64, hash);
}

void sm_digest_bytes(const void *data, size_t size_bytes, char digest[SM_DIGEST_SIZE]) {
    set_text(sm_fnv1a(SM_FNV1A_START, data, size_bytes), digest);
}

sm_status sm_digest_files(char *const *paths, int n_paths, char digest[SM_DIGEST_SIZE]) {
    unsigned char part[PART_BYTES];
    uint64_t hash = SM_FNV1A_START;
    sm_status status = SM_OK;
    for (int i = 0; i < n_paths && status == SM_OK; i++) {
        int fd;
        int64_t size_bytes;
        SM_TRY(sm_input_open(paths[i], &fd, &size_bytes));
        for (int64_t at = 0; at < size_bytes && status == SM_OK; at += PART_BYTES) {
            const size_t n = size_bytes - at < PART_BYTES ? (size_t)(size_bytes - at) : PART_BYTES;
            status = sm_input_read(fd, paths[i], at, part, n);
            hash = sm_fnv1a(hash, part, n);
        }
        close(fd);
    }
    set_text(hash, digest);
    return status;
}

sm_status sm_digest_file(const char *path, char digest[SM_DIGEST_SIZE]) {
    return sm_digest_files((char *const *)&path, 1, digest);
}
