// matrix.c: finds a device's matrix units. Those count that gave the right numbers; the compute capability says which.

#include "backends/opencl/nvidia/tensor.h"

// --- running one instruction ---------------------------------------------------------------------------------

enum { M = 16, N = 8, K = 16 }; // of an instruction

static bool computes(opencl_device *d, const char *name, sm_dtype dtype) {
    const opencl_known_product p = {
        .M = M, .N = N, .K = K, .dtype = dtype, .b_dtype = dtype, .c_dtype = SM_F32, .b_transposed = true};
    const size_t items = 32;
    unsigned char a[4 * M * K] = {0};
    unsigned char b[4 * N * K] = {0};
    float c[M * N] = {0};
    SM_AT_END(opencl_end_kernel) cl_kernel kernel = NULL;
    opencl_put_operands(&p, a, b);
    SM_AT_END(opencl_end_buffer) cl_mem of_a = opencl_make_buffer(d, sizeof a, a);
    SM_AT_END(opencl_end_buffer) cl_mem of_b = opencl_make_buffer(d, sizeof b, b);
    SM_AT_END(opencl_end_buffer) cl_mem of_c = opencl_make_buffer(d, sizeof c, c);
    const opencl_argument arguments[] = {OPENCL_ARGUMENT(of_a), OPENCL_ARGUMENT(of_b), OPENCL_ARGUMENT(of_c)};
    return of_a != NULL && of_b != NULL && of_c != NULL &&
           opencl_get_kernel(d, "tensor_probe", "", name, &kernel) == SM_OK &&
           opencl_set_arguments(d, kernel, arguments, 3) == SM_OK &&
           opencl.clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &items, &items, 0, NULL, NULL) == CL_SUCCESS &&
           opencl.clEnqueueReadBuffer(d->queue, of_c, CL_TRUE, 0, sizeof c, c, 0, NULL, NULL) == CL_SUCCESS &&
           opencl_count_wrong(&p, c) == 0;
}

// --- running a product by wgmma ------------------------------------------------------------------------------

// Odd sizes, so that tiles go beyond the matrices; three work-groups for the four tiles, or more.
enum { WIDE_M = 200, WIDE_N = 264, WIDE_K = 144, WIDE_GROUPS = 3, GROUP_ROWS = 64, GROUP_ITEMS = 128 };

static const float byte_scales[] = {2, 4}; // by which bytes of A and B count as multiplied

// The programs to try; many products use each.
typedef struct {
    opencl_known_product of;
    int tile_n, cols; // columns of a tile, and of a box of 128 bytes
    const char *options;
    bool has_sums; // of the columns of B
} wide_kind;

// That multiply, each 64 rows of a tile: square tiles have 64.
static int groups_of(const wide_kind *w) { return w->tile_n == GROUP_ROWS ? 1 : 2; }

#define WIDE(a, b, c, along_k)                                                                                  \
    {                                                                                                           \
        .M = WIDE_M, .N = WIDE_N, .K = WIDE_K, .dtype = a, .b_dtype = b, .c_dtype = c, .b_transposed = along_k, \
        .has_bias = true, .divisor = (a) == SM_E4M3 || (a) == SM_E5M2 ? 2 * 4 : 0                               \
    }
#define WIDE_BF16 "-DTILE_N=256 -DSTAGES=4 -DBESIDE=2 -DDATA_BF16"
static const wide_kind wide_kinds[] = {
    [SM_PRODUCTS_PLAIN] = {WIDE(SM_BF16, SM_BF16, SM_BF16, false), 256, 64, WIDE_BF16, false},
    [SM_PRODUCTS_TF32] = {WIDE(SM_F32, SM_F32, SM_F32, true), 256, 32, "-DTILE_N=256 -DSTAGES=4 -DBESIDE=2 -DA_RAW=1",
                          false},
    [SM_PRODUCTS_TF32X3] = {WIDE(SM_F32, SM_F32, SM_F32, true), 128, 32,
                            "-DTILE_N=128 -DSTAGES=4 -DBESIDE=2 -DSPLIT=1 -DA_RAW=1", false},
};
static const wide_kind wide_with_sums[] = {
    {WIDE(SM_BF16, SM_BF16, SM_BF16, false), 256, 64, WIDE_BF16 " -DCOLUMN_SUMS=1", true}};
static const wide_kind wide_low[] = {{WIDE(SM_BF16, SM_BF16, SM_BF16, false), 64, 64,
                                      "-DTILE_N=64 -DSTAGES=8 -DBESIDE=2 -DSPARING -DCONSUMERS=1 -DDATA_BF16", false}};
static const wide_kind wide_bytes[] = {
    {WIDE(SM_E4M3, SM_E4M3, SM_BF16, true), 256, 64, WIDE_BF16 " -DB_TRANSPOSED -DFP8_A=e4m3 -DFP8_B=e4m3", false},
    {WIDE(SM_E5M2, SM_E4M3, SM_BF16, true), 256, 64, WIDE_BF16 " -DB_TRANSPOSED -DFP8_A=e5m2 -DFP8_B=e4m3", false},
    {WIDE(SM_E4M3, SM_E5M2, SM_BF16, true), 256, 64, WIDE_BF16 " -DB_TRANSPOSED -DFP8_A=e4m3 -DFP8_B=e5m2", false},
};

static bool is_of_bytes(const wide_kind *w) { return sm_dtype_size(w->of.dtype) == 1; }

// Two bytes count as one number of 16 bits.
static int counted_k(const wide_kind *w) { return is_of_bytes(w) ? w->of.K / 2 : w->of.K; }

// A, B, C, and B's small parts, which are zero for whole numbers.
enum {
    WIDE_BUFFERS = 4,
    WIDE_MAPS = 5,
    A_ELEMS = WIDE_M * WIDE_K,
    B_ELEMS = WIDE_K * WIDE_N,
    C_ELEMS = WIDE_M * WIDE_N,
    STRIPS = 3 * 2 // of sums: three warps, two rows of tiles
};

static bool are_sums_right(const float strips[STRIPS * WIDE_N]) {
    for (int n = 0; n < WIDE_N; n++) {
        float difference = 0;
        for (int i = 0; i < STRIPS; i++) {
            difference += strips[i * WIDE_N + n];
        }
        for (int k = 0; k < WIDE_K; k++) {
            difference -= opencl_known_b(k, n);
        }
        if (!(difference == 0)) {
            return false;
        }
    }
    return true;
}

static sm_status encode_wide(opencl_device *d, const wide_kind *w, cl_mem buffers[WIDE_BUFFERS],
                             unsigned char maps[WIDE_MAPS * OPENCL_MAP_BYTES]) {
    const sm_dtype dtype = w->of.c_dtype; // two bytes are a number of 16 bits
    const int k = counted_k(w);
    const opencl_tensor_map of_b =
        w->of.b_transposed
            ? (opencl_tensor_map){.dtype = dtype, .n_dims = 2, .dims = {k, WIDE_N}, .box = {w->cols, w->tile_n}}
            : (opencl_tensor_map){.dtype = dtype, .n_dims = 2, .dims = {WIDE_N, k}, .box = {w->cols, w->cols}};
    const opencl_tensor_map of_c = {.dtype = dtype, .n_dims = 3, .dims = {WIDE_N, WIDE_M, 1}, .box = {w->cols, 64, 1}};
    const opencl_tensor_map of_a = {
        .dtype = dtype, .n_dims = 2, .dims = {k, WIDE_M}, .box = {w->cols, GROUP_ROWS * groups_of(w)}};
    const opencl_tensor_map shapes[WIDE_MAPS] = {of_a, of_b, of_c, of_c, of_b};
    static const int buffer_of[WIDE_MAPS] = {0, 1, 2, 2, 3}; // the fourth is unused
    for (int i = 0; i < WIDE_MAPS; i++) {
        uint64_t address = 0;
        SM_TRY(opencl_find_address(d, buffers[buffer_of[i]], &address));
        opencl_encode_map(&shapes[i], address, maps + (size_t)i * OPENCL_MAP_BYTES);
    }
    return SM_OK;
}

static sm_status set_wide_arguments(const opencl_device *d, const wide_kind *w, cl_kernel kernel, cl_mem maps,
                                    cl_mem bias, cl_mem sums) {
    const cl_uint numbers[] = {OPENCL_BIAS, WIDE_M, WIDE_N, (cl_uint)counted_k(w), 1, 8}; // one part, bands of 8
    const cl_ulong at = 0;
    const cl_ulong second = 1;
    const opencl_argument arguments[] = {
        OPENCL_ARGUMENT(numbers[0]), OPENCL_ARGUMENT(numbers[1]), OPENCL_ARGUMENT(numbers[2]),
        OPENCL_ARGUMENT(numbers[3]), OPENCL_ARGUMENT(numbers[4]), OPENCL_ARGUMENT(numbers[5]),
        OPENCL_ARGUMENT(maps),       OPENCL_ARGUMENT(at),         OPENCL_ARGUMENT(bias),
        OPENCL_ARGUMENT(at),         OPENCL_ARGUMENT(sums),       OPENCL_ARGUMENT(at),
        OPENCL_ARGUMENT(sums),       OPENCL_ARGUMENT(second)};
    return opencl_set_arguments(d, kernel, arguments, is_of_bytes(w) ? 14 : w->has_sums ? 12 : 10);
}

static sm_status multiply_wide(opencl_device *d, const wide_kind *w, cl_mem buffers[WIDE_BUFFERS], unsigned char *c,
                               float strips[STRIPS * WIDE_N]) {
    const size_t strips_bytes = STRIPS * WIDE_N * sizeof *strips;
    const size_t local = (size_t)(groups_of(w) + 1) * GROUP_ITEMS;
    const size_t global = WIDE_GROUPS * local;
    unsigned char maps[WIDE_MAPS * OPENCL_MAP_BYTES];
    float bias[WIDE_N];
    SM_AT_END(opencl_end_kernel) cl_kernel kernel = NULL;
    for (int i = 0; i < WIDE_N; i++) {
        bias[i] = opencl_known_bias(i);
    }
    memcpy(strips, byte_scales, is_of_bytes(w) ? sizeof byte_scales : 0);
    SM_TRY(encode_wide(d, w, buffers, maps));
    SM_TRY(opencl_get_kernel(d, "matmul_wgmma", w->options, "matmul", &kernel));
    SM_AT_END(opencl_end_buffer) cl_mem of_maps = opencl_make_buffer(d, sizeof maps, maps);
    SM_AT_END(opencl_end_buffer) cl_mem of_bias = opencl_make_buffer(d, sizeof bias, bias);
    SM_AT_END(opencl_end_buffer) cl_mem of_sums = opencl_make_buffer(d, strips_bytes, strips); // or scales
    SM_FAIL_IF(of_maps == NULL || of_bias == NULL || of_sums == NULL, SM_ERR_OOM, "%s: no memory", id_of(d));
    SM_TRY(set_wide_arguments(d, w, kernel, of_maps, of_bias, of_sums));
    SM_TRY(OPENCL_CALL(d, clEnqueueNDRangeKernel, d->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL));
    SM_TRY(OPENCL_CALL(d, clEnqueueReadBuffer, d->queue, buffers[2], CL_TRUE, 0, C_ELEMS * sm_dtype_size(w->of.c_dtype),
                       c, 0, NULL, NULL));
    return OPENCL_CALL(d, clEnqueueReadBuffer, d->queue, of_sums, CL_TRUE, 0, strips_bytes, strips, 0, NULL, NULL);
}

// Runs the kernel of products, with its tensor maps: "" if its numbers are right, otherwise the error. All bits of C
// and of the sums are set before, so missing writes are NaN.
static void try_wgmma(opencl_device *d, const void *what, char *trouble, size_t size_bytes) {
    const wide_kind *w = what;
    const size_t width = sm_dtype_size(w->of.c_dtype); // or more than A and B have
    float strips[STRIPS * WIDE_N];
    SM_FREED unsigned char *a = sm_calloc(A_ELEMS + 2 * B_ELEMS + C_ELEMS, width);
    unsigned char *b = a + A_ELEMS * width;
    unsigned char *small_b = b + B_ELEMS * width;
    unsigned char *c = small_b + B_ELEMS * width;
    snprintf(trouble, size_bytes, "no memory for its test");
    opencl_put_operands(&w->of, a, b);
    memset(c, 0xFF, C_ELEMS * width);
    memset(strips, 0xFF, sizeof strips);
    cl_mem buffers[WIDE_BUFFERS] = {
        opencl_make_buffer(d, A_ELEMS * width, a), opencl_make_buffer(d, B_ELEMS * width, b),
        opencl_make_buffer(d, C_ELEMS * width, c), opencl_make_buffer(d, B_ELEMS * width, small_b)};
    if (buffers[0] != NULL && buffers[1] != NULL && buffers[2] != NULL && buffers[3] != NULL) {
        const sm_status status = multiply_wide(d, w, buffers, c, strips);
        const bool right =
            status == SM_OK && opencl_count_wrong(&w->of, c) == 0 && (!w->has_sums || are_sums_right(strips));
        snprintf(trouble, size_bytes, "%.*s", SM_TEXT_SIZE - 1,
                 status != SM_OK ? sm_error_message()
                 : right         ? ""
                                 : "its numbers are wrong");
    }
    for (int i = 0; i < WIDE_BUFFERS; i++) {
        opencl_release_buffer(buffers[i]);
    }
}

// --- what a device has ----------------------------------------------------------------------------------------

static void run_probe(const opencl_facts *facts, opencl_matrix_units *units) {
    enum { WGMMA_CAPABILITY = 90 };
    opencl_device d;
    bool is_awaited = false;
    if (opencl_open_to_try(facts, &opencl_family_tensor, &d)) {
        // Now, as other processes would have delayed this one's context.
        is_awaited = opencl_begin_early != NULL && opencl_begin_early(facts);
        units->has_mma = computes(&d, "probe_bf16", SM_BF16) && computes(&d, "probe_f16", SM_F16) &&
                         computes(&d, "probe_tf32", SM_F32);
    }
    if (!units->has_mma || facts->compute_capability != WGMMA_CAPABILITY) {
        snprintf(units->no_wgmma, sizeof units->no_wgmma, "the device is not of compute capability 9.0");
    } else {
        try_wgmma(&d, &wide_kinds[SM_PRODUCTS_PLAIN], units->no_wgmma, sizeof units->no_wgmma);
        units->has_wgmma = units->no_wgmma[0] == '\0';
    }
    if (is_awaited && units->has_wgmma && opencl_keep_context(facts, d.context)) {
        d.context = NULL;
    }
    opencl_close_tried(&d);
    if (!units->has_mma) {
        snprintf(units->missing, sizeof units->missing, "its matrix units do not build, run or compute as expected");
    }
}

// --- what is known ----------------------------------------------------------------------------------------

static void make_key(const opencl_facts *f, const char *of, char *key, size_t size_bytes) {
    static const char *const stems[] = {
        "tensor",          "tensor_probe",     "tma", "wgmma", "matmul_wgmma", "attention_wgmma", "heads",
        "attention_tiles", "attention_tensor", NULL};
    opencl_probe_key(f, SM_TEXT_IN(512, "matrix units|%s", of), stems, key, size_bytes);
}

// A good result from another process also counts.
static void find(const opencl_facts *facts, opencl_matrix_units *units) {
    enum { LEAST_CAPABILITY = 80 };
    char key[1024];
    unsigned char *kept = NULL;
    size_t n_bytes = 0;
    if (facts->compute_capability < LEAST_CAPABILITY) {
        snprintf(units->missing, sizeof units->missing, "the device tells of no matrix units (compute capability 8.0)");
        return;
    }
    make_key(facts, "all", key, sizeof key);
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

enum { MOST_DEVICES = 64 };

typedef enum { NOT_TRIED, RIGHT, WRONG } finding;

static struct {
    cl_device_id id;
    opencl_matrix_units units;
    finding floats[SM_PRODUCTS_TF32X3 + 1]; // by wgmma, for each way to multiply floats
    finding uses[OPENCL_FOR_BYTES + 1];
    struct {
        bool is_tried;
        char trouble[SM_TEXT_SIZE];
    } attention[2][OPENCL_HEADS_KINDS]; // by wgmma, for bf16 and fp16
} known[MOST_DEVICES];

// Its index in `known`; -1: there are too many.
static int find_device(const opencl_facts *facts) {
    for (int i = 0; i < MOST_DEVICES; i++) {
        if (known[i].id == NULL) {
            known[i].id = facts->id;
            find(facts, &known[i].units);
        }
        if (known[i].id == facts->id) {
            return i;
        }
    }
    return -1;
}

const opencl_matrix_units *opencl_find_matrix_units(const opencl_facts *facts) {
    static const opencl_matrix_units none = {.missing = "too many devices"};
    const int i = find_device(facts);
    return i >= 0 ? &known[i].units : &none;
}

// Whether it was found right before, in another process, or is now; that is kept. Otherwise `trouble` has the error.
static bool recall_or_try(const opencl_facts *facts, const char *of,
                          void (*try)(opencl_device *d, const void *what, char *trouble, size_t size_bytes),
                          const void *what, char trouble[SM_TEXT_SIZE]) {
    char key[1024];
    unsigned char *kept = NULL;
    size_t n_bytes = 0;
    opencl_device d;
    trouble[0] = '\0';
    make_key(facts, of, key, sizeof key);
    const bool is_known = opencl_cache_load(key, &kept, &n_bytes) == SM_OK && kept != NULL;
    free(kept);
    if (is_known) {
        return true;
    }
    snprintf(trouble, SM_TEXT_SIZE, "the device does not open");
    if (opencl_open_to_try(facts, &opencl_family_tensor, &d)) {
        try(&d, what, trouble, SM_TEXT_SIZE);
    }
    opencl_close_tried(&d);
    if (trouble[0] == '\0') {
        opencl_cache_store(key, (const unsigned char *)"right", sizeof "right");
    }
    return trouble[0] == '\0';
}

// Whether products of n kinds are right. They are tried when a plan first has some, as that builds other programs.
static bool are_right(const opencl_facts *facts, finding *found, const wide_kind *kinds, int n) {
    char trouble[SM_TEXT_SIZE];
    for (int k = 0; k < n && *found == NOT_TRIED; k++) {
        const bool is_right = recall_or_try(facts, kinds[k].options, try_wgmma, &kinds[k], trouble);
        *found = !is_right ? WRONG : k == n - 1 ? RIGHT : NOT_TRIED;
    }
    return *found == RIGHT;
}

bool opencl_has_wgmma(const opencl_facts *facts, sm_dtype dtype, sm_products products) {
    const int i = find_device(facts);
    if (i < 0 || !known[i].units.has_wgmma || sm_dtype_is_narrow(dtype)) {
        return i >= 0 && known[i].units.has_wgmma;
    }
    return products != SM_PRODUCTS_PLAIN && are_right(facts, &known[i].floats[products], &wide_kinds[products], 1);
}

bool opencl_has_wgmma_for(const opencl_facts *facts, opencl_wgmma_use use) {
    static const struct {
        const wide_kind *kinds;
        int n;
    } of[] = {[OPENCL_FOR_SUMS] = {wide_with_sums, 1},
              [OPENCL_FOR_LOW] = {wide_low, 1},
              [OPENCL_FOR_BYTES] = {wide_bytes, 3}};
    const int i = find_device(facts);
    return i >= 0 && known[i].units.has_wgmma && are_right(facts, &known[i].uses[use], of[use].kinds, of[use].n);
}

static sm_status make_attention_maps(opencl_device *d, const opencl_attention_example *x, cl_mem *buffer) {
    const opencl_tensor_map of_qkv = opencl_map_rows(x->dtype, 1, x->T, x->qkv_cols);
    const opencl_tensor_map of_dy = opencl_map_rows(x->dtype, 1, x->T, x->y_cols);
    unsigned char maps[2 * OPENCL_MAP_BYTES];
    uint64_t qkv = 0;
    uint64_t dy = 0;
    SM_TRY(opencl_find_address(d, x->qkv, &qkv));
    SM_TRY(opencl_find_address(d, x->dy, &dy));
    opencl_encode_map(&of_qkv, qkv, maps);
    opencl_encode_map(&of_dy, dy, maps + OPENCL_MAP_BYTES);
    *buffer = opencl_make_buffer(d, sizeof maps, maps);
    return *buffer != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "%s: no memory for tensor maps", id_of(d));
}

typedef struct {
    sm_dtype dtype;
    opencl_heads heads;
} tried_heads;

static sm_status find_attention(opencl_device *d, const void *of, const opencl_attention_example *x, int HS, int part,
                                opencl_attention_kernel *k) {
    enum { OPTIONS_SIZE = 320, WARP_ROWS = 16, WARP_ITEMS = 32 };
    char options[OPTIONS_SIZE];
    const opencl_score_sizes s = opencl_wgmma_score_sizes(((const tried_heads *)of)->heads, part);
    opencl_attention_options(&s, part, HS, false, options, sizeof options);
    strncat(options, opencl_data_option(x->dtype), sizeof options - strlen(options) - 1);
    k->items = (size_t)(s.warps * WARP_ITEMS);
    k->own = s.warps * WARP_ROWS;
    SM_TRY(make_attention_maps(d, x, &k->maps));
    return opencl_get_kernel(d, "attention_wgmma", options, opencl_attention_kernels[part], &k->kernel);
}

static void try_heads(opencl_device *d, const void *what, char *trouble, size_t size_bytes) {
    const tried_heads *h = what;
    const int HS = h->heads == OPENCL_HEADS_128 ? 128 : 64;
    opencl_try_attention(d, h->dtype, HS, find_attention, h, trouble, size_bytes);
}

const char *opencl_wgmma_attention_trouble(const opencl_facts *facts, sm_dtype dtype, opencl_heads heads) {
    static const char *const names[OPENCL_HEADS_KINDS] = {"64", "64 long", "64 few", "64 fewest", "128"};
    const int i = find_device(facts);
    const tried_heads h = {dtype, heads};
    char of[64];
    if (i < 0 || !known[i].units.has_wgmma || !sm_dtype_is_narrow(dtype) || heads == OPENCL_OTHER_HEADS) {
        return "the units have no such products";
    }
    char *trouble = known[i].attention[dtype == SM_F16][heads].trouble;
    bool *is_tried = &known[i].attention[dtype == SM_F16][heads].is_tried;
    if (!*is_tried) {
        snprintf(of, sizeof of, "attention %s %s", sm_dtype_name(dtype), names[heads]);
        recall_or_try(facts, of, try_heads, &h, trouble);
        *is_tried = true;
    }
    return trouble;
}

bool opencl_has_wgmma_attention(const opencl_facts *facts, sm_dtype dtype, opencl_heads heads) {
    return opencl_wgmma_attention_trouble(facts, dtype, heads)[0] == '\0';
}
