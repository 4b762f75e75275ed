// texts.h: the sources of the rungs, as they were when the program was built.
#ifndef STEPMARK_LEARN_LADDER_TEXTS_H
#define STEPMARK_LEARN_LADDER_TEXTS_H

#include <stdio.h>

#include "status.h"

// Writes the file of that name, with the files of the ladder that it includes in their places: a source that stands
// alone.
sm_status sm_ladder_print_text(const char *file, FILE *out);

// The whole text of a file that includes no other, as a .cl; NULL: there is none of that name.
const char *sm_ladder_text(const char *file);

#endif
