// own.c: a user's kernels in place of the family's, a launch each: own_kernel.h has their parameters and work-items.
#include "philox.h"
#include "backends/opencl/binders/binders.h"

void opencl_take_own(opencl_device *device, const sm_open_options *options) {
    for (int i = 0; i < options->n_own_kernels; i++) {
        device->own[options->own_kernels[i].kind] = &options->own_kernels[i];
    }
}

static void bind_parameter(opencl_binder *b, const sm_own_parameter *p) {
    switch (p->type) {
    case SM_OWN_LONG: OPENCL_ARGS(b, arg_count(p->integer)); break;
    case SM_OWN_FLOAT: OPENCL_ARGS(b, arg_float((float)p->real)); break;
    case SM_OWN_TENSOR: OPENCL_ARGS(b, arg_own_tensor(p->tensor)); break;
    case SM_OWN_DROPOUT: {
        const double drop = p->tensor == SM_NO_TENSOR ? 0 : b->op->attr.dropout_p;
        OPENCL_ARGS(b, arg_ulong(b->op->attr.rng_key), arg_uint(sm_dropout_threshold(drop)),
                    arg_float((float)(1 / (1 - drop))), arg_own_tensor(p->tensor));
        break;
    }
    }
}

void opencl_bind_own(opencl_binder *b) {
    sm_own_parameter parameters[SM_OWN_MAX_PARAMETERS];
    sm_own_work work = {.n_dims = 0};
    const sm_own_kernel *own = b->e->device->own[b->op->kind];
    if (b->e->wanted != NULL) { // helpers build only the program's own kernels
        return;
    }
    b->status = sm_own_opencl_work(b->e->base.plan, b->op, own, &work);
    opencl_begin_own(b, own);
    const int n = sm_own_opencl_parameters(b->e->base.plan, b->op, parameters);
    for (int i = 0; i < n; i++) {
        bind_parameter(b, &parameters[i]);
    }
    opencl_launch_tiles(b, work.items[0], work.items[1], (size_t)work.group[0], (size_t)work.group[1]);
}
