// file_faults.c: preloaded (LD_PRELOAD), fails or kills a program at one of its file calls.
//
//     FILE_FAULTS_UNDER=/FOLDER   calls on names in this folder, and on files opened there, are counted
//     FILE_FAULTS_AT=N            the N-th of them is hit, before it has done anything; a write, half done
//     FILE_FAULTS_ERROR=NUMBER    it fails with this errno; without it the process is killed
//     FILE_FAULTS_HIT=FILE        is made when that happens
//
// A file there whose last bytes are not synced gets no new name: rename fails with EIO.
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_FILES = 1024 };

static bool is_counted[MAX_FILES]; // by descriptor
static bool is_unsynced[MAX_FILES];
static atomic_int n_calls;

static bool is_under(const char *path) {
    const char *under = getenv("FILE_FAULTS_UNDER");
    return under != NULL && strncmp(path, under, strlen(under)) == 0;
}

static bool is_open(int fd) { return fd >= 0 && fd < MAX_FILES && is_counted[fd]; }

// Whether this call is to fail, errno set; does not return if the process is to be killed.
static bool is_hit(bool counts) {
    const char *at = getenv("FILE_FAULTS_AT");
    const char *error = getenv("FILE_FAULTS_ERROR");
    if (!counts || at == NULL || atomic_fetch_add(&n_calls, 1) + 1 != atoi(at)) {
        return false;
    }
    syscall(SYS_close, syscall(SYS_openat, AT_FDCWD, getenv("FILE_FAULTS_HIT"), O_WRONLY | O_CREAT, 0666));
    if (error == NULL) {
        kill(getpid(), SIGKILL);
    }
    errno = error != NULL ? atoi(error) : EIO;
    return true;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    int mode = (flags & O_CREAT) != 0 ? va_arg(arguments, int) : 0;
    va_end(arguments);
    if (is_hit(is_under(path))) {
        return -1;
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd >= 0 && fd < MAX_FILES) {
        is_counted[fd] = is_under(path);
        is_unsynced[fd] = false;
    }
    return fd;
}

DIR *opendir(const char *path) {
    DIR *(*next)(const char *) = NULL;
    *(void **)&next = dlsym(RTLD_NEXT, "opendir");
    return is_hit(is_under(path)) ? NULL : next(path);
}

ssize_t write(int fd, const void *data, size_t size) {
    const char *at = getenv("FILE_FAULTS_AT");
    if (is_open(fd) && at != NULL && n_calls + 1 == atoi(at)) {
        syscall(SYS_write, fd, data, size / 2);
    }
    if (is_open(fd)) {
        is_unsynced[fd] = true;
    }
    return is_hit(is_open(fd)) ? -1 : syscall(SYS_write, fd, data, size);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset) {
    return is_hit(is_open(fd)) ? -1 : syscall(SYS_pread64, fd, data, size, offset);
}

// It is closed in any case, as Linux does.
int close(int fd) {
    bool counts = is_open(fd);
    if (counts) {
        is_counted[fd] = false;
    }
    bool hit = is_hit(counts);
    int error = errno;
    int result = (int)syscall(SYS_close, fd);
    errno = hit ? error : errno;
    return hit ? -1 : result;
}

int fsync(int fd) {
    if (is_open(fd)) {
        is_unsynced[fd] = false;
    }
    return is_hit(is_open(fd)) ? -1 : (int)syscall(SYS_fsync, fd);
}

static bool is_synced(const char *path) {
    struct stat named;
    struct stat opened;
    for (int fd = 0; fd < MAX_FILES && stat(path, &named) == 0; fd++) {
        if (is_counted[fd] && is_unsynced[fd] && fstat(fd, &opened) == 0 && opened.st_ino == named.st_ino) {
            errno = EIO;
            return false;
        }
    }
    return true;
}

int ftruncate(int fd, off_t size) { return is_hit(is_open(fd)) ? -1 : (int)syscall(SYS_ftruncate, fd, size); }

int fchmod(int fd, mode_t mode) { return is_hit(is_open(fd)) ? -1 : (int)syscall(SYS_fchmod, fd, mode); }

int flock(int fd, int operation) { return is_hit(is_open(fd)) ? -1 : (int)syscall(SYS_flock, fd, operation); }

int chmod(const char *path, mode_t mode) {
    return is_hit(is_under(path)) ? -1 : (int)syscall(SYS_fchmodat, AT_FDCWD, path, mode);
}

int mkdir(const char *path, mode_t mode) {
    return is_hit(is_under(path)) ? -1 : (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int rename(const char *from, const char *to) {
    return is_hit(is_under(to)) || !is_synced(from) ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int fd, const char *name, int flags) {
    return is_hit(getenv("FILE_FAULTS_UNDER") != NULL) ? -1 : (int)syscall(SYS_unlinkat, fd, name, flags);
}

int unlink(const char *path) { return is_hit(is_under(path)) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0); }

int rmdir(const char *path) {
    return is_hit(is_under(path)) ? -1 : (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}
