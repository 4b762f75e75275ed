// rungs.h: the ladders: for each op, its rungs from three loops up to the kernel that a step runs.
//
// A rung is a user's kernel (own_kernel.h): a short source in learn/ladder/rungs or cl/ladder, which the backend runs
// instead of its own. The last rung has no source: it is the backend's own kernel. OpenBLAS's product has none either;
// it is left out if the library is not installed.
#ifndef STEPMARK_LEARN_LADDER_RUNGS_H
#define STEPMARK_LEARN_LADDER_RUNGS_H

#include <stdio.h>

#include "own_kernel.h"

enum { SM_MOST_RUNGS = 8 }; // for a device

// Processors also run OpenCL, but have no separate local memory and few concurrent work-items: a change that helps
// cards may slow them down, and vice versa.
typedef enum {
    SM_RUNG_ANYWHERE,
    SM_RUNG_ON_CARDS,
    SM_RUNG_ON_PROCESSORS,
    SM_RUNG_BY_OPENBLAS // and not by the backend's own kernel
} sm_rung_place;

typedef struct {
    const char *name; // "blocked"; NULL ends the list
    const char *what; // the change, one line
    const char *file; // its source, "matmul_blocked.c"; NULL: the backend's own kernel
    sm_rung_place place;
} sm_rung;

typedef struct {
    const char *name;    // "matmul"
    const char *backend; // the backend that runs the kernels
    sm_op_kind kind;
    const char *shape;                // the default
    const char *card_shape;           // the default on a card, which needs more work; NULL: not for cards
    sm_rung rungs[SM_MOST_RUNGS + 1]; // for all devices
} sm_ladder;

int sm_ladder_count(void);
const sm_ladder *sm_ladder_at(int index);
const sm_ladder *sm_ladder_find(const char *name, const char *backend); // NULL: none
// The rungs for a device; their number.
int sm_ladder_rungs(const sm_ladder *ladder, bool on_card, const sm_rung *rungs[SM_MOST_RUNGS]);

// The kernel of a rung with a source, for a device with that instruction set.
sm_status sm_rung_kernel(const sm_ladder *ladder, const sm_rung *rung, const char *isa, sm_own_kernel *kernel);

// The source with that file name, embedded in the program. sm_ladder_print_text expands the ladder's includes: it writes a
// complete source. sm_ladder_text is for a file without includes, such as a .cl; NULL: no such file.
sm_status sm_ladder_print_text(const char *file, FILE *out);
const char *sm_ladder_text(const char *file);

#endif
