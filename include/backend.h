// backend.h: the contract of a backend: a compiler and an executor for plans.
//
// A backend is a constant struct of functions; its devices and executables embed the base structs below as their first
// member. The registry (src/session/registry.c) is the only place that names backends. There is no fallback: a backend
// refuses an op that it cannot run, with a reason.
#pragma once

#include "own_kernel.h"

typedef struct sm_backend sm_backend;

enum { SM_TEXT_SIZE = 128, SM_MAX_WARNINGS = 8 };

// The facts of a device that are known without opening it. Sizes in bytes; 0 = unknown.
typedef struct {
    char id[32];                    // "cpu", "opencl:0.1"
    char uuid[40];                  // the same for every process that sees it, whatever id it has there; "" if unknown
    char name[SM_TEXT_SIZE];        // "AMD EPYC 9654"
    char driver[SM_TEXT_SIZE];      // library or driver and version: "OpenBLAS 0.3.21, POSIX threads"
    char isa[32];                   // instruction set that the kernels use: "avx512"; "" if none
    char blas_core[32];             // core name that the BLAS chose; "" before a plan calls it
    char tier[32];                  // which family of kernels; "" if only one
    char tier_reason[SM_TEXT_SIZE]; // the reason for that tier
    char platform[SM_TEXT_SIZE];    // OpenCL: the implementation's vendor; "" otherwise
    char features[SM_TEXT_SIZE];    // OpenCL: "sub-groups, fp16, ..."; "" otherwise
    bool is_host_processor;         // the CPU of the host: the device uses the process's memory
    int clock_mhz;                  // the highest that the driver reports; 0 = unknown
    size_t local_bytes;             // OpenCL: local memory of a work-group; 0 otherwise
    int n_units;                    // cores or compute units
    int n_threads;                  // threads used by default
    char binding[SM_TEXT_SIZE];     // placement of these threads: "one a core: processors 0-1"; "" if there is no
                                    // choice
    size_t memory_bytes;            // total
    size_t free_bytes;              // available now
    size_t max_alloc_bytes;         // largest single allocation; 0 = no limit
    bool available;                 // false: cannot be opened here; `reason` says why
    char reason[SM_TEXT_SIZE * 2];
    int n_warnings;
    char warnings[SM_MAX_WARNINGS][SM_TEXT_SIZE * 2];
    char products[SM_TEXT_SIZE];        // what multiplies matrices, "openblas 0.3.21 (SkylakeX)"; "": its own kernels
    char own_kernels[SM_TEXT_SIZE * 4]; // the user's own kernels in use, "gelu_forward=my.c"; "" if none
    double own_call_ns;                 // of a call into their process that does nothing; 0: none
} sm_device_info;

typedef struct {
    int n_threads;        // 0 = the device's default
    const char *isa;      // instruction set of the kernels, "avx2"; NULL = the best there is
    const char *cpu_mask; // cpu: the processors to run on, "0-3,8" or "0x10f"; NULL = all that the process may use
    bool keep_env;        // cpu: also keep environment variables that limit a library
    bool openblas;        // OpenBLAS multiplies matrices; refused by a backend without `openblas`
    void (*progress)(const char *text); // receives a line about slow work; NULL: ignored
    const char *helper; // path of a program that, called as `PATH --helper BACKEND WORD...`, ends with the backend's
                        // help(); NULL: the backend starts no processes

    // The user's kernels, instead of the backend's own; they outlive the device. Ignored by a backend that takes none.
    const sm_own_kernel *own_kernels;
    int n_own_kernels;
} sm_open_options;

typedef struct {
    const sm_backend *backend;
    sm_device_info info; // as opened: n_threads is the number in use
} sm_device;

// How the threads of a device shared an op, ADDED up over its timed runs (execute's op_ns).
typedef struct {
    int64_t timed_ns;   // of the op
    int64_t busy_ns;    // mean time in which a thread's part worked, without waiting for others
    int64_t slowest_ns; // the same of the part that took longest
    int64_t shared_ns;  // of the op since its last part began
} sm_op_parts;

typedef struct {
    sm_device *device;
    const sm_plan *plan; // not owned; outlives the executable, unchanged
    size_t memory_bytes; // all memory allocated for it on the device
    bool is_later;       // not the first micro-batch of its step (sm_op_later). Set by the caller
    // By sm_now_ns; 0 = none. Set by the caller: a wait for the device ends at this time with SM_ERR_TIMEOUT, and the
    // device cannot be used afterwards. Ignored by backends that never wait.
    int64_t deadline_ns;

    // For a tuned plan: the time that prepare() took to measure kernels, and any problem in one line, "" if none.
    int64_t tune_ns;
    char tune_warning[SM_TEXT_SIZE * 2];

    char note[SM_TEXT_SIZE * 2]; // a note for the reader on the chosen kernels, one line; "" if none

    sm_op_parts *parts; // plan->n_ops entries, which the caller may set to 0; NULL: unknown
} sm_executable;

// Measured ceilings. 0 = not measured.
typedef struct {
    double flops;                 // multiply-add FLOP/s of the precision, all threads
    double bandwidth_bytes_per_s; // the best streaming rate over memory larger than the caches
    char source[SM_TEXT_SIZE];    // how it was measured, in words
} sm_peaks;

// One ceiling of a device as it was opened (its threads, its binding), measured by the backend's own kernel.
typedef struct {
    const char *name;    // "fma f32", "dot bf16", "read", "write", "copy", "triad", ...
    const char *where;   // place of the operands: "registers", "L1", "L2", "L3", "memory"
    const char *unit;    // "FLOP/s" or "bytes/s"
    const char *meaning; // one line: the work and how it is counted
    double best;         // of the best trial; 0 = not measurable, `reason` says why
    double median;       // of all trials: far below the best if something else ran
    int n_trials;
    size_t working_set_bytes; // of all threads together; 0 = registers
    double clock_hz;          // processor clock right after the trials: median; 0 = unknown
    double clock_low_hz;      // lowest and highest of any trial and thread
    double clock_high_hz;
    char reason[SM_TEXT_SIZE];
} sm_ceiling;

// Receives each ceiling as soon as it is measured. A failure ends the measurement and is returned.
typedef sm_status (*sm_ceiling_sink)(void *ctx, const sm_ceiling *ceiling);

// A copy between a device's memory and the host's: out of the device, into it, or added to the device's values.
typedef enum { SM_COPY_OUT, SM_COPY_IN, SM_COPY_ADD } sm_copy_kind;

typedef struct {
    sm_copy_kind kind;
    int tensor;
    int64_t offset_elems;
    int64_t n_elems;
    bool is_bf16; // the host's values are bf16, the device's f32: OUT rounds; ADD rounds both summands and the sum
    void *host;
} sm_copy;

// Operations on a copy, kept on the device, of the parameters (and of the working copies that matmuls read).
typedef enum {
    SM_WEIGHTS_KEEP,    // makes the copy. SM_ERR_OOM: no room; nothing has changed
    SM_WEIGHTS_RESTORE, // swaps the parameters and the copy; then fills all results of a step (activations, gradients,
                        // results, scratch) with SM_STALE_BYTE, so that an op which writes nothing is noticed
    SM_WEIGHTS_RESUME,  // swaps them back
    SM_WEIGHTS_DROP     // frees the copy
} sm_weights_action;

enum { SM_STALE_BYTE = 0x5A }; // a large finite number in every format

struct sm_backend {
    const char *name;            // "cpu"
    const char *summary;         // one line
    bool benchmarked;            // belongs to `--backend all`; false for the reference
    sm_own_language own_kernels; // accepted in sm_open_options.own_kernels; SM_OWN_NONE: none
    bool openblas;               // takes sm_open_options.openblas
    bool tunes; // prepare() chooses kernels by measurement for plans of mode tuned; false: such plans are refused

    // Number of devices, at least 1 (an unavailable one with a reason counts).
    int (*device_count)(void);
    sm_status (*describe)(int index, sm_device_info *info);

    sm_status (*open)(int index, const sm_open_options *options, sm_device **device);
    void (*close)(sm_device *device); // NULL is fine

    // Announces that this process will open a device and prepare a plan: slow work may start now, in processes of
    // `helper` (sm_open_options) and, if the device will exchange with other processes', in threads, which NULL awaits.
    void (*foresee)(const char *helper, bool exchanges);

    // SM_OK, or SM_ERR_UNSUPPORTED with the reason as the error message.
    sm_status (*supports)(const sm_device *device, const sm_plan *plan, const sm_op *op);

    // Whether the device computes in that precision by widening to another: rows then say `emulated`. NULL: never.
    bool (*emulates)(const sm_device *device, sm_precision precision);

    // Measures for about `seconds` in all.
    sm_status (*measure_peaks)(sm_device *device, sm_precision precision, double seconds, sm_peaks *peaks);

    // The same for operands of `working_set_bytes` in all, which may fit in a cache: shorter. NULL: use measure_peaks.
    sm_status (*measure_peaks_within)(sm_device *device, sm_precision precision, size_t working_set_bytes,
                                      double seconds, sm_peaks *peaks);

    // Measures every ceiling, each for about `seconds`. NULL: the backend has only measure_peaks.
    sm_status (*measure_ceilings)(sm_device *device, double seconds, sm_ceiling_sink sink, void *ctx);

    // Bytes that `prepare` will allocate in addition to the plan's own memory: scratch, packed operands.
    size_t (*working_bytes)(const sm_device *device, const sm_plan *plan);

    // Does work that prepare() started in a separate process; the words name it, as prepare() chose. NULL: none.
    sm_status (*help)(int n_words, char *const *words);

    // Compiles a plan with assigned memory, and allocates that, zeroed. SM_ERR_OOM names requested and available bytes.
    sm_status (*prepare)(sm_device *device, const sm_plan *plan, sm_executable **executable);
    void (*release)(sm_executable *executable); // NULL is fine

    // Starts ops [range.first, range.end) in order. Allocates nothing on the host. With op_ns (plan->n_ops entries)
    // each op is timed separately, its nanoseconds are ADDED to op_ns[i], and the call returns when all are done.
    // Without op_ns it may return early.
    sm_status (*execute)(sm_executable *executable, sm_range range, int64_t *op_ns);
    sm_status (*synchronize)(sm_executable *executable);

    // Copies n_elems elements from offset_elems of a tensor, in the tensor's own dtype, in order with execute. The
    // host's memory may change once the call returns.
    sm_status (*upload)(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, const void *data);
    sm_status (*download)(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, void *data);

    // NULL: not supported, so no step can be repeated.
    sm_status (*keep_weights)(sm_executable *executable, sm_weights_action action);

    // Address of a tensor in the host's memory, for plans that read it there (sm_tensor.memory). NULL: none.
    const void *(*address)(const sm_executable *executable, int tensor);

    // For devices with their own memory; NULL where a plan's arenas are host memory, which the caller may provide
    // (sm_arena.memory). Starts to copy a part of a tensor while ops compute: a copy out begins after all ops started
    // so far, a copy in begins at once. Nobody else touches `host` until wait_copy, which any thread may call, once for
    // each ticket. One thread copies out, and one in.
    sm_status (*begin_copy)(sm_executable *executable, const sm_copy *copy, void **ticket);
    sm_status (*wait_copy)(sm_executable *executable, void *ticket);
    bool (*is_copied)(sm_executable *executable, void *ticket); // true if unknown: wait_copy then waits

    // Registers host memory for fast access by the device (begin_copy) while the executable lives; NULL: not needed.
    sm_status (*pin)(sm_executable *executable, void *memory, size_t size_bytes);
};

static inline void sm_device_close(sm_device *device) {
    if (device != NULL) {
        device->backend->close(device);
    }
}
SM_OWNABLE(sm_device, sm_device_close)

static inline void sm_executable_release(sm_executable *executable) {
    executable->device->backend->release(executable);
}
SM_OWNABLE(sm_executable, sm_executable_release)

// src/session/registry.c
int sm_backend_count(void);
const sm_backend *sm_backend_at(int index);
const sm_backend *sm_backend_find(const char *name); // NULL if there is none
