// input_file.c: open, check, read at an offset.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/io/input_file.h"

bool sm_file_is_in(const char *folder, const char *name, char *path) {
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX && access(path, F_OK) == 0;
}

// Git stores a large file as a few lines that name it, until `git lfs pull` fetches it.
static bool is_lfs_pointer(int fd) {
    static const char first[] = "version https://git-lfs.github.com/spec/";
    char text[sizeof first - 1];
    return pread(fd, text, sizeof text, 0) == sizeof text && memcmp(text, first, sizeof text) == 0;
}

sm_status sm_input_open(const char *path, int *fd, int64_t *size_bytes) {
    // Without O_NONBLOCK, opening a pipe without a writer would block before fstat can detect it.
    SM_CLOSED int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    SM_FAIL_IF(opened < 0, SM_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    struct stat info;
    SM_FAIL_IF(fstat(opened, &info) != 0, SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    SM_FAIL_IF(!S_ISREG(info.st_mode), SM_ERR_IO,
               S_ISDIR(info.st_mode) ? "%s: a folder; give a file" : "%s: not a regular file", path);
    SM_FAIL_IF(is_lfs_pointer(opened), SM_ERR_FORMAT, "%s: a Git LFS pointer: fetch the file (git lfs pull)", path);
    *fd = opened;
    *size_bytes = info.st_size;
    opened = -1;
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

sm_status sm_input_whole(const char *path, int64_t most_bytes, char **text, size_t *size_bytes) {
    SM_CLOSED int fd = -1;
    int64_t n = 0;
    *text = NULL;
    SM_TRY(sm_input_open(path, &fd, &n));
    SM_FAIL_IF(n > most_bytes, SM_ERR_FORMAT, "%s: %lld bytes are too long; such a file has at most %lld", path,
               (long long)n, (long long)most_bytes);
    SM_FREED char *whole = malloc((size_t)n + 1);
    SM_FAIL_IF(whole == NULL, SM_ERR_OOM, "%s: no memory for its %lld bytes", path, (long long)n);
    SM_TRY(sm_input_read(fd, path, 0, whole, (size_t)n));
    whole[n] = '\0';
    *size_bytes = (size_t)n;
    *text = sm_give(&whole);
    return SM_OK;
}

sm_status sm_input_file(const char *path, FILE **file) {
    SM_CLOSED int fd = -1;
    int64_t size_bytes;
    *file = NULL;
    SM_TRY(sm_input_open(path, &fd, &size_bytes));
    *file = fdopen(fd, "r");
    SM_FAIL_IF(*file == NULL, SM_ERR_OOM, "%s: no memory to read it", path);
    fd = -1;
    return SM_OK;
}

// The first byte of a pipe shows whether it has a writer; it is put back.
static sm_status check_pipe(const char *path, FILE *file) {
    char first;
    const ssize_t n = read(fileno(file), &first, 1);
    SM_FAIL_IF(n == 0, SM_ERR_IO, "%s: an empty pipe without a writer; start the program that writes to it first",
               path);
    SM_FAIL_IF(n < 0 && errno != EAGAIN, SM_ERR_IO, "%s: cannot read: %s", path, strerror(errno));
    SM_FAIL_IF(n > 0 && ungetc((unsigned char)first, file) == EOF, SM_ERR_OOM, "%s: no memory", path);
    return SM_OK;
}

sm_status sm_input_stream(const char *path, FILE **file) {
    struct stat info;
    *file = NULL;
    SM_CLOSED int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    SM_OWN(FILE) *stream = NULL;
    SM_FAIL_IF(fd < 0 || fstat(fd, &info) != 0 || (stream = fdopen(fd, "r")) == NULL, SM_ERR_IO, "%s: cannot open: %s",
               path, strerror(errno));
    fd = -1; // the stream's
    SM_FAIL_IF(S_ISDIR(info.st_mode), SM_ERR_IO, "%s: a folder; give a file", path);
    SM_FAIL_IF(S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode), SM_ERR_IO, "%s: a device; give a file or a pipe", path);
    SM_TRY(S_ISFIFO(info.st_mode) ? check_pipe(path, stream) : SM_OK);
    SM_FAIL_IF(fcntl(fileno(stream), F_SETFL, fcntl(fileno(stream), F_GETFL) & ~O_NONBLOCK) != 0, SM_ERR_IO,
               "%s: cannot read: %s", path, strerror(errno));
    *file = sm_give(&stream);
    return SM_OK;
}

static sm_status read_stream(const char *path, FILE *file, size_t most_bytes, char **text, size_t *size_bytes) {
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
    SM_OWN(FILE) *file = NULL;
    SM_FREED char *whole = NULL;
    *text = NULL;
    *size_bytes = 0;
    SM_TRY(sm_input_stream(path, &file));
    SM_TRY(read_stream(path, file, most_bytes, &whole, size_bytes));
    *text = sm_give(&whole);
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

size_t sm_mark_bytes(const char *text, size_t size_bytes) {
    static const char mark[] = {'\xef', '\xbb', '\xbf'};
    return size_bytes >= sizeof mark && memcmp(text, mark, sizeof mark) == 0 ? sizeof mark : 0;
}
