// digest.c: see digest.h.
#include "digest.h"

#include "fnv1a.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PART_BYTES = 1 << 16 };

static void set_text(uint64_t hash, char digest[SM_DIGEST_SIZE]) {
    snprintf(digest, SM_DIGEST_SIZE, "fnv1a64:%016" PRIx64, hash);
}

void sm_digest_bytes(const void *data, size_t size_bytes, char digest[SM_DIGEST_SIZE]) {
    set_text(sm_fnv1a(SM_FNV1A_START, data, size_bytes), digest);
}

sm_status sm_digest_file(const char *path, char digest[SM_DIGEST_SIZE]) {
    unsigned char part[PART_BYTES];
    uint64_t hash = SM_FNV1A_START;
    size_t n = 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return sm_fail(SM_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    }
    while ((n = fread(part, 1, sizeof(part), file)) > 0) {
        hash = sm_fnv1a(hash, part, n);
    }
    sm_status status = ferror(file) ? sm_fail(SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno)) : SM_OK;
    fclose(file);
    set_text(hash, digest);
    return status;
}
