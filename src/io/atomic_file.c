// atomic_file.c: temporary name, fsync, rename, fsync of the folder.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/file.h>
#include <unistd.h>

#include "src/io/atomic_file.h"
#include "os/os.h"

enum { MAX_ATTEMPTS = 100 };

static const char infix[] = ".tmp-";

// ---- temporaries ----

bool sm_temporary_remove(const char *name) {
    if (unlink(name) == 0) {
        return true;
    }
    if (errno != EISDIR && errno != EPERM) { // EPERM: what POSIX says for a folder
        return false;
    }
    SM_AT_END(os_free_names) os_names names;
    (void)os_list_folder(name, &names);
    for (int i = 0; i < names.n; i++) {
        SM_FREED char *path = sm_text_of("%s/%s", name, names.list[i]);
        (void)unlink(path);
    }
    return rmdir(name) == 0;
}

void sm_temporary_drop(char **name) {
    if (*name != NULL) {
        sm_temporary_remove(*name);
        free(*name);
    }
}

// Whether a name is BASE.tmp-PID-N.
static bool is_temporary_of(const char *name, const char *base, size_t base_length) {
    if (strncmp(name, base, base_length) != 0 || strncmp(name + base_length, infix, strlen(infix)) != 0) {
        return false;
    }
    const char *digits = name + base_length + strlen(infix);
    size_t n = strspn(digits, "0123456789");
    return n > 0 && digits[n] == '-' && isdigit((unsigned char)digits[n + 1]) &&
           digits[n + 1 + strspn(digits + n + 1, "0123456789")] == '\0';
}

// Removes the temporaries of `path` whose processes have ended. With a temporary of its own it waits for those of others
// (os_lock_soon); false: another process keeps one.
static bool remove_abandoned(const char *path, const char *own) {
    bool is_alone = true;
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    int folder_length = (int)(base - path);
    SM_FREED char *folder = sm_text_of("%.*s.", folder_length, path);
    SM_AT_END(os_free_names) os_names names;
    (void)os_list_folder(folder, &names);
    for (int i = 0; i < names.n; i++) {
        SM_FREED char *name = sm_text_of("%.*s%s", folder_length, path, names.list[i]);
        if (is_temporary_of(names.list[i], base, strlen(base)) && (own == NULL || strcmp(name, own) != 0)) {
            SM_CLOSED int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
            const int error = fd < 0 ? EBADF : own != NULL ? os_lock_soon(fd) : flock(fd, LOCK_EX | LOCK_NB);
            if (error == 0) {
                sm_temporary_remove(name);
            }
            is_alone = is_alone && error != EWOULDBLOCK;
        }
    }
    return is_alone;
}

static int create_file(const char *name) { return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); }

static int create_folder(const char *name) {
    if (mkdir(name, 0777) != 0) {
        return -1;
    }
    int fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        int error = errno;
        rmdir(name);
        errno = error;
    }
    return fd;
}

// Until it is locked, a new temporary looks abandoned, and another process may remove it. On a file system without
// locks, temporaries of killed processes stay.
static bool is_ours(int fd) {
    struct stat info;
    bool taken = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    return !taken && fstat(fd, &info) == 0 && info.st_nlink > 0;
}

// Makes and locks a temporary that no process has, then checks that it still exists.
static sm_status make_temporary(const char *path, int (*create)(const char *name), char **made, int *made_fd) {
    (void)remove_abandoned(path, NULL);
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        SM_FREED char *name = sm_text_of("%s%s%ld-%d", path, infix, (long)getpid(), attempt);
        SM_CLOSED int fd = create(name);
        SM_FAIL_IF(fd < 0 && errno != EEXIST, SM_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
        if (fd >= 0 && is_ours(fd)) {
            *made = sm_give(&name);
            *made_fd = fd;
            fd = -1;
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_IO, "%s: cannot write: %d temporary names are taken; remove %s%s*", path, MAX_ATTEMPTS, path,
                   infix);
}

sm_status sm_temporary_folder(const char *path, char **name, int *fd) {
    return make_temporary(path, create_folder, name, fd);
}

// ---- files ----

// A piece stays in cache from writing to digesting; SYNC_BYTES is how much the disk is told to write at once.
enum { PIECE_BYTES = 1 << 18, SYNC_BYTES = 1 << 24 };

struct sm_atomic_file {
    int fd;
    char *path;
    char *temporary;
    sm_digester *digester; // NULL: no digest wanted
    char *digest;          // owned by the caller
    off_t synced_bytes;    // that the disk was told to write
    off_t unsynced_bytes;  // written after them
};

static sm_status fail_errno(const char *action, const char *path, int error) {
    return sm_fail(SM_ERR_IO, "%s: cannot %s: %s", path, action, strerror(error));
}

sm_status sm_atomic_check(const char *path, mode_t *permissions) {
    struct stat info;
    *permissions = 0;
    SM_FAIL_IF(path[0] == '\0' || path[strlen(path) - 1] == '/', SM_ERR_IO, "%s: cannot write: not the name of a file",
               path);
    if (stat(path, &info) != 0) {
        return SM_OK; // making the temporary reports any other problem
    }
    SM_FAIL_IF(!S_ISREG(info.st_mode), SM_ERR_IO, "%s: cannot write: exists and is not a regular file", path);
    *permissions = info.st_mode & 0777;
    return SM_OK;
}

void sm_atomic_close(sm_atomic_file *file) {
    if (file == NULL) {
        return;
    }
    sm_temporary_drop(&file->temporary);
    sm_close_at(&file->fd); // then: closing releases the lock on the temporary
    sm_digester_close(file->digester);
    free(file->path);
    free(file);
}

sm_status sm_atomic_open(const char *path, sm_atomic_file **file) {
    mode_t permissions;
    *file = NULL;
    SM_TRY(sm_atomic_check(path, &permissions));
    SM_OWN(sm_atomic_file) *f = sm_calloc(1, sizeof *f);
    f->fd = -1;
    f->path = sm_strdup(path);
    SM_TRY(make_temporary(path, create_file, &f->temporary, &f->fd));
    if (permissions != 0 && chmod(f->temporary, permissions) != 0) {
        return fail_errno("set permissions", path, errno);
    }
    *file = sm_give(&f);
    return SM_OK;
}

sm_status sm_atomic_open_alone(const char *path, sm_atomic_file **file) {
    SM_OWN(sm_atomic_file) *f = NULL;
    struct stat before = {.st_ino = 0}, after = before;
    *file = NULL;
    (void)stat(path, &before);
    SM_TRY(sm_atomic_open(path, &f));
    const bool is_alone = remove_abandoned(path, f->temporary);
    (void)stat(path, &after); // another one: what was waited for has written it
    SM_FAIL_IF(!is_alone || before.st_ino != after.st_ino, SM_ERR_IO, "%s: another run is writing to it", path);
    *file = sm_give(&f);
    return SM_OK;
}

sm_status sm_atomic_write(sm_atomic_file *file, const void *data, size_t size_bytes) {
    const char *bytes = data;
    while (size_bytes > 0) {
        const size_t n = size_bytes < PIECE_BYTES ? size_bytes : PIECE_BYTES;
        if (!os_write_all(file->fd, bytes, n)) {
            return fail_errno("write", file->path, errno);
        }
        if (file->digester != NULL) {
            sm_digester_add(file->digester, bytes, n);
        }
        // Starts writing to disk early, so that the final fsync is short.
        file->unsynced_bytes += (int64_t)n;
        if (file->unsynced_bytes >= SYNC_BYTES) {
            os_begin_writing(file->fd, file->synced_bytes, file->unsynced_bytes);
            file->synced_bytes += file->unsynced_bytes;
            file->unsynced_bytes = 0;
        }
        bytes += n;
        size_bytes -= n;
    }
    return SM_OK;
}

void sm_atomic_take_digest(sm_atomic_file *file, char digest[SM_FILE_DIGEST_SIZE]) {
    file->digester = sm_digester_open();
    file->digest = digest;
}

sm_status sm_sync_folder_of(const char *path) {
    SM_FREED char *folder = sm_strdup(path);
    char *slash = strrchr(folder, '/');
    if (slash != NULL) {
        slash[slash == folder ? 1 : 0] = '\0';
    }
    SM_CLOSED int fd = open(slash != NULL ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return fail_errno("open the folder of", path, errno);
    }
    if (fsync(fd) != 0 && errno != EINVAL) { // EINVAL: the file system cannot
        return fail_errno("sync the folder of", path, errno);
    }
    return SM_OK;
}

sm_status sm_atomic_commit(sm_atomic_file *file) {
    if (fsync(file->fd) != 0) {
        return fail_errno("write", file->path, errno);
    }
    if (rename(file->temporary, file->path) != 0) {
        return fail_errno("rename the temporary file to it", file->path, errno);
    }
    free(sm_give(&file->temporary));
    if (file->digester != NULL) {
        sm_digester_text(file->digester, file->digest);
    }
    return sm_sync_folder_of(file->path);
}

sm_status sm_atomic_write_all(const char *path, const void *data, size_t size_bytes) {
    SM_OWN(sm_atomic_file) *file = NULL;
    SM_TRY(sm_atomic_open(path, &file));
    SM_TRY(sm_atomic_write(file, data, size_bytes));
    return sm_atomic_commit(file);
}

sm_status sm_make_path(char *path, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, PATH_MAX, format, arguments);
    va_end(arguments);
    SM_FAIL_IF(length < 0 || length >= PATH_MAX, SM_ERR_IO, "%.100s...: the path is too long", path);
    return SM_OK;
}

sm_status sm_make_folder(const char *path) {
    struct stat info;
    if (mkdir(path, 0777) == 0) {
        return SM_OK;
    }
    const int error = errno;
    if (error != EEXIST || stat(path, &info) != 0) {
        return fail_errno("make the folder", path, error);
    }
    SM_FAIL_IF(!S_ISDIR(info.st_mode), SM_ERR_IO, "%s: cannot make the folder: a file has that name", path);
    return SM_OK;
}

sm_status sm_append_open(const char *path, int how, int *fd) {
    *fd = -1;
    SM_CLOSED int opened = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | how, 0666);
    SM_FAIL_IF(opened < 0, SM_ERR_IO, "%s: cannot be written: %s", path,
               errno == ENXIO   ? "a pipe that nobody reads; start its reader first"
               : errno == ELOOP ? "a link; put the file itself there"
                                : strerror(errno));
    SM_FAIL_IF(fcntl(opened, F_SETFL, fcntl(opened, F_GETFL) & ~O_NONBLOCK) != 0, SM_ERR_IO,
               "%s: cannot be written: %s", path, strerror(errno));
    *fd = opened;
    opened = -1;
    return SM_OK;
}
