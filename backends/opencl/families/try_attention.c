// try_attention.c: tests attention on matrix units before it is used: a small example, forward and backward, with the
// programs of plans, against attention computed here.
#include <math.h>

#include "backends/opencl/families/families.h"

// Two heads of queries share a head of keys and values. The last tile of rows is incomplete.
enum { T = 100, NH = 2, NKV = 1, LANES = NH + 2 * NKV, N_ARGS = 8 };

// y and dqkv differ from the values computed here by rounding of weights and results to 16 bits.
static const double LARGEST_ERROR = 0.02;

// --- as it should be --------------------------------------------------------------------------------

// Rows of T tokens: qkv and dqkv have LANES HS channels (queries of NH heads, keys, values), y and dy NH HS.
typedef struct {
    int HS;
    float *qkv, *dy, *y, *dqkv;
} example;

static size_t qkv_elems(const example *x) { return (size_t)T * LANES * (size_t)x->HS; }
static size_t y_elems(const example *x) { return (size_t)T * NH * (size_t)x->HS; }

static const float *channels(const example *x, const float *rows, int t, int lane) {
    return rows + ((size_t)t * LANES + (size_t)lane) * (size_t)x->HS;
}

static double dot(const float *a, const float *b, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (double)a[i] * b[i];
    }
    return sum;
}

static void add(float *to, double factor, const float *from, int n) {
    for (int i = 0; i < n; i++) {
        to[i] += (float)(factor * from[i]);
    }
}

static void weigh(const example *x, int head, int t, double weights[T]) {
    double sum = 0;
    for (int s = 0; s <= t; s++) {
        weights[s] = exp(dot(channels(x, x->qkv, t, head), channels(x, x->qkv, s, NH), x->HS) / sqrt(x->HS));
        sum += weights[s];
    }
    for (int s = 0; s <= t; s++) {
        weights[s] /= sum;
    }
}

// Row t of a head: y, and its contribution to the gradients of q, k and v.
static void attend_row(example *x, int head, int t) {
    const int HS = x->HS;
    float *y = x->y + ((size_t)t * NH + (size_t)head) * (size_t)HS;
    const float *dy = x->dy + (y - x->y);
    double weights[T];
    weigh(x, head, t, weights);
    for (int s = 0; s <= t; s++) {
        add(y, weights[s], channels(x, x->qkv, s, NH + NKV), HS);
    }
    const double D = dot(dy, y, HS);
    for (int s = 0; s <= t; s++) {
        const double dp = dot(dy, channels(x, x->qkv, s, NH + NKV), HS);
        const double ds = weights[s] * (dp - D) / sqrt(HS);
        add((float *)channels(x, x->dqkv, t, head), ds, channels(x, x->qkv, s, NH), HS);
        add((float *)channels(x, x->dqkv, s, NH), ds, channels(x, x->qkv, t, head), HS);
        add((float *)channels(x, x->dqkv, s, NH + NKV), weights[s], dy, HS);
    }
}

// Numbers from -1 to 1, as stored.
static void fill(sm_dtype dtype, float *x, size_t n, uint32_t state) {
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(int32_t)state / 2147483648.0f;
    }
    sm_dtype_round_trip(dtype, (int64_t)n, x);
}

static void make_example(sm_dtype dtype, int HS, example *x) {
    *x = (example){.HS = HS};
    x->qkv = sm_calloc(2 * (qkv_elems(x) + y_elems(x)), sizeof *x->qkv);
    x->dqkv = x->qkv + qkv_elems(x);
    x->y = x->dqkv + qkv_elems(x);
    x->dy = x->y + y_elems(x);
    fill(dtype, x->qkv, qkv_elems(x), 1);
    fill(dtype, x->dy, y_elems(x), 2);
    for (int t = 0; t < T; t++) {
        for (int head = 0; head < NH; head++) {
            attend_row(x, head, t);
        }
    }
}

// --- as the device has it -----------------------------------------------------------------------------

typedef struct {
    cl_mem qkv, dy, y, dqkv, lse, D;
} buffers;

cl_mem opencl_make_buffer(opencl_device *d, size_t n_bytes, const void *from) {
    cl_int code = CL_SUCCESS;
    cl_mem buffer = opencl.clCreateBuffer(d->context, CL_MEM_READ_WRITE, n_bytes, NULL, &code);
    if (buffer != NULL && from != NULL &&
        opencl.clEnqueueWriteBuffer(d->queue, buffer, CL_TRUE, 0, n_bytes, from, 0, NULL, NULL) != CL_SUCCESS) {
        opencl.clReleaseMemObject(buffer);
        buffer = NULL;
    }
    return buffer;
}

bool opencl_open_to_try(const opencl_facts *facts, const opencl_family *family, opencl_device *d) {
    cl_int code = CL_SUCCESS;
    const bool is_open = opencl_open_to_build(facts, d) == SM_OK;
    opencl_set_family(d, family); // with its options, as plans use the programs, too
    d->queue = is_open ? opencl.clCreateCommandQueue(d->context, facts->id, 0, &code) : NULL;
    return is_open && code == CL_SUCCESS;
}

void opencl_close_tried(opencl_device *d) {
    opencl_free_programs(d);
    opencl_release_queue(d->queue);
    opencl_release_context(d->context);
}

static cl_mem make_numbers(opencl_device *d, sm_dtype dtype, const float *from, size_t n) {
    const size_t n_bytes = n * sm_dtype_size(dtype);
    SM_FREED void *codes = sm_malloc(n_bytes);
    memset(codes, 0xFF, n_bytes); // NaN, to detect missing writes
    if (from != NULL) {
        sm_dtype_format(dtype)->round((int64_t)n, from, codes);
    }
    return opencl_make_buffer(d, n_bytes, codes);
}

static bool make_buffers(opencl_device *d, sm_dtype dtype, const example *x, buffers *b) {
    b->qkv = make_numbers(d, dtype, x->qkv, qkv_elems(x));
    b->dy = make_numbers(d, dtype, x->dy, y_elems(x));
    b->y = make_numbers(d, dtype, NULL, y_elems(x));
    b->dqkv = make_numbers(d, dtype, NULL, qkv_elems(x));
    b->lse = opencl_make_buffer(d, (size_t)NH * T * sizeof(float), NULL);
    b->D = opencl_make_buffer(d, (size_t)NH * T * sizeof(float), NULL);
    return b->qkv != NULL && b->dy != NULL && b->y != NULL && b->dqkv != NULL && b->lse != NULL && b->D != NULL;
}

static void release_buffers(const buffers *b) {
    const cl_mem all[] = {b->qkv, b->dy, b->y, b->dqkv, b->lse, b->D};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        opencl_release_buffer(all[i]);
    }
}

// The shape, no documents, no dropout, then the part's buffers; unused parameters get any buffer.
static sm_status set_arguments(const opencl_device *d, const opencl_attention_kernel *k, int part, const buffers *b) {
    const cl_ulong shape[] = {T, NH, NKV, part == OPENCL_ATTENTION_KEYS ? NKV : NH};
    const cl_ulong key = 0;
    const cl_uint threshold = 0;
    const cl_float drop_scale = 1;
    const cl_ulong at = 0;
    const cl_mem lists[OPENCL_ATTENTION_PARTS][N_ARGS] = {
        [OPENCL_ATTENTION_FORWARD] = {k->maps, b->qkv, b->lse, b->y, b->lse},
        [OPENCL_ATTENTION_ROWS] = {k->maps, b->dy, b->qkv, b->lse, b->lse, b->y, b->D, b->dqkv},
        [OPENCL_ATTENTION_KEYS] = {k->maps, b->dy, b->qkv, b->lse, b->lse, b->D, b->dqkv},
    };
    enum { N_FIRST = 9 };
    opencl_argument arguments[N_FIRST + 2 * N_ARGS] = {
        OPENCL_ARGUMENT(shape[0]), OPENCL_ARGUMENT(shape[1]),  OPENCL_ARGUMENT(shape[2]),
        OPENCL_ARGUMENT(shape[3]), OPENCL_ARGUMENT(b->lse),    OPENCL_ARGUMENT(at), // no documents
        OPENCL_ARGUMENT(key),      OPENCL_ARGUMENT(threshold), OPENCL_ARGUMENT(drop_scale)};
    int n = N_FIRST;
    for (int i = k->maps == NULL; i < N_ARGS && lists[part][i] != NULL; i++) {
        arguments[n++] = (opencl_argument)OPENCL_ARGUMENT(lists[part][i]);
        arguments[n++] = (opencl_argument)OPENCL_ARGUMENT(at);
    }
    return opencl_set_arguments(d, k->kernel, arguments, n);
}

static sm_status run_part(opencl_device *d, sm_dtype dtype, int HS, int part, opencl_find_attention find,
                          const void *of, const buffers *b) {
    const opencl_attention_example tensors = {dtype, T, (int64_t)LANES * HS, (int64_t)NH * HS, b->qkv, b->dy};
    opencl_attention_kernel k = {0};
    sm_status status = find(d, of, &tensors, HS, part, &k);
    const int n_heads = part == OPENCL_ATTENTION_KEYS ? NKV : NH;
    const size_t global[] = {k.items * (size_t)((T + k.own - 1) / k.own * n_heads), 2};
    const size_t local[] = {k.items, 1};
    if (status == SM_OK) {
        status = set_arguments(d, &k, part, b);
    }
    if (status == SM_OK) {
        status = opencl_check(
            id_of(d), opencl_attention_kernels[part],
            opencl.clEnqueueNDRangeKernel(d->queue, k.kernel, k.is_apart ? 2 : 1, NULL, global, local, 0, NULL, NULL));
    }
    opencl_release_kernel(k.kernel);
    opencl_release_buffer(k.maps);
    return status;
}

// The size of the difference relative to the expected size; NaN if the device wrote none.
static double find_error(opencl_device *d, sm_dtype dtype, cl_mem buffer, const float *expected, size_t n) {
    const size_t n_bytes = n * sm_dtype_size(dtype);
    SM_FREED void *codes = sm_malloc(n_bytes);
    SM_FREED float *values = sm_malloc(n * sizeof *values);
    double error = 0;
    double size = 0;
    if (opencl.clEnqueueReadBuffer(d->queue, buffer, CL_TRUE, 0, n_bytes, codes, 0, NULL, NULL) != CL_SUCCESS) {
        return NAN;
    }
    sm_dtype_format(dtype)->widen((int64_t)n, codes, values);
    for (size_t i = 0; i < n; i++) {
        error += ((double)values[i] - expected[i]) * ((double)values[i] - expected[i]);
        size += (double)expected[i] * expected[i];
    }
    return sqrt(error / size);
}

void opencl_try_attention(opencl_device *d, sm_dtype dtype, int HS, opencl_find_attention find, const void *of,
                          char *trouble, size_t size_bytes) {
    example x;
    buffers b = {0};
    snprintf(trouble, size_bytes, "no memory for its test");
    make_example(dtype, HS, &x);
    if (make_buffers(d, dtype, &x, &b)) {
        sm_status status = SM_OK;
        for (int part = 0; part < OPENCL_ATTENTION_PARTS && status == SM_OK; part++) {
            status = run_part(d, dtype, HS, part, find, of, &b);
        }
        const double y_error = find_error(d, dtype, b.y, x.y, y_elems(&x));
        const double dqkv_error = find_error(d, dtype, b.dqkv, x.dqkv, qkv_elems(&x));
        const bool is_right = y_error <= LARGEST_ERROR && dqkv_error <= LARGEST_ERROR;
        if (status != SM_OK) {
            snprintf(trouble, size_bytes, "%.200s", sm_error_message());
        } else if (!is_right) {
            snprintf(trouble, size_bytes, "its numbers are wrong: y by %.2g, its gradients by %.2g", y_error,
                     dqkv_error);
        } else {
            trouble[0] = '\0';
        }
    }
    release_buffers(&b);
    free(x.qkv);
}
