// filter.c: compiles it, or says why it cannot.
#include "cli/flags/filter.h"

sm_status cli_filter_compile(const char *text, regex_t *pattern) {
    int code = regcomp(pattern, text, REG_EXTENDED | REG_NOSUB);
    if (code != 0) {
        char why[128];
        regerror(code, pattern, why, sizeof(why));
        return sm_fail(SM_ERR_USAGE, "--filter: '%s': %s", text, why);
    }
    return SM_OK;
}
