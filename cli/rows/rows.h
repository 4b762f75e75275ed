// rows.h: shared by the subcommands that compare rows.
#ifndef STEPMARK_CLI_ROWS_ROWS_H
#define STEPMARK_CLI_ROWS_ROWS_H

#include <jansson.h>

#include "status.h"
#include "bench/compare/compare.h"
#include "bench/rows/read_rows.h"
#include "cli/flags/options.h"

// --- baselines -----------------------------------------------------------------------------------

// Result files saved under a name, for later comparisons: NAME.jsonl in $XDG_DATA_HOME/stepmark/baselines
// (~/.local/share/stepmark/baselines).

// A name has letters, digits, '.', '_' and '-', and does not begin with '.'; otherwise SM_ERR_USAGE.
sm_status cli_baseline_check(const char *name);

// Saves the rows under a name; replaces an older baseline.
sm_status cli_baseline_save(const char *name, const json_t *rows);

// Reads a result file, or, if that path does not exist, the baseline with that name.
sm_status cli_baseline_read(const char *path_or_name, sm_rows *rows);

// Prints the warnings of reading rows, one line each, on stderr.
void cli_note_warnings(const sm_rows *rows);

// Reads all result files of the command line into initialised rows, and prints the warnings. first[i]: where the rows of
// file i begin; NULL: not asked for.
sm_status cli_rows_read(const cli_options *options, size_t *first, sm_rows *rows);

// --- two command lines in turn -------------------------------------------------------------------

// Command lines run in turn, so that a drift of the machine affects both. A command line is a `run` of this program
// ("run -m tiny"), or of another program with the same flags ("./old/stepmark run -m tiny"). Of every two pairs, one
// runs A first and the other B; the seed decides which.

typedef struct {
    int64_t n_pairs; // 0: 20, then up to 100 until a change of twice the threshold could be seen
    uint64_t seed;   // of the order
    const sm_compare_options *compare;
} cli_interleave_how;

// Each runs once unmeasured. If neither line sets the number of samples, a run then takes 7 to 100, as many as take
// about the time of starting it.
//
// Runs both, each in its own process, and appends their rows, each with its pair's number as `compare_pair`. Lines use
// quotes and backslashes as in a shell, but no substitution. SM_ERR_USAGE for a line that is no such command;
// SM_ERR_INTERRUPTED with the rows of all complete pairs.
sm_status cli_interleave(const char *line_a, const char *line_b, const cli_interleave_how *how, sm_rows *a, sm_rows *b);

// --- costs ---------------------------------------------------------------------------------------

// From --price and --train-tokens.
sm_status cli_costs(const cli_options *options, sm_costs *costs);

// --- recommendations -----------------------------------------------------------------------------

// Prints the recommendations from rows, for `report --best` and for the end of `run`; *n is their number.
sm_status cli_recommend_print(const json_t *rows, sm_format format, size_t *n);

// One sentence: the fastest, by how much, why, its cost (`costs` may be NULL). Returns its index; -1: there is no verdict.
// And the command that runs a row of a file again.
int cli_answer_print(const json_t *rows, const sm_costs *costs, FILE *out);
void cli_again_print(const char *path, size_t row);

#endif
