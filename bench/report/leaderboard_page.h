// leaderboard_page.h: the leaderboard as a page: its table, the machines side by side for each work, what was refused.
#ifndef STEPMARK_LEADERBOARD_PAGE_H
#define STEPMARK_LEADERBOARD_PAGE_H

#include <jansson.h>
#include <stdio.h>

#include "status.h"

// Both as sm_leaderboard_make() gives them. Self-contained HTML.
sm_status sm_leaderboard_page(const json_t *records, const json_t *refused, FILE *out);

#endif
