// pattern.c: PCRE2, with its just-in-time compiler where the system allows that.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "src/io/pattern.h"

struct sm_pattern {
    pcre2_code *code;
    pcre2_match_data *match;
    const PCRE2_SIZE *place; // of the last match
    bool has_jit;
};

sm_status sm_pattern_compile(const char *text, sm_pattern_kind kind, sm_pattern **pattern) {
    int error;
    PCRE2_SIZE place;
    uint32_t jit = 0;
    const uint32_t options = kind == SM_PATTERN_OF_WORDS ? PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED : 0;
    pcre2_code *code = pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED, options, &error, &place, NULL);
    if (code == NULL) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(error, why, sizeof why);
        return sm_fail(SM_ERR_USAGE, "'%s': %s, at character %zu", text, (const char *)why, (size_t)place);
    }
    pcre2_match_data *match = sm_present(pcre2_match_data_create_from_pattern(code, NULL), sizeof **pattern);
    *pattern = sm_malloc(sizeof **pattern);
    **pattern = (sm_pattern){code, match, pcre2_get_ovector_pointer(match),
                             pcre2_config(PCRE2_CONFIG_JIT, &jit) == 0 && jit == 1 &&
                                 pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0};
    return SM_OK;
}

void sm_pattern_free(sm_pattern *pattern) {
    if (pattern != NULL) {
        pcre2_match_data_free(pattern->match);
        pcre2_code_free(pattern->code);
        free(pattern);
    }
}

// Without the compiler where its stack is too small.
const size_t *sm_pattern_find(const sm_pattern *p, const uint8_t *subject, size_t n, size_t begin) {
    int found = p->has_jit ? pcre2_jit_match(p->code, subject, n, begin, 0, p->match, NULL) : 0;
    if (found <= 0 && found != PCRE2_ERROR_NOMATCH) {
        found = pcre2_match(p->code, subject, n, begin, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, p->match, NULL);
    }
    return found > 0 ? p->place : NULL;
}

bool sm_pattern_matches(const sm_pattern *pattern, const char *subject) {
    return sm_pattern_find(pattern, (const uint8_t *)subject, strlen(subject), 0) != NULL;
}
