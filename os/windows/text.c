// text.c: see os/windows/posix.h: streams into memory, and functions for texts.
#include <windows.h>

#include "os/os.h"
#include "status.h"

#undef fclose

FILE *os_stdout;

FILE *os_open_writer(SM_UNUSED os_write *write, SM_UNUSED void *ctx) { return NULL; }

// --- streams into memory ---------------------------------------------------------------------------

// A file without a name each, which os_fclose reads.
enum { MOST_STREAMS = 64 };
static struct {
    FILE *stream;
    char **text;
    size_t *n_bytes;
} streams[MOST_STREAMS];
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;

FILE *open_memstream(char **text, size_t *n_bytes) {
    const int file = os_open_nameless();
    FILE *stream = file >= 0 ? fdopen(file, "w+b") : NULL;
    bool is_kept = false;
    pthread_mutex_lock(&streams_lock);
    for (int i = 0; i < MOST_STREAMS && stream != NULL && !is_kept; i++) {
        if (streams[i].stream == NULL) {
            streams[i].stream = stream;
            streams[i].text = text;
            streams[i].n_bytes = n_bytes;
            is_kept = true;
        }
    }
    pthread_mutex_unlock(&streams_lock);
    if (!is_kept && stream != NULL) {
        fclose(stream);
    }
    return is_kept ? stream : NULL;
}

int os_fclose(FILE *file) {
    bool is_failed = false;
    for (int i = 0; i < MOST_STREAMS; i++) {
        if (streams[i].stream != file) {
            continue;
        }
        const int64_t end = fflush(file) == 0 ? _ftelli64(file) : -1;
        const size_t n = end >= 0 ? (size_t)end : 0;
        char *memory = malloc(n + 1);
        is_failed = end < 0 || memory == NULL || fseek(file, 0, SEEK_SET) != 0 || fread(memory, 1, n, file) != n;
        if (memory != NULL) {
            memory[n] = '\0';
        }
        *streams[i].text = memory;
        *streams[i].n_bytes = n;
        pthread_mutex_lock(&streams_lock);
        streams[i].stream = NULL;
        pthread_mutex_unlock(&streams_lock);
        break;
    }
    return fclose(file) == 0 && !is_failed ? 0 : EOF;
}

// --- texts -----------------------------------------------------------------------------------------

ssize_t getline(char **line, size_t *room, FILE *file) {
    size_t n = 0;
    for (int c; (c = getc(file)) != EOF;) {
        if (n + 2 > *room) {
            char *longer = realloc(*line, 2 * n + 128);
            if (longer == NULL) {
                return -1;
            }
            *line = longer;
            *room = 2 * n + 128;
        }
        (*line)[n++] = (char)c;
        if (c == '\n') {
            break;
        }
    }
    if (n == 0) {
        return -1;
    }
    (*line)[n] = '\0';
    return (ssize_t)n;
}

void *memmem(const void *text, size_t n, const void *part, size_t n_part) {
    const char *at = text;
    if (n_part == 0) {
        return (void *)(uintptr_t)at;
    }
    for (const char *end = at + n; (size_t)(end - at) >= n_part; at++) {
        at = memchr(at, *(const char *)part, (size_t)(end - at) - n_part + 1);
        if (at == NULL) {
            return NULL;
        }
        if (memcmp(at, part, n_part) == 0) {
            return (void *)(uintptr_t)at;
        }
    }
    return NULL;
}

char *strcasestr(const char *text, const char *part) {
    const size_t n = strlen(part);
    for (; *text != '\0'; text++) {
        if (strncasecmp(text, part, n) == 0) {
            return (char *)(uintptr_t)text;
        }
    }
    return n == 0 ? (char *)(uintptr_t)text : NULL;
}

char *strsignal(int number) {
    static _Thread_local char text[32];
    const char *name = number == SIGSEGV   ? "Segmentation fault"
                       : number == SIGABRT ? "Aborted"
                       : number == SIGILL  ? "Illegal instruction"
                       : number == SIGFPE  ? "Floating point exception"
                       : number == SIGKILL ? "Killed"
                                           : NULL;
    snprintf(text, sizeof text, name != NULL ? "%s" : "signal", name);
    return text;
}

time_t timegm(struct tm *parts) { return _mkgmtime(parts); }

// --- the environment -------------------------------------------------------------------------------

int setenv(const char *name, const char *value, int replaces) {
    return replaces || getenv(name) == NULL ? _putenv_s(name, value) : 0;
}

int unsetenv(const char *name) { return _putenv_s(name, ""); }
