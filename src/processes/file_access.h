// file_access.h: which files a process, and all that it starts, may still touch (Landlock). For good: there is no way
// back. Safe between fork and exec.
#ifndef STEPMARK_FILE_ACCESS_H
#define STEPMARK_FILE_ACCESS_H

#include <stdbool.h>

// Is there Landlock here? Without it nothing below limits anything.
bool sm_file_access_is_limited(void);

typedef enum {
    SM_MAY_READ = 1,  // a file, or all below a folder; to run it, too
    SM_MAY_WRITE = 2, // and make and remove what lies below, but for device nodes
} sm_file_right;

// Rules that refuse all writing, and with `limits_reading` all reading, but for what is then allowed. -1: there are
// none here, which the functions below take.
int sm_file_access_open(bool limits_reading);

// Nothing happens where there is no such path.
void sm_file_access_allow(int rules, const char *path, unsigned rights);

// Where programs and libraries of the system lie, with what loading and compiling needs: to read.
void sm_file_access_allow_system(int rules);

// From now on; closes the rules.
void sm_file_access_limit(int rules);

#endif
