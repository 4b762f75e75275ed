// arguments.c: sets a launch's arguments, in the order of its kernel's parameters.
#include "backends/opencl/launch/launch.h"

static void set_arg(opencl_binder *b, size_t size_bytes, const void *value) {
    if (b->status == SM_OK && b->e->wanted == NULL) {
        b->status = OPENCL_CALL(b->e->device, clSetKernelArg, b->launch.kernel, b->n_args++, size_bytes, value);
    }
}

void opencl_arg_ulong(opencl_binder *b, uint64_t value) { set_arg(b, sizeof value, &value); }
void opencl_arg_uint(opencl_binder *b, uint32_t value) { set_arg(b, sizeof value, &value); }
void opencl_arg_float(opencl_binder *b, float value) { set_arg(b, sizeof value, &value); }

void opencl_arg_local(opencl_binder *b, size_t size_bytes) { set_arg(b, size_bytes, NULL); }

void opencl_arg_buffer(opencl_binder *b, cl_mem buffer) { set_arg(b, sizeof buffer, &buffer); }

void opencl_arg_tensor_at(opencl_binder *b, int tensor, int64_t offset_elems) {
    if (b->e->wanted != NULL) { // there are no buffers yet
        return;
    }
    if (tensor == SM_NO_TENSOR) {
        set_arg(b, sizeof(cl_mem), &b->e->arenas[0]);
        opencl_arg_ulong(b, 0);
        return;
    }
    const sm_tensor *t = &b->e->base.plan->tensors[tensor];
    set_arg(b, sizeof(cl_mem), &b->e->arenas[t->arena]);
    opencl_arg_ulong(b, (uint64_t)t->offset_bytes / sm_dtype_size(t->dtype) + (uint64_t)offset_elems);
}

void opencl_arg_own_tensor(opencl_binder *b, int tensor) {
    const cl_mem none = NULL;
    if (tensor != SM_NO_TENSOR) {
        opencl_arg_tensor(b, tensor);
        return;
    }
    set_arg(b, sizeof none, &none);
    opencl_arg_ulong(b, 0);
}

void opencl_arg_tensor(opencl_binder *b, int tensor) { opencl_arg_tensor_at(b, tensor, 0); }

void opencl_arg_scratch(opencl_binder *b, size_t offset_elems) {
    set_arg(b, sizeof(cl_mem), &b->e->scratch);
    opencl_arg_ulong(b, offset_elems + opencl_scratch_at(b));
}

static void arg_operands(opencl_binder *b, const sm_operand_info *operands, const int *tensors, int n, bool all) {
    for (int i = 0; i < n && operands[i].name != NULL; i++) {
        if (all || !(operands[i].flags & SM_OPTIONAL)) {
            opencl_arg_tensor(b, tensors[i]);
        }
    }
}

void opencl_arg_inputs(opencl_binder *b) {
    arg_operands(b, sm_op_get_info(b->op->kind)->in, b->op->in, SM_MAX_IN, true);
}

void opencl_arg_outputs(opencl_binder *b) {
    arg_operands(b, sm_op_get_info(b->op->kind)->out, b->op->out, SM_MAX_OUT, true);
}

void opencl_arg_operands(opencl_binder *b) {
    arg_operands(b, sm_op_get_info(b->op->kind)->in, b->op->in, SM_MAX_IN, false);
    arg_operands(b, sm_op_get_info(b->op->kind)->out, b->op->out, SM_MAX_OUT, false);
}

static void arg_optional(opencl_binder *b, const sm_operand_info *operand, int tensor) {
    if (operand->name != NULL && operand->flags & SM_OPTIONAL) {
        opencl_arg_uint(b, tensor != SM_NO_TENSOR);
        opencl_arg_tensor(b, tensor);
    }
}

void opencl_arg_optional(opencl_binder *b) {
    const sm_op_info *info = sm_op_get_info(b->op->kind);
    for (int i = 0; i < SM_MAX_IN; i++) {
        arg_optional(b, &info->in[i], b->op->in[i]);
    }
    for (int i = 0; i < SM_MAX_OUT; i++) {
        arg_optional(b, &info->out[i], b->op->out[i]);
    }
}

// Attributes common to all ops are not arguments.
void opencl_arg_attributes(opencl_binder *b) {
    const unsigned attributes = sm_op_get_info(b->op->kind)->attributes;
    for (int i = 0; i < SM_ATTR_COUNT; i++) {
        const double value = sm_attr_get(&b->op->attr, i);
        switch (attributes >> i & 1 ? sm_attr_get_info(i)->type : SM_ATTR_KEY) {
        case SM_ATTR_INTEGER: opencl_arg_ulong(b, (uint64_t)value); break;
        case SM_ATTR_REAL: opencl_arg_float(b, (float)value); break;
        case SM_ATTR_SWITCH:
        case SM_ATTR_EPILOGUE: opencl_arg_uint(b, value != 0); break;
        case SM_ATTR_KEY: break;
        }
    }
}
