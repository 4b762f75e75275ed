#include "src/io/file_digest.h"

#include <inttypes.h>

#define XXH_INLINE_ALL // header only
#include <xxhash.h>

#include "fnv1a.h"
#include "src/io/input_file.h"

struct sm_digester {
    XXH3_state_t *state;
};

static void set_text(uint64_t hash, char text[SM_FILE_DIGEST_SIZE]) {
    snprintf(text, SM_FILE_DIGEST_SIZE, "xxh3:%016" PRIx64, hash);
}

sm_digester *sm_digester_open(void) {
    sm_digester *digester = sm_malloc(sizeof *digester);
    digester->state = sm_present(XXH3_createState(), sizeof *digester->state);
    (void)XXH3_64bits_reset(digester->state);
    return digester;
}

void sm_digester_add(sm_digester *digester, const void *data, size_t size_bytes) {
    (void)XXH3_64bits_update(digester->state, data, size_bytes);
}

void sm_digester_text(const sm_digester *digester, char text[SM_FILE_DIGEST_SIZE]) {
    set_text(XXH3_64bits_digest(digester->state), text);
}

void sm_digester_close(sm_digester *digester) {
    if (digester != NULL) {
        (void)XXH3_freeState(digester->state);
        free(digester);
    }
}

void sm_bytes_digest(const void *data, size_t size_bytes, char text[SM_FILE_DIGEST_SIZE]) {
    set_text(XXH3_64bits(data, size_bytes), text);
}

// Hands over the files in order, part by part.
static sm_status read_files(char *const *paths, int64_t n_paths, void (*take)(void *ctx, const void *data, size_t n),
                            void *ctx, int64_t *size_bytes) {
    enum { PART_BYTES = 1 << 18 };
    SM_FREED char *part = sm_malloc(PART_BYTES);
    *size_bytes = 0;
    for (int64_t i = 0; i < n_paths; i++) {
        int64_t file_bytes;
        SM_CLOSED int fd = -1;
        SM_TRY(sm_input_open(paths[i], &fd, &file_bytes));
        for (int64_t at = 0; at < file_bytes; at += PART_BYTES) {
            const size_t n = file_bytes - at < PART_BYTES ? (size_t)(file_bytes - at) : PART_BYTES;
            SM_TRY(sm_input_read(fd, paths[i], at, part, n));
            take(ctx, part, n);
        }
        *size_bytes += file_bytes;
    }
    return SM_OK;
}

static void take_for_xxh3(void *digester, const void *data, size_t n) { sm_digester_add(digester, data, n); }

sm_status sm_files_digest(char *const *paths, int64_t n_paths, char text[SM_FILE_DIGEST_SIZE], int64_t *size_bytes) {
    SM_OWN(sm_digester) *digester = sm_digester_open();
    SM_TRY(read_files(paths, n_paths, take_for_xxh3, digester, size_bytes));
    sm_digester_text(digester, text);
    return SM_OK;
}

sm_status sm_file_digest(const char *path, char text[SM_FILE_DIGEST_SIZE], int64_t *size_bytes) {
    return sm_files_digest((char *const *)&path, 1, text, size_bytes);
}

// --- of what rows measured -----------------------------------------------------------------------

static void take_for_fnv1a(void *hash, const void *data, size_t n) {
    *(uint64_t *)hash = sm_fnv1a(*(uint64_t *)hash, data, n);
}

static void set_row_text(uint64_t hash, char digest[SM_DIGEST_SIZE]) {
    snprintf(digest, SM_DIGEST_SIZE, "fnv1a64:%016" PRIx64, hash);
}

void sm_digest_bytes(const void *data, size_t size_bytes, char digest[SM_DIGEST_SIZE]) {
    set_row_text(sm_fnv1a(SM_FNV1A_START, data, size_bytes), digest);
}

sm_status sm_digest_files(char *const *paths, int n_paths, char digest[SM_DIGEST_SIZE]) {
    uint64_t hash = SM_FNV1A_START;
    int64_t size_bytes;
    const sm_status status = read_files(paths, n_paths, take_for_fnv1a, &hash, &size_bytes);
    set_row_text(hash, digest);
    return status;
}

sm_status sm_digest_file(const char *path, char digest[SM_DIGEST_SIZE]) {
    return sm_digest_files((char *const *)&path, 1, digest);
}
