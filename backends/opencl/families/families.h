// families.h: families of kernels that run on any device of their kind. Those of a vendor are in a folder of their own,
// and leave to these what their units cannot do.
//
//   local.c      cards: tiles in local memory
//   registers.c  processors, and all else: tiles in vector registers
//
//   try_attention.c  tries attention by matrix units
//   known_product.c  a product to try them with
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

// A device only for trying. It is to be closed also if it did not open.
bool opencl_open_to_try(const opencl_facts *facts, const opencl_family *family, opencl_device *d);
void opencl_close_tried(opencl_device *d);

// --- known_product.c -----------------------------------------------------------------------------

// C (M,N) = A B, with small whole numbers, exact in every format.
typedef struct {
    int M, N, K;
    sm_dtype dtype, b_dtype, c_dtype; // of A, B and C
    bool a_transposed, b_transposed;  // as they are stored
    bool has_bias;                    // is added to C
    float divisor;                    // of A B; 0: none
} opencl_known_product;

void opencl_put_operands(const opencl_known_product *p, unsigned char *a, unsigned char *b);
float opencl_known_b(int k, int n);
float opencl_known_bias(int n);
int opencl_count_wrong(const opencl_known_product *p, const void *c); // the numbers that are not exactly right
