// cache.c: built programs on disk, in the user's cache folder: stepmark/opencl/HASH.
//
//   file:  magic | size of key | size of binary | hash of both | key | binary
//
// The name is a hash of the key; the key itself is in the file, and is compared. An entry with a wrong length, key or
// hash counts as missing, and is written again.

#include "fnv1a.h"
#include "backends/host/cache.h"
#include "backends/opencl/program/program.h"

typedef struct {
    char magic[8];
    uint64_t key_bytes;
    uint64_t binary_bytes;
    uint64_t hash;
} header;

static const char magic[8] = "smoclb1";

// The binary in an entry, if that is complete and has the key; it is moved to the entry's beginning.
static unsigned char *find_binary(char *entry, size_t entry_bytes, const char *key, size_t *size_bytes) {
    header h;
    const size_t key_bytes = strlen(key);
    if (entry_bytes < sizeof h) {
        return NULL;
    }
    memcpy(&h, entry, sizeof h);
    const size_t rest_bytes = entry_bytes - sizeof h;
    if (memcmp(h.magic, magic, sizeof magic) != 0 || h.key_bytes != key_bytes || rest_bytes <= key_bytes ||
        h.binary_bytes != rest_bytes - key_bytes || memcmp(entry + sizeof h, key, key_bytes) != 0 ||
        sm_fnv1a(SM_FNV1A_START, entry + sizeof h, rest_bytes) != h.hash) {
        return NULL;
    }
    memmove(entry, entry + sizeof h + key_bytes, (size_t)h.binary_bytes);
    *size_bytes = (size_t)h.binary_bytes;
    return (unsigned char *)entry;
}

sm_status opencl_cache_load(const char *key, unsigned char **binary, size_t *size_bytes) {
    char path[PATH_MAX];
    char *entry = NULL;
    size_t entry_bytes = 0;
    *binary = NULL;
    if (host_cache_path("opencl", key, path) != SM_OK) {
        return SM_OK; // no home folder: nothing is cached
    }
    SM_TRY(host_cache_read(path, &entry, &entry_bytes));
    *binary = entry != NULL ? find_binary(entry, entry_bytes, key, size_bytes) : NULL;
    if (*binary == NULL) {
        free(entry);
    }
    return SM_OK;
}

void opencl_cache_store(const char *key, const unsigned char *binary, size_t size_bytes) {
    char path[PATH_MAX];
    const size_t key_bytes = strlen(key);
    header h = {.key_bytes = key_bytes, .binary_bytes = size_bytes};
    memcpy(h.magic, magic, sizeof magic);
    h.hash = sm_fnv1a(sm_fnv1a(SM_FNV1A_START, key, key_bytes), binary, size_bytes);
    unsigned char *entry = malloc(sizeof h + key_bytes + size_bytes);
    if (entry != NULL && host_cache_path("opencl", key, path) == SM_OK) {
        memcpy(entry, &h, sizeof h);
        memcpy(entry + sizeof h, key, key_bytes);
        memcpy(entry + sizeof h + key_bytes, binary, size_bytes);
        host_cache_write(path, entry, sizeof h + key_bytes + size_bytes); // on failure it is built again next time
    }
    free(entry);
}
