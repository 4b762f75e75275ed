// opencl_peaks.c: measures what a device can compute and move, with kernels of its own (cl/peaks.cl).
//
// Each figure is the best of several launches, timed by the device: a ceiling is what was reached
// undisturbed.
#include <stdio.h>
#include <stdlib.h>

#include "host_memory.h"
#include "opencl.h"
#include "opencl_tier.h"

enum { MAX_ARGS = 8, N_BUFFERS = 3, FLOPS_GROUPS_A_UNIT = 16, N_CHAINS = 12 };

static const double LAUNCH_SECONDS = 0.01;

static const char *id_of(const opencl_device *device) { return device->base.info.id; }

typedef struct {
    size_t size_bytes;
    const void *value;
} argument;

// A kernel of peaks.cl with its arguments.
static sm_status make_kernel(opencl_device *device, const char *name, const argument *arguments, int n,
                             cl_kernel *kernel) {
    char options[32];
    snprintf(options, sizeof options, "-DN_CHAINS=%d%s", N_CHAINS, device->tier->row_items > 1 ? " -DWHOLE" : "");
    SM_TRY(opencl_get_kernel(device, "peaks", options, name, kernel));
    for (int i = 0; i < n; i++) {
        SM_TRY(opencl_check(id_of(device), name,
                            opencl.clSetKernelArg(*kernel, (cl_uint)i, arguments[i].size_bytes, arguments[i].value)));
    }
    return SM_OK;
}

// Seconds of one launch, by the device's clock.
static sm_status time_launch(const opencl_device *device, cl_kernel kernel, size_t n_items, size_t group,
                             double *seconds) {
    cl_event event = NULL;
    cl_ulong start_ns = 0;
    cl_ulong end_ns = 0;
    cl_int code = opencl.clEnqueueNDRangeKernel(device->profile, kernel, 1, NULL, &n_items, &group, 0, NULL, &event);
    SM_TRY(opencl_check(id_of(device), "clEnqueueNDRangeKernel", code));
    code = opencl.clFinish(device->profile);
    if (code == CL_SUCCESS) {
        code = opencl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start_ns, &start_ns, NULL);
    }
    if (code == CL_SUCCESS) {
        code = opencl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end_ns, &end_ns, NULL);
    }
    opencl.clReleaseEvent(event);
    *seconds = (double)(end_ns - start_ns + 1) * 1e-9;
    return opencl_check(id_of(device), "measuring peaks", code);
}

static sm_status create_buffer(const opencl_device *device, size_t size_bytes, cl_mem *buffer) {
    const cl_float one = 1;
    cl_int code = CL_SUCCESS;
    *buffer = opencl.clCreateBuffer(device->context, CL_MEM_READ_WRITE, size_bytes, NULL, &code);
    SM_TRY(opencl_check(id_of(device), "clCreateBuffer", code));
    return opencl_check(
        id_of(device), "clEnqueueFillBuffer",
        opencl.clEnqueueFillBuffer(device->profile, *buffer, &one, sizeof one, 0, size_bytes, 0, NULL, NULL));
}

static sm_status measure_flops(opencl_device *device, double seconds, double *best) {
    sm_status status = SM_OK;
    const int vector = device->tier->vector(&device->facts);
    const size_t group = (size_t)device->tier->group;
    const size_t n_items = group * (size_t)(FLOPS_GROUPS_A_UNIT * device->facts.n_units);
    cl_uint n_rounds = 256;
    const cl_float a = 0.5f;
    const cl_float b = 1.0f;
    cl_mem out = NULL;
    cl_kernel kernel = NULL;
    SM_TRY_GOTO(create_buffer(device, n_items * sizeof(float), &out));
    SM_TRY_GOTO(make_kernel(
        device, "peak_flops",
        (argument[]){{sizeof n_rounds, &n_rounds}, {sizeof a, &a}, {sizeof b, &b}, {sizeof out, &out}}, 4, &kernel));
    const int64_t end_ns = host_now_ns() + (int64_t)(seconds * 1e9);
    do {
        double took;
        SM_TRY_GOTO(time_launch(device, kernel, n_items, group, &took));
        const double flops = 2.0 * N_CHAINS * vector * (double)n_rounds * (double)n_items;
        *best = flops / took > *best ? flops / took : *best;
        if (took < LAUNCH_SECONDS) {
            n_rounds *= 2;
            SM_TRY_GOTO(opencl_check(id_of(device), "peak_flops",
                                     opencl.clSetKernelArg(kernel, 0, sizeof n_rounds, &n_rounds)));
        }
    } while (host_now_ns() < end_ns);
cleanup:
    if (kernel != NULL) {
        opencl.clReleaseKernel(kernel);
    }
    if (out != NULL) {
        opencl.clReleaseMemObject(out);
    }
    return status;
}

// Elements of each of the arrays: 256 MiB together, but no more than an eighth of the memory.
static cl_ulong choose_elems(const opencl_facts *f) {
    enum { STEP = 1 << 18 }; // whole vecs for every item of either stream
    double total_bytes = 256.0 * (1 << 20) * (f->is_cpu ? 1 : 4);
    const double most_bytes = (double)f->memory_bytes / 8;
    total_bytes = total_bytes > most_bytes ? most_bytes : total_bytes;
    return (cl_ulong)(total_bytes / (N_BUFFERS * sizeof(float))) / STEP * STEP;
}

// The two streams in turn, so that they meet the same disturbances.
static sm_status time_streams(opencl_device *device, const cl_kernel kernels[2], const size_t n_items[2], cl_ulong n,
                              double seconds, double *best, const char **stream) {
    static const char *const names[] = {"triad", "reading"};
    const double moved_bytes[] = {3.0 * sizeof(float) * (double)n, 1.0 * sizeof(float) * (double)n};
    const size_t group = device->tier->row_items == 1 ? 1 : (size_t)device->tier->group;
    const int64_t end_ns = host_now_ns() + (int64_t)(seconds * 1e9);
    do {
        for (int i = 0; i < 2; i++) {
            double took;
            SM_TRY(time_launch(device, kernels[i], n_items[i], group, &took));
            if (moved_bytes[i] / took > *best) {
                *best = moved_bytes[i] / took;
                *stream = names[i];
            }
        }
    } while (host_now_ns() < end_ns);
    return SM_OK;
}

static sm_status measure_bandwidth(opencl_device *device, double seconds, double *best, const char **stream) {
    enum { CPU_VECS = 4096, CARD_ITEMS = 1 << 16 };
    sm_status status = SM_OK;
    const bool is_cpu = device->tier->row_items == 1;
    const cl_ulong vector = (cl_ulong)device->tier->vector(&device->facts);
    const cl_ulong n = choose_elems(&device->facts);
    const cl_ulong n_vecs[] = {is_cpu ? CPU_VECS : 1, is_cpu ? CPU_VECS : n / vector / CARD_ITEMS};
    const size_t n_items[] = {(size_t)(n / vector / n_vecs[0]), (size_t)(n / vector / n_vecs[1])};
    const cl_ulong item_step = is_cpu ? n_vecs[1] * vector : vector;
    const cl_ulong stride = is_cpu ? vector : (cl_ulong)n_items[1] * vector;
    const cl_float f = 0.5f;
    cl_mem x[N_BUFFERS] = {NULL};
    cl_kernel kernels[2] = {NULL, NULL};
    for (int i = 0; i < N_BUFFERS; i++) {
        SM_TRY_GOTO(create_buffer(device, (size_t)n * sizeof(float), &x[i]));
    }
    SM_TRY_GOTO(make_kernel(device, "peak_triad",
                            (argument[]){{sizeof n, &n},
                                         {sizeof n_vecs[0], &n_vecs[0]},
                                         {sizeof f, &f},
                                         {sizeof x[0], &x[0]},
                                         {sizeof x[1], &x[1]},
                                         {sizeof x[2], &x[2]}},
                            6, &kernels[0]));
    SM_TRY_GOTO(make_kernel(device, "peak_read",
                            (argument[]){{sizeof n, &n},
                                         {sizeof n_vecs[1], &n_vecs[1]},
                                         {sizeof item_step, &item_step},
                                         {sizeof stride, &stride},
                                         {sizeof x[0], &x[0]},
                                         {sizeof x[2], &x[2]}},
                            6, &kernels[1]));
    SM_TRY_GOTO(time_streams(device, kernels, n_items, n, seconds, best, stream));
cleanup:
    for (int i = 0; i < 2; i++) {
        if (kernels[i] != NULL) {
            opencl.clReleaseKernel(kernels[i]);
        }
    }
    for (int i = 0; i < N_BUFFERS; i++) {
        if (x[i] != NULL) {
            opencl.clReleaseMemObject(x[i]);
        }
    }
    return status;
}

sm_status opencl_measure_peaks(sm_device *device, sm_precision precision, double seconds, sm_peaks *peaks) {
    opencl_device *d = (opencl_device *)device;
    const char *stream = "";
    *peaks = (sm_peaks){0};
    SM_TRY(measure_bandwidth(d, seconds / 2, &peaks->bandwidth_bytes_per_s, &stream));
    if (precision.dtype == SM_F32 && precision.products == SM_PRODUCTS_PLAIN) {
        SM_TRY(measure_flops(d, seconds / 2, &peaks->flops));
    }
    snprintf(peaks->source, sizeof peaks->source,
             "measured: OpenCL fp32 multiply-adds in registers; %s of large arrays; %d units", stream,
             d->facts.n_units);
    return SM_OK;
}
