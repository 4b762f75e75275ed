// leaderboard_page.h: the leaderboard as a page: its table, the machines next to each other for each work, the refused
// rows.
#ifndef STEPMARK_LEADERBOARD_PAGE_H
#define STEPMARK_LEADERBOARD_PAGE_H

#include <jansson.h>
#include <stdio.h>

#include "status.h"

// Both as sm_leaderboard_make() gives them. Self-contained HTML.
sm_status sm_leaderboard_page(const json_t *records, const json_t *refused, FILE *out);

#endif
