// exercise_folder.h: checks a folder of exercises.
#ifndef STEPMARK_CLI_LEARN_EXERCISE_FOLDER_H
#define STEPMARK_CLI_LEARN_EXERCISE_FOLDER_H

#include "cli/flags/options.h"

// Writes a row for each exercise: which of the files DIR/NAME.c and DIR/NAME.cl are right, and which exercise is next.
sm_status cli_exercise_progress(const cli_options *options);

#endif
