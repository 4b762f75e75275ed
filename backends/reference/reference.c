// reference.c: the backend "reference": runs a plan op by op on one thread, in f32 or f64 (and, rounded to them, in
// narrower formats), with sums in double. The other backends are compared with it; its speed means nothing.

#include "backends/reference/reference.h"

#include "os/processor.h"

typedef struct {
    union {
        sm_executable base;
        host_executable host;
    };
    double *scratch; // for the op that needs most
    float *room;     // likewise, stored after it: widened operands of rounded plans
} ref_executable;

static int ref_device_count(void) { return 1; }

static sm_status ref_describe(SM_UNUSED int index, sm_device_info *info) {
    *info = (sm_device_info){.id = "reference",
                             .driver = "serial C, sums in double",
                             .is_host_processor = true,
                             .n_units = 1,
                             .n_threads = 1,
                             .available = true};
    os_processor_name("", info->name, sizeof info->name);
    info->memory_bytes = host_total_bytes();
    info->free_bytes = host_available_bytes();
    return SM_OK;
}

static sm_status ref_open(int index, const sm_open_options *options, sm_device **device) {
    *device = NULL;
    SM_FAIL_IF(options->n_threads > 1, SM_ERR_UNSUPPORTED,
               "reference: %d threads asked for and it is serial; leave the number of threads out", options->n_threads);
    SM_FAIL_IF(options->isa != NULL, SM_ERR_UNSUPPORTED,
               "reference: instruction set %s asked for and it has none; leave it out", options->isa);
    sm_device *opened = sm_calloc(1, sizeof *opened);
    opened->backend = &sm_backend_reference;
    *device = opened;
    return ref_describe(index, &opened->info);
}

static void ref_close(sm_device *device) { free(device); }

static sm_status ref_supports(SM_UNUSED const sm_device *device, SM_UNUSED const sm_plan *plan,
                              SM_UNUSED const sm_op *op) {
    return SM_OK;
}

static bool ref_emulates(SM_UNUSED const sm_device *device, sm_precision precision) {
    return sm_dtype_is_narrow(precision.dtype) || precision.products != SM_PRODUCTS_PLAIN;
}

static sm_status ref_measure_peaks(SM_UNUSED sm_device *device, SM_UNUSED sm_precision precision,
                                   SM_UNUSED double seconds, SM_UNUSED sm_peaks *peaks) {
    return sm_fail(SM_ERR_UNSUPPORTED,
                   "reference: the reference has no peak, as it is written for reading; measure another backend");
}

// Doubles that an op needs besides its operands.
static int64_t scratch_elems(const host_op *op) {
    const sm_op_kind kind = op->op->kind;
    if (kind == SM_OP_EMBEDDING_BACKWARD) {
        return sm_tensor_cols(op->in_tensor[SM_IN(embedding_backward, dx)]);
    }
    if (sm_op_is_attention(kind)) {
        const int64_t T = op->in_tensor[0]->dims[1]; // of qkv or dy
        return sm_op_is_attention_forward(kind) ? T : 2 * T * T;
    }
    return 0;
}

typedef struct {
    size_t scratch_bytes;
    size_t room_bytes;
} working;

static working working_of(const sm_plan *plan) {
    int64_t n_doubles = 1;
    int64_t n_floats = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const host_op op = host_describe_op(plan, &plan->ops[i]);
        const int64_t doubles = scratch_elems(&op);
        const int64_t floats = ref_is_rounded(plan) || op.op->attr.fp8 ? ref_rounded_elems(&op) : 0;
        n_doubles = doubles > n_doubles ? doubles : n_doubles;
        n_floats = floats > n_floats ? floats : n_floats;
    }
    return (working){(size_t)n_doubles * sizeof(double), (size_t)n_floats * sizeof(float)};
}

static size_t ref_working_bytes(SM_UNUSED const sm_device *device, const sm_plan *plan) {
    const working w = working_of(plan);
    return w.scratch_bytes + w.room_bytes;
}

static sm_status allocate_scratch(ref_executable *exe) {
    const size_t size_bytes = ref_working_bytes(exe->base.device, exe->base.plan);
    const size_t available_bytes = host_available_bytes(); // 0: unknown
    SM_FAIL_IF(available_bytes > 0 && size_bytes > available_bytes, SM_ERR_OOM,
               "reference: scratch of %zu bytes asked for, %zu available; use a shorter sequence", size_bytes,
               available_bytes);
    exe->scratch = malloc(size_bytes);
    SM_FAIL_IF(exe->scratch == NULL, SM_ERR_OOM,
               "reference: no memory for scratch of %zu bytes; use a shorter sequence", size_bytes);
    exe->room = (float *)((char *)exe->scratch + working_of(exe->base.plan).scratch_bytes);
    exe->base.memory_bytes = exe->host.total_bytes + size_bytes;
    return SM_OK;
}

static void ref_release(sm_executable *executable) {
    if (executable != NULL) {
        ref_executable *exe = (ref_executable *)executable;
        host_free(&exe->host);
        free(exe->scratch);
        free(exe);
    }
}

static sm_status ref_prepare(sm_device *device, const sm_plan *plan, sm_executable **executable) {
    ref_executable *exe = sm_calloc(1, sizeof *exe);
    SM_OWN(sm_executable) *owned = &exe->base;
    *executable = NULL;
    exe->base = (sm_executable){.device = device, .plan = plan};
    SM_TRY(host_prepare(&exe->host));
    SM_TRY(allocate_scratch(exe));
    *executable = sm_give(&owned);
    return SM_OK;
}

static sm_status ref_execute(sm_executable *executable, sm_range range, int64_t *op_ns) {
    ref_executable *exe = (ref_executable *)executable;
    const sm_plan *plan = executable->plan;
    void (*run)(const host_op *, double *) = plan->dtype == SM_F64 ? ref_run_f64 : ref_run_f32;
    const bool is_rounded = ref_is_rounded(plan);
    for (int i = range.first; i < range.end; i++) {
        int64_t start_ns = op_ns == NULL ? 0 : host_now_ns();
        host_later later;
        const host_op *op = executable->is_later ? host_find_later(plan, &exe->host.ops[i], &later) : &exe->host.ops[i];
        if (host_is_skipped(op)) {
            continue;
        }
        if (is_rounded || op->op->attr.fp8) {
            ref_run_rounded(op, plan->products, exe->scratch, exe->room);
        } else {
            run(op, exe->scratch);
        }
        if (op_ns != NULL) {
            op_ns[i] += host_now_ns() - start_ns;
        }
    }
    return SM_OK;
}

const sm_backend sm_backend_reference = {
    .name = "reference",
    .summary = "the definition that the others are compared with: serial C, sums in double",
    .benchmarked = false,
    .device_count = ref_device_count,
    .describe = ref_describe,
    .open = ref_open,
    .close = ref_close,
    .supports = ref_supports,
    .emulates = ref_emulates,
    .measure_peaks = ref_measure_peaks,
    .working_bytes = ref_working_bytes,
    .prepare = ref_prepare,
    .release = ref_release,
    .execute = ref_execute,
    .synchronize = host_synchronize,
    .upload = host_upload,
    .download = host_download,
    .keep_weights = host_keep_weights,
    .address = host_address,
};
