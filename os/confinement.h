// confinement.h: irrevocably limits a process and all that it starts: its system calls (seccomp) and the files that it
// may use (Landlock).
#pragma once

#include <signal.h>
#include <stdbool.h>

// --- system calls ----------------------------------------------------------------------------------

// False: this system has no such filter. On Windows they limit none, but the first tells whether the process's rights
// are those of os_child_plan's is_strange.

// A row's warning about a user's code: if nothing confines it, and if nothing limits the files that it reads.
extern const char os_says_unconfined[], os_says_unlimited[];

// Allows computing, memory, time, reading files, output to stdout and stderr, and ending. Any other call raises SIGSYS.
bool os_filter_to_compute(void);

// Also allows threads, devices, files and compilers; not the network, other processes, or leaving the process group:
// those calls fail with EPERM.
bool os_filter_to_drive(void);

// Whether the address of a SIGSEGV or SIGBUS is known: not of one outside of the processor's range.
bool os_has_address(const siginfo_t *info);

// The system call of a SIGSYS, and a short description of it.
int os_filtered_call(const siginfo_t *info);
const char *os_call_name(int number, char text[32]);

// --- files -----------------------------------------------------------------------------------------

// Safe between fork and exec.

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
