// families.h: families of kernels that run on any device of their kind. A vendor's stand in a folder of their own, and
// have these do what their units cannot.
//
//   local.c      cards: tiles in local memory
//   registers.c  processors, and all else: tiles in vector registers
#ifndef STEPMARK_BACKENDS_OPENCL_FAMILIES_FAMILIES_H
#define STEPMARK_BACKENDS_OPENCL_FAMILIES_FAMILIES_H

#include "backends/opencl/binders/family.h"

extern const opencl_family opencl_family_local;
extern const opencl_family opencl_family_registers;

#endif
