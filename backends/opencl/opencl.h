// opencl.h: what the files of the opencl backend share: what is known of a device, the device, the
// executable.
//
//   opencl/platform.c  which devices there are, and what they say of themselves
//   families/tier.c      which family of kernels suits a device
//   nvidia/matrix.c    which matrix units a device has, by running them
//   nvidia/matrix_attention.c  runs attention by them
//   opencl/program.c   builds kernels
//   opencl/cache.c     keeps what was built on disk
//   nvidia/retarget.c  makes PTX of another target of what was built
//   opencl/helpers.c   has programs built by several processes
//   opencl/memory.c    a plan's tensors in the device's memory
//   bind/bind.c      from an op to launches (bind/launch.c makes one), with bind/optimizer.c and
//                      bind/product.c; matrix products and attention by
//                      nvidia/tier_tensor.c, families/local.c or families/registers.c; nvidia/tensor_map.c
//                      describes matrices to a card's TMA
//   opencl/tune.c      chooses among kernels by measurement
//   bind/own.c       a user's kernels in the place of these
//   opencl/execute.c   runs a range of launches
//   opencl/copy.c      copies beside what is computed
//   opencl/wait.c      waits that end at a deadline
//   opencl/peaks.c     measures ceilings
#ifndef STEPMARK_OPENCL_H
#define STEPMARK_OPENCL_H

#include <pthread.h>

#include "backend.h"

#include "backends/opencl/api.h"

// What a device says of itself.
typedef struct {
    cl_platform_id platform;
    cl_device_id id;
    int platform_index;
    int device_index; // within its platform
    char platform_name[SM_TEXT_SIZE];
    char name[SM_TEXT_SIZE];
    char driver[SM_TEXT_SIZE];  // "3.1+debian"
    char version[SM_TEXT_SIZE]; // "OpenCL 3.0 PoCL ..."
    bool is_cpu;
    bool has_local_memory;   // of its own, not a part of global memory
    bool shares_host_memory; // host and device memory are one
    bool has_subgroups;
    bool has_fp16;
    int compute_capability; // 90 for 9.0, of NVIDIA's extension for device attributes; 0 where the driver has it not
    bool keeps_builds;      // caches what it compiled, and would compile more to give a binary away
    bool is_usable;         // `trouble` says why not
    char trouble[SM_TEXT_SIZE];
    int vector_width; // floats in a native vector
    int n_units;
    int clock_mhz;
    size_t max_group; // work-items in a work-group
    size_t memory_bytes;
    size_t max_alloc_bytes;
    size_t local_bytes;
} opencl_facts;

typedef struct opencl_tier opencl_tier;

// A built program; a device keeps all that it built.
typedef struct opencl_program {
    struct opencl_program *next;
    char *key; // file and options
    cl_program program;
} opencl_program;

// One of the tier's ways to compute a product, chosen by measurement.
typedef struct opencl_choice {
    struct opencl_choice *next;
    char *name; // the product: form, shape, what is done beside it
    int way;
} opencl_choice;

// A thread that waits for the device in the place of the caller, who cannot be kept from waiting too long.
typedef struct {
    bool is_running;
    pthread_t thread;
    pthread_mutex_t lock; // of what follows
    pthread_cond_t changed;
    enum { OPENCL_WAITER_DONE, OPENCL_WAITER_ASKED, OPENCL_WAITER_ENDS } state;
    cl_command_queue queue; // waited for, unless there is an event
    cl_event event;
    cl_int code; // what the wait returned
} opencl_waiter;

typedef struct opencl_device {
    sm_device base;
    opencl_facts facts;
    const opencl_tier *tier;
    int index;          // among the backend's devices
    const char *helper; // of sm_open_options
    cl_device_id part;  // of a processor, when fewer threads are asked for than it has; else NULL
    cl_context context;
    cl_command_queue queue;     // in order, unprofiled: what is measured
    cl_command_queue profile;   // in order, with events: where time goes
    cl_command_queue copies[2]; // out and in, beside what is computed; NULL until one is needed
    opencl_program *programs;
    opencl_choice *choices;
    void (*progress)(const char *text);         // of sm_open_options
    const sm_own_kernel *own[SM_OP_KIND_COUNT]; // the user's, in place of the tier's; NULL: none
    const int *trial;                           // the way that is being measured, for every product; NULL: none is
    opencl_waiter waiter;
    bool is_lost;                    // a wait was given up: nothing of the device may be freed
    struct opencl_executable *kept;  // released since
    struct opencl_device *next_lost; // closed since
} opencl_device;

// One kernel with its arguments set. Its work-groups are the whole of global/local.
typedef struct {
    cl_kernel kernel;
    cl_uint n_dims;
    size_t global[2];
    size_t local[2];
} opencl_launch;

enum { OPENCL_STAGING_SLOTS = 16, OPENCL_MAX_PINNED = 64 };

// What is uploaded in a step (batches, settings) is copied here first, so that the caller need not wait for the device.
typedef struct {
    size_t slot_bytes; // the largest batch tensor fits
    unsigned char *bytes[OPENCL_STAGING_SLOTS];
    cl_event written[OPENCL_STAGING_SLOTS]; // NULL: free
    int next;
} opencl_staging;

// Host memory that a processor's buffer lies in; NULL where the driver has its own.
typedef struct {
    void *host;
    size_t size_bytes;
} opencl_pages;

// What is rounded or added on its way between the device and the host: one way's, as each has a thread of its own.
typedef struct {
    cl_kernel plain; // NULL: copied as it is
    cl_kernel rounded;
    cl_mem landing; // between the copy and the kernel
    size_t landing_bytes;
} opencl_copy_way;

typedef struct opencl_executable {
    sm_executable base;
    opencl_device *device;
    int n_arenas; // the plan's, which may be gone before a lost device is
    cl_mem *arenas;
    cl_mem *state; // copies of those that outlive a step (opencl_keep_state); NULL where there are none
    opencl_pages *pages; // n_arenas + 1: where the arenas and the scratch lie
    cl_mem scratch;      // what launches of one op hand to one another; NULL where none does
    size_t scratch_bytes;
    cl_mem maps;         // tensor maps; NULL where there are none
    uint64_t *addresses; // with maps: of the arenas and the scratch, 0 where it was not asked for yet
    size_t used_map_bytes;
    opencl_staging staging;
    cl_mem pinned[OPENCL_MAX_PINNED]; // host memory that other processes see, too (opencl_pin)
    int n_pinned;
    opencl_copy_way ways[2]; // out and in
    opencl_launch *launches;
    int n_launches;
    int cap_launches;
    sm_range *launches_of; // op i, and at n_ops + i as later micro-batches do it
    int n_on_units; // ops on matrix units, and those for which the tier has such kernels, but not for these sizes
    int n_beside_units;
    cl_event *events;             // n_launches, for the profiled queue
    struct opencl_wanted *wanted; // while ops are bound for the names of their programs alone; else NULL
    struct opencl_executable *next_kept;
} opencl_executable;

// --- opencl/platform.c ---------------------------------------------------------------------------

// Number of devices; 0 when there is no loader, no platform or no device, and *reason says which and how to
// get one. The list is made once.
int opencl_n_devices(const char **reason);
const opencl_facts *opencl_device_facts(int index);

// --- nvidia/matrix.c -----------------------------------------------------------------------------

// Instructions of matrix units that a device has shown to compute rightly.
typedef struct {
    bool has_mma;                // a warp's products of bf16, fp16 and tf32 (mma.sync), and what feeds them
    char missing[SM_TEXT_SIZE];  // why it has not
    bool has_wgmma;              // products of 16-bit numbers by four warps, fed by TMA
    char no_wgmma[SM_TEXT_SIZE]; // why it has not
} opencl_matrix_units;

// Found once, by a small kernel whose numbers are checked; what was found is kept with the built programs.
const opencl_matrix_units *opencl_find_matrix_units(const opencl_facts *facts);
// Whether products of such data are right by wgmma: also found once.
bool opencl_has_wgmma(const opencl_facts *facts, sm_dtype dtype, sm_products products);

// The context that its units were tried in, where nothing went wrong and a plan is to be run; NULL: there is none. The
// caller's from then on.
cl_context opencl_take_context(const opencl_facts *facts);

// Whether attention of heads of HS channels, 64 or 128, is computed rightly by wgmma; and what is wrong, "" if nothing.
bool opencl_has_wgmma_attention(const opencl_facts *facts, sm_dtype dtype, int64_t HS);
const char *opencl_wgmma_attention_trouble(const opencl_facts *facts, sm_dtype dtype, int64_t HS);

// --- opencl/program.c ----------------------------------------------------------------------------

// A kernel of cl/STEM.cl built with `options` ("-DX=1 -DY=2"); the caller releases it. A source that does not
// build is SM_ERR_DEVICE, with the first error of the build log.
sm_status opencl_get_kernel(opencl_device *device, const char *stem, const char *options, const char *name,
                            cl_kernel *kernel);

// The program that has the kernels of cl/STEM.cl: its name; whether it is there, or in the cache; itself, by either
// name.
const char *opencl_program_name(const char *stem);
bool opencl_is_built(const opencl_device *device, const char *name, const char *options);
sm_status opencl_get_program(opencl_device *device, const char *name, const char *options, cl_program *program);

// The kernel of a user's source. SM_ERR_FORMAT: it does not build, or has no such kernel.
sm_status opencl_get_own_kernel(opencl_device *device, const sm_own_kernel *own, cl_kernel *kernel);

// The same from a source of one's own, without the cache: for tests and measurements.
sm_status opencl_build_source(opencl_device *device, const char *name, const char *source, const char *options,
                              cl_program *program);

// PTX with its hidden instructions, for the architecture-specific variant of its target. The caller frees it; NULL
// where the text is no PTX, or there is no memory.
char *opencl_retarget(const unsigned char *ptx, size_t size_bytes, size_t *new_bytes);
void opencl_free_programs(opencl_device *device);

// --- opencl/cache.c ------------------------------------------------------------------------------

// What was built from `key` (anything that the result depends on), or NULL: never a damaged entry. The caller
// frees it. SM_ERR_IO where the entry must not be trusted (host/cache.h).
sm_status opencl_cache_load(const char *key, unsigned char **binary, size_t *size_bytes);
// Best effort: a cache that cannot be written is no failure.
void opencl_cache_store(const char *key, const unsigned char *binary, size_t size_bytes);

// --- opencl/memory.c -----------------------------------------------------------------------------

// Arenas and scratch, zeroed. SM_ERR_OOM says what was asked and what there is.
sm_status opencl_allocate(opencl_executable *e, size_t scratch_bytes);
void opencl_free_memory(opencl_executable *e);
sm_status opencl_upload(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, const void *data);
sm_status opencl_download(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, void *data);
sm_status opencl_keep_state(sm_executable *executable, sm_state_action action);

// The buffer and the bytes of a part of a tensor.
typedef struct {
    cl_mem buffer;
    size_t offset_bytes;
    size_t size_bytes;
} opencl_span;

sm_status opencl_find_span(const opencl_executable *e, int tensor, int64_t offset_elems, int64_t n_elems,
                           opencl_span *s);

// --- opencl/copy.c -------------------------------------------------------------------------------

sm_status opencl_begin_copy(sm_executable *executable, const sm_copy *copy, void **ticket);
sm_status opencl_wait_copy(sm_executable *executable, void *ticket);
bool opencl_is_copied(sm_executable *executable, void *ticket);
sm_status opencl_pin(sm_executable *executable, void *memory, size_t size_bytes);
void opencl_free_copies(opencl_executable *e);
size_t opencl_copy_bytes(const sm_plan *plan); // that two processes' sums land in

// --- opencl/wait.c -------------------------------------------------------------------------------

// Waits for the event or, where that is NULL, for all of the queue. SM_ERR_TIMEOUT at the executable's deadline: the
// device is lost then. `doing` names the call in messages.
sm_status opencl_wait(opencl_executable *e, const char *doing, cl_command_queue queue, cl_event event);
// Fails when the device is lost.
sm_status opencl_check_lost(const opencl_executable *e);
void opencl_end_waiter(opencl_device *device);

// A lost device's executable or itself, which are not needed any more.
void opencl_keep_executable(opencl_executable *e);
void opencl_keep_device(opencl_device *device);
// Frees what was kept of that device; SM_ERR_TIMEOUT when it has not come back.
sm_status opencl_reclaim(const opencl_facts *facts, const char *device_id);

// --- opencl/helpers.c ----------------------------------------------------------------------------

// A program, and the family of kernels that it is of: what a helper is given.
typedef struct {
    char tier[16];
    char name[32];
    char options[384];
} opencl_named_program;

// Programs that a plan asks for: name and options, each once.
typedef struct opencl_wanted opencl_wanted;
void opencl_want(opencl_wanted *wanted, const char *stem, const char *options);

// Has what the plan needs and the cache has not built by several processes, where the device was opened with a helper.
// What goes wrong is left to who needs the program.
void opencl_build_ahead(opencl_executable *e);
sm_status opencl_help(int n_words, char *const *words); // in such a process

// A plan is to be run in this process, on some device. From then on, processes for its programs are started as soon as
// it is seen that nothing is known of a device: what they need of the driver takes them as long as this one.
void opencl_foresee(const char *helper);
bool opencl_begin_early(const opencl_facts *facts); // whether a plan is to be run
void opencl_dismiss_helpers(const opencl_device *device);
void opencl_end_dismissed(const opencl_device *device); // waits for those: no step runs beside their end
void opencl_end_helpers(const opencl_device *device);   // waits for their end

// --- opencl/tune.c -------------------------------------------------------------------------------

// Measures the ways to compute every product of the plan that no choice is known for, in bounded time, and
// remembers the fastest right ones, also on disk. Sets e->base.tune_ns and e->base.tune_warning.
sm_status opencl_tune(opencl_executable *e);
void opencl_free_choices(opencl_device *device);

// --- opencl.c, opencl/execute.c, opencl/peaks.c ------------------------------------------------------------

sm_status opencl_open(int index, const sm_open_options *options, sm_device **opened);
sm_status opencl_open_to_build(int index, opencl_device *device); // without queues, and without a family of kernels
void opencl_close(sm_device *device);
size_t opencl_working_bytes(const sm_device *device, const sm_plan *plan);
sm_status opencl_prepare(sm_device *device, const sm_plan *plan, sm_executable **executable);
void opencl_release(sm_executable *executable);
sm_status opencl_execute(sm_executable *executable, sm_range range, int64_t *op_ns);
sm_status opencl_synchronize(sm_executable *executable);
sm_status opencl_measure_peaks(sm_device *device, sm_precision precision, double seconds, sm_peaks *peaks);
sm_status opencl_measure_ceilings(sm_device *device, double seconds, sm_ceiling_sink sink, void *ctx);

#endif
