// file_access.h: which files a process, and all that it starts, may still touch (Landlock). For good: there is no way
// back. Safe between fork and exec.
#ifndef STEPMARK_OS_FILE_ACCESS_H
#define STEPMARK_OS_FILE_ACCESS_H

#include <stdbool.h>

// Is there Landlock here? Without it nothing below limits anything.
bool os_file_access_is_limited(void);

typedef enum {
    OS_MAY_READ = 1,  // a file, or all below a folder; to run it, too
    OS_MAY_WRITE = 2, // and make and remove what lies below, but for device nodes
} os_file_right;

// Rules that refuse all writing, and with `limits_reading` all reading, but for what is then allowed. -1: there are
// none here, which the functions below take.
int os_file_access_open(bool limits_reading);

// Nothing happens where there is no such path.
void os_file_access_allow(int rules, const char *path, unsigned rights);

// Where programs and libraries of the system lie, with what loading and compiling needs: to read.
void os_file_access_allow_system(int rules);

// From now on; closes the rules.
void os_file_access_limit(int rules);

#endif
