// trial.c: times a kernel on all threads, and measures the processor's clock right after it.
#include <math.h>
#include <pthread.h>

#include "backends/cpu/trial.h"
#include "backends/host/median.h"

enum { MIN_TRIALS = 3, MAX_TRIALS = 4096, PATIENCE = 5, PAGE_ELEMS = 1024 };

// Duration of a trial: long compared with the barrier that starts it, short compared with disturbances.
static const int64_t LEAST_NS = 1000000;

// --- the clock ----------------------------------------------------------------------------

#if defined(__x86_64__)
#define ADD "add %1, %0\n\t"
#elif defined(__aarch64__) || defined(__riscv)
#define ADD "add %0, %0, %1\n\t"
#endif

// Dependent additions take a cycle each on x86, 64-bit Arm and RISC-V. (With a register operand: some processors
// eliminate additions of constants.) 0: unknown.
static double clock_hz(void) {
#if defined(ADD)
    enum { N_LOOPS = 1000, N_ADDS = 64, N_TRIES = 3 };
    double best_hz = 0;
    for (int try = 0; try < N_TRIES; try++) {
        uint64_t sum = 1;
        uint64_t step = (uint64_t)try;
        int64_t begin_ns = host_now_ns();
        for (int i = 0; i < N_LOOPS; i++) {
#define ADD4  ADD ADD ADD ADD
#define ADD16 ADD4 ADD4 ADD4 ADD4
            __asm__ volatile(ADD16 ADD16 ADD16 ADD16 : "+r"(sum) : "r"(step) : "cc");
        }
        double hz = (double)N_LOOPS * N_ADDS * 1e9 / (double)(host_now_ns() - begin_ns + 1);
        best_hz = hz > best_hz ? hz : best_hz; // the slower ones were interrupted
    }
    return best_hz;
#else
    return 0;
#endif
}

// --- memory -------------------------------------------------------------------------------

void cpu_stream_memory_free(cpu_stream_memory *memory) {
    for (int i = 0; memory->blocks != NULL && i < memory->n_threads; i++) {
        host_unmap(memory->blocks[i], memory->block_bytes);
    }
    free(memory->blocks);
    *memory = (cpu_stream_memory){0};
}

// Varied numbers, as some memory and some buses are faster with zeros.
static void fill(void *ctx, int thread) {
    const cpu_stream_memory *memory = ctx;
    float *block = memory->blocks[thread];
    const size_t n_elems = memory->block_bytes / sizeof *block;
    uint32_t state = 1;
    for (size_t i = 0; i < n_elems; i++) {
        state = state * 1664525u + 1013904223u;
        block[i] = 0.5f + (float)(state >> 8) * (1.0f / (1 << 24));
    }
}

sm_status cpu_stream_memory_allocate(const cpu_device *cpu, size_t block_bytes, cpu_stream_memory *memory) {
    const int n_threads = cpu->base.info.n_threads;
    *memory = (cpu_stream_memory){.n_threads = n_threads, .block_bytes = block_bytes};
    memory->blocks = calloc((size_t)n_threads, sizeof *memory->blocks);
    bool done = memory->blocks != NULL && block_bytes > 0;
    for (int i = 0; done && i < n_threads; i++) {
        memory->blocks[i] = host_map(block_bytes);
        done = memory->blocks[i] != NULL;
    }
    if (!done) {
        cpu_stream_memory_free(memory);
        return sm_fail(SM_ERR_OOM, "cpu: no memory for arrays to measure the bandwidth, %.2f GiB available",
                       (double)host_available_bytes() / (1 << 30));
    }
    cpu_pool_run_once(cpu->pool, fill, memory);
    return SM_OK;
}

size_t cpu_memory_block_bytes(const cpu_device *cpu) {
    const double least_bytes = 256.0 * (1 << 20);
    cpu_cache last = {0};
    for (int level = 1; level <= CPU_CACHE_LEVELS; level++) {
        cpu_cache cache = cpu_topology_cache(level);
        last = cache.size_bytes > 0 ? cache : last;
    }
    double total_bytes = 4.0 * (double)last.size_bytes * last.n_caches;
    double most_bytes = (double)host_available_bytes() / 8;
    total_bytes = total_bytes < least_bytes ? least_bytes : total_bytes;
    total_bytes = most_bytes > 0 && total_bytes > most_bytes ? most_bytes : total_bytes;
    return (size_t)(total_bytes / cpu->base.info.n_threads) / 4096 * 4096;
}

// --- trials -------------------------------------------------------------------------------

static int n_arrays(cpu_stream stream) {
    return stream == CPU_STREAM_WRITE || stream == CPU_STREAM_WRITE_PAST_CACHES ? 1
           : stream == CPU_STREAM_COPY || stream == CPU_STREAM_COPY_PAST_CACHES ? 2
                                                                                : 3;
}

// Elements of each array: whole pages, so that all arrays have the same alignment, which the kernels rely on.
static int64_t n_elems(const cpu_trial *trial) {
    size_t elems = trial->bytes_per_thread / sizeof(float) / (size_t)n_arrays(trial->stream);
    return elems < PAGE_ELEMS ? PAGE_ELEMS : (int64_t)(elems / PAGE_ELEMS * PAGE_ELEMS);
}

// Runs one thread's part; returns its FLOPs or bytes.
static double run_part(const cpu_trial *trial, int thread, int64_t n_rounds) {
    if (trial->kind == CPU_TRIAL_FLOPS) {
        return trial->kernels->peak_flops(n_rounds);
    }
    const int64_t n = n_elems(trial);
    const int64_t n_used = n_arrays(trial->stream);
    float *a = trial->memory->blocks[thread];
    return trial->kernels->peak_stream(trial->stream, a, a + (n_used > 2 ? n : 0), a + (n_used - 1) * n, n, n_rounds);
}

// The sum over all threads, which add to it one after another.
typedef struct {
    const cpu_device *cpu;
    const cpu_trial *trial;
    int64_t n_rounds;
    pthread_mutex_t lock;
    double amount;
    int64_t begin_ns, end_ns;
    double sum_hz, clock_low_hz, clock_high_hz;
} one_trial;

static void run_thread(void *ctx, int thread) {
    one_trial *all = ctx;
    cpu_pool_meet(all->cpu->pool);
    const int64_t begin_ns = host_now_ns();
    const double amount = run_part(all->trial, thread, all->n_rounds);
    const int64_t end_ns = host_now_ns();
    const double hz = clock_hz();
    pthread_mutex_lock(&all->lock);
    all->amount += amount;
    all->begin_ns = begin_ns < all->begin_ns ? begin_ns : all->begin_ns;
    all->end_ns = end_ns > all->end_ns ? end_ns : all->end_ns;
    all->sum_hz += hz;
    all->clock_low_hz = fmin(hz, all->clock_low_hz);
    all->clock_high_hz = fmax(hz, all->clock_high_hz);
    pthread_mutex_unlock(&all->lock);
}

// Rounds that keep a thread busy for LEAST_NS of its processor time, so that other load does not count: where it does,
// the shortest of several tries decides.
static int64_t calibrate(const cpu_trial *trial) {
    const int n_tries = host_counts_thread() ? 1 : 3;
    int64_t n_rounds = 1;
    for (int n_long = 0; n_long < n_tries && n_rounds <= INT64_MAX / 4; n_long++) {
        const int64_t begin_ns = host_thread_busy_ns();
        run_part(trial, 0, n_rounds);
        if (host_thread_busy_ns() - begin_ns < LEAST_NS) {
            n_rounds *= 2;
            n_long = -1;
        }
    }
    return n_rounds;
}

// A ceiling reached only once may be an error of the clock, and if no trials are similar all were disturbed.
static bool is_reached_again(const double *rates, int n) {
    double best = 0;
    int n_near = 0;
    for (int i = 0; i < n; i++) {
        best = rates[i] > best ? rates[i] : best;
    }
    for (int i = 0; i < n; i++) {
        n_near += rates[i] >= 0.98 * best;
    }
    return n_near >= MIN_TRIALS;
}

void cpu_run_trials(const cpu_device *cpu, const cpu_trial *trial, double seconds, sm_ceiling *result) {
    double rates[MAX_TRIALS];
    double clocks[MAX_TRIALS];
    int64_t end_ns = host_now_ns() + (int64_t)(seconds * 1e9);
    int64_t last_end_ns = host_now_ns() + (int64_t)(seconds * PATIENCE * 1e9);
    int64_t n_rounds = calibrate(trial);
    result->n_trials = 0;
    result->clock_low_hz = 1e30;
    while (result->n_trials < MAX_TRIALS) {
        int64_t now_ns = host_now_ns();
        bool reached = now_ns >= last_end_ns || is_reached_again(rates, result->n_trials);
        if (result->n_trials >= MIN_TRIALS && now_ns >= end_ns && reached) {
            break;
        }
        // From the first thread's start to the last one's end, by each thread's own clock: a thread that is held up
        // must not make the others look fast.
        one_trial once = {.cpu = cpu,
                          .trial = trial,
                          .n_rounds = n_rounds,
                          .lock = PTHREAD_MUTEX_INITIALIZER,
                          .begin_ns = INT64_MAX,
                          .clock_low_hz = 1e30};
        cpu_pool_run_once(cpu->pool, run_thread, &once);
        rates[result->n_trials] = once.amount * 1e9 / (double)(once.end_ns - once.begin_ns + 1);
        clocks[result->n_trials] = once.sum_hz / cpu->base.info.n_threads;
        result->clock_low_hz = once.clock_low_hz < result->clock_low_hz ? once.clock_low_hz : result->clock_low_hz;
        result->clock_high_hz = once.clock_high_hz > result->clock_high_hz ? once.clock_high_hz : result->clock_high_hz;
        result->n_trials++;
    }
    result->clock_hz = host_median(clocks, result->n_trials);
    result->median = host_median(rates, result->n_trials);
    result->best = rates[result->n_trials - 1]; // now sorted
    result->working_set_bytes = trial->kind == CPU_TRIAL_FLOPS
                                    ? 0
                                    : (size_t)n_elems(trial) * sizeof(float) * (size_t)n_arrays(trial->stream) *
                                          (size_t)cpu->base.info.n_threads;
}
