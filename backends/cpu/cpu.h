// cpu.h: shared by the backend's files: instruction sets (cpu/isa.c), the device (cpu.c), the executable (execute.c).
#pragma once

#include "backends/cpu/common/kernel.h"

static inline bool cpu_has_avx2(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

static inline bool cpu_has_avx512(void) {
#if defined(__x86_64__)
    return cpu_has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#else
    return false;
#endif
}

// One instruction set; `kernels` is NULL if this build does not have it.
typedef struct {
    const char *name;                     // "avx512"
    bool (*supported)(void);              // by this processor
    const cpu_kernel_table *kernels;      // for float data
    const cpu_kernel_table *kernels_bf16; // for bf16 data; without peak_flops if they use float arithmetic
    const cpu_kernel_table *kernels_f16;  // for f16 data, always with float arithmetic
    const cpu_kernel_table *kernels_x6;   // for float data, with matmuls as six bf16 matmuls; NULL: none
} cpu_isa;

// The kernels for a plan's data and products; NULL if there are none.
static inline const cpu_kernel_table *cpu_kernels_for(const cpu_isa *isa, const sm_plan *plan) {
    if (plan->products == SM_PRODUCTS_BF16X6 && isa->kernels_x6 != NULL) {
        return isa->kernels_x6;
    }
    return plan->dtype == SM_BF16 ? isa->kernels_bf16 : plan->dtype == SM_F16 ? isa->kernels_f16 : isa->kernels;
}

typedef struct {
    sm_device base;
    const cpu_isa *isa;
    cpu_binding *binding;
    cpu_pool *pool;
    void (*progress)(const char *text); // of sm_open_options
    bool keep_env;
    bool openblas; // multiplies, and not our own kernels
    bool is_trial; // all matmuls are computed as in `trial`
    cpu_choice trial;
    const sm_own_kernel *own[SM_OP_KIND_COUNT]; // the user's, instead of the table's; NULL: none
} cpu_device;

// How long a part of the current op has worked, if ops are timed; in a cache line of its own.
typedef struct {
    _Alignas(64) int64_t ns;
    int64_t begin_ns; // 0: not yet
} cpu_busy;

typedef struct {
    union {
        sm_executable base;
        host_executable host;
    };
    const cpu_kernel_table *kernels;
    cpu_pool *pool;                  // the device's
    const sm_own_kernel *const *own; // likewise
    sm_own_process *own_process;     // of those that the plan needs; NULL: none, or in this process
    int n_threads;
    void **scratch;       // n_threads blocks
    size_t scratch_bytes; // of each block
    cpu_busy *busy;       // by part
    void *ahead;          // weights packed ahead
    size_t ahead_bytes;
    struct cpu_place *places; // of them, by op
    cpu_choice *choices;      // one for each op, then one for each op of later micro-batches that differs; NULL: all
                              // defaults
} cpu_executable;

// cpu/isa.c: the best instruction set that the processor supports, or the one with that name; SM_ERR_USAGE for an
// unknown name, SM_ERR_UNSUPPORTED if the processor or this build lacks it. Which is best for bf16 is measured once in
// a process; cpu_isa_reason() says it, where it is not the one with most instructions.
sm_status cpu_isa_best(const cpu_isa **isa);
void cpu_isa_reason(char text[SM_TEXT_SIZE]);
sm_status cpu_isa_find(const char *name, const cpu_isa **isa);
bool cpu_isa_includes(const cpu_isa *isa, const cpu_isa *other); // other is isa, or one that isa extends

// cpu/execute.c: functions of sm_backend.
size_t cpu_working_bytes(const sm_device *device, const sm_plan *plan);
sm_status cpu_prepare(sm_device *device, const sm_plan *plan, sm_executable **executable);
void cpu_release(sm_executable *executable);
sm_status cpu_execute(sm_executable *executable, sm_range range, int64_t *op_ns);

// cpu/peaks.c: functions of sm_backend.
sm_status cpu_measure_peaks(sm_device *device, sm_precision precision, double seconds, sm_peaks *peaks);
sm_status cpu_measure_peaks_within(sm_device *device, sm_precision precision, size_t working_set_bytes, double seconds,
                                   sm_peaks *peaks);
sm_status cpu_measure_ceilings(sm_device *device, double seconds, sm_ceiling_sink sink, void *ctx);

// cpu/tuning.c: mode tuned measures ways and blockings of each matmul. Fills e->choices as host_tune() does.
sm_status cpu_tune(cpu_device *device, cpu_executable *e);
