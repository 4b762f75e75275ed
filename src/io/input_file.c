// input_file.c: open, check, read at an offset.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/io/input_file.h"

// Git stores a large file as a few lines that name it, until `git lfs pull` fetches it.
static bool is_lfs_pointer(int fd) {
    static const char first[] = "version https://git-lfs.github.com/spec/";
    char text[sizeof first - 1];
    return pread(fd, text, sizeof text, 0) == sizeof text && memcmp(text, first, sizeof text) == 0;
}

sm_status sm_input_open(const char *path, int *fd, int64_t *size_bytes) {
    // Without O_NONBLOCK, opening a pipe without a writer would block before fstat can detect it.
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    SM_FAIL_IF(opened < 0, SM_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat info;
    sm_status status = SM_OK;
    if (fstat(opened, &info) != 0) {
        status = sm_fail(SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    } else if (!S_ISREG(info.st_mode)) {
        status = sm_fail(SM_ERR_IO, "%s: not a regular file", path);
    } else if (is_lfs_pointer(opened)) {
        status = sm_fail(SM_ERR_FORMAT, "%s: a Git LFS pointer: fetch the file (git lfs pull)", path);
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
        SM_FAIL_IF(n < 0, SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        SM_FAIL_IF(n == 0, SM_ERR_IO, "%s: ends at byte %lld, %zu bytes too early", path, (long long)offset_bytes,
                   size_bytes);
        bytes += n;
        offset_bytes += n;
        size_bytes -= (size_t)n;
    }
    return SM_OK;
}

sm_status sm_input_file(const char *path, FILE **file) {
    int fd;
    int64_t size_bytes;
    *file = NULL;
    SM_TRY(sm_input_open(path, &fd, &size_bytes));
    *file = fdopen(fd, "r");
    if (*file == NULL) {
        close(fd);
        return sm_fail(SM_ERR_OOM, "%s: no memory to read it", path);
    }
    return SM_OK;
}

// The first byte of a pipe shows whether it has a writer; it is put back.
static sm_status check_pipe(const char *path, FILE *file) {
    char first;
    const ssize_t n = read(fileno(file), &first, 1);
    SM_FAIL_IF(n == 0, SM_ERR_IO, "%s: an empty pipe without a writer; start the program that writes to it first",
               path);
    SM_FAIL_IF(n < 0 && errno != EAGAIN, SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    return n < 0 || ungetc((unsigned char)first, file) != EOF ? SM_OK : sm_fail(SM_ERR_OOM, "%s: no memory", path);
}

sm_status sm_input_stream(const char *path, FILE **file) {
    struct stat info;
    sm_status status = SM_OK;
    *file = NULL;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) != 0 || (*file = fdopen(fd, "r")) == NULL) {
        status = sm_fail(SM_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        status = sm_fail(SM_ERR_IO, "%s: cannot read: %s", path, strerror(EISDIR));
    } else if (S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode)) {
        status = sm_fail(SM_ERR_IO, "%s: a device; give a file or a pipe", path);
    } else if (S_ISFIFO(info.st_mode)) {
        status = check_pipe(path, *file);
    }
    if (status == SM_OK && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK) != 0) {
        status = sm_fail(SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    }
    if (status != SM_OK && *file != NULL) {
        fclose(*file);
        *file = NULL;
    } else if (status != SM_OK && fd >= 0) {
        close(fd);
    }
    return status;
}

static sm_status read_whole(const char *path, FILE *file, size_t most_bytes, char **text, size_t *size_bytes) {
    struct stat info;
    const bool is_known = fstat(fileno(file), &info) == 0 && S_ISREG(info.st_mode); // of a pipe the size is not
    for (size_t capacity = 1 << 16;; capacity = 2 * capacity < most_bytes + 2 ? 2 * capacity : most_bytes + 2) {
        SM_FAIL_IF(*size_bytes > most_bytes || (is_known && info.st_size > (int64_t)most_bytes), SM_ERR_FORMAT,
                   "%s: larger than %zu MiB; such files are not", path, most_bytes >> 20);
        char *larger = realloc(*text, capacity);
        SM_FAIL_IF(larger == NULL, SM_ERR_OOM, "%s: no memory to read it", path);
        *text = larger;
        *size_bytes += fread(*text + *size_bytes, 1, capacity - 1 - *size_bytes, file);
        larger[*size_bytes] = '\0';
        SM_FAIL_IF(ferror(file), SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
        if (*size_bytes < capacity - 1) {
            return SM_OK;
        }
    }
}

sm_status sm_input_text(const char *path, size_t most_bytes, char **text, size_t *size_bytes) {
    FILE *file;
    *text = NULL;
    *size_bytes = 0;
    SM_TRY(sm_input_stream(path, &file));
    const sm_status status = read_whole(path, file, most_bytes, text, size_bytes);
    fclose(file);
    if (status != SM_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}

bool sm_is_printable(const char *text) {
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

size_t sm_mark_bytes(const char *text, size_t size_bytes) {
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    return size_bytes >= sizeof mark && memcmp(text, mark, sizeof mark) == 0 ? sizeof mark : 0;
}
