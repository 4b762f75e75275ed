// cache.c: files in the user's cache folder.
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "fnv1a.h"
#include "backends/host/cache.h"
#include "os/files.h"
#include "os/os.h"

sm_status host_cache_path(const char *folder, const char *key, char path[PATH_MAX]) {
    char caches[PATH_MAX];
    const uint64_t hash = sm_fnv1a(SM_FNV1A_START, key, strlen(key));
    const int length = os_user_folder("XDG_CACHE_HOME", ".cache", caches, sizeof caches)
                           ? snprintf(path, PATH_MAX, "%s/stepmark/%s/%016" PRIx64, caches, folder, hash)
                           : -1;
    SM_FAIL_IF(length < 0 || length >= PATH_MAX, SM_ERR_IO,
               "no cache folder: neither XDG_CACHE_HOME nor HOME is a usable absolute path");
    return SM_OK;
}

// --- reading ------------------------------------------------------------------------------------

// Whether this user owns it and nobody else can write to it.
static bool is_own(const struct stat *info) { return info->st_uid == geteuid() && (info->st_mode & 022) == 0; }

// Opens the entry's folder, so that it stays the checked one.
static sm_status open_folder(const char *path, int *folder) {
    char name[PATH_MAX];
    struct stat info;
    snprintf(name, sizeof name, "%s", path);
    *strrchr(name, '/') = '\0';
    *folder = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    SM_FAIL_IF(*folder < 0 && errno != ENOENT, SM_ERR_IO, "%s: cannot be read: %s", name, strerror(errno));
    SM_FAIL_IF(*folder >= 0 && (fstat(*folder, &info) != 0 || !is_own(&info)), SM_ERR_IO,
               "%s: not used: others than this user own it or can write to it", name);
    return SM_OK;
}

// Neither waits for a pipe nor follows a link.
static sm_status open_entry(const char *path, int folder, int *file, size_t *size_bytes) {
    struct stat info;
    *file = openat(folder, strrchr(path, '/') + 1, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    SM_FAIL_IF(*file < 0 && errno == ELOOP, SM_ERR_IO, "%s: not used: it is a symbolic link", path);
    SM_FAIL_IF(*file < 0 && errno != ENOENT, SM_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    if (*file < 0) {
        return SM_OK;
    }
    const char *wrong = fstat(*file, &info) != 0 || !S_ISREG(info.st_mode) ? "it is no regular file"
                        : !is_own(&info) ? "others than this user own it or can write to it"
                        : (uint64_t)info.st_size > HOST_CACHE_MAX_BYTES ? "it is too large"
                                                                        : NULL;
    SM_FAIL_IF(wrong != NULL, SM_ERR_IO, "%s: not used: %s", path, wrong);
    *size_bytes = (size_t)info.st_size;
    return SM_OK;
}

static sm_status read_all(const char *path, int file, char *data, size_t size_bytes) {
    size_t done = 0;
    while (done < size_bytes) {
        const ssize_t n = read(file, data + done, size_bytes - done);
        SM_FAIL_IF(n == 0 || (n < 0 && errno != EINTR), SM_ERR_IO, "%s: cannot be read: %s", path,
                   n == 0 ? "it became shorter" : strerror(errno));
        done += n > 0 ? (size_t)n : 0;
    }
    return SM_OK;
}

sm_status host_cache_read(const char *path, char **data, size_t *size_bytes) {
    SM_CLOSED int folder = -1;
    SM_CLOSED int file = -1;
    SM_FREED char *whole = NULL;
    *data = NULL;
    *size_bytes = 0;
    SM_TRY(open_folder(path, &folder));
    SM_TRY(folder >= 0 ? open_entry(path, folder, &file, size_bytes) : SM_OK);
    if (file >= 0) {
        whole = calloc(*size_bytes + 1, 1);
        SM_FAIL_IF(whole == NULL, SM_ERR_OOM, "%s: no memory to read it", path);
        SM_TRY(read_all(path, file, whole, *size_bytes));
        *data = sm_give(&whole);
    }
    return SM_OK;
}

// --- writing ------------------------------------------------------------------------------------

// Makes the parent folders of a file.
static bool make_folders(const char *file) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", file);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
        *slash = '/';
        if (!made) {
            return false;
        }
    }
    return true;
}

// Removes others' right to write to our own folder, which a permissive umask gave.
static sm_status close_to_others(const char *path) {
    char name[PATH_MAX];
    struct stat info;
    SM_CLOSED int folder = -1;
    snprintf(name, sizeof name, "%s", path);
    *strrchr(name, '/') = '\0';
    if (stat(name, &info) == 0 && info.st_uid == geteuid() && !is_own(&info)) {
        (void)chmod(name, 0700); // checked below
    }
    return open_folder(path, &folder);
}

sm_status host_cache_write(const char *path, const void *data, size_t size_bytes) {
    char temporary[PATH_MAX + 8];
    snprintf(temporary, sizeof temporary, "%s.XXXXXX", path);
    const bool has_folder = make_folders(path);
    SM_TRY(has_folder ? close_to_others(path) : SM_OK);
    const int descriptor = has_folder ? mkstemp(temporary) : -1;
    SM_FAIL_IF(descriptor < 0, SM_ERR_IO, "%s: cannot be written: %s", path, strerror(errno));
    const bool written = os_write_all(descriptor, data, size_bytes) && fsync(descriptor) == 0;
    const int reason = errno;
    const bool closed = close(descriptor) == 0;
    if (!written || !closed || rename(temporary, path) != 0) {
        unlink(temporary);
        return sm_fail(SM_ERR_IO, "%s: cannot be written: %s", path, strerror(written ? errno : reason));
    }
    return SM_OK;
}
