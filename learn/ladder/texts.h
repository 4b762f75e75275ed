// texts.h: the sources of the rungs, embedded in the program.
#ifndef STEPMARK_LEARN_LADDER_TEXTS_H
#define STEPMARK_LEARN_LADDER_TEXTS_H

#include <stdio.h>

#include "status.h"

// Writes the file with that name, with the ladder's includes expanded: a complete source.
sm_status sm_ladder_print_text(const char *file, FILE *out);

// The text of a file without includes, such as a .cl; NULL: no such file.
const char *sm_ladder_text(const char *file);

#endif
