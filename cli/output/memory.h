// memory.h: what happens when memory is short where nobody could say so.
#ifndef STEPMARK_CLI_OUTPUT_MEMORY_H
#define STEPMARK_CLI_OUTPUT_MEMORY_H

#include "status.h"

// From now on JSON values are made or the program ends, with exit code 1 and a line that says how much was asked: many
// small values make a result, and one that is left out for lack of memory would look like one that is not known.
// Files that are replaced as a whole keep their old state.
void cli_memory_watch(void);

// SM_ERR_OOM where there is not even the memory that libraries take for granted: hwloc, which reads the machine's
// topology before anything large is allocated, crashes where one of its own allocations fails.
sm_status cli_memory_require(void);

#endif
