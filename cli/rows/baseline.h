// baseline.h: result files kept by name, for later comparisons: NAME.jsonl in
// $XDG_DATA_HOME/stepmark/baselines (~/.local/share/stepmark/baselines).
#ifndef STEPMARK_CLI_ROWS_BASELINE_H
#define STEPMARK_CLI_ROWS_BASELINE_H

#include <jansson.h>

#include "status.h"
#include "bench/rows/read_rows.h"

// A name has letters, digits, '.', '_' and '-', and does not begin with '.'; else SM_ERR_USAGE.
sm_status cli_baseline_check(const char *name);

// Writes the rows under a name; an older baseline of that name is replaced.
sm_status cli_baseline_save(const char *name, const json_t *rows);

// Reads a result file, or, where there is no file of that path, the baseline of that name.
sm_status cli_baseline_read(const char *path_or_name, sm_rows *rows);

// What was set aside while rows were read, a line each on stderr.
void cli_note_warnings(const sm_rows *rows);

#endif
