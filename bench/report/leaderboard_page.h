// leaderboard_page.h: the leaderboard as a page: its table, charts of the machines for each work, the refused rows.
#ifndef STEPMARK_LEADERBOARD_PAGE_H
#define STEPMARK_LEADERBOARD_PAGE_H

#include <jansson.h>
#include <stdio.h>

#include "status.h"

// Both arrays as from sm_leaderboard_make(). Self-contained HTML.
sm_status sm_leaderboard_page(const json_t *records, const json_t *refused, FILE *out);

#endif
