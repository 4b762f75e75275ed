// status.c: codes, their texts, and this thread's last error message.
#include <stdarg.h>
#include <stdio.h>

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

bool sm_keep_message(const char *format, ...) {
    // A message may quote the one that it wraps, so it is formatted apart first.
    char message[sizeof last_message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    snprintf(last_message, sizeof last_message, "%s", message);
    return true;
}

const char *sm_error_message(void) { return last_message; }
