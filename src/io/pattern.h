// pattern.h: regular expressions, in PCRE2's syntax.
#pragma once

#include "status.h"

typedef struct sm_pattern sm_pattern;

// A pattern is of bytes, or of words: then letters and spaces are Unicode's, a subject is valid UTF-8, and a pattern
// matches only where it is tried. SM_ERR_USAGE has the text, the error and its place. The caller frees *pattern.
typedef enum { SM_PATTERN_OF_BYTES, SM_PATTERN_OF_WORDS } sm_pattern_kind;
sm_status sm_pattern_compile(const char *text, sm_pattern_kind kind, sm_pattern **pattern);
static inline sm_status sm_pattern_new(const char *text, sm_pattern **pattern) {
    return sm_pattern_compile(text, SM_PATTERN_OF_BYTES, pattern);
}
void sm_pattern_free(sm_pattern *pattern); // NULL is fine
SM_OWNABLE(sm_pattern, sm_pattern_free)

// Its first match in n bytes from `begin` on, from [0] to before [1], until the next call; NULL: none. One thread at a time.
const size_t *sm_pattern_find(const sm_pattern *pattern, const uint8_t *subject, size_t n, size_t begin);
bool sm_pattern_matches(const sm_pattern *pattern, const char *subject); // anywhere in it
