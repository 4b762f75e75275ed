// kernel_library.c: runs the compiler, loads the library, checks its signature.
#include "learn/own_kernels/kernel_library.h"

#include <errno.h>
#include <libgen.h>
#include <unistd.h>

#include "os/library.h"
#include "os/os.h"
#include "os/confinement.h"
#include "src/processes/process.h"
#include "src/io/input_file.h"

enum { SYMBOL_SIZE = 128, MOST_SOURCE_BYTES = 1 << 20, MOST_SAID_BYTES = 1 << 16, MOST_FILE_BYTES = 1 << 26 };
static const uint64_t most_compiler_bytes = (uint64_t)4 << 30; // for each of its processes
static const double interrupted_grace_s = 1.2; // after Ctrl-C: our parent process waits no longer than two

sm_op_kind sm_op_kind_find(const char *name) {
    int kind = 0;
    while (kind < SM_OP_KIND_COUNT && strcmp(sm_op_name((sm_op_kind)kind), name) != 0) {
        kind++;
    }
    return (sm_op_kind)kind;
}

sm_status sm_kernel_folder_make(const char *what, char folder[PATH_MAX]) {
    char temporary[PATH_MAX - 64];
    os_temporary_folder(temporary, sizeof temporary);
    snprintf(folder, PATH_MAX, "%s/stepmark-%s-XXXXXX", temporary, what);
    if (mkdtemp(folder) == NULL) {
        sm_status status = sm_fail(SM_ERR_IO, "%s: cannot be made: %s; set TMPDIR to a folder that can be written to",
                                   folder, strerror(errno));
        folder[0] = '\0';
        return status;
    }
    return SM_OK;
}

// --- what the compiler may take -----------------------------------------------------------------------

typedef struct {
    const sm_kernel_limits *limits;
    const char *folder; // the writable folder
    int rules;          // os/confinement.h
} confinement;

// Runs in the compiler's process. Its remaining files are removed with the folder.
static void prepare(void *ctx) {
    const confinement *c = ctx;
    setenv("TMPDIR", c->folder, 1);
    if (c->limits->is_confined) {
        setenv("CCACHE_DISABLE", "1", 1); // its cache is elsewhere
        os_file_access_limit(c->rules);
    }
}

// Allows the folder of a compiler that is not the system's: PREFIX of PREFIX/bin/cc.
static void allow_compiler(int rules, const char *name) {
    char path[PATH_MAX], found[PATH_MAX];
    const char *home = getenv("HOME");
    const char *folders = strchr(name, '/') != NULL ? "" : getenv("PATH");
    for (const char *folder = folders; folder != NULL; folder = strchr(folder, ':')) {
        folder += *folder == ':';
        const int length = (int)strcspn(folder, ":");
        snprintf(path, sizeof path, "%.*s%s%s", length, folder, length > 0 ? "/" : "", name);
        if (realpath(path, found) != NULL) {
            os_file_access_allow(rules, found, OS_MAY_READ);
            for (int i = 0; i < 2 && strrchr(found, '/') != NULL; i++) {
                *strrchr(found, '/') = '\0';
            }
            if (found[0] != '\0' && strcmp(found, "/usr") != 0 && (home == NULL || strcmp(found, home) != 0)) {
                os_file_access_allow(rules, found, OS_MAY_READ);
            }
            return;
        }
    }
}

// Compiles like the build compiles its own kernels, for this processor.
static sm_status compile_with(const char *compiler, const char *path, const sm_kernel_limits *limits,
                              sm_kernel_file *file) {
    char *argv[] = {(char *)compiler,
                    "-std=gnu11",
                    "-O3",
                    "-march=native",
                    "-ffp-contract=fast",
                    "-fno-math-errno",
                    "-fno-trapping-math",
                    "-fopenmp-simd",
                    "-Wall",
                    "-Wno-unused-variable",
                    "-Wno-unknown-pragmas",
                    "-shared",
                    (char *)os_library_flag(compiler),
                    "-o",
                    file->library,
                    (char *)path,
                    "-lm",
                    NULL};
    sm_process_result process;
    confinement c = {limits, file->folder, -1};
    if (limits->is_confined) { // opens the rules here, since little is safe after a fork
        char folder[PATH_MAX];
        snprintf(folder, sizeof folder, "%s", path);
        c.rules = os_file_access_open(true);
        os_file_access_allow_system(c.rules);
        allow_compiler(c.rules, argv[0]);
        os_file_access_allow(c.rules, dirname(folder), OS_MAY_READ);
        os_file_access_allow(c.rules, file->folder, OS_MAY_READ | OS_MAY_WRITE);
    }
    const os_limit of_confined[] = {{OS_LIMIT_CORE_BYTES, 0, false},
                                    {OS_LIMIT_CPU_S, (uint64_t)limits->timeout_s + 2, false},
                                    {OS_LIMIT_ADDRESSES, most_compiler_bytes, true},
                                    {OS_LIMIT_FILE_BYTES, MOST_FILE_BYTES, false}};
    const sm_process_job job = {.argv = argv,
                                .prepare = prepare,
                                .ctx = &c,
                                .has_no_input = true,
                                .output = SM_OUTPUT_KEPT,
                                .most_bytes = MOST_SAID_BYTES,
                                .limits = of_confined,
                                .n_limits = limits->is_confined ? sizeof of_confined / sizeof of_confined[0] : 0,
                                .own_session = limits->timeout_s > 0,
                                .timeout_s = limits->timeout_s,
                                .interrupted = limits->interrupted,
                                .interrupted_grace_s = interrupted_grace_s};
    sm_status status = sm_process_run(&job, &process);
    if (c.rules >= 0) {
        close(c.rules);
    }
    SM_TRY(status);
    if (process.late) {
        status = sm_fail(SM_ERR_TIMEOUT, "%s: %s did not end within %g s", path, argv[0], limits->timeout_s);
    } else if (process.interrupted) {
        status = SM_ERR_INTERRUPTED;
    } else {
        file->said = process.err;
        process.err = NULL;
        status = process.exit_code == 0 ? SM_OK : sm_fail(SM_ERR_FORMAT, "%s: %s cannot compile it", path, argv[0]);
    }
    sm_process_free(&process);
    return status;
}

static sm_status compile(const char *path, const sm_kernel_limits *limits, sm_kernel_file *file) {
    const char *named = getenv("CC");
    const char *const ours[] = {named, NULL};
    const char *const *compilers = named != NULL && named[0] != '\0' ? ours : os_compilers;
    sm_status status = SM_ERR_UNSUPPORTED;
    for (int i = 0; status == SM_ERR_UNSUPPORTED && compilers[i] != NULL; i++) {
        status = compile_with(compilers[i], path, limits, file);
    }
    return status != SM_ERR_UNSUPPORTED
               ? status
               : sm_fail(status, "%s: the compiler '%s' cannot be started; install it, or name another in CC", path,
                         compilers[0]);
}

static sm_status read_source(const char *path, sm_kernel_file *file) {
    SM_CLOSED int fd = -1;
    int64_t n;
    SM_TRY(sm_input_open(path, &fd, &n));
    file->language = SM_OWN_OPENCL;
    SM_FAIL_IF(n > MOST_SOURCE_BYTES, SM_ERR_FORMAT, "%s: is not a source of OpenCL C: larger than 1 MiB", path);
    file->source = sm_calloc(1, (size_t)n + 1);
    SM_TRY(sm_input_read(fd, path, 0, file->source, (size_t)n));
    SM_FAIL_IF(memchr(file->source, '\0', (size_t)n) != NULL, SM_ERR_FORMAT,
               "%s: is not a source of OpenCL C: it has a byte of 0", path);
    return SM_OK;
}

sm_status sm_kernel_file_open(const char *path, const sm_kernel_limits *limits, sm_kernel_file *file) {
    int fd;
    int64_t size_bytes;
    *file = (sm_kernel_file){.language = SM_OWN_C};
    SM_TRY(sm_input_open(path, &fd, &size_bytes)); // opening a pipe would block, in the compiler, too
    close(fd);
    if (sm_ends_with(path, ".c")) {
        SM_TRY(sm_kernel_folder_make("kernel", file->folder));
        snprintf(file->library, sizeof file->library, "%.*s/kernel%s", PATH_MAX - 16, file->folder, os_library_end);
        return compile(path, limits, file);
    }
    if (sm_ends_with(path, ".cl")) {
        return read_source(path, file);
    }
    SM_FAIL_IF(!sm_ends_with(path, os_library_end), SM_ERR_USAGE,
               "%s: give a file of C, NAME.c, of OpenCL C, NAME.cl, or a shared library, NAME%s", path, os_library_end);
    if (realpath(path, file->library) == NULL) { // systems search for a name without a slash
        return sm_fail(SM_ERR_IO, "%s: %s", path, strerror(errno));
    }
    return SM_OK;
}

void sm_kernel_file_close(sm_kernel_file *file) {
    if (file->folder[0] != '\0') {
        sm_remove_tree(file->folder);
        file->folder[0] = '\0';
    }
    free(file->source);
    file->source = NULL;
    free(file->said);
    file->said = NULL;
}

static const void *find(void *handle, const char *kind, const char *end) {
    char symbol[SYMBOL_SIZE];
    snprintf(symbol, sizeof symbol, "%s%s", kind, end);
    return os_library_find(handle, symbol);
}

sm_status sm_kernel_load(const char *path, sm_kernel_file *file, sm_op_kind kind, sm_own_kernel *kernel) {
    if (file->language == SM_OWN_OPENCL) {
        SM_TRY(sm_own_opencl_check(kind, file->source, path));
        *kernel = (sm_own_kernel){.kind = kind, .source = file->source, .name = sm_strdup(path)};
        file->source = NULL;
        return SM_OK;
    }
    const char *name = sm_op_name(kind);
    char expected[SM_OWN_SIGNATURE_SIZE];
    void *handle = os_library_open(file->library);
    SM_FAIL_IF(handle == NULL, SM_ERR_FORMAT, "%s: cannot be loaded: %s", path, os_library_error());
    const char *signature = find(handle, name, "_signature");
    const void *function = find(handle, name, "");
    const int *has_threads = find(handle, name, "_threads");
    sm_own_kernel_signature(kind, expected);
    if (function == NULL || signature == NULL) {
        sm_status status =
            sm_fail(SM_ERR_FORMAT, "%s: has no %s%s; begin with the file that `stepmark exercise %s --init DIR` writes",
                    path, name, function == NULL ? "" : "_signature", name);
        os_library_close(handle);
        return status;
    }
    if (strcmp(signature, expected) != 0) {
        os_library_close(handle);
        return sm_fail(SM_ERR_FORMAT, "%s: its %s was made for other arguments; this stepmark gives it \"%s\"", path,
                       name, expected);
    }
    *kernel = (sm_own_kernel){.kind = kind, .has_threads = has_threads != NULL && *has_threads != 0};
    memcpy(&kernel->run, &function, sizeof kernel->run); // POSIX's way to convert a pointer to a function
    return SM_OK;
}

// --- a device ----------------------------------------------------------------------------------------

static sm_status find_device(const sm_backend *backend, const char *id, int *index) {
    const int n = backend->device_count();
    for (int i = 0; i < n; i++) {
        sm_device_info info;
        SM_TRY(backend->describe(i, &info));
        if ((strcmp(id, backend->name) == 0 && info.available) || strcmp(id, info.id) == 0) {
            *index = i;
            return info.available ? SM_OK : sm_fail(SM_ERR_UNSUPPORTED, "%s: %s", info.id, info.reason);
        }
    }
    return sm_fail(SM_ERR_UNSUPPORTED, "--backend: there is no OpenCL device %s to run it; `stepmark devices` says why",
                   id);
}

sm_status sm_kernel_device_open(const sm_own_kernel *kernel, const char *id, sm_device **device) {
    const sm_backend *backend = sm_backend_find("opencl");
    const sm_open_options how = {.own_kernels = kernel, .n_own_kernels = kernel != NULL};
    int index = 0;
    SM_FAIL_IF(backend == NULL, SM_ERR_UNSUPPORTED, "this stepmark was built without OpenCL");
    SM_TRY(find_device(backend, id, &index));
    return backend->open(index, &how, device);
}
