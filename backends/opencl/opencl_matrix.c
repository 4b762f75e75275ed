// opencl_matrix.c: which matrix units a device has. Only what ran and gave the right numbers counts; the extension that
// tells a compute capability says where it is worth a try.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"
#include "opencl_sources.h"
#include "opencl_tier.h"

#include "bf16.h"
#include "host_cache.h"

enum { M = 16, N = 8, K = 16 };

// Small whole numbers, exact in every format. B is (N,K), transposed.
static float a_at(int m, int k) { return (float)((m * 7 + k * 3) % 11 - 5); }
static float b_at(int k, int n) { return (float)((k * 5 + n * 2) % 7 - 3); }

static float expected(int m, int n) {
    float sum = 0;
    for (int k = 0; k < K; k++) {
        sum += a_at(m, k) * b_at(k, n);
    }
    return sum;
}

// A small whole number in IEEE's 16 bits.
static uint16_t to_f16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return x == 0 ? 0 : (uint16_t)((bits >> 16 & 0x8000u) | (((bits >> 23 & 0xFFu) - 112u) << 10) | (bits >> 13 & 0x3FFu));
}

typedef enum { AS_BF16, AS_F16, AS_F32 } format;

// One operand in its format at `to`; the bytes it takes.
static size_t put(format f, float x, void *to) {
    const uint16_t narrow = f == AS_BF16 ? sm_bf16_round(x) : to_f16(x);
    const size_t n_bytes = f == AS_F32 ? sizeof x : sizeof narrow;
    memcpy(to, f == AS_F32 ? (const void *)&x : (const void *)&narrow, n_bytes);
    return n_bytes;
}

static size_t put_operands(format f, unsigned char a[4 * M * K], unsigned char b[4 * N * K]) {
    size_t width = 0;
    for (int k = 0; k < K; k++) {
        for (int m = 0; m < M; m++) {
            width = put(f, a_at(m, k), a + (size_t)(m * K + k) * (f == AS_F32 ? 4 : 2));
        }
        for (int n = 0; n < N; n++) {
            put(f, b_at(k, n), b + (size_t)(n * K + k) * width);
        }
    }
    return width;
}

// --- running --------------------------------------------------------------------------------------------

static cl_mem make_buffer(opencl_device *d, size_t n_bytes, const void *from) {
    cl_int code = CL_SUCCESS;
    cl_mem buffer = opencl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, n_bytes, NULL, &code);
    if (buffer != NULL && from != NULL &&
        opencl.clEnqueueWriteBuffer(d->queue, buffer, CL_TRUE, 0, n_bytes, from, 0, NULL, NULL) != CL_SUCCESS) {
        opencl.clReleaseMemObject(buffer);
        buffer = NULL;
    }
    return buffer;
}

static bool launch(opencl_device *d, cl_kernel kernel, cl_mem buffers[3], float c[M * N]) {
    const size_t items = 32;
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < 3; i++) {
        code = code == CL_SUCCESS ? opencl.clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]) : code;
    }
    code = code == CL_SUCCESS
               ? opencl.clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL)
               : code;
    return code == CL_SUCCESS && opencl.clEnqueueReadBuffer(d->queue, buffers[2], CL_TRUE, 0, M * N * sizeof *c, c, 0,
                                                            NULL, NULL) == CL_SUCCESS;
}

static bool is_right(const float c[M * N]) {
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            if (!(c[m * N + n] == expected(m, n))) {
                return false;
            }
        }
    }
    return true;
}

static bool computes(opencl_device *d, const char *name, format f) {
    unsigned char a[4 * M * K] = {0};
    unsigned char b[4 * N * K] = {0};
    float c[M * N] = {0};
    cl_kernel kernel = NULL;
    if (opencl_get_kernel(d, "tensor_probe", "", name, &kernel) != SM_OK) {
        return false;
    }
    put_operands(f, a, b);
    cl_mem buffers[3] = {make_buffer(d, sizeof a, a), make_buffer(d, sizeof b, b), make_buffer(d, sizeof c, c)};
    const bool right = buffers[0] != NULL && buffers[1] != NULL && buffers[2] != NULL && launch(d, kernel, buffers, c) &&
                       is_right(c);
    for (int i = 0; i < 3; i++) {
        if (buffers[i] != NULL) {
            opencl.clReleaseMemObject(buffers[i]);
        }
    }
    opencl.clReleaseKernel(kernel);
    return right;
}

// A device for the probe alone.
static bool open_device(const opencl_facts *facts, opencl_device *d) {
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)facts->platform, 0};
    cl_int code = CL_SUCCESS;
    *d = (opencl_device){.facts = *facts, .tier = &opencl_tier_local};
    snprintf(d->base.info.id, sizeof d->base.info.id, "opencl:%d.%d", facts->platform_index, facts->device_index);
    d->context = opencl.clCreateContext(properties, 1, &facts->id, NULL, NULL, &code);
    d->queue = code == CL_SUCCESS ? opencl.clCreateCommandQueue(d->context, facts->id, 0, &code) : NULL;
    return code == CL_SUCCESS;
}

static void close_device(opencl_device *d) {
    opencl_free_programs(d);
    if (d->queue != NULL) {
        opencl.clReleaseCommandQueue(d->queue);
    }
    if (d->context != NULL) {
        opencl.clReleaseContext(d->context);
    }
}

static void run_probe(const opencl_facts *facts, opencl_matrix_units *units) {
    opencl_device d;
    if (open_device(facts, &d)) {
        units->has_mma = computes(&d, "probe_bf16", AS_BF16) && computes(&d, "probe_f16", AS_F16) &&
                         computes(&d, "probe_tf32", AS_F32);
    }
    close_device(&d);
    if (!units->has_mma) {
        snprintf(units->missing, sizeof units->missing, "its matrix units do not build, run or compute as expected");
    }
}

// --- what is known ----------------------------------------------------------------------------------------

static void make_key(const opencl_facts *f, char *key, size_t size_bytes) {
    static const char *const stems[] = {"tensor", "tensor_probe"};
    uint64_t hash = HOST_HASH_START;
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        opencl_source source;
        if (opencl_find_source(stems[i], &source)) {
            hash = host_hash(hash, source.text, source.size_bytes);
        }
    }
    snprintf(key, size_bytes, "matrix units|%s|%s|%s|%s|%016llx", f->platform_name, f->name, f->version, f->driver,
             (unsigned long long)hash);
}

// Also what was found in another process counts, if it was good.
static void find(const opencl_facts *facts, opencl_matrix_units *units) {
    enum { LEAST_CAPABILITY = 80 };
    char key[1024];
    unsigned char *kept = NULL;
    size_t n_bytes = 0;
    if (facts->compute_capability < LEAST_CAPABILITY) {
        snprintf(units->missing, sizeof units->missing, "the device tells of no matrix units (compute capability 8.0)");
        return;
    }
    make_key(facts, key, sizeof key);
    if (opencl_cache_load(key, &kept, &n_bytes) == SM_OK && kept != NULL && n_bytes == sizeof *units) {
        memcpy(units, kept, sizeof *units);
    } else {
        run_probe(facts, units);
        if (units->has_mma) {
            opencl_cache_store(key, (const unsigned char *)units, sizeof *units);
        }
    }
    free(kept);
}

const opencl_matrix_units *opencl_find_matrix_units(const opencl_facts *facts) {
    enum { MOST_DEVICES = 64 };
    static struct {
        cl_device_id id;
        opencl_matrix_units units;
    } known[MOST_DEVICES];
    static opencl_matrix_units none = {.missing = "too many devices"};
    for (int i = 0; i < MOST_DEVICES; i++) {
        if (known[i].id == NULL) {
            known[i].id = facts->id;
            find(facts, &known[i].units);
        }
        if (known[i].id == facts->id) {
            return &known[i].units;
        }
    }
    return &none;
}
