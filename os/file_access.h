// file_access.h: irrevocably limits the files that a process and all that it starts may use (Landlock). Safe between
// fork and exec.
#ifndef STEPMARK_OS_FILE_ACCESS_H
#define STEPMARK_OS_FILE_ACCESS_H

#include <stdbool.h>

// Whether the system has Landlock; otherwise the functions below limit nothing.
bool os_file_access_is_limited(void);

typedef enum {
    OS_MAY_READ = 1,  // a file, or everything below a folder; including running it
    OS_MAY_WRITE = 2, // and make and remove files below it, except device nodes
} os_file_right;

// Rules that forbid all writing, and with `limits_reading` all reading, except what is then allowed. -1: no Landlock;
// the functions below accept it.
int os_file_access_open(bool limits_reading);

// Does nothing if the path does not exist.
void os_file_access_allow(int rules, const char *path, unsigned rights);

// Allows reading the system's programs and libraries, with what loading and compiling need.
void os_file_access_allow_system(int rules);

// Makes the rules effective, and closes them.
void os_file_access_limit(int rules);

#endif
