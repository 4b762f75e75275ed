// kernel.h: what every kernel of the cpu backend is: a function that does one thread's
// part of one op.
//
// The files of this folder hold plain C loops. The build compiles each of them for every
// instruction set, with -DCPU_ISA=baseline, avx2 or avx512 and the compiler flags to match, and
// for each type of data (common/data.h); ISA(name) appends these words to a public name, and each
// build of kernels/table.c exports one table. cpu/isa.c chooses a table at run time.
// The instruction sets with bf16 arithmetic, avx512_bf16 and amx, have kernels of bf16 data of their own: avx512_bf16
// all, amx matrix products and flash attention. What else a table holds are another set's kernels: BASE_ISA(name).
//
// A kernel is called once for each part of an op, which it tells from team->thread; it has that part's scratch, and
// may run on another thread (threads/pool.h). `finish`, if there is one, is called likewise when all parts are done, and the
// next op when all of that is. Parts wait for one another (cpu_meet) only where the table says so, in `meets`. A kernel
// allocates nothing.
#ifndef STEPMARK_BACKENDS_CPU_COMMON_KERNEL_H
#define STEPMARK_BACKENDS_CPU_COMMON_KERNEL_H

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

// Float data on AMX: their products are sums of six products of bf16 (matmul/product_split.c).
#if defined(CPU_AMX) && !defined(CPU_DATA_NARROW)
#define CPU_SPLITS_FLOATS
#endif

// How a matrix product of float data is cut (matmul/product.c).
typedef struct {
    int64_t slice_k;     // deepest slice of k
    int64_t block_tiles; // as many tiles of rows as a block of a has
    int64_t block_cols;  // of b
    int64_t grid_rows;   // parts that the rows are divided into among the threads; 0: by an estimate of the cost
} cpu_blocking;

// The second-level cache has 2 MiB or more.
static inline bool cpu_level2_is_large(void) {
    enum { LARGE_BYTES = 2 << 20 };
    return cpu_topology_level2_bytes() >= LARGE_BYTES;
}

// Where it is large, a slice of a block of a fills most of it, so that b is packed while many rows are multiplied; else
// it is at most 576 KiB. One of a block of b is at most 2.3 MiB.
static inline cpu_blocking cpu_default_blocking(void) {
    return cpu_level2_is_large() ? (cpu_blocking){.slice_k = 768, .block_tiles = 64, .block_cols = 768}
                                 : (cpu_blocking){.slice_k = 1536, .block_tiles = 12, .block_cols = 384};
}

// Who computes it.
typedef enum { CPU_BY_DEFAULT, CPU_BY_PACKED, CPU_BY_OPENBLAS, CPU_BY_ONEDNN } cpu_method;

// What was chosen for an op by measurement.
typedef struct {
    cpu_method method;
    cpu_blocking blocking;            // CPU_BY_PACKED
    struct cpu_onednn_matmul *matmul; // CPU_BY_ONEDNN of bf16 data: made for a team of as many threads
} cpu_choice;

// What one part of an op knows of the team that executes it. `thread` is the part's number, and that of the thread that
// does it unless that one is away.
typedef struct {
    int thread; // 0 .. n_threads-1
    int n_threads;
    void *const *scratch;     // one block a part, page-aligned, of the largest scratch_bytes of the plan
    const cpu_choice *choice; // for this op; NULL: the default
    cpu_pool *pool;           // whose threads they are
} cpu_team;

// All parts of the op have come here.
static inline void cpu_meet(const cpu_team *team) { cpu_pool_meet(team->pool); }

typedef void (*cpu_run)(const host_op *op, const cpu_team *team);
typedef size_t (*cpu_scratch_bytes)(const host_op *op, int n_threads); // what one thread needs

// Memory traffic that is measured. PAST_CACHES: by stores that leave the line out of the caches and do
// not read it first.
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

// All that one instruction set has for one type of data.
typedef struct {
    cpu_run run[SM_OP_KIND_COUNT];                     // NULL: there is no kernel
    cpu_run finish[SM_OP_KIND_COUNT];                  // NULL: nothing is left to do when all parts have run
    int meets[SM_OP_KIND_COUNT];                       // how many threads it takes for parts to meet; 0: they never do
    cpu_scratch_bytes scratch_bytes[SM_OP_KIND_COUNT]; // NULL: none needed
    // Runs n_rounds of independent multiply-adds on this thread and returns how many FLOPs they were: of float, or of
    // bf16. NULL where there is no arithmetic of the data's type.
    double (*peak_flops)(int64_t n_rounds);
    // Streams n_passes times over arrays of n_elems, a multiple of 128, and returns the bytes that count: those
    // that the program reads and writes.
    double (*peak_stream)(cpu_stream stream, float *a, float *b, const float *c, int64_t n_elems, int64_t n_passes);
} cpu_kernel_table;

extern const cpu_kernel_table ISA(cpu_kernels);

#define CPU_KERNEL(name)  void BASE_ISA(cpu_##name)(const host_op *op, const cpu_team *team)
#define CPU_SCRATCH(name) size_t BASE_ISA(cpu_##name##_scratch)(const host_op *op, int n_threads)
#define CPU_FINISH(name)  void BASE_ISA(cpu_##name##_finish)(const host_op *op, const cpu_team *team)
#define CPU_MATMUL(name)  void ISA(cpu_matmul_##name)(const host_op *op, const cpu_team *team)

// Every kind's; a linear layer's products are made once more where the instruction set has bf16 arithmetic.
#define OP(code, name, ...) CPU_KERNEL(name);
#define SHARED_OP(...)
#include "op_table.h"
CPU_MATMUL(forward);
CPU_MATMUL(backward_input);
CPU_MATMUL(backward_weight);

CPU_FINISH(layernorm_backward); // of both kinds, like the next
CPU_FINISH(rmsnorm_backward);
CPU_FINISH(head_rmsnorm_backward);
CPU_FINISH(bias_backward);
CPU_FINISH(grad_sqnorm);

CPU_SCRATCH(layernorm_forward); // of both kinds, like the next three
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
size_t ISA(cpu_matmul_scratch)(const host_op *op, int n_threads); // all three of them

// With AMX, bf16 data's flash attention is another, too.
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
double ISA(cpu_peak_stream)(cpu_stream stream, float *a, float *b, const float *c, int64_t n_elems, int64_t n_passes);

// Whether who reads what an op writes, in all n_bytes, would not find it in the second-level caches. Then it is stored
// past the caches: a processor reads a line before it changes a part of it, but not one that is stored whole so.
static inline bool cpu_leaves_caches(const cpu_team *team, int64_t n_bytes) {
    return n_bytes > team->n_threads * (int64_t)cpu_topology_level2_bytes() / 2;
}

static inline int64_t cpu_min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cpu_divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

// A half-open range of rows, columns or elements.
typedef struct {
    int64_t first;
    int64_t end;
} cpu_range;

// Part `part` of `n_parts` nearly equal parts of 0..n-1, cut at multiples of `step`.
static inline cpu_range cpu_split(int64_t n, int64_t step, int part, int n_parts) {
    int64_t n_steps = cpu_divide_up(n, step);
    int64_t share = n_steps / n_parts;
    int64_t rest = n_steps % n_parts; // the first `rest` parts take one step more
    int64_t first = part * share + (part < rest ? part : rest);
    int64_t end = first + share + (part < rest ? 1 : 0);
    return (cpu_range){first * step < n ? first * step : n, end * step < n ? end * step : n};
}

// This thread's part of rows; of elements, in whole cache lines.
static inline cpu_range cpu_my_rows(const cpu_team *team, int64_t n_rows) {
    return cpu_split(n_rows, 1, team->thread, team->n_threads);
}
static inline cpu_range cpu_my_elems(const cpu_team *team, int64_t n_elems) {
    return cpu_split(n_elems, 16, team->thread, team->n_threads);
}

// Adds to sum[0..n_cols) the arrays of n_cols floats that lie at offset_elems of each part's scratch, each part a range of
// columns, in the order of the parts: in `finish`.
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

#endif
