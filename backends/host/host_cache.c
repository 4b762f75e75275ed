// host_cache.c: files in the user's cache folder.
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host_cache.h"

uint64_t host_hash(uint64_t hash, const void *data, size_t size_bytes) { return sm_fnv1a(hash, data, size_bytes); }

sm_status host_cache_path(const char *folder, const char *key, char path[PATH_MAX]) {
    const char *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    const uint64_t hash = host_hash(HOST_HASH_START, key, strlen(key));
    int length = -1;
    if (cache != NULL && cache[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s/stepmark/%s/%016" PRIx64, cache, folder, hash);
    } else if (home != NULL && home[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s/.cache/stepmark/%s/%016" PRIx64, home, folder, hash);
    }
    if (length < 0 || length >= PATH_MAX) {
        return sm_fail(SM_ERR_IO, "no cache folder: neither XDG_CACHE_HOME nor HOME is a usable absolute path");
    }
    return SM_OK;
}

// Makes the folders above a file.
static bool make_folders(const char *file) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file);
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

static bool write_all(int descriptor, const void *data, size_t size_bytes) {
    const char *from = data;
    while (size_bytes > 0) {
        const ssize_t written = write(descriptor, from, size_bytes);
        if (written < 0 && errno != EINTR) {
            return false;
        }
        from += written > 0 ? written : 0;
        size_bytes -= written > 0 ? (size_t)written : 0;
    }
    return fsync(descriptor) == 0;
}

sm_status host_cache_write(const char *path, const void *data, size_t size_bytes) {
    char temporary[PATH_MAX + 8];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    const int descriptor = make_folders(path) ? mkstemp(temporary) : -1;
    if (descriptor < 0) {
        return sm_fail(SM_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    }
    const bool written = write_all(descriptor, data, size_bytes);
    const int reason = errno;
    const bool closed = close(descriptor) == 0;
    if (!written || !closed || rename(temporary, path) != 0) {
        unlink(temporary);
        return sm_fail(SM_ERR_IO, "%s: cannot be written: %s", path, strerror(written ? errno : reason));
    }
    return SM_OK;
}
