// write_page.h: a page is written whole or not at all.
#ifndef STEPMARK_CLI_OUTPUT_WRITE_PAGE_H
#define STEPMARK_CLI_OUTPUT_WRITE_PAGE_H

#include <stdio.h>

#include "status.h"

typedef sm_status (*cli_page_function)(void *what, FILE *out);

// To the file, with a note that says how large it is, after `before` ("12 rows, "; ""); NULL: to stdout.
sm_status cli_write_page(const char *path, cli_page_function write, void *what, const char *before);

#endif
