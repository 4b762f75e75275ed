#include "os/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

enum { LOCK_TRIES = 30, LOCK_PAUSE_MS = 100 };

static int by_bytes(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

bool os_add_name(os_names *names, const char *name) {
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
        return true;
    }
    char **longer = realloc(names->list, ((size_t)names->n + 1) * sizeof *longer);
    char *copy = strdup(name);
    names->list = longer != NULL ? longer : names->list;
    if (longer == NULL || copy == NULL) {
        free(copy);
        os_free_names(names);
        errno = ENOMEM;
        return false;
    }
    names->list[names->n++] = copy;
    return true;
}

int64_t os_changed_ns(const struct stat *info) {
#ifdef __APPLE__
    const struct timespec time = info->st_mtimespec;
#else
    const struct timespec time = info->st_mtim;
#endif
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void os_sort_names(os_names *names) {
    if (names->n > 0) {
        qsort(names->list, (size_t)names->n, sizeof *names->list, by_bytes);
    }
}

void os_free_names(os_names *names) {
    for (int i = 0; i < names->n; i++) {
        free(names->list[i]);
    }
    free(names->list);
    *names = (os_names){0};
}

bool os_write_all(int fd, const void *data, size_t size_bytes) {
    for (const char *bytes = data; size_bytes > 0;) {
        const ssize_t n = write(fd, bytes, size_bytes);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        bytes += n > 0 ? n : 0;
        size_bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

int os_lock_soon(int fd) {
    const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000L};
    for (int i = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; i++) {
        if ((errno != EWOULDBLOCK && errno != EINTR) || i == LOCK_TRIES) {
            return errno;
        }
        nanosleep(&pause, NULL);
    }
    return 0;
}
