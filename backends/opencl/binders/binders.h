// binders.h: from an op of a plan to launches. A binder launches one kind of op; products and attention by the device's
// family of kernels.
//
//   bind.c       the table of binders, the model's ops
//   optimizer.c  the optimizer range's
//   product.c    describes products and attention to the family
//   choice.c     which of a family's ways computes a product
//   own.c        a user's kernels in the place of these
#pragma once

#include "backends/opencl/binders/family.h"

// --- bind.c --------------------------------------------------------------------------------------

// Op i of the plan, and at n_ops + i the op that later micro-batches of a step run instead. False: nothing to bind.
bool opencl_op_at(const sm_plan *plan, int i, sm_op *op);

// Elements of scratch that the op needs, of a product in its way, or in any that may be chosen for it.
size_t opencl_op_scratch_elems(const opencl_device *device, const sm_plan *plan, const sm_op *op, bool in_any_way);

// Appends the op's launches to the executable's.
sm_status opencl_bind_op(opencl_executable *e, const sm_op *op);

sm_status opencl_op_supported(const opencl_device *device, const sm_plan *plan, const sm_op *op);

// --- own.c ---------------------------------------------------------------------------------------

void opencl_take_own(opencl_device *device, const sm_open_options *options);
void opencl_bind_own(opencl_binder *b);

// --- choice.c ------------------------------------------------------------------------------------

enum { OPENCL_PRODUCT_NAME_SIZE = 128, OPENCL_WAY_SIZE = 64, OPENCL_MOST_WAYS = 64 };

void opencl_name_product(const opencl_product *p,
                         char name[OPENCL_PRODUCT_NAME_SIZE]); // form, shape, epilogue

// The family's way to compute a product of this plan: 0, unless the plan is tuned and another was chosen.
int opencl_way(const opencl_device *device, const sm_plan *plan, const opencl_product *product);
void opencl_add_choice(opencl_device *device, const char *name, int way);

// --- product.c -----------------------------------------------------------------------------------

// Whether the op is a matmul, and its description.
bool opencl_is_product(const sm_plan *plan, const sm_op *op, opencl_product *product);
opencl_product opencl_describe_product(const sm_plan *plan, const sm_op *op);
// Whether launches of their own sum the columns of one of its tensors.
bool opencl_sums_beside(const opencl_device *device, const opencl_product *product);
opencl_attention opencl_describe_attention(const sm_plan *plan, const sm_op *op);
// Whether the op, a product, leaves sums of the squares of a weight's gradient for the gradients' norm.
bool opencl_leaves_squares(const opencl_device *device, const sm_plan *plan, const sm_op *op);
void opencl_bind_matmul(opencl_binder *b);
void opencl_bind_cast_fp8(opencl_binder *b);
void opencl_bind_attention(opencl_binder *b);

// --- optimizer.c ---------------------------------------------------------------------------------

int64_t opencl_count_norm_parts(const opencl_device *device); // parts of a sum of squares
void opencl_bind_adamw8bit(opencl_binder *b);
void opencl_bind_adafactor(opencl_binder *b);
void opencl_bind_adafactor_vector(opencl_binder *b);
void opencl_bind_grad_clip(opencl_binder *b);
void opencl_bind_scaler_update(opencl_binder *b);
void opencl_bind_grad_sqnorm(opencl_binder *b);
