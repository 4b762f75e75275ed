// binders.h: what the files that launch ops share (bind*.c). A binder launches one kind of op.
#ifndef STEPMARK_BACKENDS_OPENCL_BIND_BINDERS_H
#define STEPMARK_BACKENDS_OPENCL_BIND_BINDERS_H

#include "backends/opencl/bind/bind.h"

// The op's operand at that place of the table of op kinds.
static inline const sm_tensor *in(const opencl_binder *b, int i) { return &b->e->base.plan->tensors[b->op->in[i]]; }
static inline const sm_tensor *out(const opencl_binder *b, int i) { return &b->e->base.plan->tensors[b->op->out[i]]; }

static inline void arg_in(opencl_binder *b, int i) { opencl_arg_tensor(b, b->op->in[i]); }
static inline void arg_out(opencl_binder *b, int i) { opencl_arg_tensor(b, b->op->out[i]); }
static inline void arg_count(opencl_binder *b, int64_t n) { opencl_arg_ulong(b, (uint64_t)n); }

void opencl_arg_operands(opencl_binder *b);         // every operand that is not optional, in the table's order
void opencl_arg_copy(opencl_binder *b, int output); // what products read of a parameter: is there one, and where

// Begins a launch of a kernel that walks rows of row_elems elements; 0: it walks none.
void opencl_begin_rows(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems);
// The same, where items keep their vecs of a row in registers, unless there are too many.
void opencl_begin_short(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems);
void opencl_begin_kept(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems);

// An op on n elements each of its operands; one on a row alone: the length of the first operand, then the operands.
void opencl_launch_elements(opencl_binder *b, const char *stem, const char *kernel);
void opencl_launch_one_row(opencl_binder *b, const char *stem, const char *kernel, bool by_vecs);

enum { STRIP_LANES = 8, SUM_LANES = 64 }; // of a work-group on cards, where rows or strips are summed up

// Strips of rows that a sum over N rows of C columns is cut into, those that items walk whole, and a strip's rows.
int64_t opencl_count_strips(const opencl_device *device, const sm_plan *plan, int64_t N, int64_t C);
int64_t opencl_count_row_strips(const opencl_device *device, int64_t N);
int64_t opencl_strip_rows(int64_t N, int64_t n_strips);

// --- bind/product.c -------------------------------------------------------------------------------

opencl_product opencl_describe_product(const sm_plan *plan, const sm_op *op);
opencl_attention opencl_describe_attention(const sm_plan *plan, const sm_op *op);
void opencl_bind_matmul(opencl_binder *b);
void opencl_bind_attention(opencl_binder *b);

// --- bind/optimizer.c -----------------------------------------------------------------------------

int64_t opencl_count_norm_parts(const opencl_device *device); // that a sum of squares is cut into
void opencl_bind_adamw(opencl_binder *b);
void opencl_bind_adam(opencl_binder *b);
void opencl_bind_sgd(opencl_binder *b);
void opencl_bind_lion(opencl_binder *b);
void opencl_bind_adamw8bit(opencl_binder *b);
void opencl_bind_muon_momentum(opencl_binder *b);
void opencl_bind_normalize(opencl_binder *b);
void opencl_bind_combine(opencl_binder *b);
void opencl_bind_muon_update(opencl_binder *b);
void opencl_bind_adafactor(opencl_binder *b);
void opencl_bind_adafactor_vector(opencl_binder *b);
void opencl_bind_grad_clip(opencl_binder *b);
void opencl_bind_scaler_update(opencl_binder *b);
void opencl_bind_grad_sqnorm(opencl_binder *b);

#endif
