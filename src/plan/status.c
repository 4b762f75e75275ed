// status.c: codes, their texts, this thread's last error message; small memory.
#include <stdarg.h>
#include <unistd.h>

#include "status.h"

#include "os/os.h"

static _Thread_local char last_message[512];

const char *sm_status_text(sm_status status) {
    switch (status) {
#define X(code, text) \
    case code: return text;
        SM_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}

// A message that is too long loses its middle: the end says what is wrong.
static void keep_both_ends(const char *message) {
    static const char dots[] = " ... ";
    const size_t length = strlen(message);
    const size_t part = (sizeof last_message - sizeof dots) / 2;
    if (length < sizeof last_message) {
        memcpy(last_message, message, length + 1);
    } else {
        snprintf(last_message, sizeof last_message, "%.*s%s%s", (int)part, message, dots, message + length - part);
    }
}

bool sm_keep_message(const char *format, ...) {
    // Formatted separately first, as a message may quote the current one.
    char message[16 * sizeof last_message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    keep_both_ends(message);
    return true;
}

const char *sm_error_message(void) { return last_message; }

sm_outcome sm_outcome_of(sm_status status) {
    sm_outcome outcome = {.status = status};
    snprintf(outcome.message, sizeof outcome.message, "%s", status != SM_OK ? last_message : "");
    return outcome;
}

sm_status sm_outcome_tell(const sm_outcome *outcome) {
    return outcome->status == SM_OK ? SM_OK : sm_fail(outcome->status, "%s", outcome->message);
}

void (*sm_no_memory_note)(const char *line);

static _Noreturn void no_memory(size_t size_bytes) {
    char line[64];
    snprintf(line, sizeof line, "out of memory: %zu bytes", size_bytes);
    if (sm_no_memory_note != NULL) {
        sm_no_memory_note(line);
    } else {
        fprintf(stderr, "%s\n", line);
    }
    exit(EXIT_FAILURE);
}

void *sm_present(void *memory, size_t size_bytes) {
    if (memory == NULL) {
        no_memory(size_bytes);
    }
    return memory;
}

void sm_free_at(void *variable) {
    void *memory;
    memcpy(&memory, variable, sizeof memory);
    free(memory);
}

void sm_close_at(int *variable) {
    if (*variable >= 0) {
        close(*variable);
    }
    *variable = -1;
}

void *sm_give(void *variable) {
    void *memory;
    memcpy(&memory, variable, sizeof memory);
    memset(variable, 0, sizeof memory);
    return memory;
}

void *sm_malloc_large(size_t size_bytes) {
    enum { PAGE_BYTES = 1 << 21 };
    void *memory = aligned_alloc(PAGE_BYTES, (size_bytes / PAGE_BYTES + 1) * PAGE_BYTES);
    if (memory != NULL) {
        os_use_large_pages(memory, size_bytes);
    }
    return memory;
}

void *sm_malloc(size_t size_bytes) { return sm_realloc(NULL, size_bytes); }

void *sm_realloc(void *memory, size_t size_bytes) {
    return sm_present(realloc(memory, size_bytes > 0 ? size_bytes : 1), size_bytes);
}

void *sm_calloc(size_t n, size_t size_bytes) {
    return sm_present(calloc(n > 0 ? n : 1, size_bytes),
                      n > 0 && size_bytes > SIZE_MAX / n ? SIZE_MAX : n * size_bytes);
}

char *sm_strdup(const char *text) { return sm_strndup(text, strlen(text)); }

char *sm_strndup(const char *text, size_t most_bytes) {
    return sm_present(strndup(text, most_bytes), strnlen(text, most_bytes) + 1);
}

char *sm_text_of(const char *format, ...) {
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    const int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    return sm_present(length >= 0 ? text : NULL, strlen(format));
}

const char *sm_text_in(char *text, size_t size_bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, size_bytes, format, arguments);
    va_end(arguments);
    return text;
}

void sm_append(char *text, size_t size_bytes, const char *format, ...) {
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size_bytes - used, format, arguments);
    va_end(arguments);
}

void sm_append_part(char *text, size_t size_bytes, const char *separator, const char *part) {
    sm_append(text, size_bytes, "%s%s", text[0] != '\0' && part[0] != '\0' ? separator : "", part);
}

void sm_show_line(void (*show)(void *ctx, const char *line), void *ctx, char *line) {
    if (show != NULL) {
        show(ctx, line);
    }
    free(line);
}

FILE *sm_memstream(char **text, size_t *size_bytes) { return sm_present(open_memstream(text, size_bytes), BUFSIZ); }

void sm_memstream_close(FILE *stream) {
    const int is_cut = ferror(stream); // a write that lacked memory
    if (fclose(stream) != 0 || is_cut) {
        no_memory(BUFSIZ);
    }
}
