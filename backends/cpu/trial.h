// trial.h: times one kernel on all threads of a device at once, repeatedly.
#pragma once

#include "backends/cpu/cpu.h"

// A thread's memory for streams: its own block, which it touches first, with the arrays of every stream.
typedef struct {
    int n_threads;
    size_t block_bytes; // for one thread
    float **blocks;
} cpu_stream_memory;

sm_status cpu_stream_memory_allocate(const cpu_device *cpu, size_t block_bytes, cpu_stream_memory *memory);
void cpu_stream_memory_free(cpu_stream_memory *memory); // an empty one is fine

// Bytes of a block for streams over memory: all blocks together have four times the last-level caches and at least 256
// MiB, but at most an eighth of the available memory. 0: too little memory.
size_t cpu_memory_block_bytes(const cpu_device *cpu);

typedef enum { CPU_TRIAL_FLOPS, CPU_TRIAL_STREAM } cpu_trial_kind;

typedef struct {
    cpu_trial_kind kind;
    const cpu_kernel_table *kernels; // with the arithmetic or the streams
    cpu_stream stream;               // CPU_TRIAL_STREAM only, with
    const cpu_stream_memory *memory; // its memory, and
    size_t bytes_per_thread;         // the used bytes of each block
} cpu_trial;

// Repeats a trial for about `seconds`, at least three times; up to five times as long until three are within 2% of the
// best. All threads start together; the last to finish stops the clock. Rates are of all threads together.
void cpu_run_trials(const cpu_device *cpu, const cpu_trial *trial, double seconds, sm_ceiling *result);
