// fuzz_added_tokens.c: the files of added tokens next to a vocabulary of bytes: tokenizer_config.json,
// special_tokens_map.json and added_tokens.json, separated by a byte 0xff; an empty one is not there. A tokenizer that
// was read must encode any text, whole and in parts, and decode it back.
#include "harness_support.h"
#include "src/tokenizer/encoder.h"
#include "tests/support/source_text.h"

enum { MAX_TEXT_BYTES = 500, PART_BYTES = 7 };

const double fuzz_longest_us_per_byte = 50;

// Bytes in the order of their characters, "ab" and <|endoftext|>.
static void write_vocabulary(void) {
    static char vocab[8192];
    uint8_t order[SM_N_BYTES];
    size_t used = (size_t)snprintf(vocab, sizeof vocab, "{");
    sm_byte_alphabet_order(order);
    for (int i = 0; i < SM_N_BYTES; i++) {
        char character[SM_ALPHABET_CHAR_BYTES + 1] = "";
        sm_byte_alphabet_write(&order[i], 1, character);
        const bool is_escaped = character[0] == '"' || character[0] == '\\';
        used +=
            (size_t)snprintf(vocab + used, sizeof vocab - used, "\"%s%s\":%d,", is_escaped ? "\\" : "", character, i);
    }
    used += (size_t)snprintf(vocab + used, sizeof vocab - used, "\"ab\":256,\"<|endoftext|>\":257}");
    fuzz_write(fuzz_path("vocab.json"), vocab, used);
    fuzz_write(fuzz_path("merges.txt"), "a b\n", 4);
}

static void encode(const sm_tokenizer *t, const uint8_t *text, size_t n) {
    SM_OWN(sm_encoder) *encoder = NULL;
    sm_ids whole = {.n = 0};
    sm_ids parts = {.n = 0};
    fuzz_expect(sm_encoder_new(t, &encoder) == SM_OK, "an encoder");
    fuzz_expect(sm_encoder_encode(encoder, text, n, &whole) == SM_OK, "every text has ids");
    for (size_t begin = 0; begin < n;) {
        const size_t left = n - begin;
        const size_t part = left > PART_BYTES ? sm_encoder_part(t, text + begin, PART_BYTES, 1) : left;
        const size_t length = part > 0 ? part : left;
        fuzz_expect(sm_encoder_encode(encoder, text + begin, length, &parts) == SM_OK, "every part has ids");
        begin += length;
    }
    fuzz_expect(parts.n == whole.n && (whole.n == 0 || memcmp(parts.ids, whole.ids, whole.n * sizeof *whole.ids) == 0),
                "the same ids in parts");
    fuzz_expect(are_ids_of(t, &whole, text, n), "the ids of the text");
    free(whole.ids);
    free(parts.ids);
}

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"};
    static bool has_vocabulary;
    const uint8_t *from = data;
    sm_tokenizer *t;
    if (!has_vocabulary) {
        write_vocabulary();
        has_vocabulary = true;
    }
    for (int i = 0; i < 3; i++) {
        const size_t left = size_bytes - (size_t)(from - data);
        const uint8_t *border = left > 0 ? memchr(from, 0xff, left) : NULL;
        const size_t n = border != NULL ? (size_t)(border - from) : left;
        (void)remove(fuzz_path(names[i]));
        if (n > 0) {
            fuzz_write(fuzz_path(names[i]), from, n);
        }
        from += border != NULL ? n + 1 : n;
    }
    if (sm_tokenizer_read(fuzz_folder(), &t) == SM_OK) {
        encode(t, data, size_bytes < MAX_TEXT_BYTES ? size_bytes : MAX_TEXT_BYTES);
        sm_tokenizer_free(t);
    }
}
