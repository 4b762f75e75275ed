// data_format.h: what a data file is. Every reader of data asks here, and nothing is read by a guess.
//
//     text     UTF-8; without a tokenizer each byte is an id
//     jsonl    a JSON object on each line, {"text": ...}: each a document (data_files.h)
//     bytes    any file; each byte is an id
//     uint16, uint32, int64    little-endian ids of that width, nothing else (nanoGPT's .bin has 16 bits)
//     llmc     ids after llm.c's header (tokens.h)
//     npy      an array of whole numbers that NumPy saved (.npy)
//     auto     what the first bytes show: llmc, npy, jsonl or text; uint16 only if the name ends in .bin, too, since
//              raw ids have no beginning of their own. All else is refused by its name, with what to do
#pragma once

#include "status.h"

#define SM_END_OF_TEXT "<|endoftext|>" // the separator of documents, if the vocabulary has it

// X(code, name)
#define SM_TOKENS_FORMAT_LIST(X)  \
    X(SM_TOKENS_AUTO, "auto")     \
    X(SM_TOKENS_TEXT, "text")     \
    X(SM_TOKENS_JSONL, "jsonl")   \
    X(SM_TOKENS_BYTES, "bytes")   \
    X(SM_TOKENS_UINT16, "uint16") \
    X(SM_TOKENS_UINT32, "uint32") \
    X(SM_TOKENS_INT64, "int64")   \
    X(SM_TOKENS_LLMC, "llmc")     \
    X(SM_TOKENS_NPY, "npy")

typedef enum { SM_TOKENS_FORMAT_LIST(SM_CODE) } sm_tokens_format;

const char *sm_tokens_format_name(sm_tokens_format format);

// Whether it holds ids, not text.
static inline bool sm_tokens_format_has_ids(sm_tokens_format format) { return format > SM_TOKENS_BYTES; }

// How ids lie in a file.
typedef struct {
    int64_t offset_bytes; // of the first
    int64_t count;
    int64_t id_bytes; // 1, 2, 4 or 8
    bool is_signed, is_big_endian;
} sm_id_layout;

enum { SM_DATA_HEAD_BYTES = 1 << 16 };

// Finds the format of a file from its first n bytes: SM_DATA_HEAD_BYTES, or all. `asked` is what its user says that it
// is. SM_ERR_FORMAT names what it is instead; SM_ERR_UNSUPPORTED: JSON of another form.
sm_status sm_data_format_find(const char *path, const uint8_t *head, size_t n, int64_t size_bytes,
                              sm_tokens_format asked, sm_tokens_format *format);

// llm.c's header of 256 32-bit words: magic number, version, the count as two words, low one first, zeros. 20240520,
// version 1: 16-bit ids; 20240801, version 7: 32-bit ids.
enum { SM_LLMC_HEADER_BYTES = 256 * 4 };
sm_status sm_llmc_parse(const char *path, const uint8_t *head, size_t n, int64_t size_bytes, sm_id_layout *layout);
void sm_llmc_header(int64_t id_bytes, int64_t count, uint8_t header[SM_LLMC_HEADER_BYTES]);

// NumPy's header, a Python dict with type, order and shape, in the first n bytes: whole numbers of any width and byte
// order, in C's order, of any shape. SM_ERR_UNSUPPORTED names another type or order; SM_ERR_FORMAT: malformed, or of
// another size than its shape.
bool sm_npy_begins(const uint8_t *head, size_t n);
sm_status sm_npy_parse(const char *path, const uint8_t *head, size_t n, int64_t size_bytes, sm_id_layout *layout);
