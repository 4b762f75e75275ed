// probe.c: small products of whole numbers, exact in every format, by the kernels that plans run.
#include <unistd.h>

#include "backends/opencl/units/units.h"

// Odd sizes, so that tiles reach beyond the matrices; more than two tiles of K, and a part of one.
enum { M = 200, N = 264, K = 136 };

typedef struct {
    opencl_device *device;
    const opencl_unit *unit;
    units_format format;
    opencl_known_product of;
    bool blocks;
} product;

static sm_status launch(const product *p, cl_kernel kernel, const units_tile *tile, const cl_mem buffers[4], float *c) {
    opencl_device *d = p->device;
    const cl_ulong sizes[] = {M, N, K, 64 / sm_dtype_size(p->of.dtype) * opencl_count_up(K, 16)};
    const cl_ulong at = 0;
    const cl_uint beside = OPENCL_BIAS;
    const opencl_argument arguments[] = {
        OPENCL_ARGUMENT(beside),   OPENCL_ARGUMENT(sizes[0]),   OPENCL_ARGUMENT(sizes[1]), OPENCL_ARGUMENT(sizes[2]),
        OPENCL_ARGUMENT(sizes[3]), OPENCL_ARGUMENT(buffers[0]), OPENCL_ARGUMENT(at),       OPENCL_ARGUMENT(buffers[1]),
        OPENCL_ARGUMENT(at),       OPENCL_ARGUMENT(buffers[2]), OPENCL_ARGUMENT(at),       OPENCL_ARGUMENT(buffers[3]),
        OPENCL_ARGUMENT(at),       OPENCL_ARGUMENT(buffers[3]), OPENCL_ARGUMENT(at),       OPENCL_ARGUMENT(buffers[3]),
        OPENCL_ARGUMENT(at)};
    const size_t items = (size_t)units_items(p->unit, tile);
    const size_t local[] = {items, 1};
    const size_t global[] = {(size_t)opencl_count_up(N, tile->fn * p->unit->tn * tile->waves_n) * items,
                             (size_t)opencl_count_up(M, tile->fm * p->unit->tm * tile->waves_m)};
    SM_TRY(opencl_set_arguments(d, kernel, arguments, sizeof arguments / sizeof arguments[0]));
    SM_TRY(opencl_check(id_of(d), "a product",
                        opencl.clEnqueueNDRangeKernel(d->queue, kernel, 2, NULL, global, local, 0, NULL, NULL)));
    return opencl_check(
        id_of(d), "a product",
        opencl.clEnqueueReadBuffer(d->queue, buffers[2], CL_TRUE, 0, (size_t)M * N * sizeof *c, c, 0, NULL, NULL));
}

static sm_status run(const product *p, const unsigned char *a, const unsigned char *b, float *c) {
    enum { OPTIONS_SIZE = 320 };
    char options[OPTIONS_SIZE];
    float bias[N];
    SM_AT_END(opencl_end_kernel) cl_kernel kernel = NULL;
    const size_t width = sm_dtype_size(p->of.dtype);
    const units_tile *tile = p->format == UNITS_TF32X3         ? &p->unit->split[0]
                             : sm_dtype_is_narrow(p->of.dtype) ? &p->unit->narrow[0]
                                                               : &p->unit->floats[0];
    for (int n = 0; n < N; n++) {
        bias[n] = opencl_known_bias(n);
    }
    memset(c, 0xFF, (size_t)M * N * sizeof *c); // no numbers
    units_product_options(p->unit, p->format, tile, p->of.a_transposed, p->of.b_transposed, p->blocks, OPENCL_BIAS,
                          options, sizeof options);
    strncat(options, sm_dtype_is_narrow(p->of.dtype) ? " -DC_REAL" : "", sizeof options - strlen(options) - 1);
    strncat(options, opencl_data_option(p->of.dtype), sizeof options - strlen(options) - 1);
    SM_TRY(opencl_get_kernel(p->device, "matmul_units", options, "matmul", &kernel));
    SM_AT_END(opencl_end_buffer) cl_mem of_a = opencl_make_buffer(p->device, (size_t)M * K * width, a);
    SM_AT_END(opencl_end_buffer) cl_mem of_b = opencl_make_buffer(p->device, (size_t)K * N * width, b);
    SM_AT_END(opencl_end_buffer) cl_mem of_c = opencl_make_buffer(p->device, (size_t)M * N * sizeof *c, c);
    SM_AT_END(opencl_end_buffer) cl_mem of_bias = opencl_make_buffer(p->device, sizeof bias, bias);
    SM_FAIL_IF(of_a == NULL || of_b == NULL || of_c == NULL || of_bias == NULL, SM_ERR_OOM,
               "%s: no memory for a product", id_of(p->device));
    return launch(p, kernel, tile, (const cl_mem[]){of_a, of_b, of_c, of_bias}, c);
}

static void try_product(const product *p, units_tried *t) {
    SM_FREED unsigned char *a = sm_calloc((size_t)K * (M + N), sizeof(float));
    SM_FREED float *c = sm_calloc((size_t)M * N, sizeof *c);
    unsigned char *b = a + (size_t)M * K * sizeof(float);
    opencl_put_operands(&p->of, a, b);
    const sm_status status = run(p, a, b, c);
    const int n_wrong = status == SM_OK ? opencl_count_wrong(&p->of, c) : 0;
    t->is_right = status == SM_OK && n_wrong == 0;
    if (status != SM_OK) {
        snprintf(t->trouble, sizeof t->trouble, "%.*s", UNITS_TRIED_TEXT - 1, sm_error_message());
    } else if (n_wrong > 0) {
        snprintf(t->trouble, sizeof t->trouble, "%d of %d numbers are wrong", n_wrong, M * N);
    }
}

static void tell(const units_tried *tried) {
    (void)!write(STDOUT_FILENO, tried, sizeof *tried); // a pipe takes a record as a whole
}

static void try_format(opencl_device *d, units_format format, bool blocks) {
    static const struct {
        const char *name;
        bool a_transposed, b_transposed;
    } forms[] = {{"NT", false, true}, {"NN", false, false}, {"TN", true, false}};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const product p = {.device = d,
                           .unit = units_of(&d->facts),
                           .format = format,
                           .of = {.M = M,
                                  .N = N,
                                  .K = K,
                                  .dtype = units_dtype_of(format),
                                  .b_dtype = units_dtype_of(format),
                                  .c_dtype = SM_F32,
                                  .a_transposed = forms[i].a_transposed,
                                  .b_transposed = forms[i].b_transposed,
                                  .has_bias = true},
                           .blocks = blocks};
        units_tried t = {.format = (int32_t)format, .kind = blocks ? UNITS_BLOCKS : UNITS_PRODUCTS};
        if (blocks && p.of.a_transposed) {
            continue;
        }
        snprintf(t.what, sizeof t.what, "%s: %s products %s, %s", p.unit->level, units_format_names[format],
                 forms[i].name, blocks ? "by block reads" : "through local memory");
        tell(&t);
        try_product(&p, &t);
        tell(&t);
    }
}

static void try_attention(opencl_device *d, units_format format) {
    static const int heads[] = {64, 40, 128}; // channels: as of GPT-2, of no whole fragment, and as of Llama
    const opencl_unit *unit = units_of(&d->facts);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        units_tried t = {.format = (int32_t)format, .kind = UNITS_ATTENTION};
        if (!units_has_attention(&d->facts, format, heads[i])) {
            continue;
        }
        snprintf(t.what, sizeof t.what, "%s: %s attention, heads of %d channels", unit->level,
                 units_format_names[format], heads[i]);
        tell(&t);
        char trouble[SM_TEXT_SIZE * 2] = "";
        opencl_try_attention(d, units_dtype_of(format), heads[i], units_find_attention, &format, trouble,
                             sizeof trouble);
        snprintf(t.trouble, sizeof t.trouble, "%.*s", UNITS_TRIED_TEXT - 1, trouble);
        t.is_right = trouble[0] == '\0';
        tell(&t);
    }
}

// Tells what it is about to do (not right, without trouble) and what came of it.
void units_help(const opencl_facts *facts) {
    const opencl_unit *unit = units_of(facts);
    opencl_device d;
    if (unit == NULL) {
        return;
    }
    const bool is_open = opencl_open_to_try(facts, &opencl_family_mfma, &d); // which has the programs of all units
    for (int format = 0; is_open && format < N_UNITS_FORMATS; format++) {
        if (unit->formats[format]) {
            try_format(&d, (units_format)format, false);
        }
        if (unit->formats[format] && units_reads_blocks(facts) && format <= UNITS_F16) {
            try_format(&d, (units_format)format, true);
        }
        if (unit->formats[format]) {
            char which[64];
            char options[128];
            cl_program program; // in the cache: it is not built by the process that measures
            units_options(unit, (units_format)format, which, sizeof which);
            snprintf(options, sizeof options, "-DN_CHAINS=%d %s%s", OPENCL_PEAK_CHAINS, which,
                     opencl_data_option(units_dtype_of((units_format)format)));
            (void)opencl_get_program(&d, "peaks_units", options, &program);
            try_attention(&d, (units_format)format);
        }
    }
    opencl_close_tried(&d);
}

// --- programs -----------------------------------------------------------------------------------------------------

static void print_program(const char *stem, const char *options, sm_dtype dtype, const char *more) {
    printf("%s %s%s%s\n", stem, options, opencl_data_option(dtype), more);
}

static void list_products(const opencl_unit *unit, units_format format, bool blocks) {
    enum { OPTIONS_SIZE = 320 };
    enum { N_FINISHES = 4 }; // the last is of a part of K: floats, in scratch
    static const uint32_t finishes[N_FINISHES] = {OPENCL_BIAS, OPENCL_BIAS | OPENCL_ACT,
                                                  OPENCL_BIAS | OPENCL_ACT_BACKWARD, 0};
    char options[OPTIONS_SIZE];
    const sm_dtype dtype = units_dtype_of(format);
    const units_tile *tiles = format == UNITS_TF32X3      ? unit->split
                              : sm_dtype_is_narrow(dtype) ? unit->narrow
                                                          : unit->floats;
    for (int tile = 0; tile < UNITS_TILES; tile++) {
        for (int form = 0; form < (blocks ? 2 : 3); form++) { // NT, NN, TN
            for (int f = form < 2 ? 0 : N_FINISHES - 1; f < N_FINISHES; f++) {
                units_product_options(unit, format, &tiles[tile], form == 2, form == 0, blocks, finishes[f], options,
                                      sizeof options);
                print_program("matmul_units", options, dtype,
                              finishes[f] == 0 && sm_dtype_is_narrow(dtype) ? " -DC_REAL" : "");
            }
        }
    }
}

void units_list(const opencl_facts *facts) {
    enum { OPTIONS_SIZE = 320 };
    const opencl_unit *unit = units_of(facts);
    char options[OPTIONS_SIZE];
    for (int i = 0; unit != NULL && i < N_UNITS_FORMATS; i++) {
        const units_format format = (units_format)i;
        if (!unit->formats[format]) {
            continue;
        }
        list_products(unit, format, false);
        if (units_reads_blocks(facts) && format <= UNITS_F16) {
            list_products(unit, format, true);
        }
        units_options(unit, format, options, sizeof options);
        print_program("peaks_units", options, units_dtype_of(format), "");
        print_program("matmul_units", options, units_dtype_of(format), " -DSUM_ONLY=1");
        units_list_attention(facts, format);
    }
}
