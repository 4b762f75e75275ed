// cli_walk_print.h: one op of a walk, as text or as a record.
#ifndef STEPMARK_CLI_WALK_PRINT_H
#define STEPMARK_CLI_WALK_PRINT_H

#include "cli_walk_values.h"
#include "record.h"

// What an op did to its outputs: one summary an output, in the order of op->out. `has` is false
// where values were not asked for.
typedef struct {
    bool has;
    cli_walk_summary outputs[SM_MAX_OUT];
} cli_walk_op_values;

void cli_walk_print_op(const sm_plan *plan, int index, const cli_walk_op_values *values);

// The record of an op, a row of this table. NULL when out of memory.
extern const sm_table cli_walk_table;
json_t *cli_walk_op_record(const sm_plan *plan, int index, const cli_walk_op_values *values);

#endif
