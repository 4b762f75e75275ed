// trial.h: one kernel run by all threads of a device at once, again and again, against the clock.
#ifndef STEPMARK_BACKENDS_CPU_TRIAL_H
#define STEPMARK_BACKENDS_CPU_TRIAL_H

#include "backends/cpu/cpu.h"

// What a thread streams over: a block of its own, touched first by it, that holds the arrays of
// every stream.
typedef struct {
    int n_threads;
    size_t block_bytes; // of one thread
    float **blocks;
} cpu_stream_memory;

sm_status cpu_stream_memory_allocate(const cpu_device *cpu, size_t block_bytes, cpu_stream_memory *memory);
void cpu_stream_memory_free(cpu_stream_memory *memory); // empty is fine

// Bytes of a block that streams over memory: all blocks together hold four times the last caches and 256 MiB at
// least, but no more than an eighth of the memory that is available. 0: too little memory.
size_t cpu_memory_block_bytes(const cpu_device *cpu);

typedef enum { CPU_TRIAL_FLOPS, CPU_TRIAL_STREAM } cpu_trial_kind;

typedef struct {
    cpu_trial_kind kind;
    const cpu_kernel_table *kernels; // whose arithmetic, or whose streams
    cpu_stream stream;               // CPU_TRIAL_STREAM only, with
    const cpu_stream_memory *memory; // its memory, and
    size_t bytes_per_thread;         // how much of each block it uses
} cpu_trial;

// Bytes that a thread's arrays take, rounded from bytes_per_thread.
size_t cpu_trial_bytes(const cpu_trial *trial);

// Rates are in FLOP/s or bytes/s of all threads together.
typedef struct {
    double best;
    double median;
    int n_trials;
    double clock_hz, clock_low_hz, clock_high_hz; // as in sm_ceiling
} cpu_trial_result;

// Repeats a trial for about `seconds`, three times at least; up to five times as long while no three of
// them come within 2% of the best. All threads start together and the
// last to finish ends the clock.
void cpu_run_trials(const cpu_device *cpu, const cpu_trial *trial, double seconds, cpu_trial_result *result);

#endif
