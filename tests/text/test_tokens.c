// Token files: formats and their detection, malformed files, ids out of range, the walk of batches.
#include "embedded.h"
#include "fnv1a.h"
#include "tests/support/temp_folder.h"
#include "src/data/data_files.h"
#include "src/data/tokens.h"

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

// A file of this name and content, opened.
static sm_tokens *open_file(const char *name, const void *data, size_t n_bytes, sm_tokens_format format,
                            int64_t vocab) {
    sm_tokens *tokens = NULL;
    expect_ok(name, sm_tokens_open(temp_put(name, data, n_bytes), format, vocab, &tokens));
    return tokens;
}

static void expect_refused(const char *label, const char *name, const void *data, size_t n_bytes,
                           sm_tokens_format format, int64_t vocab, sm_status status, const char *message) {
    sm_tokens *tokens;
    expect_failure(label, sm_tokens_open(temp_put(name, data, n_bytes), format, vocab, &tokens), status, message);
    assert_null(tokens);
}

TEST(ids_of_32_bits_are_read) {
    static const uint32_t ids[] = {0, 65536, 100000, 0x00ffffff};
    uint8_t bytes[SM_LLMC_HEADER_BYTES + sizeof ids];
    int32_t inputs[3], targets[3];
    sm_llmc_header(4, 4, bytes);
    memcpy(bytes + SM_LLMC_HEADER_BYTES, ids, sizeof ids);
    SM_OWN(sm_tokens) *tokens = open_file("wide.bin", bytes, sizeof bytes, SM_TOKENS_AUTO, 0x01000000);
    assert_int_equal(sm_tokens_format_of(tokens), SM_TOKENS_LLMC);
    assert_int_equal(sm_tokens_count(tokens), 4);
    expect_ok("wide", sm_tokens_batch(tokens, 0, 1, 3, inputs, targets));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(inputs[i], ids[i]);
        assert_int_equal(targets[i], ids[i + 1]);
    }
    expect_refused("small vocabulary", "wide.bin", bytes, sizeof bytes, SM_TOKENS_AUTO, 100000, SM_ERR_INVALID,
                   "wide.bin: token 2 |is 100000|vocabulary of 100000");
    expect_refused("cut", "wide.bin", bytes, sizeof bytes - 1, SM_TOKENS_AUTO, 0x01000000, SM_ERR_FORMAT,
                   "4 tokens|15 bytes");
    bytes[SM_LLMC_HEADER_BYTES + 3] = 0xff;
    expect_refused("beyond all", "wide.bin", bytes, sizeof bytes, SM_TOKENS_AUTO, INT64_MAX, SM_ERR_INVALID,
                   "token 0 |is 4278190080");
}

// The file is the one that make_llmc writes by hand; more than 2^32 tokens are counted in two words.
TEST(headers_are_llmc_s) {
    uint8_t expected[SM_LLMC_HEADER_BYTES], header[SM_LLMC_HEADER_BYTES];
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
        sm_tokens_format asked, found;
        int64_t count;
        int32_t first; // the first two ids
        int32_t second;
    } cases[] = {
        {"text.txt", "AB", 2, SM_TOKENS_AUTO, SM_TOKENS_TEXT, 2, 'A', 'B'},
        {"text", "\xc3\xa9z", 3, SM_TOKENS_AUTO, SM_TOKENS_TEXT, 3, 0xc3, 0xa9},
        {"text", "\xff\x00z", 3, SM_TOKENS_BYTES, SM_TOKENS_BYTES, 3, 255, 0},
        {"text.bin", "ABCD", 4, SM_TOKENS_TEXT, SM_TOKENS_TEXT, 4, 'A', 'B'},
        {"lines", "{\"text\": \"A\\u0042\"}\n", 20, SM_TOKENS_AUTO, SM_TOKENS_JSONL, 15, 'A', 'B'},
        {"code", "{ x: 1 }\n", 9, SM_TOKENS_AUTO, SM_TOKENS_TEXT, 9, '{', ' '},
        {"ids", "\x01\x02\0\0\x03\x04\0\0", 8, SM_TOKENS_UINT32, SM_TOKENS_UINT32, 2, 0x0201, 0x0403},
        {"ids", "\x01\x02\0\0\0\0\0\0\x03\0\0\0\0\0\0\0", 16, SM_TOKENS_INT64, SM_TOKENS_INT64, 2, 0x0201, 3},
        {"ids.bin", "\x01\x02\xff\xc3", 4, SM_TOKENS_AUTO, SM_TOKENS_UINT16, 2, 0x0201, 0xc3ff},
        {"ids.bin", "AB", 2, SM_TOKENS_BYTES, SM_TOKENS_BYTES, 2, 'A', 'B'},
        {"text.txt", "\x01\x02\x03\x04", 4, SM_TOKENS_UINT16, SM_TOKENS_UINT16, 2, 0x0201, 0x0403},
        {"llmc.bin", llmc, llmc_bytes, SM_TOKENS_AUTO, SM_TOKENS_LLMC, 3, 0, 1},
        {"llmc.txt", llmc, llmc_bytes, SM_TOKENS_AUTO, SM_TOKENS_LLMC, 3, 0, 1},
        {"llmc.bin", llmc, llmc_bytes, SM_TOKENS_LLMC, SM_TOKENS_LLMC, 3, 0, 1},
        {"llmc.bin", llmc, llmc_bytes, SM_TOKENS_UINT16, SM_TOKENS_UINT16, 515, MAGIC & 0xffff, MAGIC >> 16},
        {"bin", "AB", 2, SM_TOKENS_AUTO, SM_TOKENS_TEXT, 2, 'A', 'B'},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SM_OWN(sm_tokens) *tokens = open_file(cases[i].name, cases[i].data, cases[i].size_bytes, cases[i].asked, 65536);
        int32_t ids[2];
        assert_int_equal(sm_tokens_format_of(tokens), cases[i].found);
        assert_int_equal(sm_tokens_count(tokens), cases[i].count);
        expect_ok(cases[i].name, sm_tokens_read(tokens, 0, 2, ids));
        assert_int_equal(ids[0], cases[i].first);
        assert_int_equal(ids[1], cases[i].second);
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
        {"odd.bin", "ab\1", 3, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "odd.bin|3 bytes|odd"},
        {"version.bin", llmc[1], whole, SM_TOKENS_AUTO, 65536, SM_ERR_UNSUPPORTED, "version.bin|version 7|only 1"},
        {"more.bin", llmc[2], whole, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "more.bin|5 tokens|8 bytes"},
        {"fewer.bin", llmc[3], whole, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "fewer.bin|3 tokens|8 bytes"},
        {"negative.bin", llmc[4], whole, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "4294967292 tokens"},
        {"huge.bin", llmc[5], whole, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "2147483647 tokens"},
        {"none.bin", llmc[6], HEADER_WORDS * 4, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "none.bin|empty"},
        {"magic.bin", llmc[7], whole, SM_TOKENS_LLMC, 65536, SM_ERR_FORMAT, "magic.bin|magic number 20240520"},
        {"cut.bin", llmc[0], 1000, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "cut.bin|header of 1024 bytes"},
        {"half.bin", llmc[0], whole - 1, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, "half.bin|4 tokens|7 bytes"},
        {"id.bin", "\x01\x00\x3d\x00", 4, SM_TOKENS_AUTO, 61, SM_ERR_INVALID,
         "id.bin|token 1 |is 61|vocabulary of 61; --vocab 62 would fit"},
        {"id.txt", "AB", 2, SM_TOKENS_AUTO, 66, SM_ERR_INVALID, "id.txt|token 1 |is 66|vocabulary of 66; --vocab 256"},
        {"id2.bin", llmc[0], whole, SM_TOKENS_AUTO, 2, SM_ERR_INVALID,
         "id2.bin|token 2 |is 2|vocabulary of 2; --vocab 4 would fit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect_refused(cases[i].name, cases[i].name, cases[i].data, cases[i].size_bytes, cases[i].format,
                       cases[i].vocab, cases[i].status, cases[i].message);
    }
}

TEST(only_regular_files_open) {
    const struct {
        const char *path, *message;
    } cases[] = {
        {temp_path("pipe"), "pipe|not a regular file"},
        {temp_path("missing"), "missing|No such file"},
        {"/dev/zero", "not a regular file"},
    };
    assert_int_equal(mkfifo(cases[0].path, 0600), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        sm_tokens *tokens;
        sm_status status = sm_tokens_open(cases[i].path, SM_TOKENS_AUTO, 256, &tokens);
        expect_failure(cases[i].path, status, SM_ERR_IO, cases[i].message);
        assert_null(tokens);
    }
}

// ---- formats --------------------------------------------------------------------------------

// A .npy of version 1, or a later one, with `n` bytes after its header; the bytes of all.
static size_t make_npy(uint8_t *bytes, int version, const char *dict, const void *data, size_t n) {
    const size_t before = version == 1 ? 10 : 12;
    const size_t n_dict = strlen(dict);
    memcpy(bytes, "\x93NUMPY", 6);
    memset(bytes + 6, 0, 6);
    bytes[6] = (uint8_t)version;
    bytes[8] = (uint8_t)n_dict;
    memcpy(bytes + before, dict, n_dict);
    memcpy(bytes + before + n_dict, data, n);
    return before + n_dict + n;
}

#define DICT(type, order, shape) "{'descr': '" type "', 'fortran_order': " order ", 'shape': " shape ", }   \n"

TEST(arrays_of_numpy_are_read) {
    static const struct {
        const char *dict;
        int version;
        const char *data;
        size_t n_bytes;
        int32_t first, second;
    } cases[] = {
        {DICT("|u1", "False", "(2,)"), 1, "\x05\xc8", 2, 5, 200},
        {DICT("|i1", "False", "(2,)"), 1, "\x05\x64", 2, 5, 100},
        {DICT("<u2", "False", "(2,)"), 1, "\x05\x00\x34\xc2", 4, 5, 0xc234},
        {DICT("<i2", "False", "(2,)"), 2, "\x05\x00\x34\x42", 4, 5, 0x4234},
        {DICT(">u2", "False", "(2,)"), 3, "\x00\x05\xc2\x34", 4, 5, 0xc234},
        {DICT(">i2", "False", "(2,)"), 1, "\x00\x05\x42\x34", 4, 5, 0x4234},
        {DICT("<u4", "False", "(1, 2)"), 1, "\x05\0\0\0\x34\xc2\x01\0", 8, 5, 0x1c234},
        {DICT("<i4", "False", "(2, 1, 1)"), 1, "\x05\0\0\0\x34\xc2\x01\0", 8, 5, 0x1c234},
        {DICT(">u4", "False", "(2L,)"), 1, "\0\0\0\x05\0\x01\xc2\x34", 8, 5, 0x1c234},
        {DICT(">i4", "True", "(2,)"), 1, "\0\0\0\x05\0\x01\xc2\x34", 8, 5, 0x1c234},
        {DICT("<u8", "False", "(2,)"), 1, "\x05\0\0\0\0\0\0\0\x34\xc2\x01\0\0\0\0\0", 16, 5, 0x1c234},
        {DICT("<i8", "False", "(2,)"), 1, "\x05\0\0\0\0\0\0\0\x34\xc2\x01\0\0\0\0\0", 16, 5, 0x1c234},
        {DICT(">u8", "False", "(2,)"), 1, "\0\0\0\0\0\0\0\x05\0\0\0\0\0\x01\xc2\x34", 16, 5, 0x1c234},
        {DICT(">i8", "False", "(2,)"), 1, "\0\0\0\0\0\0\0\x05\0\0\0\0\0\x01\xc2\x34", 16, 5, 0x1c234},
        {"{\"shape\":(2,),\"fortran_order\":False,\"descr\":\"<u2\"}", 1, "\x05\x00\x34\xc2", 4, 5, 0xc234},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bytes[256];
        int32_t ids[2];
        const size_t n = make_npy(bytes, cases[i].version, cases[i].dict, cases[i].data, cases[i].n_bytes);
        const char *name = i % 2 == 0 ? "array.npy" : "array.bin";
        SM_OWN(sm_tokens) *tokens = open_file(name, bytes, n, SM_TOKENS_AUTO, 200000);
        assert_int_equal(sm_tokens_format_of(tokens), SM_TOKENS_NPY);
        assert_int_equal(sm_tokens_count(tokens), 2);
        expect_ok(cases[i].dict, sm_tokens_read(tokens, 0, 2, ids));
        assert_int_equal(ids[0], cases[i].first);
        assert_int_equal(ids[1], cases[i].second);
    }
}

TEST(other_arrays_are_refused) {
    static const struct {
        const char *dict;
        size_t n_bytes;
        sm_status status;
        const char *message;
    } cases[] = {
        {DICT("<f4", "False", "(2,)"), 8, SM_ERR_UNSUPPORTED, "array of floats|astype"},
        {DICT("<f2", "False", "(2,)"), 4, SM_ERR_UNSUPPORTED, "array of floats"},
        {DICT("<c8", "False", "(1,)"), 8, SM_ERR_UNSUPPORTED, "array of complex numbers"},
        {DICT("|b1", "False", "(2,)"), 2, SM_ERR_UNSUPPORTED, "array of truth values"},
        {DICT("|O", "False", "(2,)"), 8, SM_ERR_UNSUPPORTED, "array of Python objects"},
        {DICT("<U5", "False", "(2,)"), 40, SM_ERR_UNSUPPORTED, "array of strings"},
        {DICT("|V4", "False", "(2,)"), 8, SM_ERR_UNSUPPORTED, "of another type"},
        {DICT("<u3", "False", "(2,)"), 6, SM_ERR_UNSUPPORTED, "of another type"},
        {DICT("<u2", "True", "(2, 2)"), 8, SM_ERR_UNSUPPORTED, "2 dimensions in Fortran's order"},
        {"{'descr': [('a', '<u2')], 'fortran_order': False, 'shape': (2,)}", 4, SM_ERR_UNSUPPORTED, "array of records"},
        {DICT("<u2", "False", "(3,)"), 4, SM_ERR_FORMAT, "3 ids of 2 bytes|4 bytes follow"},
        {DICT("<u2", "False", "(1,)"), 4, SM_ERR_FORMAT, "1 ids of 2 bytes|4 bytes follow"},
        {DICT("<u2", "False", "(0,)"), 0, SM_ERR_FORMAT, "empty"},
        {DICT("<u2", "False", "(2 2)"), 8, SM_ERR_FORMAT, "malformed header"},
        {DICT("<u2", "False", "(99999999999, 99999999999)"), 8, SM_ERR_FORMAT, "malformed header"},
        {DICT("<u2", "False", "2,)"), 4, SM_ERR_FORMAT, "malformed header"},
        {DICT("u2", "False", "(2,)"), 4, SM_ERR_FORMAT, "malformed header"},
        {DICT("<u2", "Maybe", "(2,)"), 4, SM_ERR_FORMAT, "malformed header"},
        {"{'descr': '<u2', 'fortran_order': False}", 4, SM_ERR_FORMAT, "malformed header"},
        {"{'descr': '<u2'", 4, SM_ERR_FORMAT, "malformed header"},
        {"", 4, SM_ERR_FORMAT, "malformed header"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static const uint8_t data[64];
        uint8_t bytes[256];
        const size_t n = make_npy(bytes, 1, cases[i].dict, data, cases[i].n_bytes);
        expect_refused(cases[i].dict, "array.npy", bytes, n, SM_TOKENS_AUTO, 65536, cases[i].status, cases[i].message);
    }
    uint8_t negative[256];
    const size_t n = make_npy(negative, 1, DICT("<i2", "False", "(2,)"), "\x01\0\xff\xff", 4);
    expect_refused("negative", "array.npy", negative, n, SM_TOKENS_AUTO, 65536, SM_ERR_INVALID, "token 1 |is -1");
}

#define BYTES(text) text, sizeof(text) - 1

// What others wrote is refused by its name, whatever it is called, with what to do.
TEST(known_beginnings_are_refused) {
    static uint8_t llmc[4][SM_LLMC_HEADER_BYTES], tar[512];
    static const struct {
        const char *bytes;
        size_t n_bytes;
        const char *message;
    } cases[] = {
        {BYTES("\x1f\x8b\x08\0\0\0\0\0"), "gzip: gunzip it first"},
        {BYTES("\xfd\x37zXZ\0\0\x04"), "xz: unxz it first"},
        {BYTES("\x28\xb5\x2f\xfd\x24\0"), "zstd: unzstd it first"},
        {BYTES("BZh91AY&SY\x12\x34"), "bzip2: bunzip2 it first"},
        {BYTES("\x04\x22\x4d\x18\x64\x40"), "lz4: unlz4 it first"},
        {BYTES("\x02\x21\x4c\x18\x64\x40"), "lz4: unlz4 it first"},
        {BYTES("\x5e\x2a\x4d\x18\x01\0\0\0a"), "zstd or lz4: unpack it first"},
        {BYTES("070701000000010000"), "cpio: unpack it first"},
        {BYTES("(lp0\nI1\naI2\na."), "pickle: stepmark runs no pickle"},
        {BYTES("]q\0(K\x01K\002e."), "pickle: stepmark runs no pickle"},
        {BYTES("\x80\x03X\x05\0\0\0helloq\0."), "pickle: stepmark runs no pickle"},
        {BYTES("MATLAB 5.0 MAT-file, Platform"), "MATLAB: write its text"},
        {BYTES("RIFF\x10\0\0\0WEBPVP8 "), "WebP: it holds neither"},
        {BYTES("7z\xbc\xaf\x27\x1c\0\x04"), "7z: unpack it first"},
        {BYTES("PK\x03\x04\x14\0\0\0\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x05\0\0\0a.txtabc"), "zip: unzip it first"},
        {BYTES("PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x09\0\0\0arr_0.npyabc"),
         "NumPy's .npz: save each"},
        {BYTES("PK\x03\x04\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0archive/data.pklabc"),
         "PyTorch: it holds a model"},
        {BYTES("PAR1\x15\x04\x15\x10"), "Parquet: write its text"},
        {BYTES("ARROW1\0\0\xff\xff"), "Arrow: write its text"},
        {BYTES("\xff\xff\xff\xff\x08\0\0\0\x10\0\0\0\0\0\x0a\0"), "Arrow stream: write its text"},
        {BYTES("FEA1\0\0\0\0"), "Feather: write"},
        {BYTES("%PDF-1.7\n%"), "PDF: write its text"},
        {BYTES("\x89PNG\r\n\x1a\n\0\0\0\rIHDR"), "PNG: it holds neither text nor token ids"},
        {BYTES("\xff\xd8\xff\xe0\0\x10JFIF"), "JPEG: it holds neither"},
        {BYTES("\177ELF\x02\x01\x01"), "ELF: it holds neither"},
        {BYTES("\x02\0\0\0\0\0\0\0{}"), "safetensors: it holds a model"},
        {BYTES("\x0d\0\0\0\0\0\0\0{\"a\": {   }}  abcd"), "safetensors: it holds a model"},
        {BYTES("\x80\x04\x95\x07\0\0\0\0\0\0\0\x8c\003abc\x94."), "pickle: stepmark runs no pickle"},
        {BYTES("\x80\x02}q\0X\x03\0\0\0abcq\x01."), "pickle: stepmark runs no pickle"},
        {BYTES("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."), "PyTorch: it holds a model"},
        {BYTES("GGUF\x03\0\0\0"), "GGUF: it holds a model"},
        {BYTES("SQLite format 3\0\x10\0"), "SQLite: write its text"},
        {BYTES("\x89HDF\r\n\x1a\n\0"), "HDF5: write its text"},
        {BYTES("\x03\0\0\0\0\0\0\0\xb0\x99\x49\016abc\0\0\0\0"), "TFRecord: write its text"},
        {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:00\n"), "a Git LFS pointer"},
        {BYTES("MMIDIDX\0\0\x01\0"), "Megatron-LM's index: give the .bin"},
        {BYTES("\xff\376a\0b\0"), "UTF-16: convert it: iconv"},
        {BYTES("\xfe\xff\0a\0b"), "UTF-16: convert it"},
        {BYTES("\xff\xfe\0\0a\0\0\0"), "UTF-32: convert it"},
        {BYTES("\0\0\xfe\xff\0\0\0a"), "UTF-32: convert it"},
        {(const char *)llmc[0], sizeof llmc[0], "llm.c's with questions (magic number 20240522)"},
        {(const char *)llmc[1], sizeof llmc[0], "llm.c's with weights (magic number 20240326)"},
        {(const char *)llmc[2], sizeof llmc[0], "llm.c's with a tokenizer (magic number 20240328)"},
        {(const char *)llmc[3], sizeof llmc[0], "llm.c's with something else (magic number 20250601)"},
        {(const char *)tar, sizeof tar, "tar: unpack it first"},
    };
    static const int32_t magics[] = {20240522, 20240326, 20240328, 20250601};
    for (int i = 0; i < 4; i++) {
        make_llmc(llmc[i], magics[i], 1, 4, 0);
    }
    memcpy(tar, "a.txt", 5);
    memcpy(tar + 257, "ustar", 5);
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const char *name = i % 2 == 0 ? "some.bin" : "some.txt", *message = cases[i / 2].message;
        const size_t n = cases[i / 2].n_bytes;
        expect_refused(message, name, cases[i / 2].bytes, n, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT, message);
        if (strstr(message, "LFS") == NULL) { // a pointer is never the file
            SM_OWN(sm_tokens) *tokens = open_file(name, cases[i / 2].bytes, n, SM_TOKENS_BYTES, 65536);
            assert_int_equal(sm_tokens_count(tokens), n);
        }
    }
}

// Files without a beginning of their own: more of their bytes must show what they are.
TEST(what_is_no_text_is_refused) {
    enum { N = 1000 };
    static uint8_t bytes[8 * N];
    static const struct {
        const char *label, *name;
        int id_bytes;
        int64_t first, step, modulo; // ids
        const char *message;         // NULL: read as 16-bit ids
    } cases[] = {
        {"ids elsewhere", "ids.dat", 2, 300, 7919, 50257,
         "bytes are not UTF-8|--data-format uint16|--data-format bytes"},
        {"characters elsewhere", "ids", 2, 0, 7, 65, "of its first 2000 bytes"},
        {"ids", "ids.bin", 2, 300, 7919, 50257, NULL},
        {"characters", "ids.bin", 2, 0, 7, 65, NULL},
        {"two ids in turn", "ids.bin", 2, 1, 1, 2, NULL},
        {"four ids", "ids.bin", 2, 1, 7, 4, NULL},
        {"32 bits", "ids.bin", 4, 300, 7919, 50257, "look like 32-bit ids: --data-format uint32"},
        {"32 bits, large", "ids.bin", 4, 300, 79190, 151936, "look like 32-bit ids: --data-format uint32"},
        {"32 bits, small", "ids.bin", 4, 0, 7, 65, "look like 32-bit ids: --data-format uint32"},
        {"64 bits", "ids.bin", 8, 300, 7919, 50257, "look like 64-bit ids: --data-format int64"},
        {"64 bits, large", "ids.bin", 8, 300, 79190, 151936, "look like 64-bit ids: --data-format int64"},
        {"big-endian", "ids.bin", -2, 300, 7919, 50257, "big-endian 16-bit ids: save them as .npy"},
        {"big-endian characters", "ids.bin", -2, 0, 7, 65, "big-endian 16-bit ids"},
        {"big-endian, 32 bits", "ids.bin", -4, 300, 7919, 50257, "big-endian 32-bit ids"},
        {"big-endian, 32 bits, large", "ids.bin", -4, 300, 79190, 151936, "big-endian 32-bit ids"},
        {"big-endian, 32 bits, small", "ids.bin", -4, 0, 7, 65, "big-endian 32-bit ids"},
        {"big-endian, 64 bits", "ids.bin", -8, 300, 7919, 50257, "big-endian 64-bit ids|'>u8'"},
        {"8 bits", "ids.bin", 1, 0, 7, 65, "look like 8-bit ids: --data-format bytes"},
        {"UTF-16", "text.txt", 2, 'a', 1, 26 + 'a', "UTF-16 without a mark: convert it: iconv -f UTF-16LE"},
        {"UTF-32", "text.txt", 4, 'a', 1, 26 + 'a', "UTF-32 without a mark: convert it: iconv -f UTF-32LE"},
        {"text in .bin", "text.bin", 1, 'a', 1, 26 + 'a', "all of its bytes are text|--data-format text"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int64_t k = 0, id = cases[i].first; k < N; k++, id = (id + cases[i].step) % cases[i].modulo) {
            id = id < cases[i].first && cases[i].modulo == 26 + 'a' ? 'a' : id;
            const int n = abs(cases[i].id_bytes); // below 0: the high byte first
            for (int b = 0; b < n; b++) {
                bytes[k * n + (cases[i].id_bytes < 0 ? n - 1 - b : b)] = (uint8_t)(id >> 8 * b);
            }
        }
        const size_t n_bytes = (size_t)(N * abs(cases[i].id_bytes));
        if (cases[i].message != NULL) {
            expect_refused(cases[i].label, cases[i].name, bytes, n_bytes, SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT,
                           cases[i].message);
        } else {
            SM_OWN(sm_tokens) *tokens = open_file(cases[i].name, bytes, n_bytes, SM_TOKENS_AUTO, 65536);
            assert_int_equal(sm_tokens_format_of(tokens), SM_TOKENS_UINT16);
        }
    }
    expect_refused("zero byte", "zero.txt", BYTES("text\0text, and more of it"), SM_TOKENS_AUTO, 65536, SM_ERR_FORMAT,
                   "1 of its first 25");
}

// What is JSON, or is named so, has a document on each line, or is refused; it is no text by a fallback.
TEST(json_is_read_by_lines_or_refused) {
    static const struct {
        const char *name, *text, *message; // NULL: read
        sm_tokens_format format;
    } cases[] = {
        {"lines", "{\"prompt\": \"a\", \"x\": 1}\n", "JSON with \"prompt\", and no \"text\"", 0},
        {"lines", "{\"text\": null}\n", "JSON whose \"text\" is no text", 0},
        {"lines", "{\"text\": \"a\"}\n{\"words\": \"b\"}\n", "line 2: no object", 0},
        {"lines", "{\"text\": \"a\"}\n{\"text\": \"\\ud83d\"}\n", "line 2: no object {\"text\": ...}: invalid Unicode",
         0},
        {"lines", "{\"text\": \"a\n{\"text\": \"b\"}\n", "first line is no object", 0},
        {"lines", "{\"text\": \"a\"},\n{\"text\": \"b\"}\n", "first line is no object", 0},
        {"lines", "{\n  \"text\": \"a\"\n}\n", "first line is no object", 0},
        {"a.jsonl", "{'text': 'a'}\n", "first line is no object", 0},
        {"a.jsonl", "\"a\"\n\"b\"\n", "first line is no object", 0},
        {"a.ndjson", "# a\n{\"text\": \"a\"}\n", "first line is no object", 0},
        {"lines", "[{\"text\": \"a\"}]", "a JSON array: give a line", 0},
        {"lines", "[\n {\n  \"content\": \"a\"\n }\n]", "a JSON array", 0},
        {"lines", "[\"a \\\" b\", \"c\"]", "a JSON array", 0},
        {"lines", "[\"a\"]\n[\"b\"]\n", "a JSON array", 0},
        {"lines", "[50256, 11, 12]\n", "a JSON array", 0},
        {"lines", "[[1],\n[2]]", "a JSON array", 0},
        {"poem", "[1] A. Author, [2, 3] and others", NULL, SM_TOKENS_TEXT},
        {"poem", "[Music] \"Hello,\" she said", NULL, SM_TOKENS_TEXT},
        {"poem", "[] or [ ] or [-]", NULL, SM_TOKENS_TEXT},
        {"poem", "\"Hello,\" she said", NULL, SM_TOKENS_TEXT},
        {"poem", "{ a set }", NULL, SM_TOKENS_TEXT},
        {"lines", "\xef\xbb\xbf{\"text\": \"\\ud83d\\ude00\", \"a\": NaN, \"b\": [1e999]}\r\n\r\n{\"text\":\"\"}", NULL,
         SM_TOKENS_JSONL},
        {"lines", " {\"n\": 123456789012345678901234567890, \"text\": \"a\", \"text\": \"abcd\"}\n{\"text\":\"\"}",
         NULL, SM_TOKENS_JSONL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t n = strlen(cases[i].text);
        if (cases[i].message != NULL) {
            expect_refused(cases[i].text, cases[i].name, cases[i].text, n, SM_TOKENS_AUTO, 65536,
                           strstr(cases[i].message, "line 2") ? SM_ERR_INVALID : SM_ERR_UNSUPPORTED, cases[i].message);
            continue;
        }
        SM_OWN(sm_tokens) *tokens = open_file(cases[i].name, cases[i].text, n, SM_TOKENS_AUTO, 65536);
        assert_int_equal(sm_tokens_format_of(tokens), cases[i].format);
        if (cases[i].format == SM_TOKENS_JSONL) { // each has a document of 4 bytes and an empty one, and their ends
            assert_int_equal(sm_tokens_count(tokens), 4 + 2 * (int)strlen(SM_END_OF_TEXT));
        }
    }
}

// ---- several files --------------------------------------------------------------------------

// Shards are one stream, in the order of their names, also more of them than stay open.
TEST(shards_are_one_stream) {
    enum { N_SHARDS = 70 };
    int32_t ids[2 * N_SHARDS];
    for (int i = N_SHARDS - 1; i >= 0; i--) {
        const uint8_t two[] = {(uint8_t)(2 * i), 1, (uint8_t)(2 * i + 1), 1};
        temp_put(textf("shards/s%02d.bin", i), two, sizeof two);
    }
    temp_put_text("shards/.hidden", "no");
    static const char *const paths[] = {"shards", "shards/*.bin", "shards/s[0-9]?.bin"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        SM_OWN(sm_tokens) *tokens = NULL;
        const char *path = temp_path(paths[i]);
        expect_ok(path, sm_tokens_open(path, SM_TOKENS_AUTO, 65536, &tokens));
        assert_int_equal(sm_tokens_count(tokens), 2 * N_SHARDS);
        for (int first = 0; first < 2 * N_SHARDS; first += 17) {
            expect_ok(path, sm_tokens_read(tokens, first, 2 * N_SHARDS - first, ids));
            for (int k = first; k < 2 * N_SHARDS; k++) {
                assert_int_equal(ids[k - first], 256 + k);
            }
        }
    }
    static const struct {
        const char *path, *message;
        sm_status status;
    } wrong[] = {
        {"shards/*.npy", "*.npy: no file has such a name", SM_ERR_IO},
        {"shards/s0*", "s07.bin: token 1 |is 271", SM_ERR_INVALID},
        {"shards", "x.txt: its format is text, that of files before it uint16", SM_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        sm_tokens *tokens;
        const char *path = temp_path(wrong[i].path);
        temp_put_text("shards/x.txt", "text");
        expect_failure(path, sm_tokens_open(path, SM_TOKENS_AUTO, 271, &tokens), wrong[i].status, wrong[i].message);
    }
}

// A folder's files for training and for validation, by their names.
TEST(sides_of_a_folder_are_found) {
    char path[SM_DATA_PATH_BYTES];
    static const char *const folders[] = {"si[d]es", "single"};
    for (int i = 0; i < 2; i++) {
        const char *folder = temp_path(folders[i]);
        assert_int_equal(mkdir(folder, 0777), 0);
        assert_false(sm_data_files_side(folder, "train", path));
        temp_put(textf(i == 0 ? "%s/web_train_1.bin" : "%s/train.bin", folders[i]), "\x05\1", 2);
        temp_put(textf(i == 0 ? "%s/web_val_0.bin" : "%s/val.bin", folders[i]), "\x06\1", 2);
        for (int side = 0; side < 2; side++) {
            SM_OWN(sm_tokens) *tokens = NULL;
            int32_t id;
            assert_true(sm_data_files_side(folder, side == 0 ? "train" : "val", path));
            expect_ok(path, sm_tokens_open(path, SM_TOKENS_AUTO, 65536, &tokens));
            assert_int_equal(sm_tokens_count(tokens), 1);
            expect_ok(path, sm_tokens_read(tokens, 0, 1, &id));
            assert_int_equal(id, 261 + side);
        }
    }
}

// The file is whole when it is opened, and not when a batch is read.
TEST(a_file_that_changes_is_an_error) {
    static uint8_t ids[2 * 30000];
    static int32_t inputs[20000], targets[20000];
    SM_OWN(sm_tokens) *tokens = open_file("changing.bin", ids, sizeof ids, SM_TOKENS_AUTO, 256);
    expect_ok("whole", sm_tokens_batch(tokens, 0, 1, 20000, inputs, targets));
    ids[2 * 19999 + 1] = 1; // token 19999 is 256
    const char *path = temp_put("changing.bin", ids, sizeof ids);
    sm_status status = sm_tokens_batch(tokens, 0, 1, 20000, inputs, targets);
    expect_failure("overwritten", status, SM_ERR_INVALID, "changing.bin: token 19999 |is 256|vocabulary of 256");
    expect_ok("before it", sm_tokens_batch(tokens, 0, 1, 19998, inputs, targets));
    assert_int_equal(truncate(path, 2 * 19000), 0);
    status = sm_tokens_batch(tokens, 0, 1, 19998, inputs, targets);
    expect_failure("truncated", status, SM_ERR_IO, "changing.bin: ends at byte 38000");
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
        SM_OWN(sm_tokens) *tokens = NULL;
        expect_ok("open", sm_tokens_from_bytes(text, (size_t)count, 256, &tokens));
        for (int B = 1; B <= 3; B++) {
            for (int T = 1; T <= 4 && B * T + 1 <= count; T++) {
                int start = 0;
                for (int i = 0; i < 50; i++) {
                    int32_t inputs[12], targets[12];
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
    }
}

TEST(batches_that_do_not_fit_are_refused) {
    static const uint8_t text[13] = {0};
    int32_t inputs[12], targets[12];
    const struct {
        const char *label;
        int64_t i, B, T;
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
