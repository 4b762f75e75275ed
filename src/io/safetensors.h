// safetensors.h: tensors in a file, in the format of Hugging Face's safetensors:
//
//     8 bytes    N, the header's length, little-endian
//     N bytes    JSON: {"NAME": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...}
//                and optionally "__metadata__": {"KEY": "VALUE", ...}; spaces pad it at the end
//     the rest   the data; offsets count from its beginning, values are little-endian, row-major
//
// The reader opens a file only if the header is well-formed, every name is unique, every tensor has exactly the bytes
// that its shape and dtype need, and the tensors cover the data without overlap or gap.
#pragma once

#include "src/io/file_digest.h"

// The dtypes of the format. X(code, name, bits)
#define SM_SAFETENSORS_DTYPE_LIST(X)       \
    X(SM_ST_BOOL, "BOOL", 8)               \
    X(SM_ST_U8, "U8", 8)                   \
    X(SM_ST_I8, "I8", 8)                   \
    X(SM_ST_F4, "F4", 4)                   \
    X(SM_ST_F6_E2M3, "F6_E2M3", 6)         \
    X(SM_ST_F6_E3M2, "F6_E3M2", 6)         \
    X(SM_ST_F8_E4M3, "F8_E4M3", 8)         \
    X(SM_ST_F8_E5M2, "F8_E5M2", 8)         \
    X(SM_ST_F8_E8M0, "F8_E8M0", 8)         \
    X(SM_ST_F8_E4M3FNUZ, "F8_E4M3FNUZ", 8) \
    X(SM_ST_F8_E5M2FNUZ, "F8_E5M2FNUZ", 8) \
    X(SM_ST_U16, "U16", 16)                \
    X(SM_ST_I16, "I16", 16)                \
    X(SM_ST_F16, "F16", 16)                \
    X(SM_ST_BF16, "BF16", 16)              \
    X(SM_ST_U32, "U32", 32)                \
    X(SM_ST_I32, "I32", 32)                \
    X(SM_ST_F32, "F32", 32)                \
    X(SM_ST_U64, "U64", 64)                \
    X(SM_ST_I64, "I64", 64)                \
    X(SM_ST_F64, "F64", 64)                \
    X(SM_ST_C64, "C64", 64)

typedef enum { SM_SAFETENSORS_DTYPE_LIST(SM_CODE) SM_ST_DTYPE_COUNT } sm_safetensors_dtype;

const char *sm_safetensors_dtype_name(sm_safetensors_dtype dtype);

// F16, BF16, F32 or F64.
bool sm_safetensors_is_float(sm_safetensors_dtype dtype);

enum { SM_SAFETENSORS_MAX_DIMS = 8, SM_SAFETENSORS_MAX_NAME = 255 };

typedef struct {
    const char *name; // printable: names with control characters are refused
    sm_safetensors_dtype dtype;
    int n_dims; // 0: a scalar
    int64_t dims[SM_SAFETENSORS_MAX_DIMS];
    int64_t n_elems;
    int64_t begin_bytes; // offsets within the data
    int64_t end_bytes;
    int part; // of a model in several files: which one
} sm_safetensors_entry;

typedef struct sm_safetensors sm_safetensors;

// Opens and checks a file. SM_ERR_IO, or SM_ERR_FORMAT with the tensor and its error.
sm_status sm_safetensors_open(const char *path, sm_safetensors **file);
void sm_safetensors_close(sm_safetensors *file); // NULL is fine
SM_OWNABLE(sm_safetensors, sm_safetensors_close)

// Opens the files that an index, model.safetensors.index.json, lists as its "weight_map": {"NAME": "FILE", ...}, as
// one; they are in its folder. SM_ERR_FORMAT also names a file elsewhere, and a tensor that a file lacks.
sm_status sm_safetensors_open_index(const char *path, sm_safetensors **file);

const char *sm_safetensors_name(const sm_safetensors *file); // the path that was opened

// The paths of the *n files that hold the tensors: one, or those of the index in the order of their names.
char *const *sm_safetensors_paths(const sm_safetensors *file, int *n);

int sm_safetensors_count(const sm_safetensors *file);
const sm_safetensors_entry *sm_safetensors_at(const sm_safetensors *file, int index); // in the header's order

// A value of "__metadata__"; NULL if the key is absent.
const char *sm_safetensors_metadata(const sm_safetensors *file, const char *key);

// Reads a floating tensor, or one of U8, into entry->n_elems floats; F64 is rounded. SM_ERR_UNSUPPORTED: other dtypes.
sm_status sm_safetensors_read(const sm_safetensors *file, const sm_safetensors_entry *entry, float *values);

// The contents of a file to write: tensors in this order.
typedef struct {
    const char *name;
    int n_dims;
    int64_t dims[SM_SAFETENSORS_MAX_DIMS];
} sm_safetensors_spec;

typedef struct {
    const char *key;
    const char *value;
} sm_safetensors_pair;

typedef struct sm_safetensors_writer sm_safetensors_writer;

// Starts a file: writes the header, with {"format": "pt"} (which transformers requires) and the given pairs as
// metadata, through atomic_file.h. The first n_floats tensors are F32, the others U8.
// `digest` (SM_FILE_DIGEST_SIZE, may be NULL) receives the digest of the finished file.
sm_status sm_safetensors_create(const char *path, const sm_safetensors_spec *specs, int n_specs, int n_floats,
                                const sm_safetensors_pair *metadata, int n_metadata, char *digest,
                                sm_safetensors_writer **writer);

// Appends the next n_elems floats of the data; tensors follow one another in order.
sm_status sm_safetensors_append(sm_safetensors_writer *writer, const float *values, int64_t n_elems);
sm_status sm_safetensors_append_bytes(sm_safetensors_writer *writer, const void *bytes, int64_t size_bytes);

// Completes the file; every element must have been written.
sm_status sm_safetensors_finish(sm_safetensors_writer *writer);

void sm_safetensors_end(sm_safetensors_writer *writer); // an unfinished file leaves nothing; NULL is fine
SM_OWNABLE(sm_safetensors_writer, sm_safetensors_end)
