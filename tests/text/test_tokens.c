// Token files: formats and their detection, malformed files, ids out of range, the walk of batches.
#include <sys/stat.h>

#include "tests/support/test.h"
#include "embedded.h"
#include "fnv1a.h"
#include "tests/support/temp_folder.h"
#include "src/io/tokens.h"

enum { HEADER_WORDS = 256, MAGIC = 20240520 };

// llm.c's header, then n ids 0, 1, 2, ...; returns the size in bytes.
static size_t make_llmc(uint8_t *bytes, int32_t magic, int32_t version, int32_t told, int n) {
    int32_t header[HEADER_WORDS] = {magic, version, told};
    memcpy(bytes, header, sizeof header);
    for (int i = 0; i < n; i++) {
        uint16_t id = (uint16_t)i;
        memcpy(bytes + sizeof header + 2 * i, &id, 2);
    }
    return sizeof header + 2 * (size_t)n;
}

TEST(ids_of_32_bits_are_read) {
    static const uint32_t ids[] = {0, 65536, 100000, 0x00ffffff};
    uint8_t bytes[SM_LLMC_HEADER_BYTES + sizeof ids];
    char *path = temp_path("wide.bin");
    sm_tokens *tokens;
    int32_t inputs[3];
    int32_t targets[3];
    sm_llmc_header(4, 4, bytes);
    memcpy(bytes + SM_LLMC_HEADER_BYTES, ids, sizeof ids);
    temp_write(path, bytes, sizeof bytes);
    expect_ok("wide", sm_tokens_open(path, SM_TOKENS_AUTO, 0x01000000, &tokens));
    assert_int_equal(sm_tokens_format_of(tokens), SM_TOKENS_LLMC);
    assert_int_equal(sm_tokens_count(tokens), 4);
    expect_ok("wide", sm_tokens_batch(tokens, 0, 1, 3, inputs, targets));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(inputs[i], ids[i]);
        assert_int_equal(targets[i], ids[i + 1]);
    }
    sm_tokens_close(tokens);
    expect_failure("small vocabulary", sm_tokens_open(path, SM_TOKENS_AUTO, 100000, &tokens), SM_ERR_INVALID,
                   "wide.bin: token 2 |is 100000|vocabulary of 100000");
    temp_write(path, bytes, sizeof bytes - 1);
    expect_failure("cut", sm_tokens_open(path, SM_TOKENS_AUTO, 0x01000000, &tokens), SM_ERR_FORMAT,
                   "4 tokens|15 bytes");
    bytes[SM_LLMC_HEADER_BYTES + 3] = 0xff;
    temp_write(path, bytes, sizeof bytes);
    expect_failure("beyond all", sm_tokens_open(path, SM_TOKENS_AUTO, INT64_MAX, &tokens), SM_ERR_INVALID,
                   "token 0 |is 4278190080");
    free(path);
}

// The file is the one that make_llmc writes by hand; more than 2^32 tokens are counted in two words.
TEST(headers_are_llmc_s) {
    uint8_t expected[SM_LLMC_HEADER_BYTES];
    uint8_t header[SM_LLMC_HEADER_BYTES];
    make_llmc(expected, MAGIC, 1, 1234567, 0);
    sm_llmc_header(2, 1234567, header);
    assert_memory_equal(header, expected, sizeof header);
    make_llmc(expected, 20240801, 7, 5, 0);
    expected[12] = 2;
    sm_llmc_header(4, ((int64_t)2 << 32) + 5, header);
    assert_memory_equal(header, expected, sizeof header);
}

TEST(formats_are_detected_or_forced) {
    uint8_t llmc[HEADER_WORDS * 4 + 6];
    size_t llmc_bytes = make_llmc(llmc, MAGIC, 1, 3, 3);
    const struct {
        const char *name;
        const void *data;
        size_t size_bytes;
        sm_tokens_format asked;
        sm_tokens_format found;
        int64_t count;
        int32_t first; // the first two ids
        int32_t second;
    } cases[] = {
        {"text.txt", "AB", 2, SM_TOKENS_AUTO, SM_TOKENS_BYTES, 2, 'A', 'B'},
        {"text", "\xff\x00z", 3, SM_TOKENS_AUTO, SM_TOKENS_BYTES, 3, 255, 0},
        {"ids.bin", "\x01\x02\xff\xc3", 4, SM_TOKENS_AUTO, SM_TOKENS_UINT16, 2, 0x0201, 0xc3ff},
        {"ids.bin", "AB", 2, SM_TOKENS_BYTES, SM_TOKENS_BYTES, 2, 'A', 'B'},
        {"text.txt", "\x01\x02\x03\x04", 4, SM_TOKENS_UINT16, SM_TOKENS_UINT16, 2, 0x0201, 0x0403},
        {"llmc.bin", llmc, llmc_bytes, SM_TOKENS_AUTO, SM_TOKENS_LLMC, 3, 0, 1},
        {"llmc.txt", llmc, llmc_bytes, SM_TOKENS_AUTO, SM_TOKENS_LLMC, 3, 0, 1},
        {"llmc.bin", llmc, llmc_bytes, SM_TOKENS_LLMC, SM_TOKENS_LLMC, 3, 0, 1},
        {"llmc.bin", llmc, llmc_bytes, SM_TOKENS_UINT16, SM_TOKENS_UINT16, 515, MAGIC & 0xffff, MAGIC >> 16},
        {"bin", "AB", 2, SM_TOKENS_AUTO, SM_TOKENS_BYTES, 2, 'A', 'B'},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *path = temp_path(cases[i].name);
        sm_tokens *tokens;
        int32_t inputs[1];
        int32_t targets[1];
        temp_write(path, cases[i].data, cases[i].size_bytes);
        expect_ok(cases[i].name, sm_tokens_open(path, cases[i].asked, 65536, &tokens));
        assert_int_equal(sm_tokens_format_of(tokens), cases[i].found);
        assert_int_equal(sm_tokens_count(tokens), cases[i].count);
        expect_ok(cases[i].name, sm_tokens_batch(tokens, 0, 1, 1, inputs, targets));
        assert_int_equal(inputs[0], cases[i].first);
        assert_int_equal(targets[0], cases[i].second);
        sm_tokens_close(tokens);
        free(path);
    }
}

TEST(malformed_files_are_refused) {
    static uint8_t llmc[8][HEADER_WORDS * 4 + 8];
    size_t whole = make_llmc(llmc[0], MAGIC, 1, 4, 4);
    make_llmc(llmc[1], MAGIC, 7, 4, 4);
    make_llmc(llmc[2], MAGIC, 1, 5, 4);
    make_llmc(llmc[3], MAGIC, 1, 3, 4);
    make_llmc(llmc[4], MAGIC, 1, -4, 4);
    make_llmc(llmc[5], MAGIC, 1, INT32_MAX, 4);
    make_llmc(llmc[6], MAGIC, 1, 0, 0);
    make_llmc(llmc[7], 20240521, 1, 4, 4);
    const struct {
        const char *name;
        const void *data;
        size_t size_bytes;
        sm_tokens_format format;
        int64_t vocab;
        sm_status status;
        const char *message;
    } cases[] = {
        {"empty.txt", "", 0, SM_TOKENS_AUTO, 256, SM_ERR_FORMAT, "empty.txt|empty"},
        {"empty.bin", "", 0, SM_TOKENS_UINT16, 256, SM_ERR_FORMAT, "empty.bin|empty"},
        {"odd.bin", "abc", 3, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "odd.bin|3 bytes|odd"},
        {"version.bin", llmc[1], whole, SM_TOKENS_AUTO, 65536, SM_ERR_UNSUPPORTED, "version.bin|version 7|only 1"},
        {"more.bin", llmc[2], whole, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "more.bin|5 tokens|8 bytes"},
        {"fewer.bin", llmc[3], whole, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "fewer.bin|3 tokens|8 bytes"},
        {"negative.bin", llmc[4], whole, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "4294967292 tokens"},
        {"huge.bin", llmc[5], whole, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "2147483647 tokens"},
        {"none.bin", llmc[6], HEADER_WORDS * 4, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "none.bin|empty"},
        {"magic.bin", llmc[7], whole, SM_TOKENS_LLMC, 65536, SM_ERR_FORMAT, "magic.bin|magic number 20240520"},
        {"cut.bin", llmc[0], 1000, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "cut.bin|header of 1024 bytes"},
        {"half.bin", llmc[0], whole - 1, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "half.bin|4 tokens|7 bytes"},
        {"id.bin", "\x01\x00\x3d\x00", 4, SM_TOKENS_AUTO, 61, SM_ERR_INVALID, "id.bin|token 1 |is 61|vocabulary of 61"},
        {"id.txt", "AB", 2, SM_TOKENS_AUTO, 66, SM_ERR_INVALID, "id.txt|token 1 |is 66|vocabulary of 66"},
        {"id2.bin", llmc[0], whole, SM_TOKENS_AUTO, 2, SM_ERR_INVALID, "id2.bin|token 2 |is 2|vocabulary of 2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *path = temp_path(cases[i].name);
        sm_tokens *tokens;
        temp_write(path, cases[i].data, cases[i].size_bytes);
        sm_status status = sm_tokens_open(path, cases[i].format, cases[i].vocab, &tokens);
        expect_failure(cases[i].name, status, cases[i].status, cases[i].message);
        assert_null(tokens);
        free(path);
    }
}

TEST(only_regular_files_open) {
    const struct {
        char *path;
        const char *message;
    } cases[] = {
        {temp_path("pipe"), "pipe|not a regular file"},
        {temp_path(""), "not a regular file"},
        {temp_path("missing"), "missing|No such file"},
        {strdup("/dev/zero"), "not a regular file"},
    };
    assert_int_equal(mkfifo(cases[0].path, 0600), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sm_tokens *tokens;
        sm_status status = sm_tokens_open(cases[i].path, SM_TOKENS_AUTO, 256, &tokens);
        expect_failure(cases[i].path, status, SM_ERR_IO, cases[i].message);
        assert_null(tokens);
        free(cases[i].path);
    }
}

// The file is whole when it is opened, and not when a batch is read.
TEST(a_file_that_changes_is_an_error) {
    static uint8_t ids[2 * 30000];
    static int32_t inputs[20000];
    static int32_t targets[20000];
    char *path = temp_path("changing.bin");
    sm_tokens *tokens;
    temp_write(path, ids, sizeof ids);
    expect_ok("open", sm_tokens_open(path, SM_TOKENS_AUTO, 256, &tokens));
    expect_ok("whole", sm_tokens_batch(tokens, 0, 1, 20000, inputs, targets));
    ids[2 * 19999 + 1] = 1; // token 19999 is 256
    temp_write(path, ids, sizeof ids);
    sm_status status = sm_tokens_batch(tokens, 0, 1, 20000, inputs, targets);
    expect_failure("overwritten", status, SM_ERR_INVALID, "changing.bin: token 19999 |is 256|vocabulary of 256");
    expect_ok("before it", sm_tokens_batch(tokens, 0, 1, 19998, inputs, targets));
    assert_int_equal(truncate(path, 2 * 19000), 0);
    status = sm_tokens_batch(tokens, 0, 1, 19998, inputs, targets);
    expect_failure("truncated", status, SM_ERR_IO, "changing.bin: ends at byte 38000");
    sm_tokens_close(tokens);
    free(path);
}

TEST(bytes_in_memory_are_tokens) {
    static const uint8_t text[] = {1, 2, 3, 200};
    sm_tokens *tokens;
    expect_ok("bytes", sm_tokens_from_bytes(text, sizeof text, 201, &tokens));
    assert_int_equal(sm_tokens_count(tokens), 4);
    sm_tokens_close(tokens);
    expect_failure("id", sm_tokens_from_bytes(text, sizeof text, 200, &tokens), SM_ERR_INVALID, "token 3 |is 200");
    expect_failure("empty", sm_tokens_from_bytes(text, 0, 256, &tokens), SM_ERR_FORMAT, "empty");
}

// Losses of two versions compare only while this text stays as it is: whoever changes it changes every default loss.
TEST(embedded_text_is_always_the_same) {
    enum { N_BYTES = 37397 };
    static int32_t ids[2 * N_BYTES];
    uint64_t hash = SM_FNV1A_START;
    sm_tokens *tokens;
    const sm_embedded *text = sm_embedded_find(SM_EMBEDDED_TEXT);
    assert_int_equal(text->size_bytes, N_BYTES);
    assert_int_equal(N_BYTES % 2, 1);
    assert_int_equal(sm_fnv1a(hash, text->text, text->size_bytes), UINT64_C(0x2C7E460BE2A98EE3));
    expect_ok("open", sm_tokens_embedded(128, &tokens)); // ASCII
    assert_true(sm_tokens_count(tokens) >= 1 << 23);
    expect_ok("read", sm_tokens_read(tokens, N_BYTES - 9000, N_BYTES, ids));
    for (int i = 0; i < N_BYTES; i++) {
        assert_int_equal(ids[i], text->text[(N_BYTES - 9000 + i) % N_BYTES]);
    }
    expect_ok("last", sm_tokens_read(tokens, sm_tokens_count(tokens) - 1, 1, ids));
    sm_tokens_close(tokens);
    expect_failure("id", sm_tokens_embedded(100, &tokens), SM_ERR_INVALID, "outside the vocabulary of 100");
}

// Batch i begins at i B T; where fewer than B T + 1 tokens remain it begins at 0 again.
TEST(batches_walk_the_file_in_order) {
    uint8_t text[200];
    for (int i = 0; i < 200; i++) {
        text[i] = (uint8_t)i;
    }
    for (int count = 2; count < 40; count++) {
        sm_tokens *tokens;
        expect_ok("open", sm_tokens_from_bytes(text, (size_t)count, 256, &tokens));
        for (int B = 1; B <= 3; B++) {
            for (int T = 1; T <= 4 && B * T + 1 <= count; T++) {
                int start = 0;
                for (int i = 0; i < 50; i++) {
                    int32_t inputs[12];
                    int32_t targets[12];
                    expect_ok("batch", sm_tokens_batch(tokens, i, B, T, inputs, targets));
                    for (int k = 0; k < B * T; k++) {
                        assert_int_equal(inputs[k], start + k);
                        assert_int_equal(targets[k], start + k + 1);
                    }
                    start += B * T;
                    start = count - start < B * T + 1 ? 0 : start;
                }
            }
        }
        sm_tokens_close(tokens);
    }
}

TEST(batches_that_do_not_fit_are_refused) {
    static const uint8_t text[13] = {0};
    int32_t inputs[12];
    int32_t targets[12];
    const struct {
        const char *label;
        int64_t i;
        int64_t B;
        int64_t T;
        sm_status status;
        const char *message;
    } cases[] = {
        {"just fits", 0, 3, 4, SM_OK, ""},
        {"just fits, far on", INT64_MAX, 3, 4, SM_OK, ""},
        {"one too few", 0, 1, 13, SM_ERR_INVALID, "built-in text|13 tokens|1 x 13"},
        {"overflow", 0, INT64_MAX, 2, SM_ERR_INVALID, "out of range"},
        {"no rows", 0, 0, 2, SM_ERR_INVALID, "out of range"},
        {"negative", 0, 2, -2, SM_ERR_INVALID, "out of range"},
        {"negative index", -1, 2, 2, SM_ERR_INVALID, "out of range"},
    };
    sm_tokens *tokens;
    expect_ok("open", sm_tokens_from_bytes(text, sizeof text, 256, &tokens));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sm_status status = sm_tokens_batch(tokens, cases[i].i, cases[i].B, cases[i].T, inputs, targets);
        expect_failure(cases[i].label, status, cases[i].status, cases[i].message);
    }
    sm_tokens_close(tokens);
    expect_ok("open", sm_tokens_from_bytes(text, 1, 256, &tokens));
    expect_failure("one token", sm_tokens_batch(tokens, 0, 1, 1, inputs, targets), SM_ERR_INVALID, "too few");
    sm_tokens_close(tokens);
}

int main(void) { return cmocka_run_group_tests(tests, temp_folder_make, temp_folder_remove); }
