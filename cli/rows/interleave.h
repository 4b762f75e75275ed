// interleave.h: two command lines run in turn, so that a drift of the machine meets both.
//
// A command line is a `run` of this program ("run -m tiny"), or another program that takes the same
// flags ("./old/stepmark run -m tiny"). Of each two pairs, one runs A first and the other B; the
// seed says which.
#ifndef STEPMARK_CLI_ROWS_INTERLEAVE_H
#define STEPMARK_CLI_ROWS_INTERLEAVE_H

#include <stdint.h>

#include "status.h"
#include "bench/compare/compare.h"
#include "bench/rows/read_rows.h"

typedef struct {
    int64_t n_pairs; // 0: 20, and up to 100 while a change of twice the threshold could not have been seen
    uint64_t seed;   // of the order
    const sm_compare_options *compare;
} cli_interleave_how;

// Each is run once unmeasured. A run then takes as many samples as fit into the time that it needs beside them, 7 to
// 100, where neither line says how many.
//
// Runs both, each in a process of its own, and appends their rows, each with its pair's number as `compare_pair`. The
// two are as they were typed: quotes and backslashes as in a shell, no substitution. SM_ERR_USAGE for a line that is no
// such command; SM_ERR_INTERRUPTED with the rows of all pairs that are whole.
sm_status cli_interleave(const char *line_a, const char *line_b, const cli_interleave_how *how, sm_rows *a, sm_rows *b);

#endif
