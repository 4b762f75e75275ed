// cpu_peaks.c: measures what this machine's threads can compute and move together.
//
// Each figure is the best of several trials in which all threads start together at a
// barrier and the last to finish ends the clock: a ceiling is what was reached undisturbed.
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cpu.h"

enum { N_ARRAYS = 3 };

static const double TRIAL_SECONDS = 0.02;

// FLOP/s of all threads together during one trial of n_rounds each.
static double flops_trial(const cpu_device *cpu, int64_t n_rounds) {
    double total = 0;
    int64_t started_ns = 0;
#pragma omp parallel num_threads(cpu->base.info.n_threads) reduction(+ : total)
    {
        const unsigned state = cpu_denormals_off();
#pragma omp barrier
#pragma omp master
        started_ns = host_now_ns();
        total += cpu->isa->kernels->peak_flops(n_rounds);
        cpu_denormals_restore(state);
    }
    return total * 1e9 / (double)(host_now_ns() - started_ns + 1);
}

static double measure_flops(const cpu_device *cpu, double seconds) {
    int64_t n_rounds = 1000;
    int64_t end_ns = host_now_ns() + (int64_t)(seconds * 1e9);
    double best = 0;
    do {
        int64_t started_ns = host_now_ns();
        double flops = flops_trial(cpu, n_rounds);
        best = flops > best ? flops : best;
        if ((double)(host_now_ns() - started_ns) < TRIAL_SECONDS * 1e9) {
            n_rounds *= 2;
        }
    } while (host_now_ns() < end_ns);
    return best;
}

// Arrays of one thread, touched first by it.
typedef struct {
    float *array[N_ARRAYS];
} stream_arrays;

static void free_arrays(stream_arrays *arrays, int n_threads, int64_t n_elems) {
    for (int i = 0; arrays != NULL && i < n_threads * N_ARRAYS; i++) {
        host_unmap(arrays[i / N_ARRAYS].array[i % N_ARRAYS], (size_t)n_elems * sizeof(float));
    }
    free(arrays);
}

static stream_arrays *allocate_arrays(int n_threads, int64_t n_elems) {
    stream_arrays *arrays = calloc((size_t)n_threads, sizeof *arrays);
    bool done = arrays != NULL;
    for (int i = 0; done && i < n_threads * N_ARRAYS; i++) {
        float **array = &arrays[i / N_ARRAYS].array[i % N_ARRAYS];
        *array = host_map((size_t)n_elems * sizeof **array);
        done = *array != NULL;
    }
    if (!done) {
        free_arrays(arrays, n_threads, n_elems);
        return NULL;
    }
#pragma omp parallel for num_threads(n_threads) schedule(static, 1)
    for (int thread = 0; thread < n_threads; thread++) {
        for (int k = 0; k < N_ARRAYS; k++) {
            for (int64_t i = 0; i < n_elems; i++) {
                arrays[thread].array[k][i] = (float)(k + 1);
            }
        }
    }
    return arrays;
}

// Elements of each array: all of them together hold four times the last cache, 256 MiB at least, but no
// more than an eighth of the memory that is available. 0: too little memory.
static int64_t choose_elems(int n_threads) {
    long cache_bytes = sysconf(_SC_LEVEL3_CACHE_SIZE);
    double total_bytes = cache_bytes > 0 ? 4.0 * (double)cache_bytes : 0;
    total_bytes = total_bytes < 256.0 * (1 << 20) ? 256.0 * (1 << 20) : total_bytes;
    double most_bytes = (double)host_available_bytes() / 8;
    total_bytes = total_bytes > most_bytes ? most_bytes : total_bytes;
    return (int64_t)(total_bytes / (N_ARRAYS * sizeof(float) * (double)n_threads)) / 64 * 64;
}

static double stream_trial(const cpu_device *cpu, cpu_stream stream, const stream_arrays *arrays, int64_t n_elems) {
    double total_bytes = 0;
    int64_t started_ns = 0;
#pragma omp parallel num_threads(cpu->base.info.n_threads) reduction(+ : total_bytes)
    {
        const stream_arrays *mine = &arrays[omp_get_thread_num()];
#pragma omp barrier
#pragma omp master
        started_ns = host_now_ns();
        total_bytes += cpu->isa->kernels->peak_stream(stream, mine->array[0], mine->array[1], mine->array[2], n_elems);
    }
    return total_bytes * 1e9 / (double)(host_now_ns() - started_ns + 1);
}

static sm_status measure_bandwidth(const cpu_device *cpu, double seconds, double *best, cpu_stream *best_stream) {
    const int n_threads = cpu->base.info.n_threads;
    int64_t n_elems = choose_elems(n_threads);
    stream_arrays *arrays = n_elems > 0 ? allocate_arrays(n_threads, n_elems) : NULL;
    if (arrays == NULL) {
        return sm_fail(SM_ERR_OOM, "cpu: no memory for arrays to measure the bandwidth, %.2f GiB available",
                       (double)host_available_bytes() / (1 << 30));
    }
    int64_t end_ns = host_now_ns() + (int64_t)(seconds * 1e9);
    *best = 0;
    do {
        for (int stream = 0; stream < CPU_STREAM_COUNT; stream++) { // in turn: they meet the same disturbances
            double rate = stream_trial(cpu, (cpu_stream)stream, arrays, n_elems);
            if (rate > *best) {
                *best = rate;
                *best_stream = (cpu_stream)stream;
            }
        }
    } while (host_now_ns() < end_ns);
    free_arrays(arrays, n_threads, n_elems);
    return SM_OK;
}

sm_status cpu_measure_peaks(sm_device *device, sm_dtype dtype, double seconds, sm_peaks *peaks) {
    static const char *const stream_names[CPU_STREAM_COUNT] = {
        [CPU_STREAM_TRIAD] = "triad",
        [CPU_STREAM_TRIAD_NONTEMPORAL] = "triad with non-temporal stores",
        [CPU_STREAM_UPDATE] = "in-place update",
        [CPU_STREAM_READ] = "reading",
    };
    const cpu_device *cpu = (const cpu_device *)device;
    cpu_stream stream = CPU_STREAM_TRIAD;
    *peaks = (sm_peaks){0};
    SM_TRY(measure_bandwidth(cpu, seconds / 2, &peaks->bandwidth_bytes_per_s, &stream));
    if (dtype != SM_F32) {
        snprintf(peaks->source, sizeof peaks->source, "measured: %s, %d threads", stream_names[stream],
                 device->info.n_threads);
        return SM_OK;
    }
    peaks->flops = measure_flops(cpu, seconds / 2);
    snprintf(peaks->source, sizeof peaks->source,
             "measured: %s fp32 multiply-adds in registers; %s of large arrays; %d threads", device->info.isa,
             stream_names[stream], device->info.n_threads);
    return SM_OK;
}
