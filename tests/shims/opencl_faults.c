// opencl_faults.c: a libOpenCL.so.1 for tests, in front of the system's own: one function fails, hangs or crashes.
//
//     STEPMARK_FAULT="clFinish hang 3"            the third call of clFinish never returns
//     STEPMARK_FAULT="clBuildProgram -11 1"       each call from the first on fails with that code
//     STEPMARK_FAULT="clCreateContext crash 1"    the first call ends the process by SIGSEGV
//     STEPMARK_FAULT="clGetDeviceInfo ones 1"     sizes and counts of devices: all bits set; "zeros": none;
//                                                 "small": work-groups of at most 64
//
// STEPMARK_HANGS=FILE: FILE is made when a call hangs.
//
// STEPMARK_OBJECTS=FILE: at the end of the process FILE gets a line for each object that was not released, by its type.
//
// STEPMARK_CARD=1: the device is the card of cuda.c, too, and its memory is imported by a file descriptor. Another
// word: the device says so, and refuses the memory.
//
// $STEPMARK_OPENCL is the real library.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *find(const char *name) {
    const char *path = getenv("STEPMARK_OPENCL");
    void *library = dlopen(path != NULL ? path : "", RTLD_NOW | RTLD_LOCAL);
    void *function = library != NULL ? dlsym(library, name) : NULL;
    if (function == NULL) {
        fprintf(stderr, "opencl_faults: %s: not in STEPMARK_OPENCL=%s\n", name, path != NULL ? path : "");
        abort();
    }
    return function;
}

// The action's word, where call `n_calls` of the function has one; NULL: none.
static const char *action_of(const char *function, int n_calls) {
    static char action[32];
    char name[64];
    int first = 0;
    const char *fault = getenv("STEPMARK_FAULT");
    if (fault == NULL || sscanf(fault, "%63s %31s %d", name, action, &first) != 3 || strcmp(name, function) != 0) {
        return NULL;
    }
    return n_calls >= first ? action : NULL;
}

// The code that the call is to fail with; 0: it is passed on.
static cl_int fault_of(const char *function, int *n_calls) {
    const char *action = action_of(function, __atomic_add_fetch(n_calls, 1, __ATOMIC_SEQ_CST));
    if (action != NULL && strcmp(action, "hang") == 0) {
        const char *path = getenv("STEPMARK_HANGS");
        if (path != NULL) {
            close(open(path, O_WRONLY | O_CREAT, 0600));
        }
        for (;;) {
            pause();
        }
    }
    if (action != NULL && strcmp(action, "crash") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    return action != NULL ? atoi(action) : 0;
}

// --- objects that live ---------------------------------------------------------------------------

static struct {
    const char *type;
    long n;
} live[8];

static void count(const char *type, long change) {
    for (size_t i = 0; i < sizeof live / sizeof live[0]; i++) {
        if (live[i].type == NULL) {
            live[i].type = type;
        }
        if (strcmp(live[i].type, type) == 0) {
            __atomic_add_fetch(&live[i].n, change, __ATOMIC_SEQ_CST);
            return;
        }
    }
}

static __attribute__((destructor)) void list_live(void) {
    const char *path = getenv("STEPMARK_OBJECTS");
    FILE *out = path != NULL ? fopen(path, "a") : NULL;
    for (size_t i = 0; out != NULL && i < sizeof live / sizeof live[0]; i++) {
        for (long k = 0; k < live[i].n; k++) {
            fprintf(out, "%s\n", live[i].type);
        }
    }
    if (out != NULL) {
        fprintf(out, "end\n");
        fclose(out);
    }
}

// --- functions -----------------------------------------------------------------------------------

#define ENTER(name)                           \
    static __typeof__(&name) real;            \
    static int n_calls;                       \
    cl_int fault = fault_of(#name, &n_calls); \
    if (real == NULL) {                       \
        void *address = find(#name);          \
        memcpy(&real, &address, sizeof real); \
    }

// Functions that return their code.
#define CODE(name, parameters, arguments)             \
    CL_API_ENTRY cl_int CL_API_CALL name parameters { \
        ENTER(name)                                   \
        return fault != 0 ? fault : real arguments;   \
    }

// Functions that return an object, and their code in *code.
#define OBJECT(type, name, parameters, arguments)         \
    CL_API_ENTRY type CL_API_CALL name parameters {       \
        ENTER(name)                                       \
        if (fault != 0 && code != NULL) {                 \
            *code = fault;                                \
        }                                                 \
        type object = fault != 0 ? NULL : real arguments; \
        count(#type, object != NULL);                     \
        return object;                                    \
    }

// Functions that release an object that such a function returned.
#define RELEASE(type, name)                                    \
    CL_API_ENTRY cl_int CL_API_CALL name(type object) {        \
        ENTER(name)                                            \
        const cl_int code = fault != 0 ? fault : real(object); \
        count(#type, code == CL_SUCCESS ? -1 : 0);             \
        return code;                                           \
    }

typedef const cl_event *events;

CODE(clGetPlatformIDs, (cl_uint n, cl_platform_id *ids, cl_uint *found), (n, ids, found))
CODE(clGetPlatformInfo, (cl_platform_id p, cl_platform_info what, size_t n, void *value, size_t *size),
     (p, what, n, value, size))
CODE(clGetDeviceIDs, (cl_platform_id p, cl_device_type type, cl_uint n, cl_device_id *ids, cl_uint *found),
     (p, type, n, ids, found))
CODE(clCreateSubDevices,
     (cl_device_id d, const cl_device_partition_property *how, cl_uint n, cl_device_id *parts, cl_uint *made),
     (d, how, n, parts, made))
CODE(clReleaseDevice, (cl_device_id d), (d))
RELEASE(cl_context, clReleaseContext)
RELEASE(cl_command_queue, clReleaseCommandQueue)
CODE(clBuildProgram,
     (cl_program p, cl_uint n, const cl_device_id *ids, const char *options,
      void(CL_CALLBACK *done)(cl_program, void *), void *user),
     (p, n, ids, options, done, user))
CODE(clGetProgramInfo, (cl_program p, cl_program_info what, size_t n, void *value, size_t *size),
     (p, what, n, value, size))
CODE(clGetProgramBuildInfo,
     (cl_program p, cl_device_id d, cl_program_build_info what, size_t n, void *value, size_t *size),
     (p, d, what, n, value, size))
RELEASE(cl_program, clReleaseProgram)
CODE(clSetKernelArg, (cl_kernel k, cl_uint i, size_t n, const void *value), (k, i, n, value))
RELEASE(cl_kernel, clReleaseKernel)
RELEASE(cl_mem, clReleaseMemObject)
CODE(clEnqueueNDRangeKernel,
     (cl_command_queue q, cl_kernel k, cl_uint dims, const size_t *from, const size_t *all, const size_t *group,
      cl_uint n, events before, cl_event *event),
     (q, k, dims, from, all, group, n, before, event))
CODE(clEnqueueFillBuffer,
     (cl_command_queue q, cl_mem m, const void *pattern, size_t pattern_size, size_t from, size_t size, cl_uint n,
      events before, cl_event *event),
     (q, m, pattern, pattern_size, from, size, n, before, event))
CODE(clEnqueueCopyBuffer,
     (cl_command_queue q, cl_mem m, cl_mem to, size_t from, size_t at, size_t size, cl_uint n, events before,
      cl_event *event),
     (q, m, to, from, at, size, n, before, event))
CODE(clEnqueueReadBuffer,
     (cl_command_queue q, cl_mem m, cl_bool wait, size_t from, size_t size, void *data, cl_uint n, events before,
      cl_event *event),
     (q, m, wait, from, size, data, n, before, event))
CODE(clEnqueueWriteBuffer,
     (cl_command_queue q, cl_mem m, cl_bool wait, size_t from, size_t size, const void *data, cl_uint n, events before,
      cl_event *event),
     (q, m, wait, from, size, data, n, before, event))
CODE(clEnqueueMarkerWithWaitList, (cl_command_queue q, cl_uint n, events before, cl_event *event),
     (q, n, before, event))
CODE(clWaitForEvents, (cl_uint n, events e), (n, e))
CODE(clGetEventInfo, (cl_event e, cl_event_info what, size_t n, void *value, size_t *size), (e, what, n, value, size))
CODE(clGetEventProfilingInfo, (cl_event e, cl_profiling_info what, size_t n, void *value, size_t *size),
     (e, what, n, value, size))
CODE(clRetainEvent, (cl_event e), (e))
CODE(clReleaseEvent, (cl_event e), (e))
CODE(clFlush, (cl_command_queue q), (q))
CODE(clFinish, (cl_command_queue q), (q))

OBJECT(cl_context, clCreateContext,
       (const cl_context_properties *properties, cl_uint n, const cl_device_id *ids,
        void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user, cl_int *code),
       (properties, n, ids, notify, user, code))
OBJECT(cl_command_queue, clCreateCommandQueue,
       (cl_context c, cl_device_id d, cl_command_queue_properties properties, cl_int *code), (c, d, properties, code))
OBJECT(cl_program, clCreateProgramWithSource,
       (cl_context c, cl_uint n, const char **texts, const size_t *sizes, cl_int *code), (c, n, texts, sizes, code))
OBJECT(cl_program, clCreateProgramWithBinary,
       (cl_context c, cl_uint n, const cl_device_id *ids, const size_t *sizes, const unsigned char **binaries,
        cl_int *states, cl_int *code),
       (c, n, ids, sizes, binaries, states, code))
OBJECT(cl_kernel, clCreateKernel, (cl_program p, const char *name, cl_int *code), (p, name, code))
OBJECT(cl_mem, clCreateBuffer, (cl_context c, cl_mem_flags flags, size_t size, void *data, cl_int *code),
       (c, flags, size, data, code))

// --- a card of CUDA's driver -------------------------------------------------------------------------

enum { DEVICE_UUID = 0x106A, OPAQUE_FD = 0x2060 };
static const char extension[] = " cl_khr_external_memory_opaque_fd";

static cl_int list_extensions(cl_device_id d, size_t n, void *value, size_t *size, __typeof__(&clGetDeviceInfo) real) {
    char text[16384] = "";
    const cl_int code = real(d, CL_DEVICE_EXTENSIONS, sizeof text - sizeof extension, text, NULL);
    strcat(text, extension);
    if (size != NULL) {
        *size = strlen(text) + 1;
    }
    if (value != NULL && n > strlen(text)) {
        strcpy(value, text);
    }
    return code;
}

cl_mem clCreateBufferWithProperties(cl_context c, const cl_ulong *properties, cl_mem_flags flags, size_t size,
                                    void *data, cl_int *code);
cl_mem clCreateBufferWithProperties(cl_context c, const cl_ulong *properties, cl_mem_flags flags, size_t size,
                                    void *data, cl_int *code) {
    const char *card = getenv("STEPMARK_CARD");
    void *memory = MAP_FAILED;
    if (card != NULL && strcmp(card, "1") == 0 && properties[0] == OPAQUE_FD && data == NULL) {
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, (int)properties[1], 0);
    }
    if (memory == MAP_FAILED) {
        *code = CL_INVALID_PROPERTY;
        return NULL;
    }
    close((int)properties[1]);
    return clCreateBuffer(c, flags | CL_MEM_USE_HOST_PTR, size, memory, code);
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id d, cl_device_info what, size_t n, void *value,
                                                size_t *size) {
    const char *action = action_of("clGetDeviceInfo", 1);
    const int is_amount = what == CL_DEVICE_GLOBAL_MEM_SIZE || what == CL_DEVICE_MAX_MEM_ALLOC_SIZE ||
                          what == CL_DEVICE_LOCAL_MEM_SIZE || what == CL_DEVICE_MAX_COMPUTE_UNITS ||
                          what == CL_DEVICE_MAX_CLOCK_FREQUENCY || what == CL_DEVICE_MAX_WORK_GROUP_SIZE;
    const int all = action == NULL ? -1 : strcmp(action, "zeros") == 0 ? 0 : strcmp(action, "ones") == 0 ? 255 : -1;
    ENTER(clGetDeviceInfo)
    if (getenv("STEPMARK_CARD") != NULL && what == DEVICE_UUID && n == 16) {
        memcpy(value, "a card of a test", 16);
        return CL_SUCCESS;
    }
    if (getenv("STEPMARK_CARD") != NULL && what == CL_DEVICE_EXTENSIONS) {
        return list_extensions(d, n, value, size, real);
    }
    if (fault == 0 && all >= 0 && is_amount && value != NULL) {
        memset(value, all, n);
        return CL_SUCCESS;
    }
    if (fault == 0 && action != NULL && strcmp(action, "small") == 0 && what == CL_DEVICE_MAX_WORK_GROUP_SIZE &&
        value != NULL) {
        *(size_t *)value = 64;
        return CL_SUCCESS;
    }
    return fault != 0 ? fault : real(d, what, n, value, size);
}
