// input_file.c: open, check, read at an offset.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "input_file.h"

sm_status sm_input_open(const char *path, int *fd, int64_t *size_bytes) {
    // Without O_NONBLOCK, opening a pipe that nobody writes would hang before fstat can tell.
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0) {
        return sm_fail(SM_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    }
    struct stat info;
    sm_status status = SM_OK;
    if (fstat(opened, &info) != 0) {
        status = sm_fail(SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = sm_fail(SM_ERR_IO, "%s: not a regular file", path);
    }
    if (status != SM_OK) {
        close(opened);
        return status;
    }
    *fd = opened;
    *size_bytes = info.st_size;
    return SM_OK;
}

sm_status sm_input_read(int fd, const char *path, int64_t offset_bytes, void *data, size_t size_bytes) {
    char *bytes = data;
    while (size_bytes > 0) {
        ssize_t n = pread(fd, bytes, size_bytes, offset_bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return sm_fail(SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        }
        if (n == 0) {
            return sm_fail(SM_ERR_IO, "%s: ends at byte %lld, %zu bytes too early", path, (long long)offset_bytes,
                           size_bytes);
        }
        bytes += n;
        offset_bytes += n;
        size_bytes -= (size_t)n;
    }
    return SM_OK;
}

bool sm_is_printable(const char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return false;
        }
    }
    return true;
}
