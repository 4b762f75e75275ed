// scaling_page.h: scaling tables as a page with pictures.
#ifndef STEPMARK_BENCH_RUNS_SCALING_PAGE_H
#define STEPMARK_BENCH_RUNS_SCALING_PAGE_H

#include "bench/runs/scaling.h"

// Self-contained HTML.
sm_status sm_scaling_page(const sm_scaling *scaling, FILE *out);

#endif
