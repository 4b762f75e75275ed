// fuzz_pretokens.c: any bytes are cut into pieces that are the whole; parts encoded separately have the same.

#include "harness_support.h"
#include "src/tokenizer/pretokens.h"

const double fuzz_longest_us_per_byte = 20;

// That the pieces of text[begin, end) end where a whole has ends, too, which `ends` notes.
static void compare(sm_pretokens *pretokens, const uint8_t *text, size_t n, const bool *ends) {
    size_t last = 0, end;
    sm_pretokens_begin(pretokens, text, n);
    while (sm_pretokens_next(pretokens, &end)) {
        fuzz_expect(end > last && end <= n, "pieces are not empty");
        for (size_t i = last + 1; i <= end; i++) {
            fuzz_expect(ends[i] == (i == end), "the same cuts in a part");
        }
        last = end;
    }
    fuzz_expect(last == n, "pieces are the whole");
}

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    enum { MAX_BYTES = 1 << 16 };
    static bool ends[MAX_BYTES + 1];
    const size_t n = size_bytes < MAX_BYTES ? size_bytes : MAX_BYTES;
    SM_OWN(sm_pretokens) *pretokens = sm_pretokens_new();
    size_t end;
    for (size_t i = 0; i <= n; i++) {
        ends[i] = i == 0;
    }
    sm_pretokens_begin(pretokens, data, n);
    while (sm_pretokens_next(pretokens, &end)) {
        ends[end] = true;
    }
    fuzz_expect(n == 0 || ends[n], "pieces are the whole");
    for (size_t at = 1; at < n; at++) {
        if (sm_pretokens_part_at(data, at)) {
            fuzz_expect(ends[at], "a part begins at a cut");
            compare(pretokens, data, at, ends);
            compare(pretokens, data + at, n - at, ends + at);
            break;
        }
    }
}
