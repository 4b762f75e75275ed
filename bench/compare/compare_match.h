// compare_match.h: decides which rows of two sets may be compared.
//
// They must have done the same work; how and where (the factors of bench/rows/identity.h) is what a comparison is about.
// Rows of one side with the same work and factors are runs of one configuration.
#ifndef STEPMARK_COMPARE_MATCH_H
#define STEPMARK_COMPARE_MATCH_H

#include "status.h"
#include "bench/rows/identity.h"

#include <stdbool.h>
#include <stddef.h>

// The runs of one configuration on one side.
typedef struct {
    const json_t **rows; // borrowed, in the order of the file
    size_t n_rows;
    size_t n_usable; // number of rows with figures, which come first; the rest failed
    bool is_matched;
    sm_identity_key key;
} sm_run_group;

typedef struct {
    sm_run_group *groups;
    size_t n;
} sm_run_groups;

void sm_group_rows(const json_t *rows, sm_run_groups *groups);
void sm_run_groups_free(sm_run_groups *groups);

// Whether a row has a time to compare.
bool sm_row_is_usable(const json_t *row);

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
