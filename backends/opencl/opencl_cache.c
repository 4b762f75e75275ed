// opencl_cache.c: built programs on disk, in the user's cache folder: stepmark/opencl/HASH.
//
//   file:  magic | size of key | size of binary | hash of both | key | binary
//
// The name is a hash of the key; the key itself is in the file, and is compared. An entry that is short,
// long, of another key or whose hash does not fit counts as not there, and is written anew.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "opencl.h"

typedef struct {
    char magic[8];
    uint64_t key_bytes;
    uint64_t binary_bytes;
    uint64_t hash;
} header;

static const char magic[8] = "smoclb1";

// FNV-1a, continued from `hash`.
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size_bytes) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    }
    return hash;
}

static const uint64_t hash_start = 0xCBF29CE484222325u;

// Makes a folder and those above it.
static bool make_folders(char *path) {
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0777) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) {
            return false;
        }
    }
    return true;
}

// Path of the entry of a key; false when there is no home.
static bool entry_path(const char *key, char path[PATH_MAX]) {
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const uint64_t hash = hash_bytes(hash_start, key, strlen(key));
    int length = -1;
    if (cache != NULL && cache[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s/stepmark/opencl/%016" PRIx64, cache, hash);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s/.cache/stepmark/opencl/%016" PRIx64, home, hash);
    }
    return length > 0 && length < PATH_MAX;
}

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
        hash_bytes(hash_start, rest, rest_bytes) != h.hash) {
        free(rest);
        return NULL;
    }
    memmove(rest, rest + key_bytes, (size_t)h.binary_bytes);
    *size_bytes = (size_t)h.binary_bytes;
    return rest;
}

unsigned char *opencl_cache_load(const char *key, size_t *size_bytes) {
    char path[PATH_MAX];
    if (!entry_path(key, path)) {
        return NULL;
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    unsigned char *binary = read_entry(file, key, size_bytes);
    fclose(file);
    return binary;
}

static bool write_entry(FILE *file, const char *key, const unsigned char *binary, size_t size_bytes) {
    const size_t key_bytes = strlen(key);
    header h = {.key_bytes = key_bytes, .binary_bytes = size_bytes};
    memcpy(h.magic, magic, sizeof magic);
    h.hash = hash_bytes(hash_bytes(hash_start, key, key_bytes), binary, size_bytes);
    return fwrite(&h, sizeof h, 1, file) == 1 && fwrite(key, 1, key_bytes, file) == key_bytes &&
           fwrite(binary, 1, size_bytes, file) == size_bytes && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

void opencl_cache_store(const char *key, const unsigned char *binary, size_t size_bytes) {
    char path[PATH_MAX];
    char temporary[PATH_MAX + 16];
    if (!entry_path(key, path) || !make_folders(path)) {
        return;
    }
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    int descriptor = mkstemp(temporary);
    if (descriptor < 0) {
        return;
    }
    FILE *file = fdopen(descriptor, "wb");
    bool written = file != NULL && write_entry(file, key, binary, size_bytes);
    bool closed = file != NULL ? fclose(file) == 0 : close(descriptor) == 0;
    if (!written || !closed || rename(temporary, path) != 0) {
        unlink(temporary);
    }
}
