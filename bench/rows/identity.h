// identity.h: the identity of a row: which work it did, how, and where. Each column of row_fields.h says to which part
// it belongs, and whoever asks for "the same work" or "what differs" asks here.
//
//   work   what is computed: pass type, length, accumulation, dropout, documents, the model's dimensions. Times of
//          different work mean nothing side by side
//   batch  sequences in a micro-batch: work where times are compared, free where tokens per second are
//   how    mode, own kernels, precision, optimizer, threads, loader
//   place  machine, device, isa, tier
//
// Build, time, data and seed are no part of it: they differ between any two files.
#pragma once

#include "bench/tables/table.h"

// X(code, name)
#define SM_IDENTITY_LIST(X)             \
    X(SM_IDENTITY_NONE, "none")         \
    X(SM_IDENTITY_WORK, "work")         \
    X(SM_IDENTITY_BATCH, "batch")       \
    X(SM_FACTOR_MACHINE, "machine")     \
    X(SM_FACTOR_DEVICE, "device")       \
    X(SM_FACTOR_ISA, "isa")             \
    X(SM_FACTOR_TIER, "tier")           \
    X(SM_FACTOR_MODE, "mode")           \
    X(SM_FACTOR_PRECISION, "precision") \
    X(SM_FACTOR_OPTIMIZER, "optimizer") \
    X(SM_FACTOR_THREADS, "threads")     \
    X(SM_FACTOR_LOADER, "loader")

typedef enum { SM_IDENTITY_LIST(SM_CODE) SM_IDENTITY_COUNT } sm_identity;

#define SM_PART(part) (1u << (part))
#define SM_SAME_WORK  (SM_PART(SM_IDENTITY_WORK) | SM_PART(SM_IDENTITY_BATCH))
#define SM_PLACE \
    (SM_PART(SM_FACTOR_MACHINE) | SM_PART(SM_FACTOR_DEVICE) | SM_PART(SM_FACTOR_ISA) | SM_PART(SM_FACTOR_TIER))
#define SM_FACTORS  (SM_PART(SM_IDENTITY_COUNT) - SM_PART(SM_FACTOR_MACHINE)) // how and place
#define SM_OWN_CODE SM_PART(SM_IDENTITY_COUNT) // whether the user's own code ran: for the two functions that take it

const char *sm_identity_name(sm_identity part);

// The factor (how, or place) of that name.
bool sm_factor_parse(const char *name, sm_identity *factor);

// The value of a row's column as text: equal numbers give equal texts, however they were written. "" if the row does
// not have it, unless its absence means a value: rows of before the column was added.
enum { SM_IDENTITY_VALUE_SIZE = 160 };
void sm_identity_value(const json_t *row, const sm_column *column, char text[SM_IDENTITY_VALUE_SIZE]);

// A total order of rows by these parts (bits SM_PART, SM_OWN_CODE): 0 if they agree, an absent value being one of its own.
int sm_identity_order(const json_t *a, const json_t *b, unsigned parts);

// The rows that count, in arrays of rows that agree in these parts, in the order of their first rows. The caller owns it.
json_t *sm_identity_groups(const json_t *rows, unsigned parts, bool (*counts)(const json_t *row));

// The parts in which two rows differ; rows of older versions and of other programs may lack columns of the work, of the
// batch, and some of the mode and the precision. A difference of the machine covers device, isa, tier and threads; one
// of the device the last three.
unsigned sm_identity_difference(const json_t *a, const json_t *b);

// The values of a row's columns as numbers: thousands of rows are compared with thousands by these.
enum { SM_IDENTITY_COLUMNS = 64 };
typedef struct {
    bool is_named; // it has no dimensions, and is compared by the model's name
    uint64_t values[SM_IDENTITY_COLUMNS];
} sm_identity_key;

void sm_identity_key_of(const json_t *row, sm_identity_key *key);

// sm_identity_difference of the rows; it ends with the first difference in one of the parts `ends`. *n_columns is the
// number of differing columns of the work and the batch; NULL is fine.
unsigned sm_identity_key_difference(const sm_identity_key *a, const sm_identity_key *b, unsigned ends, int *n_columns);

// These differences among `parts` as text, "n_batch 4 / 8, n_seq 64 / 128" or, of factors, "mode naive / fused"; only
// with A's values: "d_model 128, d_ff 512"; "" if there are none. Returns the number of differing columns.
int sm_identity_text(const json_t *a, const json_t *b, unsigned parts, bool with_b, char *text, size_t size_bytes);
