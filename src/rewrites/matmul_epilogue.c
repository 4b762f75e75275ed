// matmul_epilogue.c: element-wise ops after a matmul become its epilogue.
//
//   xw = x W;  y = xw + b                  =>  y = x W + b
//   xw = x W;  y = xw + b;  act = gelu(y)  =>  y, act = x W + b, gelu(y)
//   dact = dy W^T;  dy' = dact gelu'(pre)  =>  dy' = (dy W^T) gelu'(pre)
//
// and likewise with the other functions of include/activation.h. Equal because each output element depends on one
// element of the product. It saves one or two passes over an (N,F) tensor, and the memory of the intermediate tensors.
#include "src/rewrites/passes.h"

// Whether ops[i] is an op of `kind` whose first input is `tensor`, which no other op reads.
static bool consumes(const sm_plan *plan, int i, sm_op_kind kind, int tensor) {
    return i < plan->n_ops && plan->ops[i].kind == kind && plan->ops[i].in[0] == tensor &&
           sm_rewrite_n_readers(plan, tensor) == 1;
}

// Fuses the ops after ops[i] into *matmul, a copy of it; returns the number of fused ops.
static int fuse_forward(const sm_plan *plan, int i, sm_op *matmul) {
    if (!consumes(plan, i + 1, SM_OP_BIAS_FORWARD, matmul->out[SM_OUT(matmul_forward, y)])) {
        return 0;
    }
    const sm_op *bias = &plan->ops[i + 1];
    matmul->attr.epilogue |= SM_EPILOGUE_BIAS;
    matmul->in[SM_IN(matmul_forward, b)] = bias->in[SM_IN(bias_forward, b)];
    matmul->out[SM_OUT(matmul_forward, y)] = bias->out[SM_OUT(bias_forward, y)];
    // The function's input stays as the other output, since the backward reads it.
    for (sm_activation a = 0; a < SM_ACTIVATION_COUNT && i + 2 < plan->n_ops; a++) {
        const sm_op *next = &plan->ops[i + 2];
        const sm_activation_info *info = sm_activation_get_info(a);
        if (next->kind == info->forward && next->in[SM_IN(gelu_forward, x)] == matmul->out[SM_OUT(matmul_forward, y)]) {
            matmul->attr.epilogue |= info->epilogue;
            matmul->out[SM_OUT(matmul_forward, act)] = next->out[SM_OUT(gelu_forward, y)];
            return 2;
        }
    }
    return 1;
}

static int fuse_backward(const sm_plan *plan, int i, sm_op *matmul) {
    for (sm_activation a = 0; a < SM_ACTIVATION_COUNT; a++) {
        const sm_activation_info *info = sm_activation_get_info(a);
        if (consumes(plan, i + 1, info->backward, matmul->out[SM_OUT(matmul_backward_input, dx)])) {
            const sm_op *next = &plan->ops[i + 1];
            matmul->attr.epilogue |= info->epilogue_backward;
            matmul->in[SM_IN(matmul_backward_input, pre)] = next->in[SM_IN(gelu_backward, x)];
            matmul->out[SM_OUT(matmul_backward_input, dx)] = next->out[SM_OUT(gelu_backward, dx)];
            return 1;
        }
    }
    return 0;
}

static int fuse(const sm_plan *plan, int i, sm_op *op) {
    return op->attr.epilogue != 0                    ? 0
           : op->kind == SM_OP_MATMUL_FORWARD        ? fuse_forward(plan, i, op)
           : op->kind == SM_OP_MATMUL_BACKWARD_INPUT ? fuse_backward(plan, i, op)
                                                     : 0;
}

sm_status sm_rewrite_matmul_epilogue(sm_plan *plan) { return sm_rewrite_fuse(plan, fuse); }
