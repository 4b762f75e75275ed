// confine.h: irrevocably limits the rights of a process that runs a student's kernel.
#ifndef STEPMARK_LEARN_OWN_KERNELS_CONFINE_H
#define STEPMARK_LEARN_OWN_KERNELS_CONFINE_H

#include <stdbool.h>

// Allows computing, memory, time, reading files, writing to stdout and stderr, and ending. Any other system call raises
// SIGSYS. With Landlock it reads only the system's files, and the folders of its libraries. For the calling thread.
// False: this system has no such filter.
bool sm_confine_kernel(char *const *libraries, int n);

// Also allows what an OpenCL driver needs: threads, compilers, computing devices, files. Caches and temporary files are
// moved to empty folders in `folder`. No network, no other processes, no leaving the process group; with Landlock it
// writes nowhere else. False: as above.
bool sm_confine_driver(const char *folder);

#endif
