// call_filter.h: which system calls a process, and all that it starts, may still make (seccomp). For good: there is no
// way back. False: there is no such filter here.
#ifndef STEPMARK_OS_CALL_FILTER_H
#define STEPMARK_OS_CALL_FILTER_H

#include <signal.h>
#include <stdbool.h>

// Computing, memory, time, files to read, output to stdout and stderr, the end. Any other call raises SIGSYS.
bool os_filter_to_compute(void);

// Threads, devices, files and compilers, too; no network, no other processes, no way out of its group of processes:
// those fail with EPERM.
bool os_filter_to_drive(void);

// Of a SIGSYS: which call it was, and what that call does, in a word or two.
int os_filtered_call(const siginfo_t *info);
const char *os_call_name(int number, char text[32]);

#endif
