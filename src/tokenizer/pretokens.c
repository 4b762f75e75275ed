// pretokens.c: PCRE2 (src/io/pattern.h) finds the ends. It reads the text itself if that is valid UTF-8 and
// has no character that its Unicode tables may lack; otherwise a copy with a stand-in of the same length and kind for
// each such character. The ends are the same, and the pattern is still GPT-2's.
#include "src/tokenizer/pretokens.h"

#include "utf8.h"
#include "src/io/pattern.h"

// Possessive ++, since no run of one kind is ever shortened. PCRE2's \s includes U+180E, see `newer`.
static const char words[] = "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^\\s\\p{L}\\p{N}]++|\\s+(?!\\S)|\\s++";

struct sm_pretokens {
    sm_pattern *pattern;
    const uint8_t *subject; // the text, or `copy`
    size_t n;
    size_t position;
    uint8_t *copy;
    size_t capacity;
};

// --- stand-ins -----------------------------------------------------------------------------

typedef enum { OTHER, LETTER, NUMBER } char_kind;

// Characters that Unicode 15 and 16 added to letters and numbers, and one that only PCRE2 still counts as a space.
static const struct {
    uint32_t first, last;
    char_kind kind;
} newer[] = {
    {0x180e, 0x180e, OTHER},    {0x1c89, 0x1c8a, LETTER},   {0xa7cb, 0xa7cd, LETTER},   {0xa7da, 0xa7dc, LETTER},
    {0x105c0, 0x105f3, LETTER}, {0x10d40, 0x10d49, NUMBER}, {0x10d4a, 0x10d65, LETTER}, {0x10d6f, 0x10d85, LETTER},
    {0x10ec2, 0x10ec4, LETTER}, {0x1123f, 0x11240, LETTER}, {0x11380, 0x11389, LETTER}, {0x1138b, 0x1138b, LETTER},
    {0x1138e, 0x1138e, LETTER}, {0x11390, 0x113b5, LETTER}, {0x113b7, 0x113b7, LETTER}, {0x113d1, 0x113d1, LETTER},
    {0x113d3, 0x113d3, LETTER}, {0x116d0, 0x116e3, NUMBER}, {0x11bc0, 0x11be0, LETTER}, {0x11bf0, 0x11bf9, NUMBER},
    {0x11f02, 0x11f02, LETTER}, {0x11f04, 0x11f10, LETTER}, {0x11f12, 0x11f33, LETTER}, {0x11f50, 0x11f59, NUMBER},
    {0x1342f, 0x1342f, LETTER}, {0x13441, 0x13446, LETTER}, {0x13460, 0x143fa, LETTER}, {0x16100, 0x1611d, LETTER},
    {0x16130, 0x16139, NUMBER}, {0x16d40, 0x16d6c, LETTER}, {0x16d70, 0x16d79, NUMBER}, {0x18cff, 0x18cff, LETTER},
    {0x1b132, 0x1b132, LETTER}, {0x1b155, 0x1b155, LETTER}, {0x1ccf0, 0x1ccf9, NUMBER}, {0x1d2c0, 0x1d2d3, NUMBER},
    {0x1df25, 0x1df2a, LETTER}, {0x1e030, 0x1e06d, LETTER}, {0x1e4d0, 0x1e4eb, LETTER}, {0x1e4f0, 0x1e4f9, NUMBER},
    {0x1e5d0, 0x1e5ed, LETTER}, {0x1e5f0, 0x1e5f0, LETTER}, {0x1e5f1, 0x1e5fa, NUMBER}, {0x2b739, 0x2b739, LETTER},
    {0x2ebf0, 0x2ee5d, LETTER}, {0x31350, 0x323af, LETTER},
};

enum { N_NEWER = SM_COUNT(newer), MAX_UTF8 = 4 };

// By kind and length; absent if no newer character has that length.
static const char *const stand_ins[][MAX_UTF8 + 1] = {
    [OTHER] = {NULL, "\x01", NULL, "\u2603", NULL},
    [LETTER] = {NULL, NULL, NULL, "\u4e00", "\U00020000"},
    [NUMBER] = {NULL, NULL, NULL, NULL, "\U0001d7ce"},
};

static bool is_newer(uint32_t character, char_kind *kind) {
    if (character < 0x180e || (character > 0x1c8a && character < 0xa7cb) ||
        (character > 0xa7dc && character < 0x105c0)) { // most characters in use
        return false;
    }
    for (int low = 0, high = N_NEWER - 1; low <= high;) {
        const int middle = (low + high) / 2;
        if (character > newer[middle].last) {
            low = middle + 1;
        } else if (character < newer[middle].first) {
            high = middle - 1;
        } else {
            *kind = newer[middle].kind;
            return true;
        }
    }
    return false;
}

static void copy_text(sm_pretokens *p, const uint8_t *text) {
    if (p->subject == p->copy) {
        return;
    }
    if (p->n > p->capacity) {
        p->copy = sm_realloc(p->copy, p->n);
        p->capacity = p->n;
    }
    memcpy(p->copy, text, p->n);
    p->subject = p->copy;
}

static size_t skip_ascii(const uint8_t *text, size_t at, size_t n) {
    uint64_t word;
    for (; at + sizeof word <= n; at += sizeof word) {
        memcpy(&word, text + at, sizeof word);
        if (word & UINT64_C(0x8080808080808080)) {
            break;
        }
    }
    while (at < n && text[at] < 0x80) {
        at++;
    }
    return at;
}

void sm_pretokens_begin(sm_pretokens *p, const uint8_t *text, size_t n) {
    p->subject = text;
    p->n = n;
    p->position = 0;
    for (size_t at = skip_ascii(text, 0, n); at < n; at = skip_ascii(text, at, n)) {
        char_kind kind = OTHER;
        const size_t told = sm_utf8_bytes(text + at, n - at);
        const bool is_valid = told > 0 && told <= n - at;
        const size_t length = is_valid ? told : 1;
        if (!is_valid || is_newer(sm_utf8_code(text + at, length), &kind)) {
            copy_text(p, text);
            memcpy(p->copy + at, stand_ins[kind][length], length);
        }
        at += length;
    }
}

// --- cutting -------------------------------------------------------------------------------

bool sm_pretokens_next(sm_pretokens *p, size_t *end) {
    if (p->position == p->n) {
        return false;
    }
    const size_t *found = sm_pattern_find(p->pattern, p->subject, p->n, p->position);
    *end = p->position = found != NULL ? found[1] : p->n; // every text matches somewhere
    return true;
}

// There is always a cut between a non-space and a space. A character beyond ASCII counts as a possible space if its
// last byte is that of a space: U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000.
bool sm_pretokens_part_at(const uint8_t *text, size_t at) {
    const uint8_t before = text[at - 1];
    const uint8_t after = text[at];
    const bool is_space = after == ' ' || (after >= '\t' && after <= '\r');
    return is_space && ((before > ' ' && before < 0x80) || before > 0xaf || (before > 0x8a && before < 0x9f));
}

// --- beginning and end ---------------------------------------------------------------------

sm_pretokens *sm_pretokens_new(void) {
    sm_pretokens *p = sm_calloc(1, sizeof *p);
    return sm_pattern_compile(words, SM_PATTERN_OF_WORDS, &p->pattern) == SM_OK ? p : sm_present(NULL, sizeof words);
}

void sm_pretokens_free(sm_pretokens *p) {
    if (p != NULL) {
        sm_pattern_free(p->pattern);
        free(p->copy);
        free(p);
    }
}
