// arguments.c: sets a launch's arguments, in the order of its kernel's parameters.
#include "backends/opencl/launch/launch.h"

static void set_arg(opencl_binder *b, size_t size_bytes, const void *value) {
    if (b->status == SM_OK) {
        b->status = OPENCL_CALL(b->e->device, clSetKernelArg, b->launch.kernel, b->n_args++, size_bytes, value);
    }
}

static void set_at(opencl_binder *b, const cl_mem *buffer, uint64_t at) {
    set_arg(b, sizeof *buffer, buffer);
    set_arg(b, sizeof at, &at);
}

static void set_tensor(opencl_binder *b, const opencl_value *v) {
    static const cl_mem none = NULL;
    if (v->tensor == SM_NO_TENSOR) {
        set_at(b, v->may_be_null ? &none : &b->e->arenas[0], 0);
        return;
    }
    const sm_tensor *t = &b->e->base.plan->tensors[v->tensor];
    set_at(b, &b->e->arenas[t->arena], (uint64_t)t->offset_bytes / sm_dtype_size(t->dtype) + v->at);
}

void opencl_args(opencl_binder *b, const opencl_value *values, size_t n) {
    const bool is_wanted = b->e->wanted != NULL; // the program alone: there are no buffers yet
    for (const opencl_value *v = values; v < values + n && !is_wanted; v++) {
        switch (v->kind) {
        case OPENCL_ULONG: set_arg(b, sizeof v->at, &v->at); break;
        case OPENCL_UINT: set_arg(b, sizeof v->number, &v->number); break;
        case OPENCL_FLOAT: set_arg(b, sizeof v->real, &v->real); break;
        case OPENCL_BUFFER: set_arg(b, sizeof v->buffer, &v->buffer); break;
        case OPENCL_LOCAL: set_arg(b, v->at, NULL); break;
        case OPENCL_SCRATCH: set_at(b, &b->e->scratch, v->at + opencl_scratch_at(b)); break;
        case OPENCL_TENSOR: set_tensor(b, v); break;
        }
    }
}

// The operands from `first` to before `end`: all, or those that are required.
static void arg_operands(opencl_binder *b, int first, int end, bool all) {
    const sm_op_info *info = sm_op_get_info(b->op->kind);
    for (int i = first; i < end; i++) {
        if (info->operands[i].name != NULL && (all || !(info->operands[i].flags & SM_OPTIONAL))) {
            OPENCL_ARGS(b, arg_tensor(b->op->operands[i]));
        }
    }
}

void opencl_arg_inputs(opencl_binder *b) { arg_operands(b, 0, SM_MAX_IN, true); }
void opencl_arg_outputs(opencl_binder *b) { arg_operands(b, SM_MAX_IN, SM_MAX_OPERANDS, true); }
void opencl_arg_operands(opencl_binder *b) { arg_operands(b, 0, SM_MAX_OPERANDS, false); }

void opencl_arg_optional(opencl_binder *b) {
    const sm_op_info *info = sm_op_get_info(b->op->kind);
    for (int i = 0; i < SM_MAX_OPERANDS; i++) {
        if (info->operands[i].name != NULL && info->operands[i].flags & SM_OPTIONAL) {
            OPENCL_ARGS(b, arg_uint(b->op->operands[i] != SM_NO_TENSOR), arg_tensor(b->op->operands[i]));
        }
    }
}

// Attributes common to all ops are not arguments.
void opencl_arg_attributes(opencl_binder *b) {
    const unsigned attributes = sm_op_get_info(b->op->kind)->attributes;
    for (int i = 0; i < SM_ATTR_COUNT; i++) {
        const double value = sm_attr_get(&b->op->attr, i);
        switch (attributes >> i & 1 ? sm_attr_get_info(i)->type : SM_ATTR_KEY) {
        case SM_ATTR_INTEGER: OPENCL_ARGS(b, arg_ulong((uint64_t)value)); break;
        case SM_ATTR_REAL: OPENCL_ARGS(b, arg_float((float)value)); break;
        case SM_ATTR_SWITCH:
        case SM_ATTR_EPILOGUE: OPENCL_ARGS(b, arg_uint(value != 0)); break;
        case SM_ATTR_KEY: break;
        }
    }
}
