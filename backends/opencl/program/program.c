// program.c: gets programs from the device's list, from the cache on disk, or builds them from source.
#include <inttypes.h>

#include "fnv1a.h"
#include "backends/opencl/program/program.h"

// --- sources ------------------------------------------------------------------------------------------

const sm_embedded *opencl_find_source(const char *stem) {
    return sm_embedded_find_below("cl/", SM_TEXT_IN(64, "%s.cl", stem));
}

// The kernels of nearly every step are in two programs of equal build times, as a driver needs as long to begin a
// program as to compile such a kernel. Others are built when a plan needs them.
static const opencl_recipe common[] = {
    {.name = "plain", .stems = {"activation", "bias", "grad_norm", "optimizer", "residual", "zero"}},
    {.name = "ends", .stems = {"embedding", "loss"}}, // of a model
    {.name = "layernorm", .stems = {"norm"}, .options = "-DCENTRED=1"},
    {.name = "rmsnorm", .stems = {"norm"}, .options = "-DCENTRED=0"},
};
enum { N_COMMON = sizeof common / sizeof common[0] };

// The common program with the kernels of a file; NULL: none.
static const opencl_recipe *find_common(const char *stem) {
    for (int i = 0; i < N_COMMON; i++) {
        bool has = strcmp(common[i].name, stem) == 0;
        for (int k = 0; k < OPENCL_MOST_STEMS && common[i].stems[k] != NULL; k++) {
            has |= strcmp(common[i].stems[k], stem) == 0;
        }
        if (has) {
            return &common[i];
        }
    }
    return NULL;
}

const opencl_recipe *opencl_find_own_recipe(const opencl_device *device, const char *name) {
    const opencl_recipe *r = device->sizes.recipes;
    while (r != NULL && r->name != NULL && strcmp(r->name, name) != 0) {
        r++;
    }
    return r != NULL && r->name != NULL ? r : NULL;
}

// The program with the kernels of a file: a file without a recipe is a program by itself.
static opencl_recipe find_recipe(const opencl_device *device, const char *stem) {
    const opencl_recipe *r = find_common(stem);
    r = r != NULL ? r : opencl_find_own_recipe(device, stem);
    return r != NULL ? *r : (opencl_recipe){.name = stem, .stems = {stem}};
}

// --- building -----------------------------------------------------------------------------------------

cl_device_id opencl_target(const opencl_device *device) {
    return device->part != NULL ? device->part : device->facts.id;
}

sm_status opencl_create_context(opencl_device *device) {
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, (cl_context_properties)device->facts.platform, 0};
    const cl_device_id target = opencl_target(device);
    cl_int code = CL_SUCCESS;
    device->context = opencl.clCreateContext(properties, 1, &target, NULL, NULL, &code);
    return opencl_check(id_of(device), "clCreateContext", code);
}

sm_status opencl_open_to_build(const opencl_facts *facts, opencl_device *device) {
    *device = (opencl_device){.facts = *facts};
    snprintf(device->base.info.id, sizeof device->base.info.id, "opencl:%d.%d", facts->platform_index,
             facts->device_index);
    device->base.info.n_threads = facts->is_cpu ? facts->n_units : 0;
    return opencl_create_context(device);
}

// Names the most informative line of the log: the first with "error", or the first.
static sm_status fail_build(const opencl_device *device, const char *name, cl_program program, cl_int code) {
    size_t size_bytes = 0;
    char line[512];
    opencl.clGetProgramBuildInfo(program, opencl_target(device), CL_PROGRAM_BUILD_LOG, 0, NULL, &size_bytes);
    char *log = sm_calloc(size_bytes + 1, 1);
    opencl.clGetProgramBuildInfo(program, opencl_target(device), CL_PROGRAM_BUILD_LOG, size_bytes, log, NULL);
    const char *start = strstr(log, "error") != NULL ? strstr(log, "error") : log;
    while (start > log && start[-1] != '\n') {
        start--;
    }
    snprintf(line, sizeof line, "%.*s", (int)strcspn(start, "\n"), start);
    free(log);
    return sm_fail(SM_ERR_DEVICE, "%s: the kernels of '%s' do not build: %s: %s", id_of(device), name,
                   opencl_error_name(code), line[0] != '\0' ? line : "the driver gives no log");
}

static sm_status build(const opencl_device *device, const char *name, const char *options, cl_program program) {
    cl_device_id id = opencl_target(device);
    cl_int code = opencl.clBuildProgram(program, 1, &id, options, NULL, NULL);
    return code == CL_SUCCESS ? SM_OK : fail_build(device, name, program, code);
}

// A program has for each file a line with its name, in three pieces, and its text.
enum { MOST_TEXTS = 4 * (3 + OPENCL_MOST_STEMS) };

typedef struct {
    const char *text; // without a terminating NUL
    size_t size_bytes;
} text_part;

static sm_status build_texts(const opencl_device *device, const char *name, const text_part *texts, cl_uint n,
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
    return build_texts(device, name, &(text_part){source, strlen(source)}, 1, options, program);
}

// A cached binary as a program; false if the driver refuses it.
static bool build_binary(const opencl_device *device, const char *options, const unsigned char *binary,
                         size_t size_bytes, cl_program *program) {
    cl_device_id id = opencl_target(device);
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

// The driver's binary of a program, or NULL. The caller frees it.
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

// Replaces the program by the one that the recipe makes from it.
static sm_status rewrite(const opencl_device *device, const opencl_recipe *r, const char *options,
                         cl_program *program) {
    size_t built_bytes = 0;
    size_t text_bytes = 0;
    cl_program other = NULL;
    unsigned char *binary = get_binary(*program, &built_bytes);
    char *text = binary != NULL ? r->rewrite(binary, built_bytes, &text_bytes) : NULL;
    const bool built = text != NULL && build_binary(device, options, (const unsigned char *)text, text_bytes, &other);
    free(binary);
    free(text);
    opencl.clReleaseProgram(*program);
    *program = other;
    return built ? SM_OK
                 : sm_fail(SM_ERR_DEVICE, "%s: the driver does not take the kernels of '%s' for another target",
                           id_of(device), r->name);
}

char *opencl_new_warning(sm_device_info *info, const char *fact) {
    for (int i = 0; i < info->n_warnings; i++) {
        if (strstr(info->warnings[i], fact) != NULL) {
            return NULL;
        }
    }
    return info->n_warnings < SM_MAX_WARNINGS ? info->warnings[info->n_warnings++] : NULL;
}

// An error of one entry probably affects all.
static void warn_of_cache(sm_device_info *info) {
    static const char consequence[] = ": kernels are built again";
    char *text = opencl_new_warning(info, consequence);
    if (text != NULL) {
        snprintf(text, sizeof info->warnings[0], "%.200s%s", sm_error_message(), consequence);
    }
}

// --- the device's programs --------------------------------------------------------------------------------

typedef struct opencl_program {
    struct opencl_program *next;
    char *key; // file and options
    cl_program program;
} opencl_program;

static void add_file(const sm_embedded *file, text_part texts[MOST_TEXTS], cl_uint *n) {
    static const char *const line[] = {"#line 1 \"", "\"\n"};
    texts[(*n)++] = (text_part){line[0], strlen(line[0])};
    texts[(*n)++] = (text_part){file->path, strlen(file->path)};
    texts[(*n)++] = (text_part){line[1], strlen(line[1])};
    texts[(*n)++] = (text_part){file->text, file->size_bytes};
}

static sm_status add_texts(const opencl_device *device, const char *stem, text_part texts[MOST_TEXTS], cl_uint *n) {
    const sm_embedded *file = opencl_find_source(stem);
    SM_FAIL_IF(file == NULL, SM_ERR_INTERNAL, "%s: there is no cl/%s.cl", id_of(device), stem);
    add_file(file, texts, n);
    return SM_OK;
}

// The texts of a program, each after its file's name, and their number.
static sm_status collect_texts(const opencl_device *device, const opencl_recipe *r, text_part texts[MOST_TEXTS],
                               cl_uint *n) {
    *n = 0;
    SM_TRY(add_texts(device, "philox", texts, n));
    add_file(sm_embedded_find("include/activation.h"), texts, n);
    SM_TRY(add_texts(device, "prelude", texts, n));
    for (int i = 0; i < OPENCL_MOST_STEMS && r->stems[i] != NULL; i++) {
        SM_TRY(add_texts(device, r->stems[i], texts, n));
    }
    return SM_OK;
}

// So that two versions of a file have different keys.
static uint64_t hash_sources(const text_part *texts, cl_uint n) {
    uint64_t hash = SM_FNV1A_START;
    for (cl_uint i = 0; i < n; i++) {
        hash = sm_fnv1a(hash, texts[i].text, texts[i].size_bytes);
    }
    return hash;
}

// A requested program: its parts, and its key in the cache.
typedef struct {
    text_part texts[MOST_TEXTS];
    cl_uint n;
    char options[512];
    char key[2048];
} request;

static sm_status make_request(const opencl_device *device, const opencl_recipe *r, const char *options, request *q) {
    const opencl_facts *f = &device->facts;
    SM_TRY(collect_texts(device, r, q->texts, &q->n));
    // Denormals take a hundred cycles each on some processors, and do not matter.
    snprintf(q->options, sizeof q->options, "-cl-std=CL1.2 -cl-denorms-are-zero -DVECTOR=%d -DROW_ITEMS=%d%s %s %s",
             device->sizes.vector, device->sizes.row_items, device->sizes.options != NULL ? device->sizes.options : "",
             r->options != NULL ? r->options : "", options);
    snprintf(q->key, sizeof q->key, "%s|%s|%s|%s|%d|%s|%016" PRIx64 "|%s", f->platform_name, f->name, f->version,
             f->driver, device->base.info.n_threads, r->name, hash_sources(q->texts, q->n), q->options);
    return SM_OK;
}

// Makes a program from the cache, or from source.
static sm_status make_program(opencl_device *device, const opencl_recipe *r, const char *options, cl_program *program) {
    request q;
    const opencl_facts *f = &device->facts;
    SM_TRY(make_request(device, r, options, &q));
    size_t size_bytes = 0;
    unsigned char *binary = NULL;
    if (!f->keeps_builds && opencl_cache_load(q.key, &binary, &size_bytes) != SM_OK) {
        warn_of_cache(&device->base.info);
    }
    const bool is_kept = binary != NULL && build_binary(device, q.options, binary, size_bytes, program);
    free(binary);
    if (is_kept) {
        return SM_OK;
    }
    SM_TRY(build_texts(device, r->name, q.texts, q.n, q.options, program));
    SM_TRY(r->rewrite != NULL ? rewrite(device, r, q.options, program) : SM_OK);
    binary = f->keeps_builds ? NULL : get_binary(*program, &size_bytes);
    if (binary != NULL) {
        opencl_cache_store(q.key, binary, size_bytes);
        free(binary);
    }
    return SM_OK;
}

// The device owns the program from now on.
static void keep_program(opencl_device *device, const char *key, cl_program program) {
    opencl_program *added = sm_malloc(sizeof *added);
    *added = (opencl_program){.next = device->programs, .key = sm_strdup(key), .program = program};
    device->programs = added;
}

enum { OWN_KEY_SIZE = 512 };

static const opencl_program *find_program(const opencl_device *device, const char *key) {
    const opencl_program *p = device->programs;
    while (p != NULL && strcmp(p->key, key) != 0) {
        p = p->next;
    }
    return p;
}

void opencl_want(opencl_wanted *wanted, const char *stem, const char *options) {
    const opencl_recipe *r = find_common(stem);
    const char *name = r != NULL ? r->name : stem;
    for (int i = 0; i < wanted->n; i++) {
        if (strcmp(wanted->programs[i].name, name) == 0 && strcmp(wanted->programs[i].options, options) == 0) {
            return;
        }
    }
    if (wanted->n < OPENCL_MOST_WANTED) {
        opencl_named_program *p = &wanted->programs[wanted->n++];
        snprintf(p->family, sizeof p->family, "%s", wanted->family);
        snprintf(p->name, sizeof p->name, "%s", name);
        snprintf(p->options, sizeof p->options, "%s", options);
    }
}

uint64_t opencl_hash_program(const opencl_device *device, const char *name) {
    const opencl_recipe r = find_recipe(device, name);
    text_part texts[MOST_TEXTS];
    cl_uint n = 0;
    return collect_texts(device, &r, texts, &n) == SM_OK ? hash_sources(texts, n) : 0;
}

void opencl_probe_key(const opencl_facts *f, const char *what, const char *const *stems, char *key, size_t size_bytes) {
    uint64_t hash = SM_FNV1A_START;
    for (; *stems != NULL; stems++) {
        const sm_embedded *source = opencl_find_source(*stems);
        hash = source != NULL ? sm_fnv1a(hash, source->text, source->size_bytes) : hash;
    }
    snprintf(key, size_bytes, "%s|%s|%s|%s|%s|%016llx", what, f->platform_name, f->name, f->version, f->driver,
             (unsigned long long)hash);
}

bool opencl_is_built(const opencl_device *device, const char *name, const char *options) {
    char key[OWN_KEY_SIZE];
    request q;
    unsigned char *binary = NULL;
    size_t size_bytes = 0;
    const opencl_recipe r = find_recipe(device, name);
    snprintf(key, sizeof key, "%s %s", r.name, options);
    if (find_program(device, key) != NULL) {
        return true;
    }
    const bool is_kept = make_request(device, &r, options, &q) == SM_OK &&
                         opencl_cache_load(q.key, &binary, &size_bytes) == SM_OK && binary != NULL;
    free(binary);
    return is_kept;
}

sm_status opencl_get_program(opencl_device *device, const char *stem, const char *options, cl_program *program) {
    char key[OWN_KEY_SIZE];
    const opencl_recipe r = find_recipe(device, stem);
    snprintf(key, sizeof key, "%s %s", r.name, options);
    const opencl_program *known = find_program(device, key);
    if (known != NULL) {
        *program = known->program;
        return SM_OK;
    }
    SM_TRY(make_program(device, &r, options, program));
    keep_program(device, key, *program);
    return SM_OK;
}

sm_status opencl_get_kernel(opencl_device *device, const char *stem, const char *options, const char *name,
                            cl_kernel *kernel) {
    cl_program program = NULL;
    cl_int code = CL_SUCCESS;
    SM_TRY(opencl_get_program(device, stem, options, &program));
    *kernel = opencl.clCreateKernel(program, name, &code);
    if (code != CL_SUCCESS) {
        *kernel = NULL;
        return opencl_fail(id_of(device), name, code);
    }
    return SM_OK;
}

static sm_status build_own(const opencl_device *device, const sm_own_kernel *own, cl_program *program) {
    text_part texts[MOST_TEXTS];
    cl_uint n = 0;
    char line[256]; // the file's name, for compiler messages
    const char *base = strrchr(own->name, '/') != NULL ? strrchr(own->name, '/') + 1 : own->name;
    const int used = snprintf(line, sizeof line, "#line 1 \"%.200s\"\n", base);
    for (int i = 9; i < used - 2; i++) {
        line[i] = line[i] == '"' || line[i] == '\\' ? '_' : line[i];
    }
    SM_TRY(add_texts(device, "philox", texts, &n));
    texts[n++] = (text_part){line, strlen(line)};
    texts[n++] = (text_part){own->source, strlen(own->source)};
    sm_status status =
        build_texts(device, own->name, texts, n, "-cl-std=CL1.2 -cl-denorms-are-zero -DOWN_KERNEL", program);
    return status == SM_OK ? SM_OK : sm_fail(SM_ERR_FORMAT, "%s", sm_error_message());
}

sm_status opencl_get_own_kernel(opencl_device *device, const sm_own_kernel *own, cl_kernel *kernel) {
    const char *name = sm_op_name(own->kind);
    cl_int code = CL_SUCCESS;
    char key[OWN_KEY_SIZE];
    snprintf(key, sizeof key, "own %s", name);
    if (find_program(device, key) == NULL) {
        cl_program program = NULL;
        SM_TRY(build_own(device, own, &program));
        keep_program(device, key, program);
    }
    *kernel = opencl.clCreateKernel(find_program(device, key)->program, name, &code);
    if (code != CL_SUCCESS) {
        *kernel = NULL;
        return code == CL_INVALID_KERNEL_NAME ? sm_fail(SM_ERR_FORMAT, "%s: it has no kernel %s", own->name, name)
                                              : opencl_fail(id_of(device), name, code);
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

sm_status opencl_set_arguments(const opencl_device *device, cl_kernel kernel, const opencl_argument *arguments, int n) {
    for (int i = 0; i < n; i++) {
        SM_TRY(OPENCL_CALL(device, clSetKernelArg, kernel, (cl_uint)i, arguments[i].size_bytes, arguments[i].value));
    }
    return SM_OK;
}
