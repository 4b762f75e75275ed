// rows.h: shared by the subcommands that compare rows.
#pragma once

#include "bench/compare/compare.h"
#include "cli/flags/options.h"

// Result files saved under a name, for later comparisons: NAME.jsonl in $XDG_DATA_HOME/stepmark/baselines
// (~/.local/share/stepmark/baselines). A name has letters, digits, '.', '_' and '-', and does not begin with '.'.
//
// Reads a result file, or, if that path does not exist, the baseline with that name.
sm_status cli_baseline_read(const char *path_or_name, sm_rows *rows);

// Prints the warnings of reading rows, one line each, on stderr.
void cli_note_warnings(const sm_rows *rows);

// Reads all result files of the command line, and prints warnings. first[i]: where file i's rows begin; or NULL.
sm_status cli_rows_read(const cli_options *options, size_t *first, sm_rows *rows);

// Prints the recommendations from rows, for `report --best` and for the end of `run`; *n is their number.
sm_status cli_recommend_print(const json_t *rows, sm_format format, size_t *n);

// One sentence: the fastest, by how much, why, its cost (`costs` may be NULL). Returns its index; -1: there is no
// verdict. And the command that runs a row of a file again.
int cli_answer_print(const json_t *rows, const sm_costs *costs, sm_format format, FILE *out);
void cli_again_print(const char *path, size_t row);
