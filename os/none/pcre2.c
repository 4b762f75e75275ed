// pcre2.c: see pcre2.h. The page has two functions: page_pattern makes a regular expression, on text or on bytes, and gives
// its number; page_match finds its next place in a text, 1, or does not, 0.
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "os/none/pcre2.h"

#include <stdbool.h>
#include <stdlib.h>

int page_pattern(PCRE2_SPTR pattern, bool is_of_text, bool is_anchored);
int page_match(int pattern, PCRE2_SPTR text, size_t n, size_t begin, size_t found[2]);

struct pcre2_code {
    int number;
};

struct pcre2_match_data {
    size_t found[2];
};

pcre2_code *pcre2_compile(PCRE2_SPTR pattern, size_t length, uint32_t options, int *error, size_t *where,
                          void *context) {
    pcre2_code *code = malloc(sizeof *code);
    if (code != NULL) {
        code->number = page_pattern(pattern, (options & PCRE2_UTF) != 0, (options & PCRE2_ANCHORED) != 0);
    }
    return code;
}

pcre2_match_data *pcre2_match_data_create_from_pattern(const pcre2_code *code, void *context) {
    return malloc(sizeof(pcre2_match_data));
}

int pcre2_match(const pcre2_code *code, PCRE2_SPTR text, size_t n, size_t begin, uint32_t options,
                pcre2_match_data *data, void *context) {
    return page_match(code->number, text, n, begin, data->found);
}

int pcre2_jit_match(const pcre2_code *code, PCRE2_SPTR text, size_t n, size_t begin, uint32_t options,
                    pcre2_match_data *data, void *context) {
    return pcre2_match(code, text, n, begin, options, data, context);
}

size_t *pcre2_get_ovector_pointer(pcre2_match_data *data) { return data->found; }

int pcre2_config(uint32_t what, void *value) { return -1; }

int pcre2_jit_compile(pcre2_code *code, uint32_t options) { return -1; }

void pcre2_code_free(pcre2_code *code) { free(code); }
void pcre2_match_data_free(pcre2_match_data *data) { free(data); }
