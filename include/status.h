// status.h: how every function of stepmark reports failure.
//
// A function that can fail returns sm_status. Where the failure happens it calls sm_fail(), which keeps one line with
// the facts (path, sizes, device) for this thread and returns the code. Only cli/ prints that line and exits.
#pragma once

// The headers of C that nearly every file needs come with this one.
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "words.h"

// X(code, text)
#define SM_STATUS_LIST(X)                                        \
    X(SM_OK, "ok")                                               \
    X(SM_ERR_USAGE, "usage error")                               \
    X(SM_ERR_INVALID, "invalid value")                           \
    X(SM_ERR_IO, "input/output error")                           \
    X(SM_ERR_FORMAT, "malformed file")                           \
    X(SM_ERR_OOM, "out of memory")                               \
    X(SM_ERR_UNSUPPORTED, "unsupported")                         \
    X(SM_ERR_DEVICE, "device error")                             \
    X(SM_ERR_MISMATCH, "result differs from the reference")      \
    X(SM_ERR_REGRESSION, "slower than what it is compared with") \
    X(SM_ERR_TIMEOUT, "timeout")                                 \
    X(SM_ERR_INTERRUPTED, "interrupted")                         \
    X(SM_ERR_INTERNAL, "internal error")

typedef enum { SM_STATUS_LIST(SM_CODE) } sm_status;

// The fixed text of a code, for example "out of memory".
const char *sm_status_text(sm_status status);

// Keeps the formatted line (file or flag, the fact, what to do; no newline) as this thread's message. Returns true.
bool sm_keep_message(const char *format, ...) __attribute__((format(printf, 1, 2)));

// sm_fail(status, format, ...): keeps the message and evaluates to `status`. (As a macro over an inline function it
// shows static analysers that a failure does not return SM_OK.)
#define sm_fail(status, ...) sm_failed((status), sm_keep_message(__VA_ARGS__))
static inline sm_status sm_failed(sm_status status, bool kept) { return kept ? status : SM_ERR_INTERNAL; }

// The message of this thread's last sm_fail(); "" if there was none.
const char *sm_error_message(void);

// A status with its message, for another thread, or for later.
typedef struct {
    sm_status status;
    char message[512];
} sm_outcome;

sm_outcome sm_outcome_of(sm_status status);           // with this thread's message
sm_status sm_outcome_tell(const sm_outcome *outcome); // makes it this thread's message

// Small memory: it is there, or the program prints "out of memory: N bytes" and ends with exit code 1. Files that are
// replaced as a whole keep their old state. For names, tables and records, and for values of jansson after
// json_set_alloc_funcs(sm_malloc, free). malloc allocates tensors, arenas, contents of files and all else that a user
// can make large, and a function that cannot have them returns SM_ERR_OOM.
void *sm_malloc(size_t size_bytes);
void *sm_calloc(size_t n, size_t size_bytes);
void *sm_realloc(void *memory, size_t size_bytes);
void *sm_malloc_large(size_t size_bytes); // in large pages if there are any: gigabytes are touched once; or NULL
void *sm_present(void *memory, size_t size_bytes); // `memory`, unless that is NULL: then the program ends
char *sm_strdup(const char *text);
char *sm_strndup(const char *text, size_t most_bytes);
char *sm_text_of(const char *format, ...) __attribute__((format(printf, 1, 2))); // the caller frees it

// A text formatted where it is used; it lives as long as the block around.
const char *sm_text_in(char *text, size_t size_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
#define SM_TEXT_IN(size_bytes, ...) sm_text_in((char[size_bytes]){""}, (size_bytes), __VA_ARGS__)

// Appends to a text, as far as there is room.
void sm_append(char *text, size_t size_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

// Appends a part, after a separator where there is text before; nothing for "".
void sm_append_part(char *text, size_t size_bytes, const char *separator, const char *part);

// Frees a line after `show` got it; NULL: nobody does.
void sm_show_line(void (*show)(void *ctx, const char *line), void *ctx, char *line);

// A stream into memory; *text is whole after sm_memstream_close, and the caller's.
FILE *sm_memstream(char **text, size_t *size_bytes);
void sm_memstream_close(FILE *stream);

extern void (*sm_no_memory_note)(const char *line); // prints that line; NULL: to stderr

// Forwards a failure to the caller.
#define SM_TRY(expression)                       \
    do {                                         \
        sm_status sm_try_status_ = (expression); \
        if (sm_try_status_ != SM_OK) {           \
            return sm_try_status_;               \
        }                                        \
    } while (0)

// Fails with a message where the condition holds: SM_FAIL_IF(n < 1, SM_ERR_INVALID, "%d sequences; give 1 or more", n);
#define SM_FAIL_IF(condition, code, ...)         \
    do {                                         \
        if (condition) {                         \
            return sm_fail((code), __VA_ARGS__); \
        }                                        \
    } while (0)

// These release what a variable owns at the end of its scope, also where SM_TRY returns from it:
//
//     SM_FREED float *values = malloc(size_bytes);
//     SM_CLOSED int fd = -1;
//     SM_OWN(sm_plan) *plan = NULL;     // of a type that is SM_OWNABLE
// SM_AT_END calls a function with the variable's address; a variable may exist for that alone.
#define SM_AT_END(function) __attribute__((cleanup(function), unused))
#define SM_FREED            SM_AT_END(sm_free_at)
#define SM_CLOSED           SM_AT_END(sm_close_at)
#define SM_OWN(type)        SM_AT_END(release_##type) type
#define SM_OWNABLE(type, release)                        \
    static inline void release_##type(type **variable) { \
        if (*variable != NULL) {                         \
            release(*variable);                          \
        }                                                \
    }
SM_OWNABLE(FILE, fclose)
void sm_free_at(void *variable); // the address of a pointer
void sm_close_at(int *variable); // of a descriptor; -1: none
void *sm_give(void *variable);   // of a pointer: gives what it owns away, *made = sm_give(&m)

// A parameter that its function does not need: of a table of functions, or in some builds.
#define SM_UNUSED __attribute__((unused))

// Room for one more element of an array that doubles.
#define SM_GROW(array, n, capacity)                                              \
    do {                                                                         \
        if ((n) == (capacity)) {                                                 \
            (capacity) = (n) > 0 ? 2 * (n) : 16;                                 \
            (array) = sm_realloc((array), (size_t)(capacity) * sizeof *(array)); \
        }                                                                        \
    } while (0)

// Appends to an array that doubles whenever the number of its elements, n, is a power of two.
#define SM_PUSH(array, n, ...)                                                                \
    do {                                                                                      \
        if (((n) & ((n)-1)) == 0) {                                                           \
            (array) = sm_realloc((array), ((n) > 0 ? 2 * (size_t)(n) : 1) * sizeof *(array)); \
        }                                                                                     \
        (array)[(n)++] = __VA_ARGS__;                                                         \
    } while (0)
