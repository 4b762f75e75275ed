// temporary.c: makes and locks a temporary, then checks that it still exists; removes temporaries that no process has
// locked.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/io/atomic_file.h"

enum { MAX_ATTEMPTS = 100 };

static const char infix[] = ".tmp-";

// ---- removing ----

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

// Removes the temporaries of `path` whose processes have ended.
static void remove_abandoned(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    int folder_length = (int)(base - path);
    SM_FREED char *folder = sm_text_of("%.*s.", folder_length, path);
    SM_AT_END(os_free_names) os_names names;
    (void)os_list_folder(folder, &names);
    for (int i = 0; i < names.n; i++) {
        if (is_temporary_of(names.list[i], base, strlen(base))) {
            SM_FREED char *name = sm_text_of("%.*s%s", folder_length, path, names.list[i]);
            SM_CLOSED int fd = open(name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
            if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
                sm_temporary_remove(name);
            }
        }
    }
}

// ---- making ----

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

static sm_status make(const char *path, int (*create)(const char *name), char **made, int *made_fd) {
    remove_abandoned(path);
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        SM_FREED char *name = sm_text_of("%s%s%ld-%d", path, infix, (long)getpid(), attempt);
        SM_CLOSED int fd = create(name);
        SM_FAIL_IF(fd < 0 && errno != EEXIST, SM_ERR_IO, "%s: cannot write: %s", path, strerror(errno));
        if (fd >= 0 && is_ours(fd)) {
            *made = name;
            *made_fd = fd;
            name = NULL;
            fd = -1;
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_IO, "%s: cannot write: %d temporary names are taken; remove %s%s*", path, MAX_ATTEMPTS, path,
                   infix);
}

sm_status sm_temporary_file(const char *path, char **name, int *fd) { return make(path, create_file, name, fd); }

sm_status sm_temporary_folder(const char *path, char **name, int *fd) { return make(path, create_folder, name, fd); }
