// kernel.h: the kernels of the cpu backend: functions that compute one thread's part of one op.
//
// The files of kernels/ hold plain C loops. The build compiles each of them for every instruction set (-DCPU_ISA=avx2,
// avx512, neon, ..., and the compiler flags to match) and for each type of data (common/data.h); ISA(name) appends
// these words to a public name, and each build of kernels/table.c exports one table. cpu/isa.c chooses a table at run
// time. Instruction sets with bf16 arithmetic have their own kernels for bf16 data: avx512_bf16 all, amx matmuls and
// flash attention. The rest of a table are another set's kernels: BASE_ISA(name).
//
// A kernel is called once for each part of an op, with the part's number in team->thread; it has that part's scratch,
// and may run on another thread (threads/pool.h). The optional `finish` is called likewise when all parts are done, and
// then the next op. Parts may wait for one another (cpu_meet) only if `meets` in the table says so. A kernel allocates
// nothing.
#pragma once

#include "backends/host/memory.h"

#include "backends/cpu/common/data.h"
#include "backends/cpu/threads/pool.h"

#ifndef CPU_ISA
#define CPU_ISA baseline
#endif
#ifndef CPU_BASE_ISA
#define CPU_BASE_ISA CPU_ISA
#endif
#if defined(CPU_DATA_BF16)
#define CPU_JOIN_EXPANDED(name, isa) name##_bf16_##isa
#elif defined(CPU_DATA_F16)
#define CPU_JOIN_EXPANDED(name, isa) name##_f16_##isa
#else
#define CPU_JOIN_EXPANDED(name, isa) name##_##isa
#endif
#define CPU_JOIN(name, isa) CPU_JOIN_EXPANDED(name, isa)
#define ISA(name)           CPU_JOIN(name, CPU_ISA)
#define BASE_ISA(name)      CPU_JOIN(name, CPU_BASE_ISA)

// Matmuls of float data on AMX are sums of six bf16 matmuls (matmul/product_split.c).
#if defined(CPU_AMX) && !defined(CPU_DATA_NARROW)
#define CPU_SPLITS_FLOATS
#endif

// The blocking of a matmul of float data (matmul/product.c).
typedef struct {
    int64_t slice_k;     // deepest slice of k
    int64_t block_tiles; // tiles of rows in a block of a
    int64_t block_cols;  // columns of a block of b
    int64_t grid_rows;   // parts that the rows are divided into among the threads; 0: by estimated cost
} cpu_blocking;

// The second-level cache has 2 MiB or more.
static inline bool cpu_level2_is_large(void) {
    enum { LARGE_BYTES = 2 << 20 };
    return cpu_topology_level2_bytes() >= LARGE_BYTES;
}

// With a large L2 cache, a slice of a block of a fills most of it, so that b is packed for many rows; otherwise it has
// at most 576 KiB. A slice of a block of b has at most 2.3 MiB.
static inline cpu_blocking cpu_default_blocking(void) {
    return cpu_level2_is_large() ? (cpu_blocking){.slice_k = 768, .block_tiles = 64, .block_cols = 768}
                                 : (cpu_blocking){.slice_k = 1536, .block_tiles = 12, .block_cols = 384};
}

// The implementation that computes a matmul.
typedef enum { CPU_BY_DEFAULT, CPU_BY_PACKED, CPU_BY_OPENBLAS } cpu_method;

// The implementation chosen for an op by measurement.
typedef struct {
    cpu_method method;
    cpu_blocking blocking; // for CPU_BY_PACKED
} cpu_choice;

// The team that executes an op, as seen by one part. `thread` is the part's number, and that of its thread, unless
// another thread does it.
typedef struct {
    int thread; // 0 .. n_threads-1
    int n_threads;
    void *const *scratch;     // one page-aligned block for each part, as large as the plan's largest scratch_bytes
    const cpu_choice *choice; // for this op; NULL: the default
    cpu_pool *pool;           // of the threads
    const void *packed;       // a product's b, packed ahead (cpu/execute.c); NULL: it is not
} cpu_team;

// Waits until all parts of the op have called it.
static inline void cpu_meet(const cpu_team *team) { cpu_pool_meet(team->pool); }

typedef void (*cpu_run)(const host_op *op, const cpu_team *team);
typedef size_t (*cpu_scratch_bytes)(const host_op *op, int n_threads); // for one thread

// Measured memory traffic. PAST_CACHES: with stores that bypass the caches and do not read the line first.
typedef enum {
    CPU_STREAM_READ,  // sum of a, b and c
    CPU_STREAM_WRITE, // a = constant
    CPU_STREAM_WRITE_PAST_CACHES,
    CPU_STREAM_COPY, // a = c
    CPU_STREAM_COPY_PAST_CACHES,
    CPU_STREAM_TRIAD, // a = b + 3 c
    CPU_STREAM_TRIAD_PAST_CACHES,
    CPU_STREAM_UPDATE, // a = a/2 + c, b = b/2 + c
    CPU_STREAM_COUNT
} cpu_stream;

// All kernels of one instruction set for one data type.
typedef struct {
    cpu_run run[SM_OP_KIND_COUNT];                     // NULL: no kernel
    cpu_run finish[SM_OP_KIND_COUNT];                  // NULL: nothing is left to do when all parts have run
    int finishes[SM_OP_KIND_COUNT];                    // the output without which an op has nothing to finish
    bool meets[SM_OP_KIND_COUNT];                      // its parts do
    cpu_scratch_bytes scratch_bytes[SM_OP_KIND_COUNT]; // NULL: none needed
    // The units in which a product's weight can be packed ahead, and its bytes; 0: it cannot. And packs one. NULL: none.
    int64_t (*ahead_units)(const host_op *op, size_t *size_bytes);
    void (*pack_ahead)(const host_op *op, void *to, int64_t unit);
    // Runs n_rounds of independent multiply-adds on this thread and returns their FLOPs: of float, or of bf16. NULL if
    // there is no arithmetic for the data type.
    double (*peak_flops)(int64_t n_rounds);
    // Streams n_passes times over arrays of n_elems, a multiple of 128, and returns the bytes read and written.
    double (*peak_stream)(cpu_stream stream, float *a, float *b, const float *c, int64_t n_elems, int64_t n_passes);
} cpu_kernel_table;

static inline bool cpu_has_finish(const cpu_kernel_table *kernels, const host_op *op) {
    const sm_op_kind kind = op->op->kind;
    return kernels->finish[kind] != NULL && op->out[kernels->finishes[kind]] != NULL;
}

extern const cpu_kernel_table ISA(cpu_kernels);

#define CPU_KERNEL(name)  void BASE_ISA(cpu_##name)(const host_op *op, const cpu_team *team)
#define CPU_SCRATCH(name) size_t BASE_ISA(cpu_##name##_scratch)(SM_UNUSED const host_op *op, SM_UNUSED int n_threads)
#define CPU_FINISH(name)  void BASE_ISA(cpu_##name##_finish)(const host_op *op, const cpu_team *team)
#define CPU_MATMUL(name)  void ISA(cpu_matmul_##name)(const host_op *op, const cpu_team *team)

// For every kind; matmuls of linear layers exist again for instruction sets with bf16 arithmetic.
#define OP(code, name, ...) CPU_KERNEL(name);
#define NO_SHARED_OPS
#define NO_FP8_OPS
#include "op_table.h"
CPU_MATMUL(forward);
CPU_MATMUL(backward_input);
CPU_MATMUL(backward_weight);
CPU_MATMUL(backward_weight_finish);

CPU_FINISH(layernorm_backward); // for both kinds, like the next
CPU_FINISH(rmsnorm_backward);
CPU_FINISH(head_rmsnorm_backward);
CPU_FINISH(bias_backward);
CPU_FINISH(grad_sqnorm);

CPU_SCRATCH(layernorm_forward); // for both kinds, like the next three
CPU_SCRATCH(layernorm_backward);
CPU_SCRATCH(rmsnorm_forward);
CPU_SCRATCH(rmsnorm_backward);
CPU_SCRATCH(head_rmsnorm_backward);
CPU_SCRATCH(rope);
CPU_SCRATCH(bias_backward);
CPU_SCRATCH(grad_sqnorm);
CPU_SCRATCH(adafactor);
CPU_SCRATCH(adafactor_vector);
CPU_SCRATCH(attention_forward);
CPU_SCRATCH(attention_backward);
CPU_SCRATCH(flash_attention_forward);
CPU_SCRATCH(flash_attention_backward);
size_t ISA(cpu_matmul_scratch)(const host_op *op, int n_threads); // for all three
int64_t ISA(cpu_ahead_units)(const host_op *op, size_t *size_bytes);
void ISA(cpu_pack_ahead)(const host_op *op, void *to, int64_t unit);

// Sums this part's rows of an input (N,C) into its scratch, for cpu_add_partials.
void BASE_ISA(cpu_sum_my_rows)(const host_op *op, int in, int64_t offset_elems, const cpu_team *team);

// With AMX, flash attention of bf16 data is different, too.
#if defined(CPU_AMX) && defined(CPU_DATA_NARROW)
#define TILES_ISA(name) ISA(name)
void ISA(cpu_flash_attention_forward)(const host_op *op, const cpu_team *team);
void ISA(cpu_flash_attention_backward)(const host_op *op, const cpu_team *team);
size_t ISA(cpu_flash_attention_forward_scratch)(const host_op *op, int n_threads);
size_t ISA(cpu_flash_attention_backward_scratch)(const host_op *op, int n_threads);
#else
#define TILES_ISA(name) BASE_ISA(name)
#endif

double ISA(cpu_peak_flops)(int64_t n_rounds);
double BASE_ISA(cpu_peak_stream)(cpu_stream stream, float *a, float *b, const float *c, int64_t n_elems,
                                 int64_t n_passes);

// Whether an op's output of n_bytes in all is too large to be found in the L2 caches by its reader. Then it is stored
// bypassing the caches, without reading its lines first.
static inline bool cpu_leaves_caches(const cpu_team *team, int64_t n_bytes) {
    return n_bytes > team->n_threads * (int64_t)cpu_topology_level2_bytes() / 2;
}

static inline int64_t cpu_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cpu_max64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t cpu_divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// A half-open range of rows, columns or elements.
typedef struct {
    int64_t first;
    int64_t end;
} cpu_range;

static inline int64_t cpu_length(cpu_range range) { return range.end - range.first; }

// Part `part` of `n_parts` nearly equal parts of 0..n-1, cut at multiples of `step`.
static inline cpu_range cpu_split(int64_t n, int64_t step, int part, int n_parts) {
    int64_t n_steps = cpu_divide_up(n, step);
    int64_t share = n_steps / n_parts;
    int64_t rest = n_steps % n_parts; // the first `rest` parts have one more step
    int64_t first = part * share + (part < rest ? part : rest);
    int64_t end = first + share + (part < rest ? 1 : 0);
    return (cpu_range){first * step < n ? first * step : n, end * step < n ? end * step : n};
}

// This thread's part of the rows; of elements, in whole cache lines.
static inline cpu_range cpu_my_rows(const cpu_team *team, int64_t n_rows) {
    return cpu_split(n_rows, 1, team->thread, team->n_threads);
}
static inline cpu_range cpu_my_elems(const cpu_team *team, int64_t n_elems) {
    return cpu_split(n_elems, 16, team->thread, team->n_threads);
}

// The next of an op's n_units, or -1: of this part's share, and then, as others may be slower, of theirs. *turn is 0 at
// first. The result of a unit does not depend on the thread that takes it.
static inline int64_t cpu_next_unit(const cpu_team *team, int64_t n_units, int *turn) {
    for (; *turn < team->n_threads; ++*turn) {
        const int part = (team->thread + *turn) % team->n_threads;
        const cpu_range share = cpu_split(n_units, 1, part, team->n_threads);
        const int64_t taken = cpu_pool_take(team->pool, part, 0, share.end - share.first, 0);
        if (taken >= 0) {
            return share.first + taken;
        }
    }
    return -1;
}

// The units that each of n_heads is cut into, of up to n_blocks of rows. Two threads are equally fast; of more, one
// that is slower than others would else hold up all.
static inline int64_t cpu_head_parts(const cpu_team *team, int64_t n_heads, int64_t n_blocks) {
    enum { UNITS_OF_A_THREAD = 4 };
    const int64_t n_units = team->n_threads <= 2 ? team->n_threads : UNITS_OF_A_THREAD * team->n_threads;
    return cpu_min64(cpu_divide_up(n_units, n_heads), n_blocks);
}

// Adds to sum[0..n_cols) the arrays of n_cols floats at offset_elems of each part's scratch, in the order of the parts;
// each part adds a range of columns. For `finish`.
static inline void cpu_add_partials(const cpu_team *team, int64_t offset_elems, int64_t n_cols, float *sum) {
    cpu_range cols = cpu_my_elems(team, n_cols);
    for (int k = 0; k < team->n_threads; k++) {
        const float *partial = (const float *)team->scratch[k] + offset_elems;
#pragma omp simd
        for (int64_t c = cols.first; c < cols.end; c++) {
            sum[c] += partial[c];
        }
    }
}
