// fuzz_npy.c: a .npy: its header, and its ids through the door.
#include "harness_support.h"
#include "src/data/tokens.h"

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    sm_id_layout layout;
    sm_tokens *tokens;
    if (sm_npy_parse("array", data, size_bytes, (int64_t)size_bytes, &layout) != SM_OK) {
        return;
    }
    fuzz_expect(layout.offset_bytes + layout.count * layout.id_bytes == (int64_t)size_bytes && layout.count >= 0,
                "ids up to the end of the file");
    if (sm_tokens_open(fuzz_file(data, size_bytes), SM_TOKENS_AUTO, INT32_MAX, &tokens) == SM_OK) {
        fuzz_expect(sm_tokens_format_of(tokens) == SM_TOKENS_NPY && sm_tokens_count(tokens) == layout.count,
                    "the array's ids");
        sm_tokens_close(tokens);
    }
}
