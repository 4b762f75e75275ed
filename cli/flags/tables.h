// tables.h: the tables that subcommands print, for `schema`.
#ifndef STEPMARK_CLI_FLAGS_TABLES_H
#define STEPMARK_CLI_FLAGS_TABLES_H

#include "bench/tables/record.h"

extern const sm_table cli_ablate_table;
extern const sm_table cli_devices_table;
extern const sm_table cli_estimate_table;
extern const sm_table cli_exercise_table;
extern const sm_table cli_ladder_table;
extern const sm_table cli_peaks_table;
extern const sm_table cli_verify_table;
extern const sm_table cli_walk_table; // of ops, in any format but json, whose object has them as "ops"

#endif
