// pattern.c: see pattern.h.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "src/io/pattern.h"

struct sm_pattern {
    pcre2_code *code;
    pcre2_match_data *match;
};

sm_status sm_pattern_new(const char *text, sm_pattern **pattern) {
    int error;
    PCRE2_SIZE place;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, 0, &error, &place, NULL);
    if (code == NULL) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(error, why, sizeof why);
        return sm_fail(SM_ERR_USAGE, "'%s': %s, at character %zu", text, (const char *)why, (size_t)place);
    }
    *pattern = sm_malloc(sizeof **pattern);
    **pattern = (sm_pattern){code, pcre2_match_data_create_from_pattern(code, NULL)};
    return SM_OK;
}

void sm_pattern_free(sm_pattern *pattern) {
    if (pattern != NULL) {
        pcre2_match_data_free(pattern->match);
        pcre2_code_free(pattern->code);
        free(pattern);
    }
}

bool sm_pattern_matches(const sm_pattern *pattern, const char *subject) {
    return pcre2_match(pattern->code, (PCRE2_SPTR)subject, PCRE2_ZERO_TERMINATED, 0, 0, pattern->match, NULL) >= 0;
}
