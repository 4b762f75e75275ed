// words.h: one list of X(code, word) makes an enum and the function that names its values; how texts end; sizes.
#pragma once

#include <stdbool.h>
#include <string.h>

// typedef enum { SM_ROLE_LIST(SM_CODE) SM_ROLE_COUNT } sm_role;
#define SM_CODE(code, ...)  code,
#define SM_WORD(code, word) [code] = word,

// const char *sm_role_name(sm_role role), which must be declared.
#define SM_WORDS(function, type, LIST)                      \
    const char *function(type value) {                      \
        static const char *const words[] = {LIST(SM_WORD)}; \
        return words[value];                                \
    }

#define SM_COUNT(array) (sizeof(array) / sizeof((array)[0]))
static inline bool sm_ends_with(const char *text, const char *end) {
    const size_t n_text = strlen(text);
    const size_t n_end = strlen(end);
    return n_text >= n_end && strcmp(text + n_text - n_end, end) == 0;
}
