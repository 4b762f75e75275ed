// rows.h: what the subcommands that compare rows share.
#ifndef STEPMARK_CLI_ROWS_ROWS_H
#define STEPMARK_CLI_ROWS_ROWS_H

#include <jansson.h>
#include <stdint.h>

#include "status.h"
#include "bench/compare/compare.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/record.h"

// --- baselines -----------------------------------------------------------------------------------

// Result files kept by name, for later comparisons: NAME.jsonl in $XDG_DATA_HOME/stepmark/baselines
// (~/.local/share/stepmark/baselines).

// A name has letters, digits, '.', '_' and '-', and does not begin with '.'; else SM_ERR_USAGE.
sm_status cli_baseline_check(const char *name);

// Writes the rows under a name; an older baseline of that name is replaced.
sm_status cli_baseline_save(const char *name, const json_t *rows);

// Reads a result file, or, where there is no file of that path, the baseline of that name.
sm_status cli_baseline_read(const char *path_or_name, sm_rows *rows);

// What was set aside while rows were read, a line each on stderr.
void cli_note_warnings(const sm_rows *rows);

// --- two command lines in turn -------------------------------------------------------------------

// Run in turn, a drift of the machine meets both. A command line is a `run` of this program ("run -m tiny"), or another
// program that takes the same flags ("./old/stepmark run -m tiny"). In every two pairs, one runs A first and the other
// B; the seed says which.

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

// --- recommendations -----------------------------------------------------------------------------

// Prints what the rows advise in a format, for `recommend` and for the end of a sweep; *n is the number of
// recommendations.
sm_status cli_recommend_print(const json_t *rows, sm_format format, size_t *n);

#endif
