// fuzz_tokenizer.c: files of a tokenizer. The first byte chooses: tokenizer.json, or vocab.json and merges.txt,
// separated by a byte 0xff. A tokenizer that was read must encode any text, and decode it back.

#include "harness_support.h"
#include "src/tokenizer/encoder.h"
#include "tests/support/source_text.h"

enum { MAX_TEXT_BYTES = 2000 };

const double fuzz_longest_us_per_byte = 20;

static void encode(const sm_tokenizer *tokenizer, const uint8_t *text, size_t n) {
    SM_OWN(sm_encoder) *encoder = NULL;
    sm_ids ids = {0};
    if (sm_encoder_new(tokenizer, &encoder) != SM_OK) {
        return;
    }
    fuzz_expect(sm_encoder_encode(encoder, text, n, &ids) == SM_OK, "every text has ids");
    for (size_t i = 0; i < ids.n; i++) {
        fuzz_expect(ids.ids[i] >= 0 && ids.ids[i] < tokenizer->n_tokens, "ids of the vocabulary");
    }
    fuzz_expect(are_ids_of(tokenizer, &ids, text, n), "the ids of the text");
    free(ids.ids);
}

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    sm_tokenizer *tokenizer;
    if (size_bytes < 1) {
        return;
    }
    const bool is_pair = data[0] % 2 == 1;
    const uint8_t *first = data + 1;
    const size_t n = size_bytes - 1;
    const uint8_t *border = is_pair ? memchr(first, 0xff, n) : NULL;
    const size_t n_first = border != NULL ? (size_t)(border - first) : n;
    fuzz_write(fuzz_path(is_pair ? "vocab.json" : "tokenizer.json"), first, n_first);
    if (is_pair) {
        fuzz_write(fuzz_path("merges.txt"), border != NULL ? border + 1 : first, border != NULL ? n - n_first - 1 : 0);
        (void)remove(fuzz_path("tokenizer.json"));
    }
    if (sm_tokenizer_read(fuzz_folder(), &tokenizer) == SM_OK) {
        encode(tokenizer, data, size_bytes < MAX_TEXT_BYTES ? size_bytes : MAX_TEXT_BYTES);
        sm_tokenizer_free(tokenizer);
    }
}
