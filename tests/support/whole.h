// whole.h: how much of a test runs, where it takes long, and the rows of verifications, counted.
#pragma once

#include "src/verify/verify.h"

// The long tests (make torture) run everything.
static inline bool runs_all(void) { return getenv("STEPMARK_TEST_ALL") != NULL; }

// Sanitizers make arithmetic slow: what only repeats a path with other numbers runs without them.
static inline bool repeats_paths(void) {
#ifdef __SANITIZE_ADDRESS__
    return runs_all();
#else
    return true;
#endif
}

typedef struct {
    int n_rows, n_skipped, n_failed;
} tally;

static inline void count_row(const sm_verify_row *row, void *context) {
    tally *t = context;
    t->n_rows++;
    t->n_skipped += row->skipped;
    t->n_failed += !row->ok;
}

static inline void show_row(const sm_verify_row *row, void *context) {
    count_row(row, context);
    if (!row->ok || row->skipped) {
        print_message("%s %s: error %.2e, tolerance %.2e %s\n", row->check, row->subject, row->error, row->tolerance,
                      row->reason);
    }
}
