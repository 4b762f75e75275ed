// device.c: a libOpenCL.so.1 for tests, in front of the system's own: its device is PoCL's, and says that it has the
// matrix units of $STEPMARK_EMULATE, one of the rows below. Programs of cl/units are compiled by clang and run here
// (units.h), all others by PoCL.
//
//     STEPMARK_OPENCL     the real library
//     STEPMARK_SPOIL      what is wrong in its layouts, a number of units.h
//     STEPMARK_EMULATION  a folder with units.cl, and a folder `built` for what is compiled
//     STEPMARK_KEEPS      any text: the platform is none that keeps what it built; programs of units can be kept as binaries
//     STEPMARK_CRASH      a text: the process ends where a program is built whose options have it
#define _GNU_SOURCE
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "units.h"

void units_set_wave(int size);

typedef struct {
    const char *name, *extensions; // a card of AMD's where there are none
    cl_uint wave;
    size_t sub_groups[3];
} emulated;

#define DPAS " cl_intel_subgroup_matrix_multiply_accumulate cl_intel_required_subgroup_size"
static const emulated cards[] = {
    {"gfx908:sramecc+:xnack-", "", 64, {0}}, // has no unit that is known
    {"gfx90a:sramecc+:xnack-", "", 64, {0}},
    {"gfx942:sramecc+:xnack-", "", 64, {0}},
    {"gfx950:sramecc+:xnack-", "", 64, {0}},
    {"gfx1100", "", 32, {0}},
    {"gfx1201", "", 32, {0}},
    {"dg2", DPAS, 0, {8, 16, 32}},
    {"pvc-without-blocks", DPAS, 0, {16, 32, 32}},
    {"bmg", DPAS " cl_intel_subgroup_2d_block_io", 0, {16, 32, 32}},
};

static const emulated *card(void) {
    const char *wanted = getenv("STEPMARK_EMULATE");
    for (size_t i = 0; wanted != NULL && i < sizeof cards / sizeof cards[0]; i++) {
        if (strncmp(cards[i].name, wanted, strlen(wanted)) == 0) {
            return &cards[i];
        }
    }
    fprintf(stderr, "emulation: STEPMARK_EMULATE names no card\n");
    exit(1);
}

static void *find(const char *name) {
    static void *library;
    const char *path = getenv("STEPMARK_OPENCL");
    library = library != NULL ? library : dlopen(path != NULL ? path : "", RTLD_NOW | RTLD_LOCAL);
    void *function = library != NULL ? dlsym(library, name) : NULL;
    if (function == NULL) {
        fprintf(stderr, "emulation: %s: not in STEPMARK_OPENCL=%s\n", name, path != NULL ? path : "");
        exit(1);
    }
    return function;
}

#define REAL(name)                          \
    static __typeof__(&name) real;          \
    if (real == NULL) {                     \
        void *found = find(#name);          \
        memcpy(&real, &found, sizeof real); \
    }

// --- what the device says ------------------------------------------------------------------------------

static cl_int answer(const void *value, size_t n_bytes, size_t size, void *to, size_t *size_ret) {
    if (to != NULL && size < n_bytes) {
        return CL_INVALID_VALUE;
    }
    if (to != NULL) {
        memcpy(to, value, n_bytes);
    }
    if (size_ret != NULL) {
        *size_ret = n_bytes;
    }
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size, void *to,
                                                size_t *size_ret) {
    REAL(clGetDeviceInfo)
    const emulated *c = card();
    const cl_device_type type = CL_DEVICE_TYPE_GPU;
    const cl_device_local_mem_type local = CL_LOCAL;
    const cl_ulong local_bytes = 64 * 1024;
    char text[16384] = "";
    switch (what) {
    case CL_DEVICE_TYPE: return answer(&type, sizeof type, size, to, size_ret);
    case CL_DEVICE_NAME: return answer(c->name, strlen(c->name) + 1, size, to, size_ret);
    case CL_DEVICE_LOCAL_MEM_TYPE: return answer(&local, sizeof local, size, to, size_ret);
    case CL_DEVICE_LOCAL_MEM_SIZE: return answer(&local_bytes, sizeof local_bytes, size, to, size_ret);
    case CL_DEVICE_EXTENSIONS:
        real(id, what, sizeof text / 2, text, NULL);
        strcat(text, c->extensions);
        return answer(text, strlen(text) + 1, size, to, size_ret);
    case 0x4043: return c->wave > 0 ? answer(&c->wave, sizeof c->wave, size, to, size_ret) : CL_INVALID_VALUE;
    case 0x4108:
        return c->wave == 0 ? answer(c->sub_groups, sizeof c->sub_groups, size, to, size_ret) : CL_INVALID_VALUE;
    default: return real(id, what, size, to, size_ret);
    }
}

enum { MOST_ARGS = 32, MOST_OBJECTS = 4096, LOG_BYTES = 4096, PATH_BYTES = 512, MOST_TEXT = 1 << 20 };

typedef struct {
    char *text; // NULL: it was a binary
    char path[PATH_BYTES];
    void *library;
    char log[LOG_BYTES];
    int n_references;
} program;

typedef struct {
    program *of;
    void *function;
    uint64_t is_float, is_buffer; // bit i: argument i
    int n_args;
    uint64_t args[MOST_ARGS];
} own_kernel;

static void *objects[MOST_OBJECTS];

static int is_ours(const void *object) {
    for (int i = 0; i < MOST_OBJECTS; i++) {
        if (objects[i] == object) {
            return 1;
        }
    }
    return 0;
}

static void *keep(void *object) {
    for (int i = 0; i < MOST_OBJECTS; i++) {
        if (objects[i] == NULL) {
            objects[i] = object;
            return object;
        }
    }
    fprintf(stderr, "emulation: too many objects\n");
    exit(1);
}

static void forget(void *object) {
    for (int i = 0; i < MOST_OBJECTS; i++) {
        objects[i] = objects[i] == object ? NULL : objects[i];
    }
}

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithSource(cl_context context, cl_uint n, const char **texts,
                                                              const size_t *sizes, cl_int *code) {
    REAL(clCreateProgramWithSource)
    char *text = calloc(MOST_TEXT, 1);
    size_t used = 0;
    for (cl_uint i = 0; i < n; i++) {
        const size_t size = sizes != NULL && sizes[i] > 0 ? sizes[i] : strlen(texts[i]);
        memcpy(text + used, texts[i], size);
        used += size;
    }
    if (strstr(text, "MFMA_WIDE") == NULL) {
        free(text);
        return real(context, n, texts, sizes, code);
    }
    program *p = calloc(1, sizeof *p);
    p->text = text;
    p->n_references = 1;
    *code = CL_SUCCESS;
    return keep(p);
}

static uint64_t hash(uint64_t h, const char *text) {
    for (; *text != '\0'; text++) {
        h = (h ^ (unsigned char)*text) * 0x100000001B3u;
    }
    return h;
}

static int write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    return f != NULL && fputs(text, f) >= 0 && fclose(f) == 0;
}

// A file as a text, or nothing.
static void read_text(const char *path, char *text, size_t size_bytes) {
    FILE *f = fopen(path, "r");
    text[f != NULL ? fread(text, 1, size_bytes - 1, f) : 0] = '\0';
    if (f != NULL) {
        fclose(f);
    }
}

// Compiled once for all processes: the name holds all that it depends on.
static int compile(program *p, const char *options) {
    enum { HEADER_BYTES = 1 << 16 };
    static char header[HEADER_BYTES];
    const char *folder = getenv("STEPMARK_EMULATION");
    char path[PATH_BYTES], source[PATH_BYTES], command[4 * PATH_BYTES];
    Dl_info us;
    snprintf(path, sizeof path, "%s/units.cl", folder);
    read_text(path, header, sizeof header);
    const unsigned long long name = hash(hash(hash(0xCBF29CE484222325u, options), header), p->text);
    snprintf(path, sizeof path, "%s/built/%016llx.so", folder, name);
    snprintf(source, sizeof source, "%s/built/%016llx.%d.cl", folder, name, (int)getpid());
    if (access(path, R_OK) != 0) {
        if (!write_text(source, p->text) || dladdr((void *)(uintptr_t)units_run, &us) == 0) {
            return 0;
        }
        snprintf(command, sizeof command, "sh %s/build_kernels.sh %s %s %s %s", folder, source, us.dli_fname, path,
                 options);
        if (system(command) == 0) {
            char text_path[PATH_BYTES + 8];
            snprintf(text_path, sizeof text_path, "%s.cl", path);
            write_text(text_path, p->text);
        } else {
            snprintf(path, sizeof path, "%.500s.log", source);
            read_text(path, p->log, sizeof p->log);
            return 0;
        }
    }
    snprintf(p->path, sizeof p->path, "%s", path);
    p->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (p->library == NULL) {
        snprintf(p->log, sizeof p->log, "error: %s", dlerror());
    }
    return p->library != NULL;
}

CL_API_ENTRY cl_int CL_API_CALL clBuildProgram(cl_program p, cl_uint n, const cl_device_id *ids, const char *options,
                                               void(CL_CALLBACK *done)(cl_program, void *), void *user) {
    REAL(clBuildProgram)
    const char *crash = getenv("STEPMARK_CRASH");
    if (!is_ours(p)) {
        return real(p, n, ids, options, done, user);
    }
    if (((program *)p)->text != NULL && crash != NULL && strstr(options, crash) != NULL) {
        abort();
    }
    program *own = (program *)p;
    if (own->text == NULL) { // its text tells which parameters are buffers
        char path[PATH_BYTES + 8];
        snprintf(path, sizeof path, "%s.cl", own->path);
        own->text = calloc(MOST_TEXT, 1);
        read_text(path, own->text, MOST_TEXT);
        own->library = dlopen(own->path, RTLD_NOW | RTLD_LOCAL);
        return own->library != NULL ? CL_SUCCESS : CL_INVALID_BINARY;
    }
    return compile(own, options) ? CL_SUCCESS : CL_BUILD_PROGRAM_FAILURE;
}

// A binary is the name of the library, and what says so.
static const char binary_mark[] = "emulated ";

CL_API_ENTRY cl_int CL_API_CALL clGetProgramInfo(cl_program p, cl_program_info what, size_t size, void *to,
                                                 size_t *size_ret) {
    const program *own = (const program *)p;
    if (!is_ours(p)) { // PoCL would compile all kernels once more
        return CL_INVALID_VALUE;
    }
    const size_t n_bytes = sizeof binary_mark - 1 + strlen(own->path) + 1;
    if (what == CL_PROGRAM_BINARY_SIZES) {
        return answer(&n_bytes, sizeof n_bytes, size, to, size_ret);
    }
    snprintf(*(char **)to, n_bytes, "%s%s", binary_mark, own->path);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_program CL_API_CALL clCreateProgramWithBinary(cl_context context, cl_uint n, const cl_device_id *ids,
                                                              const size_t *sizes, const unsigned char **binaries,
                                                              cl_int *states, cl_int *code) {
    REAL(clCreateProgramWithBinary)
    if (strncmp((const char *)binaries[0], binary_mark, sizeof binary_mark - 1) != 0) {
        return real(context, n, ids, sizes, binaries, states, code);
    }
    program *p = calloc(1, sizeof *p);
    p->n_references = 1;
    snprintf(p->path, sizeof p->path, "%s", (const char *)binaries[0] + sizeof binary_mark - 1);
    *states = *code = CL_SUCCESS;
    return keep(p);
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *to,
                                                  size_t *size_ret) {
    REAL(clGetPlatformInfo)
    const bool is_other = what == CL_PLATFORM_NAME && getenv("STEPMARK_KEEPS") != NULL;
    return is_other ? answer("Emulated", sizeof "Emulated", size, to, size_ret)
                    : real(platform, what, size, to, size_ret);
}

CL_API_ENTRY cl_int CL_API_CALL clGetProgramBuildInfo(cl_program p, cl_device_id id, cl_program_build_info what,
                                                      size_t size, void *to, size_t *size_ret) {
    REAL(clGetProgramBuildInfo)
    const program *own = (const program *)p;
    return is_ours(p) ? answer(own->log, strlen(own->log) + 1, size, to, size_ret)
                      : real(p, id, what, size, to, size_ret);
}

static void release(program *p) {
    if (--p->n_references == 0) {
        forget(p);
        free(p->text);
        free(p); // the library stays: others may have it
    }
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseProgram(cl_program p) {
    REAL(clReleaseProgram)
    if (!is_ours(p)) {
        return real(p);
    }
    release((program *)p);
    return CL_SUCCESS;
}

// Which parameters are floats or buffers, by the text of the kernel's head. IN(type, x) and OUT(type, x) are two: a
// buffer and where x begins in it.
static void find_parameters(const char *text, const char *name, own_kernel *k) {
    char head[128];
    snprintf(head, sizeof head, "%s(", name);
    for (const char *found = text; (found = strstr(found, head)) != NULL; found++) {
        const char *brace = strchr(found, '{');
        const char *end = strchr(found, ';');
        if (strchr("\n ", found[-1]) == NULL || brace == NULL || (end != NULL && end < brace)) {
            continue;
        }
        int i = 0;
        for (const char *p = found + strlen(head); p < brace - 2; i++) {
            p += strspn(p, " \n");
            const bool is_placed = strncmp(p, "IN(", 3) == 0 || strncmp(p, "OUT(", 4) == 0;
            k->is_float |= strncmp(p, "float ", 6) == 0 ? 1ull << i : 0;
            k->is_buffer |= is_placed || memchr(p, '*', strcspn(p, ",)")) != NULL ? 1ull << i : 0;
            i += is_placed;
            p += is_placed ? strcspn(p, ")") + 1 : 0;
            p += strcspn(p, ",)") + 1;
        }
        return;
    }
}

CL_API_ENTRY cl_kernel CL_API_CALL clCreateKernel(cl_program p, const char *name, cl_int *code) {
    REAL(clCreateKernel)
    if (!is_ours(p)) {
        return real(p, name, code);
    }
    program *own = (program *)p;
    own_kernel *k = calloc(1, sizeof *k);
    k->of = own;
    k->function = dlsym(own->library, name);
    find_parameters(own->text, name, k);
    *code = k->function != NULL ? CL_SUCCESS : CL_INVALID_KERNEL_NAME;
    if (k->function == NULL) {
        free(k);
        return NULL;
    }
    own->n_references++;
    return keep(k);
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseKernel(cl_kernel k) {
    REAL(clReleaseKernel)
    if (!is_ours(k)) {
        return real(k);
    }
    release(((own_kernel *)k)->of);
    forget(k);
    free(k);
    return CL_SUCCESS;
}

CL_API_ENTRY cl_int CL_API_CALL clSetKernelArg(cl_kernel k, cl_uint i, size_t size, const void *value) {
    REAL(clSetKernelArg)
    if (!is_ours(k)) {
        return real(k, i, size, value);
    }
    own_kernel *own = (own_kernel *)k;
    if (i >= MOST_ARGS || size > sizeof(uint64_t)) {
        return CL_INVALID_ARG_INDEX;
    }
    own->args[i] = 0;
    memcpy(&own->args[i], value, size);
    own->n_args = (int)i + 1 > own->n_args ? (int)i + 1 : own->n_args;
    return CL_SUCCESS;
}

typedef void (*generic)(double, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                        uint64_t, uint64_t, uint64_t);

static uint64_t words[MOST_ARGS];
static double first_float;
static generic launched;

// Floats have registers of their own; all else is 8 bytes each.
static void call(void) {
    const uint64_t *w = words;
    launched(first_float, w[0], w[1], w[2], w[3], w[4], w[5], w[6], w[7], w[8], w[9], w[10], w[11], w[12], w[13], w[14],
             w[15], w[16], w[17], w[18], w[19], w[20], w[21], w[22], w[23], w[24], w[25], w[26], w[27], w[28]);
}

// A buffer's memory: PoCL's is the host's.
static uint64_t map(cl_command_queue queue, cl_mem buffer) {
    static __typeof__(&clEnqueueMapBuffer) map_buffer;
    static __typeof__(&clEnqueueUnmapMemObject) unmap;
    static __typeof__(&clGetMemObjectInfo) get_info;
    static __typeof__(&clFinish) finish;
    if (map_buffer == NULL) {
        void *found[] = {find("clEnqueueMapBuffer"), find("clEnqueueUnmapMemObject"), find("clGetMemObjectInfo"),
                         find("clFinish")};
        memcpy(&map_buffer, &found[0], sizeof found[0]);
        memcpy(&unmap, &found[1], sizeof found[1]);
        memcpy(&get_info, &found[2], sizeof found[2]);
        memcpy(&finish, &found[3], sizeof found[3]);
    }
    size_t size = 0;
    cl_int code = get_info(buffer, CL_MEM_SIZE, sizeof size, &size, NULL);
    if (code != CL_SUCCESS) {
        return 0;
    }
    void *p = map_buffer(queue, buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, size, 0, NULL, NULL, &code);
    unmap(queue, buffer, p, 0, NULL, NULL);
    finish(queue);
    return (uint64_t)(uintptr_t)p;
}

// When the last launches with an event ran: the event itself is a marker's.
enum { MOST_EVENTS = 1024 };
static struct {
    cl_event event;
    cl_ulong begun_ns, ended_ns;
} ran[MOST_EVENTS];
static int n_ran;

static cl_ulong now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (cl_ulong)t.tv_sec * 1000000000u + (cl_ulong)t.tv_nsec;
}

CL_API_ENTRY cl_int CL_API_CALL clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size, void *to,
                                                        size_t *size_ret) {
    REAL(clGetEventProfilingInfo)
    for (int i = 0; i < MOST_EVENTS; i++) {
        if (ran[i].event == event) {
            const bool is_end = what == CL_PROFILING_COMMAND_END;
            return answer(is_end ? &ran[i].ended_ns : &ran[i].begun_ns, sizeof(cl_ulong), size, to, size_ret);
        }
    }
    return real(event, what, size, to, size_ret);
}

CL_API_ENTRY cl_int CL_API_CALL clRetainEvent(cl_event event) {
    REAL(clRetainEvent)
    return real(event);
}

CL_API_ENTRY cl_int CL_API_CALL clReleaseEvent(cl_event event) {
    REAL(clReleaseEvent)
    for (int i = 0; i < MOST_EVENTS; i++) {
        ran[i].event = ran[i].event == event ? NULL : ran[i].event;
    }
    return real(event);
}

CL_API_ENTRY cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel k, cl_uint n_dims,
                                                       const size_t *from, const size_t *all, const size_t *size,
                                                       cl_uint n, const cl_event *before, cl_event *event) {
    REAL(clEnqueueNDRangeKernel)
    static __typeof__(&clEnqueueMarkerWithWaitList) mark;
    if (!is_ours(k)) {
        return real(queue, k, n_dims, from, all, size, n, before, event);
    }
    const own_kernel *own = (const own_kernel *)k;
    const char *spoilt = getenv("STEPMARK_SPOIL");
    const size_t groups[2] = {all[0] / size[0], n_dims > 1 ? all[1] / size[1] : 1};
    int n_words = 0;
    memset(words, 0, sizeof words);
    for (int i = 0; i < own->n_args; i++) {
        uint64_t value = own->args[i];
        if (own->is_float >> i & 1) {
            memcpy(&first_float, &value, sizeof first_float);
            continue;
        }
        words[n_words++] = own->is_buffer >> i & 1 ? map(queue, (cl_mem)(uintptr_t)value) : value;
    }
    memcpy(&launched, &own->function, sizeof launched);
    units_spoilt = spoilt != NULL ? atoi(spoilt) : 0;
    units_set_wave(card()->wave > 0 ? (int)card()->wave : 16);
    const cl_ulong begun_ns = now_ns();
    units_run(groups, (int)size[0], call);
    if (event == NULL) {
        return CL_SUCCESS;
    }
    void *found = find("clEnqueueMarkerWithWaitList");
    memcpy(&mark, &found, sizeof mark);
    const cl_int code = mark(queue, 0, NULL, event);
    ran[n_ran].event = *event;
    ran[n_ran].begun_ns = begun_ns;
    ran[n_ran].ended_ns = now_ns();
    n_ran = (n_ran + 1) % MOST_EVENTS;
    return code;
}
