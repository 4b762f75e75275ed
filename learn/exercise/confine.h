// confine.h: the rights of a process that runs a student's kernel. For good: there is no way back.
#ifndef STEPMARK_LEARN_EXERCISE_CONFINE_H
#define STEPMARK_LEARN_EXERCISE_CONFINE_H

#include <stdbool.h>

// Computes, has memory and time, opens files to read, writes to stdout and stderr, ends. Any other system call raises
// SIGSYS. Where the system has Landlock it reads only what is the system's own, and the folder of its library. False:
// this system has no such filter.
bool sm_confine_kernel(const char *library);

// What an OpenCL driver needs, too: threads, compilers, devices that compute, files. Its caches and temporary files,
// and ours, lie in that folder from now on: empty ones. No network, no other processes, no way out of its group of
// processes; where the system has Landlock, it writes nowhere else. False: as above.
bool sm_confine_driver(const char *folder);

#endif
