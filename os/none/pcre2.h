// pcre2.h: the few functions of PCRE2 that a page's module calls, by the browser's regular expressions (pcre2.c).
#ifndef STEPMARK_OS_NONE_PCRE2_H
#define STEPMARK_OS_NONE_PCRE2_H

#include <stddef.h>
#include <stdint.h>

typedef const uint8_t *PCRE2_SPTR;
typedef size_t PCRE2_SIZE;
typedef struct pcre2_code pcre2_code;
typedef struct pcre2_match_data pcre2_match_data;

#define PCRE2_ZERO_TERMINATED (~(size_t)0)
enum { PCRE2_UTF = 1, PCRE2_UCP = 2, PCRE2_ANCHORED = 4, PCRE2_NO_UTF_CHECK = 8, PCRE2_NO_JIT = 16 };
enum { PCRE2_CONFIG_JIT = 1, PCRE2_JIT_COMPLETE = 1 };

pcre2_code *pcre2_compile(PCRE2_SPTR pattern, size_t length, uint32_t options, int *error, size_t *where,
                          void *context);
pcre2_match_data *pcre2_match_data_create_from_pattern(const pcre2_code *code, void *context);
int pcre2_match(const pcre2_code *code, PCRE2_SPTR text, size_t n, size_t begin, uint32_t options,
                pcre2_match_data *data, void *context);
int pcre2_jit_match(const pcre2_code *code, PCRE2_SPTR text, size_t n, size_t begin, uint32_t options,
                    pcre2_match_data *data, void *context);
size_t *pcre2_get_ovector_pointer(pcre2_match_data *data);
int pcre2_config(uint32_t what, void *value);
int pcre2_jit_compile(pcre2_code *code, uint32_t options);
void pcre2_code_free(pcre2_code *code);
void pcre2_match_data_free(pcre2_match_data *data);

#endif
