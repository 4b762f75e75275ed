// files.c: see os/files.h and os/os.h.
#include "os/files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "os/os.h"

bool os_user_folder(const char *variable, const char *within, char *path, size_t size_bytes) {
    const char *named = getenv(variable);
    const char *home = getenv("HOME");
    const bool is_named = named != NULL && named[0] == '/';
    const int n = is_named                         ? snprintf(path, size_bytes, "%s", named)
                  : home != NULL && home[0] == '/' ? snprintf(path, size_bytes, "%s/%s", home, within)
                                                   : -1;
    return n >= 0 && (size_t)n < size_bytes;
}

void os_temporary_folder(char *path, size_t size_bytes) {
    const char *named = getenv("TMPDIR");
    snprintf(path, size_bytes, "%s", named != NULL && named[0] != '\0' ? named : "/tmp");
}

// --- streams ---------------------------------------------------------------------------------------

#ifdef __APPLE__
typedef struct {
    os_write *write;
    void *ctx;
} writer;

static int take(void *of, const char *text, int n_bytes) {
    const writer *w = of;
    return (int)w->write(w->ctx, text, (size_t)n_bytes);
}

FILE *os_open_writer(os_write *write, void *ctx) {
    static writer only;
    only = (writer){write, ctx};
    return funopen(&only, NULL, take, NULL, NULL);
}
#else
FILE *os_open_writer(os_write *write, void *ctx) {
    return fopencookie(ctx, "w", (cookie_io_functions_t){.write = write});
}
#endif

bool os_screen_size(int file, int *n_columns, int *n_lines) {
    struct winsize size = {0};
    const bool is_told = ioctl(file, TIOCGWINSZ, &size) == 0;
    *n_columns = size.ws_col;
    *n_lines = size.ws_row;
    return is_told;
}

// --- names -----------------------------------------------------------------------------------------

bool os_list_folder(const char *path, os_names *names) {
    DIR *folder = opendir(path);
    bool is_whole = folder != NULL;
    *names = (os_names){0};
    for (struct dirent *entry; is_whole && (entry = readdir(folder)) != NULL;) {
        is_whole = os_add_name(names, entry->d_name);
    }
    const int error = errno;
    if (folder != NULL) {
        closedir(folder);
    }
    errno = error;
    os_sort_names(names);
    return is_whole;
}

bool os_match_paths(const char *pattern, os_names *paths) {
    glob_t found = {.gl_pathc = 0};
    const int result = glob(pattern, GLOB_NOSORT | GLOB_TILDE, NULL, &found);
    bool is_whole = result == 0;
    *paths = (os_names){0};
    for (size_t i = 0; i < found.gl_pathc && is_whole; i++) {
        is_whole = os_add_name(paths, found.gl_pathv[i]);
    }
    globfree(&found);
    errno = result == 0 ? errno : result == GLOB_NOMATCH ? ENOENT : EIO;
    os_sort_names(paths);
    return is_whole;
}
