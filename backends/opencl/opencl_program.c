// opencl_program.c: builds programs: from the device's list of what it built, from the cache on disk, or
// from source.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "opencl.h"
#include "opencl_sources.h"
#include "opencl_tier.h"

// --- sources ------------------------------------------------------------------------------------------

#define SOURCE(stem) extern const char opencl_source_##stem[], opencl_source_end_##stem[];
#include "opencl_sources.list"
#undef SOURCE

typedef struct {
    const char *stem;
    const char *line; // names the file in the messages of a driver's compiler
    const char *text, *end;
} source_file;

static const source_file files[] = {
#define SOURCE(stem) {#stem, "#line 1 \"cl/" #stem ".cl\"\n", opencl_source_##stem, opencl_source_end_##stem},
#include "opencl_sources.list"
#undef SOURCE
};

// What a program is made of. The kernels of nearly every step are all in one: a driver needs about as long to begin
// with a program as to compile such a kernel. Others are built where a plan has them.
typedef struct {
    const char *name; // the stem of its file, or "plain"
    int n_stems;
    const char *const *stems;
    bool is_retargeted; // opencl_retarget.c
} recipe;

static const char *const plain_stems[] = {"prelude",   "bias", "embedding", "gelu",     "grad_norm",
                                          "layernorm", "loss", "optimizer", "residual", "zero"};
enum { N_PLAIN_STEMS = sizeof plain_stems / sizeof plain_stems[0] };

static bool is_plain(const char *stem) {
    for (int i = 1; i < N_PLAIN_STEMS; i++) {
        if (strcmp(plain_stems[i], stem) == 0) {
            return true;
        }
    }
    return false;
}

// Kernels that need the names of cl/tensor.cl.
static bool is_tensor(const char *stem) {
    static const char *const stems[] = {"attention_tensor", "matmul_tensor", "matmul_wgmma", "operand_tensor",
                                        "tensor_probe"};
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
        if (strcmp(stems[i], stem) == 0) {
            return true;
        }
    }
    return false;
}

static const source_file *find_file(const char *stem) {
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        if (strcmp(files[i].stem, stem) == 0) {
            return &files[i];
        }
    }
    return NULL;
}

bool opencl_find_source(const char *stem, opencl_source *source) {
    const source_file *file = find_file(stem);
    if (file != NULL) {
        *source = (opencl_source){file->text, (size_t)(file->end - file->text)};
    }
    return file != NULL;
}

// --- building -----------------------------------------------------------------------------------------

static const char *id_of(const opencl_device *device) { return device->base.info.id; }

static cl_device_id target(const opencl_device *device) {
    return device->part != NULL ? device->part : device->facts.id;
}

// The line of a build log that says most: the first with "error", or the first.
static void first_error(const char *log, char *line, size_t size_bytes) {
    const char *error = strstr(log, "error");
    const char *start = error != NULL ? error : log;
    while (start > log && start[-1] != '\n') {
        start--;
    }
    snprintf(line, size_bytes, "%.*s", (int)strcspn(start, "\n"), start);
}

static sm_status fail_build(const opencl_device *device, const char *name, cl_program program, cl_int code) {
    size_t size_bytes = 0;
    char line[512] = "";
    opencl.clGetProgramBuildInfo(program, target(device), CL_PROGRAM_BUILD_LOG, 0, NULL, &size_bytes);
    char *log = calloc(size_bytes + 1, 1);
    if (log != NULL) {
        opencl.clGetProgramBuildInfo(program, target(device), CL_PROGRAM_BUILD_LOG, size_bytes, log, NULL);
        first_error(log, line, sizeof line);
        free(log);
    }
    return sm_fail(SM_ERR_DEVICE, "%s: the kernels of '%s' do not build: %s: %s", id_of(device), name,
                   opencl_error_name(code), line[0] != '\0' ? line : "the driver gives no log");
}

static sm_status build(const opencl_device *device, const char *name, const char *options, cl_program program) {
    cl_device_id id = target(device);
    cl_int code = opencl.clBuildProgram(program, 1, &id, options, NULL, NULL);
    return code == CL_SUCCESS ? SM_OK : fail_build(device, name, program, code);
}

// A program has a line that names the file and the file's text, for each of its files.
enum { MOST_TEXTS = 2 * N_PLAIN_STEMS };
_Static_assert(N_PLAIN_STEMS >= 2, "a program of one kernel's file has the prelude, too");

static sm_status build_texts(const opencl_device *device, const char *name, const opencl_source *texts, cl_uint n,
                             const char *options, cl_program *program) {
    const char *strings[MOST_TEXTS];
    size_t lengths[MOST_TEXTS];
    cl_int code = CL_SUCCESS;
    for (cl_uint i = 0; i < n; i++) {
        strings[i] = texts[i].text;
        lengths[i] = texts[i].size_bytes;
    }
    *program = opencl.clCreateProgramWithSource(device->context, n, strings, lengths, &code);
    SM_TRY(opencl_check(id_of(device), "clCreateProgramWithSource", code));
    sm_status status = build(device, name, options, *program);
    if (status != SM_OK) {
        opencl.clReleaseProgram(*program);
        *program = NULL;
    }
    return status;
}

sm_status opencl_build_source(opencl_device *device, const char *name, const char *source, const char *options,
                              cl_program *program) {
    return build_texts(device, name, &(opencl_source){source, strlen(source)}, 1, options, program);
}

// A cached binary as a program; false when the driver does not take it.
static bool build_binary(const opencl_device *device, const char *options, const unsigned char *binary,
                         size_t size_bytes, cl_program *program) {
    cl_device_id id = target(device);
    cl_int code = CL_SUCCESS;
    cl_int loaded = CL_SUCCESS;
    *program = opencl.clCreateProgramWithBinary(device->context, 1, &id, &size_bytes, &binary, &loaded, &code);
    if (code != CL_SUCCESS || loaded != CL_SUCCESS ||
        opencl.clBuildProgram(*program, 1, &id, options, NULL, NULL) != CL_SUCCESS) {
        if (*program != NULL) {
            opencl.clReleaseProgram(*program);
        }
        *program = NULL;
        return false;
    }
    return true;
}

// What the driver made of a program, or NULL. The caller frees it.
static unsigned char *get_binary(cl_program program, size_t *size_bytes) {
    *size_bytes = 0;
    if (opencl.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof *size_bytes, size_bytes, NULL) != CL_SUCCESS ||
        *size_bytes == 0) {
        return NULL;
    }
    unsigned char *binary = malloc(*size_bytes);
    if (binary != NULL &&
        opencl.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) != CL_SUCCESS) {
        free(binary);
        return NULL;
    }
    return binary;
}

static void store_binary(const char *key, cl_program program) {
    size_t size_bytes = 0;
    unsigned char *binary = get_binary(program, &size_bytes);
    if (binary != NULL) {
        opencl_cache_store(key, binary, size_bytes);
    }
    free(binary);
}

// The program of the same text with its hidden instructions takes its place.
static sm_status retarget(const opencl_device *device, const char *name, const char *options, cl_program *program) {
    size_t ptx_bytes = 0;
    size_t text_bytes = 0;
    cl_program other = NULL;
    unsigned char *ptx = get_binary(*program, &ptx_bytes);
    char *text = ptx != NULL ? opencl_retarget(ptx, ptx_bytes, &text_bytes) : NULL;
    const bool built = text != NULL && build_binary(device, options, (const unsigned char *)text, text_bytes, &other);
    free(ptx);
    free(text);
    opencl.clReleaseProgram(*program);
    *program = other;
    return built ? SM_OK
                 : sm_fail(SM_ERR_DEVICE, "%s: the driver does not take the kernels of '%s' for another target",
                           id_of(device), name);
}

// Once: what is wrong with one entry is likely to be wrong with all.
static void warn_of_cache(sm_device_info *info) {
    static const char consequence[] = ": kernels are built anew";
    for (int i = 0; i < info->n_warnings; i++) {
        if (strstr(info->warnings[i], consequence) != NULL) {
            return;
        }
    }
    if (info->n_warnings < SM_MAX_WARNINGS) {
        snprintf(info->warnings[info->n_warnings++], sizeof info->warnings[0], "%.200s%s", sm_error_message(),
                 consequence);
    }
}

// --- the device's programs --------------------------------------------------------------------------------

// The texts of a program, a file's name before each, and how many there are.
static sm_status collect_texts(const opencl_device *device, const recipe *r, opencl_source texts[MOST_TEXTS],
                               cl_uint *n) {
    *n = 0;
    for (int i = 0; i < r->n_stems; i++) {
        const source_file *file = find_file(r->stems[i]);
        if (file == NULL) {
            return sm_fail(SM_ERR_INTERNAL, "%s: there is no cl/%s.cl", id_of(device), r->stems[i]);
        }
        texts[(*n)++] = (opencl_source){file->line, strlen(file->line)};
        texts[(*n)++] = (opencl_source){file->text, (size_t)(file->end - file->text)};
    }
    return SM_OK;
}

// 64-bit FNV-1a of the sources: two versions of a file never meet in the cache.
static unsigned long long hash_sources(const opencl_source *texts, cl_uint n) {
    unsigned long long hash = 0xCBF29CE484222325u;
    for (cl_uint i = 0; i < n; i++) {
        for (size_t k = 0; k < texts[i].size_bytes; k++) {
            hash = (hash ^ (unsigned char)texts[i].text[k]) * 0x100000001B3u;
        }
    }
    return hash;
}

static sm_status add_program(opencl_device *device, const recipe *r, const char *options, const char *own_key,
                             opencl_program *added) {
    enum { KEY_SIZE = 2048, OPTIONS_SIZE = 512 };
    opencl_source texts[MOST_TEXTS];
    char all_options[OPTIONS_SIZE];
    char key[KEY_SIZE];
    const opencl_facts *f = &device->facts;
    cl_uint n = 0;
    SM_TRY(collect_texts(device, r, texts, &n));
    // Denormals cost a hundred cycles each on some processors, and carry nothing.
    snprintf(all_options, sizeof all_options, "-cl-std=CL1.2 -cl-denorms-are-zero -DVECTOR=%d -DROW_ITEMS=%d %s",
             device->tier->vector(f), device->tier->row_items, options);
    snprintf(key, sizeof key, "%s|%s|%s|%s|%d|%s|%016llx|%s", f->platform_name, f->name, f->version, f->driver,
             device->base.info.n_threads, r->name, hash_sources(texts, n), all_options);
    size_t size_bytes = 0;
    unsigned char *binary = NULL;
    if (!f->keeps_builds && opencl_cache_load(key, &binary, &size_bytes) != SM_OK) {
        warn_of_cache(&device->base.info);
    }
    if (binary == NULL || !build_binary(device, all_options, binary, size_bytes, &added->program)) {
        free(binary);
        SM_TRY(build_texts(device, r->name, texts, n, all_options, &added->program));
        SM_TRY(r->is_retargeted ? retarget(device, r->name, all_options, &added->program) : SM_OK);
        if (!f->keeps_builds) {
            store_binary(key, added->program);
        }
    } else {
        free(binary);
    }
    added->key = strdup(own_key);
    added->next = device->programs;
    return SM_OK;
}

static sm_status get_program(opencl_device *device, const char *stem, const char *options, cl_program *program) {
    enum { KEY_SIZE = 512 };
    char key[KEY_SIZE];
    const char *const own_stems[] = {"prelude", stem};
    const char *const tensor_stems[] = {"prelude", "tensor", stem};
    const char *const attention_stems[] = {"prelude", "tensor", "attention_wgmma", "attention_tensor"};
    const recipe r = is_plain(stem)    ? (recipe){"plain", N_PLAIN_STEMS, plain_stems, false}
                     : is_tensor(stem) ? (recipe){stem, 3, tensor_stems, strcmp(stem, "matmul_wgmma") == 0}
                     : strcmp(stem, "attention_wgmma") == 0 ? (recipe){stem, 4, attention_stems, true}
                                                            : (recipe){stem, 2, own_stems, false};
    snprintf(key, sizeof key, "%s %s", r.name, options);
    for (opencl_program *p = device->programs; p != NULL; p = p->next) {
        if (strcmp(p->key, key) == 0) {
            *program = p->program;
            return SM_OK;
        }
    }
    opencl_program *added = calloc(1, sizeof *added);
    if (added == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for a program", id_of(device));
    }
    sm_status status = add_program(device, &r, options, key, added);
    if (status == SM_OK && added->key == NULL) {
        opencl.clReleaseProgram(added->program);
        status = sm_fail(SM_ERR_OOM, "%s: no memory for a program", id_of(device));
    }
    if (status != SM_OK) {
        free(added);
        return status;
    }
    device->programs = added;
    *program = added->program;
    return SM_OK;
}

sm_status opencl_get_kernel(opencl_device *device, const char *stem, const char *options, const char *name,
                            cl_kernel *kernel) {
    cl_program program = NULL;
    cl_int code = CL_SUCCESS;
    SM_TRY(get_program(device, stem, options, &program));
    *kernel = opencl.clCreateKernel(program, name, &code);
    if (code != CL_SUCCESS) {
        *kernel = NULL;
        return opencl_fail(id_of(device), name, code);
    }
    return SM_OK;
}

void opencl_free_programs(opencl_device *device) {
    while (device->programs != NULL) {
        opencl_program *program = device->programs;
        device->programs = program->next;
        opencl.clReleaseProgram(program->program);
        free(program->key);
        free(program);
    }
}
