// fuzz_tokens.c: a data file of any format. The first byte chooses what its user says that it is, the next two the
// vocabulary.
#include "harness_support.h"
#include "src/data/tokens.h"

enum { B = 2, T = 5, N_BATCHES = 3, HEAD_BYTES = 3 };

static void check_batch(const sm_tokens *tokens, int64_t i, int64_t vocab) {
    int32_t inputs[B * T], targets[B * T];
    if (sm_tokens_batch(tokens, i, B, T, inputs, targets) != SM_OK) {
        return;
    }
    for (int k = 0; k < B * T; k++) {
        fuzz_expect(inputs[k] >= 0 && inputs[k] < vocab && targets[k] >= 0 && targets[k] < vocab,
                    "an id of the vocabulary");
    }
}

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    SM_OWN(sm_tokens) *tokens = NULL;
    if (size_bytes < HEAD_BYTES) {
        return;
    }
    const sm_tokens_format format = (sm_tokens_format)(data[0] % (SM_TOKENS_NPY + 1));
    const int64_t vocab = 1 + (data[1] | data[2] << 8);
    if (sm_tokens_open(fuzz_file(data + HEAD_BYTES, size_bytes - HEAD_BYTES), format, vocab, &tokens) != SM_OK) {
        return;
    }
    for (int64_t i = 0; i < N_BATCHES; i++) {
        check_batch(tokens, i, vocab);
    }
}
