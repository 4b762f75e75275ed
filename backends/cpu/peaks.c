// peaks.c: the ceilings of this machine's threads: all of them (`stepmark devices --peaks`), and the two for rows. A
// ceiling is the undisturbed speed: the best of many trials.

#include "backends/cpu/trial.h"

static const struct {
    const char *name;
    const char *meaning;
    bool cached;  // also measured in caches, which the others bypass
    bool is_peak; // rows use the best of these
} streams[CPU_STREAM_COUNT] = {
    [CPU_STREAM_READ] = {"read", "sum of three arrays; bytes read", true, true},
    [CPU_STREAM_WRITE] =
        {"write", "one array set to a constant; bytes written, not those that the stores make the processor read first",
         true, false},
    [CPU_STREAM_WRITE_PAST_CACHES] = {"write past caches", "one array set to a constant by non-temporal stores", false,
                                      false},
    [CPU_STREAM_COPY] = {"copy", "a = c; bytes read and written", true, false},
    [CPU_STREAM_COPY_PAST_CACHES] = {"copy past caches", "a = c by non-temporal stores", false, false},
    [CPU_STREAM_TRIAD] = {"triad", "a = b + 3 c; bytes read and written", true, true},
    [CPU_STREAM_TRIAD_PAST_CACHES] = {"triad past caches", "a = b + 3 c by non-temporal stores", false, true},
    [CPU_STREAM_UPDATE] = {"update", "a = a/2 + c, b = b/2 + c, as AdamW: three arrays read, two written", true, true},
};

static sm_ceiling make_ceiling(const char *name, const char *where, const char *unit, const char *meaning) {
    return (sm_ceiling){.name = name, .where = where, .unit = unit, .meaning = meaning};
}

// --- arithmetic -----------------------------------------------------------------------------

// The ceilings of arithmetic: names, and the instruction set that measures, of bf16 or float; NULL: the device's.
static const struct {
    const char *name;
    const char *isa;
    bool of_bf16;
    const char *meaning;
} arithmetics[] = {
#if defined(__aarch64__)
    {"fma f32", "neon", false, "independent fused multiply-adds; a multiply and an add count one each"},
    {"dot bf16", "neon_bf16", true, "bfmmla: 2x2 sums of four bf16 products; a multiply and an add count one each"},
    {"outer f32", "sme", false, "fmopa: outer products of f32 added to f32; a multiply and an add count one each"},
    {"outer bf16", "sme", true,
     "bfmopa: pairs of outer products of bf16 added to f32; a multiply and an add count one each"},
#else
    {"fma f32", NULL, false, "independent fused multiply-adds; a multiply and an add count one each"},
    {"dot bf16", "avx512_bf16", true,
     "vdpbf16ps: pairs of bf16 products added to f32; a multiply and an add count one each"},
    {"dot bf16 amx", "amx", true,
     "tdpbf16ps: tiles of bf16 multiplied and added to f32; a multiply and an add count one each"},
#endif
};

enum { N_ARITHMETICS = sizeof arithmetics / sizeof arithmetics[0] };

// The kernels that measure ceiling i on this device; NULL, with the reason, if there are none.
static const cpu_kernel_table *arithmetic_kernels(const cpu_device *cpu, int i, char *reason, size_t reason_size) {
    const cpu_isa *isa = cpu->isa;
    if (arithmetics[i].isa != NULL && cpu_isa_find(arithmetics[i].isa, &isa) != SM_OK) {
        snprintf(reason, reason_size, "this processor has no %s", arithmetics[i].isa);
        return NULL;
    }
    if (!cpu_isa_includes(cpu->isa, isa)) {
        snprintf(reason, reason_size, "needs the kernels of --isa %s", arithmetics[i].isa);
        return NULL;
    }
    return arithmetics[i].of_bf16 ? isa->kernels_bf16 : isa->kernels;
}

// --- bandwidth ------------------------------------------------------------------------------

// Bytes of a thread's arrays that fit in a level of cache but not in the one below; 0, with the reason, if there are
// none. Threads that share a cache get equal parts of it.
static size_t level_bytes(int level, int n_threads, char *reason, size_t reason_size) {
    cpu_cache cache = cpu_topology_cache(level);
    cpu_cache below = cpu_topology_cache(level - 1);
    if (cache.size_bytes == 0) {
        snprintf(reason, reason_size, "this processor is not known to have one");
        return 0;
    }
    int n_sharing = n_threads < cache.n_cores ? n_threads : cache.n_cores;
    size_t share_bytes = cache.size_bytes / (size_t)(n_sharing > 1 ? n_sharing : 1);
    // Three quarters of L1 keep the loop long, half of the others leaves room for other processes.
    size_t used_bytes = level == 1 ? share_bytes / 4 * 3 : share_bytes / 2;
    if (used_bytes < 2 * below.size_bytes) {
        snprintf(reason, reason_size, "a thread's share, %zu KiB, is too little over level %d's %zu KiB",
                 share_bytes >> 10, level - 1, below.size_bytes >> 10);
        return 0;
    }
    return used_bytes;
}

static sm_status measure_level(const cpu_device *cpu, int level, const cpu_stream_memory *memory, double seconds,
                               sm_ceiling_sink sink, void *ctx) {
    static const char *const level_names[] = {"memory", "L1", "L2", "L3"};
    char reason[SM_TEXT_SIZE] = "";
    size_t used_bytes =
        level == 0 ? memory->block_bytes : level_bytes(level, cpu->base.info.n_threads, reason, sizeof reason);
    for (int stream = 0; stream < CPU_STREAM_COUNT; stream++) {
        if (level > 0 && !streams[stream].cached) {
            continue;
        }
        const cpu_trial trial = {CPU_TRIAL_STREAM, cpu->isa->kernels, (cpu_stream)stream, memory, used_bytes};
        sm_ceiling ceiling = make_ceiling(streams[stream].name, level_names[level], "bytes/s", streams[stream].meaning);
        if (used_bytes > memory->block_bytes) {
            snprintf(reason, sizeof reason, "too little memory is available to fill it");
        }
        if (reason[0] == '\0') {
            cpu_run_trials(cpu, &trial, seconds, &ceiling);
        }
        snprintf(ceiling.reason, sizeof ceiling.reason, "%s", reason);
        SM_TRY(sink(ctx, &ceiling));
    }
    return SM_OK;
}

sm_status cpu_measure_ceilings(sm_device *device, double seconds, sm_ceiling_sink sink, void *ctx) {
    const cpu_device *cpu = (const cpu_device *)device;
    for (int i = 0; i < N_ARITHMETICS; i++) {
        sm_ceiling ceiling = make_ceiling(arithmetics[i].name, "registers", "FLOP/s", arithmetics[i].meaning);
        const cpu_trial trial = {.kind = CPU_TRIAL_FLOPS,
                                 .kernels = arithmetic_kernels(cpu, i, ceiling.reason, sizeof ceiling.reason)};
        if (trial.kernels != NULL) {
            cpu_run_trials(cpu, &trial, seconds, &ceiling);
        }
        SM_TRY(sink(ctx, &ceiling));
    }
    SM_AT_END(cpu_stream_memory_free) cpu_stream_memory memory = {0};
    SM_TRY(cpu_stream_memory_allocate(cpu, cpu_memory_block_bytes(cpu), &memory));
    for (int level = 1; level <= CPU_CACHE_LEVELS; level++) {
        SM_TRY(measure_level(cpu, level, &memory, seconds, sink, ctx));
    }
    return measure_level(cpu, 0, &memory, seconds, sink, ctx);
}

// --- the peaks of rows ------------------------------------------------------------------------

// The best stream over arrays of this size for each thread.
static sm_status measure_bandwidth(const cpu_device *cpu, size_t block_bytes, double seconds, double *best,
                                   const char **best_name) {
    cpu_stream_memory memory;
    int n_peaks = 0;
    for (int stream = 0; stream < CPU_STREAM_COUNT; stream++) {
        n_peaks += streams[stream].is_peak;
    }
    SM_TRY(cpu_stream_memory_allocate(cpu, block_bytes, &memory));
    *best = 0;
    for (int stream = 0; stream < CPU_STREAM_COUNT; stream++) {
        const cpu_trial trial = {CPU_TRIAL_STREAM, cpu->isa->kernels, (cpu_stream)stream, &memory, memory.block_bytes};
        sm_ceiling result = {.best = 0};
        if (streams[stream].is_peak) {
            cpu_run_trials(cpu, &trial, seconds / n_peaks, &result);
        }
        if (result.best > *best) {
            *best = result.best;
            *best_name = streams[stream].name;
        }
    }
    cpu_stream_memory_free(&memory);
    return SM_OK;
}

static sm_status measure_peaks(sm_device *device, sm_precision precision, size_t block_bytes, const char *arrays,
                               double seconds, sm_peaks *peaks) {
    const cpu_device *cpu = (const cpu_device *)device;
    // Six bf16 products count as one.
    const bool split = precision.products == SM_PRODUCTS_BF16X6 && cpu->isa->kernels_x6 != NULL;
    const bool dot = split || (precision.dtype == SM_BF16 && cpu->isa->kernels_bf16->peak_flops != NULL);
    const cpu_trial trial = {CPU_TRIAL_FLOPS, .kernels = dot ? cpu->isa->kernels_bf16 : cpu->isa->kernels};
    const char *stream_name = "";
    *peaks = (sm_peaks){0};
    SM_TRY(measure_bandwidth(cpu, block_bytes, seconds / 2, &peaks->bandwidth_bytes_per_s, &stream_name));
    if (precision.dtype != SM_F32 && precision.dtype != SM_BF16) {
        snprintf(peaks->source, sizeof peaks->source, "measured: %s of %s, %d threads", stream_name, arrays,
                 device->info.n_threads);
        return SM_OK;
    }
    sm_ceiling result = {.best = 0};
    cpu_run_trials(cpu, &trial, seconds / 2, &result);
    peaks->flops = result.best / (split ? 6 : 1);
    snprintf(peaks->source, sizeof peaks->source, "measured: %s %s in registers; %s of %s; %d threads",
             device->info.isa,
             split ? "bf16 dot products, a sixth,"
             : dot ? "bf16 dot products"
                   : "fp32 multiply-adds",
             stream_name, arrays, device->info.n_threads);
    return SM_OK;
}

sm_status cpu_measure_peaks(sm_device *device, sm_precision precision, double seconds, sm_peaks *peaks) {
    const size_t block_bytes = cpu_memory_block_bytes((const cpu_device *)device);
    return measure_peaks(device, precision, block_bytes, "large arrays", seconds, peaks);
}

// A part of a thread's arrays is at least a page.
sm_status cpu_measure_peaks_within(sm_device *device, sm_precision precision, size_t working_set_bytes, double seconds,
                                   sm_peaks *peaks) {
    enum { PAGE_BYTES = 4096, LEAST_PAGES = 4 };
    const size_t most_bytes = cpu_memory_block_bytes((const cpu_device *)device);
    const size_t pages = working_set_bytes / (size_t)device->info.n_threads / PAGE_BYTES;
    const size_t block_bytes = (pages < LEAST_PAGES ? LEAST_PAGES : pages) * PAGE_BYTES;
    return measure_peaks(device, precision, block_bytes < most_bytes ? block_bytes : most_bytes,
                         "arrays as large as the operands", seconds, peaks);
}
