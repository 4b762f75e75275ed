// opencl.c: the opencl backend: every device of every OpenCL platform.
#include "backends/opencl/opencl.h"

#include "backends/host/memory.h"

extern const sm_backend sm_backend_opencl; // declared again by src/session/registry.c

static int device_count(void) {
    const char *reason;
    int n = opencl_n_devices(&reason);
    return n > 0 ? n : 1; // one device with the reason
}

static void describe_found(const opencl_facts *f, sm_device_info *info) {
    snprintf(info->id, sizeof info->id, "opencl:%d.%d", f->platform_index, f->device_index);
    snprintf(info->name, sizeof info->name, "%s", f->name);
    snprintf(info->platform, sizeof info->platform, "%s", f->platform_name);
    snprintf(info->driver, sizeof info->driver, "%.40s, %.80s", f->driver, f->version);
    snprintf(info->features, sizeof info->features, "%s, %s, %s", f->has_subgroups ? "sub-groups" : "no sub-groups",
             f->has_fp16 ? "fp16" : "no fp16",
             f->has_local_memory ? "local memory of its own" : "local memory in global memory");
    for (size_t i = 0; i < sizeof f->uuid && f->has_uuid; i++) {
        snprintf(info->uuid + 2 * i, 3, "%02x", f->uuid[i]);
    }
    info->is_host_processor = f->is_cpu;
    info->n_units = f->n_units;
    info->n_threads = f->is_cpu ? f->n_units : 0; // a card has no choice
    info->clock_mhz = f->clock_mhz;
    info->local_bytes = f->local_bytes;
    info->memory_bytes = f->memory_bytes;
    const uint64_t available_bytes = f->shares_host_memory ? host_available_bytes() : 0; // the device may use a part
    info->free_bytes = available_bytes < f->memory_bytes ? available_bytes : f->memory_bytes;
    info->max_alloc_bytes = f->max_alloc_bytes;
    info->available = f->is_usable;
    snprintf(info->reason, sizeof info->reason, "%s", f->trouble);
}

static void describe_family(const opencl_family *family, const opencl_facts *facts, sm_device_info *info) {
    snprintf(info->tier, sizeof info->tier, "%s", family->name);
    opencl_explain_family(family, facts, info->tier_reason, sizeof info->tier_reason);
}

static sm_status describe(int index, sm_device_info *info) {
    const char *reason;
    const int n = opencl_n_devices(&reason);
    const opencl_family *family = NULL;
    *info = (sm_device_info){0};
    if (n == 0 && index == 0) {
        snprintf(info->id, sizeof info->id, "opencl");
        snprintf(info->reason, sizeof info->reason, "%s", reason);
        return SM_OK;
    }
    SM_FAIL_IF(index < 0 || index >= n, SM_ERR_USAGE, "opencl: device %d: there are %d", index, n);
    describe_found(opencl_device_facts(index), info);
    SM_TRY(opencl_choose_family(opencl_device_facts(index), NULL, info->id, &family));
    describe_family(family, opencl_device_facts(index), info);
    return SM_OK;
}

// --- opening --------------------------------------------------------------------------------------------

// Fewer threads than the processor has: a sub-device.
static sm_status take_part(opencl_device *device, int n_threads) {
    const opencl_facts *f = &device->facts;
    if (n_threads == 0 || (f->is_cpu && n_threads == f->n_units)) {
        return SM_OK;
    }
    SM_FAIL_IF(!f->is_cpu, SM_ERR_UNSUPPORTED,
               "%s: the device is not a processor: it has no threads to choose; leave -t out", id_of(device));
    if (n_threads < 0 || n_threads > f->n_units) {
        return sm_fail(SM_ERR_UNSUPPORTED, "%s: %d threads; the device has %d", id_of(device), n_threads, f->n_units);
    }
    const cl_device_partition_property by_count[] = {CL_DEVICE_PARTITION_BY_COUNTS, n_threads,
                                                     CL_DEVICE_PARTITION_BY_COUNTS_LIST_END, 0};
    cl_int code = opencl.clCreateSubDevices(f->id, by_count, 1, &device->part, NULL);
    if (code != CL_SUCCESS) {
        device->part = NULL;
        return sm_fail(SM_ERR_UNSUPPORTED, "%s: the driver gives no part of the device with %d threads: %s",
                       id_of(device), n_threads, opencl_error_name(code));
    }
    device->base.info.n_threads = device->base.info.n_units = n_threads;
    device->facts.n_units = n_threads;
    return SM_OK;
}

static sm_status create_queues(opencl_device *device) {
    const char *id = id_of(device);
    cl_device_id target = opencl_target(device);
    cl_int code = CL_SUCCESS;
    device->context = device->part != NULL ? NULL : opencl_take_context(&device->facts);
    if (device->context == NULL) {
        SM_TRY(opencl_create_context(device));
    }
    device->queue = opencl.clCreateCommandQueue(device->context, target, 0, &code);
    SM_TRY(opencl_check(id, "clCreateCommandQueue", code));
    if (device->sizes.row_items > 1) { // a card
        device->least_aside_flops = 2e7 * device->facts.n_units;
        device->aside = opencl.clCreateCommandQueue(device->context, target, 0, &code);
        SM_TRY(opencl_check(id, "clCreateCommandQueue, aside", code));
    }
    device->profile = opencl.clCreateCommandQueue(device->context, target, CL_QUEUE_PROFILING_ENABLE, &code);
    return opencl_check(id, "clCreateCommandQueue, profiled", code);
}

static void close_device(sm_device *base) {
    if (base == NULL) {
        return;
    }
    opencl_device *device = (opencl_device *)base;
    if (device->is_lost) {
        opencl_keep_device(device);
        return;
    }
    opencl_end_waiter(device);
    opencl_end_helpers(device);
    opencl_peers_leave(device);
    opencl_free_programs(device);
    json_decref(device->choices);
    for (int i = 0; i < 2; i++) {
        opencl_release_queue(device->copies[i]);
    }
    opencl_release_queue(device->profile);
    opencl_release_queue(device->aside);
    opencl_release_queue(device->queue);
    opencl_release_context(device->context);
    if (device->part != NULL) {
        opencl.clReleaseDevice(device->part);
    }
    free(device);
}

static sm_status open_device(int index, const sm_open_options *options, sm_device **opened) {
    sm_device_info info;
    const opencl_family *family = NULL;
    *opened = NULL;
    SM_TRY(describe(index, &info));
    opencl_try_units(opencl_device_facts(index), index, info.available ? options->helper : NULL, false, NULL, NULL);
    SM_FAIL_IF(!info.available, SM_ERR_UNSUPPORTED, "%s: %s", info.id, info.reason);
    if (options->cpu_mask != NULL) {
        return sm_fail(SM_ERR_UNSUPPORTED, "%s: the driver places its threads itself; leave the mask out", info.id);
    }
    SM_TRY(opencl_reclaim(opencl_device_facts(index), info.id));
    opencl_device *device = sm_calloc(1, sizeof *device);
    SM_OWN(sm_device) *owned = &device->base;
    device->base = (sm_device){.backend = &sm_backend_opencl, .info = info};
    device->facts = *opencl_device_facts(index);
    device->progress = options->progress;
    device->helper = options->helper;
    opencl_take_own(device, options);
    device->index = index;
    device->facts.shown_local_bytes = opencl_shown_local_bytes(&device->facts);
    SM_TRY(opencl_choose_family(&device->facts, options->isa, info.id, &family));
    opencl_set_family(device, family);
    describe_family(family, &device->facts, &device->base.info);
    SM_TRY(take_part(device, options->n_threads));
    SM_TRY(create_queues(device));
    opencl_peers_begin_early(device);
    *opened = sm_give(&owned);
    return SM_OK;
}

// Families without matrix units widen what they read and compute in fp32.
static bool emulates(const sm_device *device, sm_precision precision) {
    return sm_dtype_is_narrow(precision.dtype) && !((const opencl_device *)device)->family->multiplies_narrow;
}

static sm_status supports(const sm_device *device, const sm_plan *plan, const sm_op *op) {
    return opencl_op_supported((const opencl_device *)device, plan, op);
}

const sm_backend sm_backend_opencl = {
    .name = "opencl",
    .summary = "OpenCL C 1.2 kernels on any device that has a driver",
    .benchmarked = true,
    .own_kernels = SM_OWN_OPENCL,
    .tunes = true,
    .device_count = device_count,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .foresee = opencl_foresee,
    .supports = supports,
    .emulates = emulates,
    .measure_peaks = opencl_measure_peaks,
    .measure_ceilings = opencl_measure_ceilings,
    .help = opencl_help,
    .working_bytes = opencl_working_bytes,
    .prepare = opencl_prepare,
    .release = opencl_release,
    .execute = opencl_execute,
    .synchronize = opencl_synchronize,
    .upload = opencl_upload,
    .download = opencl_download,
    .keep_weights = opencl_keep_weights,
    .begin_copy = opencl_begin_copy,
    .wait_copy = opencl_wait_copy,
    .is_copied = opencl_is_copied,
    .pin = opencl_pin,
};
