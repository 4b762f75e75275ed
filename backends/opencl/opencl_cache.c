// opencl_cache.c: built programs on disk, in the user's cache folder: stepmark/opencl/HASH.
//
//   file:  magic | size of key | size of binary | hash of both | key | binary
//
// The name is a hash of the key; the key itself is in the file, and is compared. An entry that is short,
// long, of another key or whose hash does not fit counts as not there, and is written anew.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "host_cache.h"
#include "opencl.h"

typedef struct {
    char magic[8];
    uint64_t key_bytes;
    uint64_t binary_bytes;
    uint64_t hash;
} header;

static const char magic[8] = "smoclb1";

// The rest of an open entry, when it is whole and of that key.
static unsigned char *read_entry(FILE *file, const char *key, size_t *size_bytes) {
    header h;
    const size_t key_bytes = strlen(key);
    struct stat info;
    if (fread(&h, sizeof h, 1, file) != 1 || memcmp(h.magic, magic, sizeof magic) != 0 || h.key_bytes != key_bytes ||
        fstat(fileno(file), &info) != 0 || h.binary_bytes == 0 || h.binary_bytes > (uint64_t)info.st_size ||
        (uint64_t)info.st_size != sizeof h + h.key_bytes + h.binary_bytes) {
        return NULL;
    }
    const size_t rest_bytes = key_bytes + (size_t)h.binary_bytes;
    unsigned char *rest = malloc(rest_bytes);
    if (rest == NULL || fread(rest, 1, rest_bytes, file) != rest_bytes || memcmp(rest, key, key_bytes) != 0 ||
        host_hash(HOST_HASH_START, rest, rest_bytes) != h.hash) {
        free(rest);
        return NULL;
    }
    memmove(rest, rest + key_bytes, (size_t)h.binary_bytes);
    *size_bytes = (size_t)h.binary_bytes;
    return rest;
}

unsigned char *opencl_cache_load(const char *key, size_t *size_bytes) {
    char path[PATH_MAX];
    FILE *file = host_cache_path("opencl", key, path) == SM_OK ? fopen(path, "rb") : NULL;
    if (file == NULL) {
        return NULL;
    }
    unsigned char *binary = read_entry(file, key, size_bytes);
    fclose(file);
    return binary;
}

void opencl_cache_store(const char *key, const unsigned char *binary, size_t size_bytes) {
    char path[PATH_MAX];
    const size_t key_bytes = strlen(key);
    header h = {.key_bytes = key_bytes, .binary_bytes = size_bytes};
    memcpy(h.magic, magic, sizeof magic);
    h.hash = host_hash(host_hash(HOST_HASH_START, key, key_bytes), binary, size_bytes);
    unsigned char *entry = malloc(sizeof h + key_bytes + size_bytes);
    if (entry != NULL && host_cache_path("opencl", key, path) == SM_OK) {
        memcpy(entry, &h, sizeof h);
        memcpy(entry + sizeof h, key, key_bytes);
        memcpy(entry + sizeof h + key_bytes, binary, size_bytes);
        host_cache_write(path, entry, sizeof h + key_bytes + size_bytes); // if it fails, it is built again next time
    }
    free(entry);
}
