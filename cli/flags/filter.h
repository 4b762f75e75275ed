// filter.h: the argument of --filter, a POSIX extended regular expression.
#ifndef STEPMARK_CLI_FLAGS_FILTER_H
#define STEPMARK_CLI_FLAGS_FILTER_H

#include <regex.h>

#include "status.h"

// For regexec without submatches; the caller ends it with regfree. SM_ERR_USAGE says what is wrong with the text.
sm_status cli_filter_compile(const char *text, regex_t *pattern);

#endif
