// call_filter.h: irrevocably limits the system calls of a process and all that it starts (seccomp). False: this system
// has no such filter. On Windows it limits none, but tells whether the process's rights are those of os_child_plan's
// is_strange.
#ifndef STEPMARK_OS_CALL_FILTER_H
#define STEPMARK_OS_CALL_FILTER_H

#include <signal.h>
#include <stdbool.h>

// What a row says of code of a user's: where nothing confines it, and where nothing limits the files that it reads.
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

#endif
