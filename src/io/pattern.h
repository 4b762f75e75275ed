// pattern.h: regular expressions, in PCRE2's syntax, that choose among texts.
#ifndef STEPMARK_SRC_IO_PATTERN_H
#define STEPMARK_SRC_IO_PATTERN_H

#include "status.h"

typedef struct sm_pattern sm_pattern;

// SM_ERR_USAGE has the text, the error and its place. The caller frees *pattern.
sm_status sm_pattern_new(const char *text, sm_pattern **pattern);
void sm_pattern_free(sm_pattern *pattern); // NULL is fine
SM_OWNABLE(sm_pattern, sm_pattern_free)

// Whether it matches anywhere in the subject. One thread at a time.
bool sm_pattern_matches(const sm_pattern *pattern, const char *subject);

#endif
