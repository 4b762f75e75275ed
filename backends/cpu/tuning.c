// tuning.c: tries the implementations of each matmul of a plan, and keeps the fastest.
//
// A matmul is tried on separate, random operands, by all threads as in a step, after the caches were filled with other
// data. Every candidate must compute the same as the default. Then each runs once, and those near the best run in
// turns; the default stays unless another is clearly faster.
#include <math.h>
#include <stdarg.h>

#include "backends/cpu/blas.h"
#include "backends/host/tuning.h"

enum { MAX_CANDIDATES = 16, TEXT_SIZE = 128, ROUNDS = 5 };

static const size_t sweep_bytes = (size_t)64 << 20;        // read before each run, so that operands come from memory,
enum { SWEEP_OPERANDS = 8 };                               // but at most this many times the matmul's operands
static const int64_t longest_ns = 2 * (int64_t)1000000000; // for one matmul
static const double near_best = 1.1;                       // of the first time: worth measuring again
static const double clearly_faster = 0.97;                 // of the default's time

// Other blockings than the default; none needs more scratch (matmul/product.c).
static const cpu_blocking blockings[] = {
    {.slice_k = 512, .block_tiles = 32, .block_cols = 1152},
    {.slice_k = 384, .block_tiles = 48, .block_cols = 1152},
    {.slice_k = 768, .block_tiles = 24, .block_cols = 768},
};

typedef struct {
    cpu_device *device;
    cpu_executable *e;
    host_tuning *remembered;
    cpu_choice candidates[MAX_CANDIDATES]; // the default first
    int n_candidates;
    float *sweep;        // memory to read before each run
    int64_t sweep_elems; // as much as the rest of a step reads between two runs
    host_op op;          // the op to try, with separate operands
    void *expected;      // the default's result
} tuner;

__attribute__((format(printf, 2, 3))) static void warn(tuner *t, const char *format, ...) {
    char *warning = t->e->base.tune_warning;
    if (warning[0] == '\0') {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(warning, sizeof t->e->base.tune_warning, format, arguments);
        va_end(arguments);
    }
}

// --- candidates ---------------------------------------------------------------------------------

static void add_candidate(tuner *t, cpu_method method, cpu_blocking blocking) {
    if (t->n_candidates < MAX_CANDIDATES) {
        t->candidates[t->n_candidates++] = (cpu_choice){method, blocking};
    }
}

// Products of narrow data, and those in parts, are our own kernels' alone.
static void list_candidates(tuner *t) {
    const sm_plan *plan = t->e->base.plan;
    const bool packed = plan->dtype == SM_F32 && plan->products == SM_PRODUCTS_PLAIN &&
                        strcmp(t->device->isa->name, "baseline") != 0; // there OpenBLAS is the default
    add_candidate(t, CPU_BY_DEFAULT, (cpu_blocking){0});
    if (packed && cpu_blas_load(t->device->keep_env)) {
        add_candidate(t, CPU_BY_OPENBLAS, (cpu_blocking){0});
    }
    for (size_t i = 0; packed && i < sizeof blockings / sizeof blockings[0]; i++) {
        add_candidate(t, CPU_BY_PACKED, blockings[i]);
    }
    for (int rows = 1; packed && t->e->n_threads > 1 && rows <= t->e->n_threads; rows++) {
        if (t->e->n_threads % rows == 0) {
            cpu_blocking blocking = cpu_default_blocking();
            blocking.grid_rows = rows;
            add_candidate(t, CPU_BY_PACKED, blocking);
        }
    }
}

static void choice_text(const cpu_choice *choice, char text[TEXT_SIZE]) {
    const cpu_blocking *b = &choice->blocking;
    if (choice->method != CPU_BY_PACKED) {
        snprintf(text, TEXT_SIZE, "%s", choice->method == CPU_BY_OPENBLAS ? "openblas" : "default");
    } else {
        snprintf(text, TEXT_SIZE, "packed: slices of %d, blocks of %d tiles and %d columns, grid rows %d",
                 (int)b->slice_k, (int)b->block_tiles, (int)b->block_cols, (int)b->grid_rows);
    }
}

// The index of the candidate with that text, or -1.
static int find_candidate(const tuner *t, const char *wanted) {
    for (int i = 0; i < t->n_candidates; i++) {
        char text[TEXT_SIZE];
        choice_text(&t->candidates[i], text);
        if (strcmp(text, wanted) == 0) {
            return i;
        }
    }
    return -1;
}

// --- one product --------------------------------------------------------------------------------

// "matmul_forward 256x768 768x3072 -> 256x3072, bf16, transposed, 3 in, 2 out": equal texts are equal work.
static void product_name(const host_op *op, sm_products products, char name[TEXT_SIZE]) {
    const sm_tensor *a = op->in_tensor[0];
    const sm_tensor *b = op->in_tensor[1];
    const sm_tensor *c = op->out_tensor[0];
    int n_in = 0;
    int n_out = 0;
    for (int i = 0; i < SM_MAX_IN; i++) {
        n_in += op->in[i] != NULL;
    }
    for (int i = 0; i < SM_MAX_OUT; i++) {
        n_out += op->out[i] != NULL;
    }
    snprintf(name, TEXT_SIZE, "%s %lldx%lld %lldx%lld -> %lldx%lld, %s%s%s%s%s, %d in, %d out",
             sm_op_name(op->op->kind), (long long)sm_tensor_rows(a), (long long)sm_tensor_cols(a),
             (long long)sm_tensor_rows(b), (long long)sm_tensor_cols(b), (long long)sm_tensor_rows(c),
             (long long)sm_tensor_cols(c), sm_dtype_name(a->dtype), products == SM_PRODUCTS_PLAIN ? "" : ", ",
             products == SM_PRODUCTS_PLAIN ? "" : sm_products_name(products),
             op->op->attr.w_transposed ? ", transposed" : "",
             op->op->kind != SM_OP_MATMUL_BACKWARD_WEIGHT ? ""
             : op->op->attr.overwrites                    ? ", overwrites"
                                                          : ", adds",
             n_in, n_out);
}

// Numbers between -1 and 1, different for each tensor.
static void fill(const sm_tensor *tensor, void *to, uint32_t seed) {
    const int64_t n = sm_tensor_elems(tensor);
    const sm_number_format *format = sm_dtype_format(tensor->dtype);
    uint32_t x = seed * 2654435761u + 1;
    for (int64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        const float value = (float)(int32_t)x * 0x1p-31f;
        format->round(1, &value, (char *)to + (size_t)i * format->size_bytes);
    }
}

static double element(const sm_tensor *tensor, const void *data, int64_t i) {
    const sm_number_format *format = sm_dtype_format(tensor->dtype);
    float value;
    format->widen(1, (const char *)data + (size_t)i * format->size_bytes, &value);
    return value;
}

static void free_operands(tuner *t) {
    for (int i = 0; i < SM_MAX_OPERANDS; i++) {
        if (t->op.operands[i] != NULL) {
            host_unmap(t->op.operands[i], sm_tensor_bytes(t->op.tensors[i]));
        }
    }
    free(t->expected);
    t->expected = NULL;
}

// The op with separate operands; false, with nothing to free, if there is no memory.
static bool make_operands(tuner *t, const host_op *op) {
    size_t needed_bytes = sm_tensor_bytes(op->out_tensor[0]);
    t->op = *op;
    for (int i = 0; i < SM_MAX_OPERANDS; i++) {
        needed_bytes += op->operands[i] != NULL ? sm_tensor_bytes(op->tensors[i]) : 0;
        t->op.operands[i] = NULL;
    }
    t->sweep_elems =
        (int64_t)((SWEEP_OPERANDS * needed_bytes < sweep_bytes ? SWEEP_OPERANDS * needed_bytes : sweep_bytes) /
                  sizeof(float));
    const size_t available_bytes = host_available_bytes();
    if (available_bytes != 0 && needed_bytes > available_bytes / 2) {
        return false;
    }
    t->expected = malloc(sm_tensor_bytes(op->out_tensor[0]));
    bool made = t->expected != NULL;
    for (int i = 0; made && i < SM_MAX_OPERANDS; i++) {
        if (op->operands[i] != NULL) {
            t->op.operands[i] = host_map(sm_tensor_bytes(op->tensors[i]));
            made = t->op.operands[i] != NULL;
        }
        if (made && op->operands[i] != NULL && i < SM_MAX_IN) {
            fill(op->tensors[i], t->op.in[i], (uint32_t)i + 1);
        }
    }
    if (!made) {
        free_operands(t);
    }
    return made;
}

// One run of the matmul.
typedef struct {
    const tuner *t;
    const cpu_choice *choice;
    int64_t start_ns, end_ns;
} one_run;

static void run_part(void *ctx, int part) {
    one_run *r = ctx;
    const tuner *t = r->t;
    const cpu_executable *e = t->e;
    const cpu_team team = {part, e->n_threads, e->scratch, r->choice, e->pool, NULL};
    const cpu_range mine = cpu_my_elems(&team, t->sweep_elems);
    float sum = 0;
    for (int64_t i = mine.first; i < mine.end; i += 16) {
        sum += t->sweep[i];
    }
    *(float *)e->scratch[part] = sum; // so that the compiler keeps the loop
    cpu_meet(&team);
    if (part == 0) {
        r->start_ns = host_now_ns();
    }
    e->kernels->run[t->op.op->kind](&t->op, &team);
    cpu_meet(&team);
    if (part == 0) {
        r->end_ns = host_now_ns();
    }
}

// Runs the matmul once on all threads; returns its time.
static int64_t run(const tuner *t, const cpu_choice *choice) {
    one_run r = {.t = t, .choice = choice};
    cpu_pool_run_once(t->e->pool, run_part, &r);
    return r.end_ns - r.start_ns;
}

// Whether the candidate computes what the default computes. Sums of k products in another order differ by rounding of
// floats, and then perhaps by the last place of a narrow format.
static bool is_right(const tuner *t, const cpu_choice *choice) {
    const sm_tensor *result = t->op.out_tensor[0];
    const int64_t n = sm_tensor_elems(result);
    const bool is_narrow = sm_dtype_is_narrow(result->dtype);
    const double tolerance = is_narrow ? 2 * sm_dtype_format(result->dtype)->unit_roundoff : 1e-5;
    double largest = 0;
    double error = 0;
    memset(t->op.out[0], 0, sm_tensor_bytes(result)); // a weight's gradient is added to
    run(t, choice);
    for (int64_t i = 0; i < n; i++) {
        const double expected = element(result, t->expected, i);
        const double difference = fabs(element(result, t->op.out[0], i) - expected);
        largest = fmax(largest, fabs(expected));
        error = difference <= error ? error : difference; // NaN stays
    }
    return error <= tolerance * largest;
}

// Index of the fastest candidate for the op.
static int measure(const tuner *t, double *speedup) {
    const int64_t deadline_ns = host_now_ns() + longest_ns;
    int64_t best_ns[MAX_CANDIDATES];
    int64_t first_ns = 0;
    int best = 0;
    run(t, &t->candidates[0]);
    memcpy(t->expected, t->op.out[0], sm_tensor_bytes(t->op.out_tensor[0]));
    for (int i = 0; i < t->n_candidates; i++) {
        const bool tried = i == 0 || (host_now_ns() < deadline_ns && is_right(t, &t->candidates[i]));
        best_ns[i] = tried ? run(t, &t->candidates[i]) : INT64_MAX;
        first_ns = i == 0 || best_ns[i] < first_ns ? best_ns[i] : first_ns;
    }
    for (int round = 1; round < ROUNDS && host_now_ns() < deadline_ns; round++) {
        for (int i = 0; i < t->n_candidates; i++) {
            if (i == 0 || (double)best_ns[i] <= near_best * (double)first_ns) {
                const int64_t elapsed_ns = run(t, &t->candidates[i]);
                best_ns[i] = elapsed_ns < best_ns[i] ? elapsed_ns : best_ns[i];
            }
        }
    }
    for (int i = 1; i < t->n_candidates; i++) {
        best = best_ns[i] < best_ns[best] ? i : best;
    }
    best = (double)best_ns[best] <= clearly_faster * (double)best_ns[0] ? best : 0;
    *speedup = (double)best_ns[0] / (double)best_ns[best];
    return best;
}

// Measures and remembers the candidate for one op; its index.
static int measure_op(tuner *t, const host_op *op, const char *name) {
    char text[TEXT_SIZE];
    double speedup;
    if (!make_operands(t, op)) {
        warn(t, "mode tuned: no memory to try the ways to compute %.60s: left as it is", name);
        return 0;
    }
    const int found = measure(t, &speedup);
    free_operands(t);
    choice_text(&t->candidates[found], text);
    if (t->device->progress != NULL) {
        char line[3 * TEXT_SIZE];
        snprintf(line, sizeof line, "tuning: %s: %s (%.2fx)", name, text, speedup);
        t->device->progress(line);
    }
    host_tuning_put(t->remembered, name, text);
    return found;
}

// The choice for one op: remembered, or measured and remembered.
static void choose(tuner *t, const host_op *op, cpu_choice *choice) {
    char name[TEXT_SIZE];
    product_name(op, t->e->base.plan->products, name);
    const char *remembered = host_tuning_get(t->remembered, name);
    int found = remembered == NULL ? -1 : find_candidate(t, remembered);
    if (remembered != NULL && found < 0) {
        warn(t, "mode tuned: the remembered choice for %.60s is unknown here, and is made again", name);
    }
    *choice = t->candidates[found < 0 ? measure_op(t, op, name) : found];
}

// --- a plan -------------------------------------------------------------------------------------

sm_status cpu_tune(cpu_device *device, cpu_executable *e) {
    const sm_plan *plan = e->base.plan;
    const int64_t start_ns = host_now_ns();
    const sm_device_info *info = &device->base.info;
    char key[4 * SM_TEXT_SIZE];
    tuner t = {.device = device, .e = e, .sweep = host_map(sweep_bytes)};
    SM_FAIL_IF(t.sweep == NULL, SM_ERR_OOM, "cpu: no memory to choose kernels; use mode fused");
    snprintf(key, sizeof key, "cpu: %s, %s, %d threads (%s), %s %s", info->name, info->isa, e->n_threads, info->binding,
             info->driver, info->blas_core);
    t.remembered = host_tuning_open(key);
    e->choices = sm_calloc(2 * (size_t)plan->n_ops + 1, sizeof *e->choices);
    list_candidates(&t);
    for (int i = 0; t.n_candidates > 1 && i < plan->n_ops; i++) {
        host_later later;
        const host_op *differing = host_find_later(plan, &e->host.ops[i], &later);
        if (sm_op_is_matmul(plan->ops[i].kind)) {
            choose(&t, &e->host.ops[i], &e->choices[i]);
        }
        if (differing != &e->host.ops[i]) {
            choose(&t, differing, &e->choices[plan->n_ops + i]);
        }
    }
    host_tuning_save(t.remembered);
    if (host_tuning_warning(t.remembered)[0] != '\0') {
        e->base.tune_warning[0] = '\0'; // more important than a remembered choice
        warn(&t, "mode tuned: %s", host_tuning_warning(t.remembered));
    }
    e->base.tune_ns = host_now_ns() - start_ns;
    host_unmap(t.sweep, sweep_bytes);
    host_tuning_free(t.remembered);
    return SM_OK;
}
