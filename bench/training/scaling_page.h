// scaling_page.h: scaling tables as a page with pictures.
#ifndef STEPMARK_SCALING_PAGE_H
#define STEPMARK_SCALING_PAGE_H

#include "scaling.h"

// Self-contained HTML. Without gnuplot it has the tables alone, says so, and *has_pictures is false.
sm_status sm_scaling_page(const sm_scaling *scaling, FILE *out, bool *has_pictures);

#endif
