// families.h: families of kernels that run on any device of their kind. Those of a vendor are in a folder of their own,
// and leave to these what their units cannot do.
//
//   local.c      cards: tiles in local memory
//   registers.c  processors, and all else: tiles in vector registers
//
//   try_attention.c  tries attention by matrix units
#pragma once

#include "backends/opencl/binders/family.h"

extern const opencl_family opencl_family_local;
extern const opencl_family opencl_family_registers;

// --- try_attention.c -----------------------------------------------------------------------------

// A kernel of attention on matrix units: a work-group's items, and its rows or keys. The caller releases the kernel.
typedef struct {
    cl_kernel kernel;
    size_t items;
    int own;
    bool is_apart; // as many groups again, along the second dimension, compute dk, and the others only dv
    cl_mem maps;   // an argument more, after those of all; NULL: none. The caller releases it, too
} opencl_attention_kernel;

// The example that a kernel is tried with.
typedef struct {
    sm_dtype dtype;
    int64_t T, qkv_cols, y_cols;
    cl_mem qkv, dy;
} opencl_attention_example;
typedef sm_status (*opencl_find_attention)(opencl_device *device, const void *of, const opencl_attention_example *x,
                                           int HS, int part, opencl_attention_kernel *kernel);

// Runs a small example, both ways, with the kernels from `find`: "" if its numbers are right, otherwise the error.
void opencl_try_attention(opencl_device *device, sm_dtype dtype, int HS, opencl_find_attention find, const void *of,
                          char *trouble, size_t size_bytes);

cl_mem opencl_make_buffer(opencl_device *d, size_t n_bytes, const void *from); // NULL: it could not be made
