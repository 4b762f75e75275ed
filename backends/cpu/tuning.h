// tuning.h: mode tuned: chooses the implementation and blocking of each matmul by measurement.
#ifndef STEPMARK_BACKENDS_CPU_TUNING_H
#define STEPMARK_BACKENDS_CPU_TUNING_H

#include "backends/cpu/cpu.h"

// Fills e->choices for the executable's plan, whose memory and scratch exist: from the cache (host/tuning.h), otherwise
// by measuring. Sets e->base.tune_ns and e->base.tune_warning. SM_ERR_OOM only.
sm_status cpu_tune(cpu_device *device, cpu_executable *e);

#endif
