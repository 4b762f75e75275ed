// write_trace.h: --trace FILE.
#ifndef STEPMARK_CLI_OUTPUT_WRITE_TRACE_H
#define STEPMARK_CLI_OUTPUT_WRITE_TRACE_H

#include <jansson.h>

#include "status.h"

sm_status cli_write_trace(const json_t *trace, const char *path);

#endif
