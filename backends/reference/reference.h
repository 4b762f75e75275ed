// reference.h: the backend "reference" (reference.c), and its calls of the operations (ref.h).
#pragma once

#include "backends/host/memory.h"

extern const sm_backend sm_backend_reference;

// Runs one bound op of a plan in f32, or in f64 (reference/run.c). `scratch`: the doubles that it needs besides.
void ref_run_f32(const host_op *op, double *scratch);
void ref_run_f64(const host_op *op, double *scratch);

// reference/rounded.c: the same if data are narrower than f32, or products' operands are rounded to tf32. `room` has
// ref_rounded_elems() floats.
bool ref_is_rounded(const sm_plan *plan);
int64_t ref_rounded_elems(const host_op *op);
void ref_run_rounded(const host_op *op, sm_products products, double *scratch, float *room);
