// status.c: codes, their texts, and this thread's last error message.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

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
