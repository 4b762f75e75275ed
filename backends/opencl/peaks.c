// peaks.c: measures a device's peak arithmetic and bandwidth, with special kernels (cl/peaks*.cl).
//
// Each figure is the best of several launches, timed by the device: a ceiling is an undisturbed speed.

#include "backends/host/median.h"
#include "backends/host/memory.h"
#include "backends/opencl/opencl.h"

enum { N_BUFFERS = 3, MOST_ROUNDS = 1 << 24, MOST_TRIALS = 1024, N_STREAMS = 2 };

static const double LAUNCH_SECONDS = 0.01;

// The rates of the latest launches; FLOP/s or bytes/s.
typedef struct {
    double rates[MOST_TRIALS];
    int n;
} trials;

static void add_trial(trials *t, double rate) {
    if (t->n < MOST_TRIALS) {
        t->rates[t->n++] = rate;
    }
}

static double best_of(const trials *t) {
    double best = 0;
    for (int i = 0; i < t->n; i++) {
        best = t->rates[i] > best ? t->rates[i] : best;
    }
    return best;
}

// A kernel with its arguments.
static sm_status make_kernel(opencl_device *device, const char *stem, const char *more_options, const char *name,
                             const opencl_argument *arguments, int n, cl_kernel *kernel) {
    char options[96];
    snprintf(options, sizeof options, "-DN_CHAINS=%d %s", OPENCL_PEAK_CHAINS, more_options);
    SM_TRY(opencl_get_kernel(device, stem, options, name, kernel));
    return opencl_set_arguments(device, *kernel, arguments, n);
}

// Seconds of one launch, by the device's clock.
static sm_status time_launch(const opencl_device *device, cl_kernel kernel, size_t n_items, size_t group,
                             double *seconds) {
    int64_t elapsed_ns = 0;
    cl_event event = NULL;
    cl_int code = opencl.clEnqueueNDRangeKernel(device->profile, kernel, 1, NULL, &n_items, &group, 0, NULL, &event);
    SM_TRY(opencl_check(id_of(device), "clEnqueueNDRangeKernel", code));
    code = opencl.clFinish(device->profile);
    sm_status status = code == CL_SUCCESS ? opencl_event_ns(device, event, &elapsed_ns)
                                          : opencl_fail(id_of(device), "measuring peaks", code);
    opencl.clReleaseEvent(event);
    *seconds = (double)(elapsed_ns + 1) * 1e-9;
    return status;
}

static sm_status create_buffer(const opencl_device *device, size_t size_bytes, cl_mem *buffer) {
    const cl_float one = 1;
    cl_int code = CL_SUCCESS;
    *buffer = opencl.clCreateBuffer(device->context, CL_MEM_READ_WRITE, size_bytes, NULL, &code);
    SM_TRY(opencl_check(id_of(device), "clCreateBuffer", code));
    return OPENCL_CALL(device, clEnqueueFillBuffer, device->profile, *buffer, &one, sizeof one, 0, size_bytes, 0, NULL,
                       NULL);
}

// --- arithmetic -----------------------------------------------------------------------------------------

static opencl_arithmetic plain_arithmetic(const opencl_device *device) {
    enum { GROUPS_A_UNIT = 16 };
    // Not several items on a processor: PoCL 7.1 keeps their chains in memory, one item's next to the other's.
    const size_t group = device->sizes.row_items > 1 ? (size_t)device->sizes.group : 1;
    return (opencl_arithmetic){.stem = "peaks",
                               .options = device->sizes.row_items > 1 ? "-DWHOLE" : "",
                               .what = "fp32 multiply-adds in registers",
                               .group = group,
                               .n_groups = (size_t)(GROUPS_A_UNIT * device->facts.n_units),
                               .flops_a_group = 2.0 * OPENCL_PEAK_CHAINS * device->sizes.vector * (double)group,
                               .share = 1};
}

// Rounds in a launch, doubled until one takes LAUNCH_SECONDS.
static sm_status time_rounds(opencl_device *device, const opencl_arithmetic *of, cl_kernel kernel, double seconds,
                             trials *t) {
    cl_uint n_rounds = 256;
    const int64_t end_ns = host_now_ns() + (int64_t)(seconds * 1e9);
    do {
        double took;
        SM_TRY(opencl_check(id_of(device), of->stem, opencl.clSetKernelArg(kernel, 0, sizeof n_rounds, &n_rounds)));
        SM_TRY(time_launch(device, kernel, of->n_groups * of->group, of->group, &took));
        add_trial(t, of->share * of->flops_a_group * (double)n_rounds * (double)of->n_groups / took);
        if (took < LAUNCH_SECONDS && n_rounds < MOST_ROUNDS) {
            n_rounds *= 2;
            t->n = 0; // too short to count
        }
    } while (host_now_ns() < end_ns || t->n == 0);
    return SM_OK;
}

static sm_status measure_flops(opencl_device *device, const opencl_arithmetic *of, double seconds, trials *t) {
    const cl_uint n_rounds = 0;
    const cl_float a = 0.5f;
    const cl_float b = 1.0f;
    const bool is_plain = strcmp(of->stem, "peaks") == 0;
    SM_AT_END(opencl_end_buffer) cl_mem out = NULL;
    SM_AT_END(opencl_end_kernel) cl_kernel kernel = NULL;
    SM_TRY(create_buffer(device, of->n_groups * of->group * sizeof(float), &out));
    SM_TRY(make_kernel(
        device, of->stem, of->options, "peak_flops",
        (opencl_argument[]){OPENCL_ARGUMENT(n_rounds), OPENCL_ARGUMENT(out), OPENCL_ARGUMENT(a), OPENCL_ARGUMENT(b)},
        is_plain ? 4 : 2, &kernel));
    return time_rounds(device, of, kernel, seconds, t);
}

// --- bandwidth ------------------------------------------------------------------------------------------

// Elements of each of the arrays: 256 MiB together, but no more than an eighth of the memory.
static cl_ulong choose_elems(const opencl_facts *f) {
    enum { STEP = 1 << 18 }; // whole vecs for every item of either stream
    double total_bytes = 256.0 * (1 << 20) * (f->is_cpu ? 1 : 4);
    const double most_bytes = (double)f->memory_bytes / 8;
    total_bytes = total_bytes > most_bytes ? most_bytes : total_bytes;
    return (cl_ulong)(total_bytes / (N_BUFFERS * sizeof(float))) / STEP * STEP;
}

static const char *const stream_names[N_STREAMS] = {"triad", "reading"};

// The two streams alternate, so that disturbances affect both.
static sm_status time_streams(opencl_device *device, const cl_kernel kernels[N_STREAMS],
                              const size_t n_items[N_STREAMS], cl_ulong n, double seconds, trials t[N_STREAMS]) {
    const double moved_bytes[N_STREAMS] = {3.0 * sizeof(float) * (double)n, 1.0 * sizeof(float) * (double)n};
    const size_t group = device->sizes.row_items == 1 ? 1 : (size_t)device->sizes.group;
    const int64_t end_ns = host_now_ns() + (int64_t)(seconds * 1e9);
    do {
        for (int i = 0; i < N_STREAMS; i++) {
            double took;
            SM_TRY(time_launch(device, kernels[i], n_items[i], group, &took));
            add_trial(&t[i], moved_bytes[i] / took);
        }
    } while (host_now_ns() < end_ns);
    return SM_OK;
}

typedef struct {
    cl_mem x[N_BUFFERS];
    cl_kernel kernels[N_STREAMS];
} streams;

static void end_streams(streams *s) {
    for (int i = 0; i < N_STREAMS; i++) {
        opencl_release_kernel(s->kernels[i]);
    }
    for (int i = 0; i < N_BUFFERS; i++) {
        opencl_release_buffer(s->x[i]);
    }
}

static sm_status measure_bandwidth(opencl_device *device, double seconds, trials t[N_STREAMS]) {
    enum { CPU_VECS = 4096, CARD_ITEMS = 1 << 16 };
    const bool is_cpu = device->sizes.row_items == 1;
    const cl_ulong vector = (cl_ulong)device->sizes.vector;
    const cl_ulong n = choose_elems(&device->facts);
    const char *options = plain_arithmetic(device).options; // the same program
    const cl_ulong n_vecs[] = {is_cpu ? CPU_VECS : 1, is_cpu ? CPU_VECS : n / vector / CARD_ITEMS};
    const size_t n_items[] = {(size_t)(n / vector / n_vecs[0]), (size_t)(n / vector / n_vecs[1])};
    const cl_ulong item_step = is_cpu ? n_vecs[1] * vector : vector;
    const cl_ulong stride = is_cpu ? vector : (cl_ulong)n_items[1] * vector;
    const cl_float f = 0.5f;
    SM_AT_END(end_streams) streams s = {{NULL}, {NULL}};
    for (int i = 0; i < N_BUFFERS; i++) {
        SM_TRY(create_buffer(device, (size_t)n * sizeof(float), &s.x[i]));
    }
    SM_TRY(make_kernel(device, "peaks", options, "peak_triad",
                       (opencl_argument[]){OPENCL_ARGUMENT(n), OPENCL_ARGUMENT(n_vecs[0]), OPENCL_ARGUMENT(f),
                                           OPENCL_ARGUMENT(s.x[0]), OPENCL_ARGUMENT(s.x[1]), OPENCL_ARGUMENT(s.x[2])},
                       6, &s.kernels[0]));
    SM_TRY(make_kernel(device, "peaks", options, "peak_read",
                       (opencl_argument[]){OPENCL_ARGUMENT(n), OPENCL_ARGUMENT(n_vecs[1]), OPENCL_ARGUMENT(item_step),
                                           OPENCL_ARGUMENT(stride), OPENCL_ARGUMENT(s.x[0]), OPENCL_ARGUMENT(s.x[2])},
                       6, &s.kernels[1]));
    return time_streams(device, s.kernels, n_items, n, seconds, t);
}

// --- what is asked for ----------------------------------------------------------------------------------

// The arithmetic of a plan in that precision.
static opencl_arithmetic choose_arithmetic(const opencl_device *device, sm_precision precision) {
    const bool on_units = sm_dtype_is_narrow(precision.dtype) ? device->family->multiplies_narrow
                                                              : opencl_family_multiplies(device, precision.products);
    return on_units ? device->family->peak(device, precision) : plain_arithmetic(device);
}

sm_status opencl_measure_peaks(sm_device *device, sm_precision precision, double seconds, sm_peaks *peaks) {
    opencl_device *d = (opencl_device *)device;
    const opencl_arithmetic of = choose_arithmetic(d, precision);
    SM_FREED trials *t = sm_calloc(1 + N_STREAMS, sizeof *t);
    *peaks = (sm_peaks){0};
    SM_TRY(measure_bandwidth(d, seconds / 2, t + 1));
    SM_TRY(measure_flops(d, &of, seconds / 2, t));
    const int stream = best_of(&t[1]) >= best_of(&t[2]) ? 0 : 1;
    peaks->bandwidth_bytes_per_s = best_of(&t[1 + stream]);
    peaks->flops = best_of(t);
    snprintf(peaks->source, sizeof peaks->source, "measured: OpenCL %s; %s of large arrays; %d units", of.what,
             stream_names[stream], d->facts.n_units);
    return SM_OK;
}

static void fill_in(trials *t, sm_ceiling *ceiling) {
    ceiling->best = best_of(t);
    ceiling->n_trials = t->n;
    ceiling->median = t->n > 0 ? host_median(t->rates, t->n) : 0;
}

// Measures fp32, and the formats of the device's units.
static sm_status measure_arithmetic(opencl_device *device, trials *t, double seconds, sm_ceiling_sink sink, void *ctx) {
    static const struct {
        const char *name;
        sm_precision precision;
    } kinds[] = {{"fma f32", {SM_F32, SM_PRODUCTS_PLAIN}},
                 {"products bf16", {SM_BF16, SM_PRODUCTS_PLAIN}},
                 {"products fp16", {SM_F16, SM_PRODUCTS_PLAIN}},
                 {"products tf32", {SM_F32, SM_PRODUCTS_TF32}},
                 {"products fp8", {SM_BF16, SM_PRODUCTS_FP8}}};
    const int n = device->family->multiplies_narrow ? (int)(sizeof kinds / sizeof kinds[0]) : 1;
    for (int i = 0; i < n; i++) {
        if (kinds[i].precision.products != SM_PRODUCTS_PLAIN &&
            !opencl_family_multiplies(device, kinds[i].precision.products)) {
            continue;
        }
        const opencl_arithmetic of = choose_arithmetic(device, kinds[i].precision);
        sm_ceiling ceiling = {.name = kinds[i].name, .where = "registers", .unit = "FLOP/s"};
        char meaning[SM_TEXT_SIZE];
        snprintf(meaning, sizeof meaning, "%s; a multiply and an add count one each", of.what);
        ceiling.meaning = meaning;
        t->n = 0;
        if (measure_flops(device, &of, seconds, t) == SM_OK) {
            fill_in(t, &ceiling);
        } else {
            snprintf(ceiling.reason, sizeof ceiling.reason, "%.*s", SM_TEXT_SIZE - 1, sm_error_message());
        }
        SM_TRY(sink(ctx, &ceiling));
    }
    return SM_OK;
}

sm_status opencl_measure_ceilings(sm_device *device, double seconds, sm_ceiling_sink sink, void *ctx) {
    opencl_device *d = (opencl_device *)device;
    static const char *const names[N_STREAMS] = {"triad", "read"};
    static const char *const meanings[N_STREAMS] = {"a = b + f c; bytes read and written",
                                                    "sum of an array; bytes read"};
    SM_FREED trials *t = sm_calloc(N_STREAMS, sizeof *t);
    SM_TRY(measure_arithmetic(d, t, seconds, sink, ctx));
    t->n = 0;
    SM_TRY(measure_bandwidth(d, N_STREAMS * seconds, t));
    for (int i = 0; i < N_STREAMS; i++) {
        sm_ceiling ceiling = {.name = names[i], .where = "memory", .unit = "bytes/s", .meaning = meanings[i]};
        fill_in(&t[i], &ceiling);
        SM_TRY(sink(ctx, &ceiling));
    }
    return SM_OK;
}
