// append_file.c: see append_file.h.
#include "src/io/append_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

sm_status sm_append_open(const char *path, int how, int *fd) {
    *fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | how, 0666);
    if (*fd < 0) {
        return sm_fail(SM_ERR_IO, "%s: cannot be written: %s", path,
                       errno == ENXIO   ? "a pipe that nobody reads; start its reader first"
                       : errno == ELOOP ? "a link; put the file itself there"
                                        : strerror(errno));
    }
    if (fcntl(*fd, F_SETFL, fcntl(*fd, F_GETFL) & ~O_NONBLOCK) != 0) {
        const int error = errno;
        close(*fd);
        *fd = -1;
        return sm_fail(SM_ERR_IO, "%s: cannot be written: %s", path, strerror(error));
    }
    return SM_OK;
}
