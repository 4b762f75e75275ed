// oom_kills.h: how often the kernel has killed a process of this machine for want of memory, so that a SIGKILL of its
// is told from others.
#ifndef STEPMARK_OOM_KILLS_H
#define STEPMARK_OOM_KILLS_H

#include <stdint.h>

// Since the machine's start; -1: this system does not say.
int64_t sm_oom_kills(void);

#endif
