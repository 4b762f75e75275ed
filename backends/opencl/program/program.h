// program.h: the lowest layer of the opencl backend: which devices there are, what they say of themselves, and programs
// that are built for one.
//
//   api.c       the driver's functions, found when the program runs
//   platform.c  devices and their facts
//   program.c   programs: of the device's list, from the cache, or from source
//   cache.c     keeps what was built on disk
#pragma once

#include <jansson.h>

#include "backend.h"
#include "embedded.h"

#include "backends/opencl/program/api.h"

// --- platform.c ----------------------------------------------------------------------------------

// Facts that a device reports.
typedef struct {
    cl_platform_id platform;
    cl_device_id id;
    int platform_index;
    int device_index; // within its platform
    char platform_name[SM_TEXT_SIZE];
    char name[SM_TEXT_SIZE];
    char driver[SM_TEXT_SIZE];  // "3.1+debian"
    char version[SM_TEXT_SIZE]; // "OpenCL 3.0 PoCL ..."
    bool has_uuid;
    unsigned char uuid[16]; // the same for every process and for CUDA
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
    size_t shown_local_bytes; // of an open device: what a family found beyond local_bytes; 0: nothing
} opencl_facts;

// Number of devices, listed once; 0 without a loader, a platform or a device: *reason says which and how to get one.
int opencl_n_devices(const char **reason);
void opencl_begin_listing(void); // in a thread
const opencl_facts *opencl_device_facts(int index);
bool opencl_has_extension(cl_device_id id, const char *name);

// A context that a device was tried in, where nothing went wrong: kept for who opens the device next, whose it is from
// then on. One is kept at most; false: the caller still has it. NULL: there is none.
bool opencl_keep_context(const opencl_facts *facts, cl_context context);
cl_context opencl_take_context(const opencl_facts *facts);

// Called when it is seen that nothing is known of a device yet: the device layer may then start processes that build,
// and says whether a plan is to be run. A pointer, as who tries a device is below that layer; NULL: nobody asks.
extern bool (*opencl_begin_early)(const opencl_facts *facts);

// --- program.c -----------------------------------------------------------------------------------

enum { OPENCL_MOST_STEMS = 8 };

// A program of several files.
typedef struct {
    const char *name;                     // what is asked for by this name: a file's stem, or that of a common program
    const char *stems[OPENCL_MOST_STEMS]; // its files, in their order; philox and the prelude come before
    const char *options;                  // of the compiler; NULL: none
    // Makes another binary of the compiler's, which the caller frees; NULL: it could not. No function: none is made.
    char *(*rewrite)(const unsigned char *binary, size_t size_bytes, size_t *new_bytes);
} opencl_recipe;

// A family's sizes for all its programs and launches. The device layer passes them on.
typedef struct {
    int vector;                   // floats a work-item handles at a time
    int row_items;                // work-items that share a row
    int group;                    // work-items in a work-group of element-by-element kernels
    const char *options;          // of all its programs; NULL: none
    const opencl_recipe *recipes; // of its own; one without a name ends them; NULL: none
} opencl_sizes;

// An open device, as all layers hand it on. A part is of the layer in its name: no lower one knows its types.
typedef struct opencl_device {
    sm_device base;
    opencl_facts facts;
    opencl_sizes sizes;
    cl_device_id part; // of a processor, when fewer threads are asked for than it has; else NULL
    cl_context context;
    struct opencl_program *programs; // all that were built for it
    struct opencl_peers *peers;      // what joins it with other processes' devices; NULL: nothing
    // memory
    cl_command_queue queue;          // in order, unprofiled: what is measured
    cl_command_queue aside;          // in order, for work that others rarely wait for; NULL: there is none
    double least_aside_flops;        // of such an op, on average: else events cost more than is gained
    cl_command_queue copies[2];      // out and in, during computation; NULL until one is needed
    struct opencl_waiter *waiter;    // NULL until one is needed
    bool is_lost;                    // a wait was given up: nothing of the device may be freed
    struct opencl_executable *kept;  // released since
    struct opencl_device *next_lost; // closed since
    // binders
    const struct opencl_family *family;
    json_t *choices;                            // of tuned plans: the ways by the products' names; NULL: none
    const int *trial;                           // the way that is being measured, for every product; NULL: none is
    const sm_own_kernel *own[SM_OP_KIND_COUNT]; // the user's, in place of the family's; NULL: none
    // the device layer
    int index;                          // among the backend's devices
    const char *helper;                 // of sm_open_options
    void (*progress)(const char *text); // of sm_open_options
    cl_command_queue profile;           // in order, with events, for profiling
} opencl_device;

static inline const char *id_of(const opencl_device *device) { return device->base.info.id; }

// The status of a function's call, with its name and the device's.
#define OPENCL_CALL(device, function, ...) opencl_check(id_of(device), #function, opencl.function(__VA_ARGS__))

// The embedded file cl/STEM.cl, or with that name in a subfolder; NULL: none.
const sm_embedded *opencl_find_source(const char *stem);
// The recipe with that name of the device's family; NULL: none.
const opencl_recipe *opencl_find_own_recipe(const opencl_device *device, const char *name);

// The place for a warning with that fact in it; NULL: there is one already, or no room.
char *opencl_new_warning(sm_device_info *info, const char *fact);

// Opens a device only for building: without a queue, and without a family of kernels, which the caller may set.
sm_status opencl_open_to_build(const opencl_facts *facts, opencl_device *device);
sm_status opencl_create_context(opencl_device *device);
cl_device_id opencl_target(const opencl_device *device); // the device, or its part

// A kernel of cl/STEM.cl built with `options` ("-DX=1 -DY=2"); the caller releases it. A source that does not build is
// SM_ERR_DEVICE, with the first error of the build log.
sm_status opencl_get_kernel(opencl_device *device, const char *stem, const char *options, const char *name,
                            cl_kernel *kernel);

// Take a program's name and give a hash of its texts, whether it is built or cached, and it (also by a file's stem).
uint64_t opencl_hash_program(const opencl_device *device, const char *name);
// The cache's key of what a probe found: what it tried, the device, and the sources, a list that NULL ends.
void opencl_probe_key(const opencl_facts *facts, const char *what, const char *const *stems, char *key,
                      size_t size_bytes);
bool opencl_is_built(const opencl_device *device, const char *name, const char *options);
sm_status opencl_get_program(opencl_device *device, const char *name, const char *options, cl_program *program);

// The kernel of a user's source. SM_ERR_FORMAT: it does not build, or has no such kernel.
sm_status opencl_get_own_kernel(opencl_device *device, const sm_own_kernel *own, cl_kernel *kernel);

// The same from any source, without the cache: for tests and measurements.
sm_status opencl_build_source(opencl_device *device, const char *name, const char *source, const char *options,
                              cl_program *program);
void opencl_free_programs(opencl_device *device);

typedef struct {
    size_t size_bytes;
    const void *value;
} opencl_argument;
#define OPENCL_ARGUMENT(variable) \
    { sizeof(variable), &(variable) }

sm_status opencl_set_arguments(const opencl_device *device, cl_kernel kernel, const opencl_argument *arguments, int n);

// A program and its family of kernels: the input of a building process.
typedef struct {
    char family[16];
    char name[32];
    char options[384];
} opencl_named_program;

enum { OPENCL_MOST_WANTED = 64 };

// The programs of a plan: name and options, each once.
typedef struct opencl_wanted {
    const char *family;
    int n;
    opencl_named_program programs[OPENCL_MOST_WANTED]; // they fit in a pipe
} opencl_wanted;

void opencl_want(opencl_wanted *wanted, const char *stem, const char *options);

// --- cache.c -------------------------------------------------------------------------------------

// The binary built from `key` (which has everything that it depends on), or NULL; never a damaged entry. The caller
// frees it. SM_ERR_IO if the entry is not trusted (host/cache.h).
sm_status opencl_cache_load(const char *key, unsigned char **binary, size_t *size_bytes);
// Best effort: failing to write the cache is not an error.
void opencl_cache_store(const char *key, const unsigned char *binary, size_t size_bytes);
