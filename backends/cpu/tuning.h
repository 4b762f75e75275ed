// tuning.h: mode tuned: who computes each matrix product, and how it is cut, chosen by measurement.
#ifndef STEPMARK_BACKENDS_CPU_TUNING_H
#define STEPMARK_BACKENDS_CPU_TUNING_H

#include "backends/cpu/cpu.h"

// Fills e->choices for the executable's plan, whose memory and scratch are there: from what is remembered
// (host/tuning.h), else by measuring and remembering. Sets e->base.tune_ns and e->base.tune_warning. SM_ERR_OOM
// only.
sm_status cpu_tune(cpu_device *device, cpu_executable *e);

#endif
