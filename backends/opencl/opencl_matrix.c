// opencl_matrix.c: which matrix units a device has. Only what ran and gave the right numbers counts; the extension that
// tells a compute capability says where it is worth a try.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl_bind.h"
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
    return x == 0 ? 0
                  : (uint16_t)((bits >> 16 & 0x8000u) | (((bits >> 23 & 0xFFu) - 112u) << 10) | (bits >> 13 & 0x3FFu));
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

// --- running one instruction
// --------------------------------------------------------------------------------------------

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

static void release(cl_mem buffer) {
    if (buffer != NULL) {
        opencl.clReleaseMemObject(buffer);
    }
}

static bool launch(opencl_device *d, cl_kernel kernel, cl_mem buffers[3], float c[M * N]) {
    const size_t items = 32;
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < 3; i++) {
        code = code == CL_SUCCESS ? opencl.clSetKernelArg(kernel, i, sizeof buffers[i], &buffers[i]) : code;
    }
    code = code == CL_SUCCESS ? opencl.clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL)
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
    const bool right =
        buffers[0] != NULL && buffers[1] != NULL && buffers[2] != NULL && launch(d, kernel, buffers, c) && is_right(c);
    for (int i = 0; i < 3; i++) {
        release(buffers[i]);
    }
    opencl.clReleaseKernel(kernel);
    return right;
}

// --- running a product by wgmma ------------------------------------------------------------------------------

// Odd sizes, so that tiles reach beyond the matrices; three work-groups for the four tiles.
enum { WIDE_M = 200, WIDE_N = 264, WIDE_K = 136, WIDE_GROUPS = 3, WIDE_ITEMS = 384 };

static float bias_at(int n) { return (float)(n % 5 - 2); }

static uint16_t wide_expected(int m, int n) {
    float sum = bias_at(n);
    for (int k = 0; k < WIDE_K; k++) {
        sum += a_at(m, k) * b_at(k, n);
    }
    return sm_bf16_round(sum);
}

static void put_wide(uint16_t *a, uint16_t *b, uint16_t *c) {
    for (int k = 0; k < WIDE_K; k++) {
        for (int m = 0; m < WIDE_M; m++) {
            a[m * WIDE_K + k] = sm_bf16_round(a_at(m, k));
        }
        for (int n = 0; n < WIDE_N; n++) {
            b[k * WIDE_N + n] = sm_bf16_round(b_at(k, n));
        }
    }
    for (int i = 0; i < WIDE_M * WIDE_N; i++) {
        c[i] = 0x7FC0; // no number: what is left of it shows
    }
}

static bool is_wide_right(const uint16_t *c) {
    for (int m = 0; m < WIDE_M; m++) {
        for (int n = 0; n < WIDE_N; n++) {
            if (c[m * WIDE_N + n] != wide_expected(m, n)) {
                return false;
            }
        }
    }
    return true;
}

static sm_status encode_wide(opencl_device *d, cl_mem buffers[3], unsigned char maps[4 * OPENCL_MAP_BYTES]) {
    const opencl_tensor_map shapes[] = {
        {.dtype = SM_BF16, .n_dims = 2, .dims = {WIDE_K, WIDE_M}, .box = {64, 128}},
        {.dtype = SM_BF16, .n_dims = 2, .dims = {WIDE_N, WIDE_K}, .box = {64, 64}},
        {.dtype = SM_BF16, .n_dims = 3, .dims = {WIDE_N, WIDE_M, 1}, .box = {64, 64, 1}},
    };
    for (int i = 0; i < 3; i++) {
        uint64_t address = 0;
        SM_TRY(opencl_find_address(d, buffers[i], &address));
        opencl_encode_map(&shapes[i], address, maps + (size_t)i * OPENCL_MAP_BYTES);
    }
    memcpy(maps + 3 * OPENCL_MAP_BYTES, maps + 2 * OPENCL_MAP_BYTES, OPENCL_MAP_BYTES); // not used
    return SM_OK;
}

static cl_int set_wide_args(cl_kernel kernel, cl_mem maps, cl_mem bias) {
    const cl_uint numbers[] = {OPENCL_BIAS, WIDE_M, WIDE_N, WIDE_K, 1, 8}; // one part, bands of 8
    const cl_mem buffers[] = {maps, bias};
    const cl_ulong at = 0;
    cl_uint n = 0;
    cl_int code = CL_SUCCESS;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && code == CL_SUCCESS; i++) {
        code = opencl.clSetKernelArg(kernel, n++, sizeof numbers[i], &numbers[i]);
    }
    for (int i = 0; i < 2 && code == CL_SUCCESS; i++) {
        code = opencl.clSetKernelArg(kernel, n++, sizeof buffers[i], &buffers[i]);
        code = code == CL_SUCCESS ? opencl.clSetKernelArg(kernel, n++, sizeof at, &at) : code;
    }
    return code;
}

static sm_status multiply_wide(opencl_device *d, cl_mem buffers[3], uint16_t *c) {
    const size_t local = WIDE_ITEMS;
    const size_t global = (size_t)WIDE_GROUPS * WIDE_ITEMS;
    const char *id = d->base.info.id;
    unsigned char maps[4 * OPENCL_MAP_BYTES];
    float bias[WIDE_N];
    cl_kernel kernel = NULL;
    for (int i = 0; i < WIDE_N; i++) {
        bias[i] = bias_at(i);
    }
    SM_TRY(encode_wide(d, buffers, maps));
    SM_TRY(opencl_get_kernel(d, "matmul_wgmma", OPENCL_WGMMA_PROBE, "matmul", &kernel));
    cl_mem map_buffer = make_buffer(d, sizeof maps, maps);
    cl_mem bias_buffer = make_buffer(d, sizeof bias, bias);
    cl_int code = map_buffer != NULL && bias_buffer != NULL ? set_wide_args(kernel, map_buffer, bias_buffer)
                                                            : CL_OUT_OF_HOST_MEMORY;
    if (code == CL_SUCCESS) {
        code = opencl.clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
    }
    if (code == CL_SUCCESS) {
        code =
            opencl.clEnqueueReadBuffer(d->queue, buffers[2], CL_TRUE, 0, sizeof *c * WIDE_M * WIDE_N, c, 0, NULL, NULL);
    }
    release(map_buffer);
    release(bias_buffer);
    opencl.clReleaseKernel(kernel);
    return opencl_check(id, "a product by wgmma", code);
}

// The kernel that products run, with its tensor maps.
static void try_wgmma(opencl_device *d, opencl_matrix_units *units) {
    enum { A_BYTES = 2 * WIDE_M * WIDE_K, B_BYTES = 2 * WIDE_K * WIDE_N, C_BYTES = 2 * WIDE_M * WIDE_N };
    uint16_t *a = malloc(A_BYTES + B_BYTES + C_BYTES);
    if (a == NULL) {
        snprintf(units->no_wgmma, sizeof units->no_wgmma, "no memory for its test");
        return;
    }
    uint16_t *b = a + WIDE_M * WIDE_K;
    uint16_t *c = b + WIDE_K * WIDE_N;
    put_wide(a, b, c);
    cl_mem buffers[3] = {make_buffer(d, A_BYTES, a), make_buffer(d, B_BYTES, b), make_buffer(d, C_BYTES, c)};
    if (buffers[0] == NULL || buffers[1] == NULL || buffers[2] == NULL) {
        snprintf(units->no_wgmma, sizeof units->no_wgmma, "no memory for its test");
    } else if (multiply_wide(d, buffers, c) != SM_OK) {
        snprintf(units->no_wgmma, sizeof units->no_wgmma, "%.*s", SM_TEXT_SIZE - 1, sm_error_message());
    } else {
        units->has_wgmma = is_wide_right(c);
        snprintf(units->no_wgmma, sizeof units->no_wgmma, "%s", units->has_wgmma ? "" : "its numbers are wrong");
    }
    for (int i = 0; i < 3; i++) {
        release(buffers[i]);
    }
    free(a);
}

// --- what a device has ----------------------------------------------------------------------------------------

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
    enum { WGMMA_CAPABILITY = 90 };
    opencl_device d;
    if (open_device(facts, &d)) {
        units->has_mma = computes(&d, "probe_bf16", AS_BF16) && computes(&d, "probe_f16", AS_F16) &&
                         computes(&d, "probe_tf32", AS_F32);
    }
    if (!units->has_mma || facts->compute_capability != WGMMA_CAPABILITY) {
        snprintf(units->no_wgmma, sizeof units->no_wgmma, "the device is not of compute capability 9.0");
    } else {
        try_wgmma(&d, units);
    }
    close_device(&d);
    if (!units->has_mma) {
        snprintf(units->missing, sizeof units->missing, "its matrix units do not build, run or compute as expected");
    }
}

// --- what is known ----------------------------------------------------------------------------------------

static void make_key(const opencl_facts *f, char *key, size_t size_bytes) {
    static const char *const stems[] = {"tensor", "tensor_probe", "matmul_wgmma"};
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
