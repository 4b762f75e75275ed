// compare_match.h: decides which rows of two sets may be compared.
//
// The configuration of a row has two parts.
//   work     what is computed: pass type, batch, length, accumulation, the model's dimensions.
//            It must be the same on both sides, or times mean nothing side by side
//   factors  how and where: what a comparison is about. X-list below
//
// Rows of one side with the same work and factors are runs of one configuration. A difference in
// `machine` carries device, isa, tier and threads with it, one in `device` the last three.
// Build, time and seed are no factors: they are what differs between any two files.
#ifndef STEPMARK_COMPARE_MATCH_H
#define STEPMARK_COMPARE_MATCH_H

#include "status.h"
#include "bench/tables/json_values.h"

#include <stdbool.h>
#include <stddef.h>

// X(code, name)
#define SM_FACTOR_LIST(X)               \
    X(SM_FACTOR_MACHINE, "machine")     \
    X(SM_FACTOR_DEVICE, "device")       \
    X(SM_FACTOR_ISA, "isa")             \
    X(SM_FACTOR_TIER, "tier")           \
    X(SM_FACTOR_MODE, "mode")           \
    X(SM_FACTOR_PRECISION, "precision") \
    X(SM_FACTOR_THREADS, "threads")     \
    X(SM_FACTOR_LOADER, "loader")

typedef enum {
#define X(code, name) code,
    SM_FACTOR_LIST(X)
#undef X
        SM_FACTOR_COUNT
} sm_factor;

const char *sm_factor_name(sm_factor factor);
bool sm_factor_parse(const char *name, sm_factor *factor);

// The runs of one configuration on one side.
typedef struct {
    const json_t **rows; // borrowed, in the order of the file
    size_t n_rows;
    size_t n_usable; // number of rows with figures, which come first; the rest failed
    bool is_matched;
} sm_run_group;

typedef struct {
    sm_run_group *groups;
    size_t n;
} sm_run_groups;

sm_status sm_group_rows(const json_t *rows, sm_run_groups *groups);
void sm_run_groups_free(sm_run_groups *groups);

// Whether a row has a time to compare.
bool sm_row_is_usable(const json_t *row);

// Fields of the work that both rows have and that differ, as "n_batch 4 / 8, n_seq 64 / 128"; "" if the work is the
// same.
void sm_work_difference(const json_t *a, const json_t *b, char *text, size_t size_bytes);

// The number of these fields; 0: the same work.
int sm_work_distance(const json_t *a, const json_t *b);

// Bits 1 << sm_factor, and the same as text: "mode naive / fused".
unsigned sm_factor_difference(const json_t *a, const json_t *b);
void sm_factor_text(const json_t *a, const json_t *b, char *text, size_t size_bytes);

// Two groups of the same work.
typedef struct {
    sm_run_group *a, *b;
    unsigned differs; // factors that differ
    int n_fewest;     // the fewest factors in which any group of B with this work differs from `a`; only for any_factor
} sm_match;

typedef struct {
    sm_match *matches;
    size_t n;
} sm_matches;

// Finds the matches to compare: with `any_factor`, for each group of A the groups of B that differ in the fewest
// factors; with `across` (bits), those that differ only in some of these; otherwise those that do not differ, or, if
// there are none, those that differ in one factor, which must be the same for all (SM_ERR_USAGE). The caller frees
// m->matches, also after a failure.
sm_status sm_find_matches(sm_run_groups *a, sm_run_groups *b, unsigned across, bool any_factor, sm_matches *m);

#endif
