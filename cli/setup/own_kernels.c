// own_kernels.c: OP=FILE[,OP=FILE]: finds the kinds, compiles and loads the files.
#include "cli/setup/setup.h"

#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "learn/own_kernels/kernel_library.h"
#include "os/confinement.h"
#include "os/library.h"
#include "src/plan/own_process.h"

enum { ENTRY_SIZE = PATH_MAX + CLI_TEXT_SIZE }; // of OP=FILE

static struct {
    bool is_loaded;
    sm_own_kernel list[SM_OP_KIND_COUNT];
    sm_kernel_file files[SM_OP_KIND_COUNT]; // until they are loaded
    const char *paths[SM_OP_KIND_COUNT];
    int n;
    sm_own_process *process; // NULL: none are in C
    double call_ns;          // of one into it that does nothing
    char text[SM_TEXT_SIZE * 4];
} own;

static struct {
    const sm_backend *backend; // NULL: none was given
    char text[SM_TEXT_SIZE * 4];
} brought;

// Kernels in C run in a process apart, which alone loads them.
static sm_status load_apart(int n_threads) {
    const char *words[3 * SM_OP_KIND_COUNT];
    const sm_own_process_options how = {.n_threads = n_threads};
    for (int i = 0; i < own.n; i++) {
        if (own.files[i].language != SM_OWN_C) {
            return SM_OK; // no backend takes both
        }
        words[3 * i] = sm_op_name(own.list[i].kind);
        words[3 * i + 1] = own.files[i].library;
        words[3 * i + 2] = own.paths[i];
    }
    // Measures a call in a process without own code, which could make it look slower.
    sm_own_process *idle = NULL;
    sm_status status = sm_own_process_start(NULL, &how, NULL, 0, &idle);
    own.call_ns = status == SM_OK ? sm_own_process_call_ns(idle) : 0;
    status = status == SM_OK ? sm_own_process_state(idle) : status;
    sm_own_process_end(idle);
    SM_TRY(status);
    SM_TRY(sm_own_process_start(words, &how, own.list, own.n, &own.process));
    return sm_own_process_state(own.process);
}

// Copies the first OP=FILE of a list; returns the rest of it, or NULL.
static const char *take_entry(const char *list, char entry[ENTRY_SIZE]) {
    const size_t length = strcspn(list, ",");
    snprintf(entry, ENTRY_SIZE, "%.*s", (int)length, list);
    return list[length] == ',' ? list + length + 1 : NULL;
}

static sm_status add(const cli_options *options, const char *entry) {
    char name[CLI_TEXT_SIZE], digest[SM_DIGEST_SIZE];
    sm_op_kind kind;
    const char *equals = strchr(entry, '=');
    SM_FAIL_IF(equals == NULL || equals == entry || equals[1] == '\0' || equals - entry >= CLI_TEXT_SIZE, SM_ERR_USAGE,
               "--kernel: '%s' is not OP=FILE, as in gelu_forward=gelu_forward.c", entry);
    snprintf(name, sizeof(name), "%.*s", (int)(equals - entry), entry);
    const char *names[SM_OP_KIND_COUNT];
    kind = sm_op_kind_find(name);
    for (int i = 0; i < SM_OP_KIND_COUNT; i++) {
        names[i] = sm_op_name((sm_op_kind)i);
    }
    SM_TRY(kind < SM_OP_KIND_COUNT ? SM_OK : cli_no_such_name("--kernel", "op", name, names, SM_OP_KIND_COUNT));
    for (int i = 0; i < own.n; i++) {
        SM_FAIL_IF(own.list[i].kind == kind, SM_ERR_USAGE, "--kernel: %s is given twice", name);
    }
    SM_TRY(sm_digest_file(equals + 1, digest)); // before its code runs
    // Compiles C; what OpenCL C says is for a driver.
    sm_kernel_file *file = &own.files[own.n];
    sm_own_kernel *kernel = &own.list[own.n];
    const sm_kernel_limits limits = {.timeout_s = options->measure.timeout_s, .interrupted = &cli_interrupted};
    const sm_status opened = sm_kernel_file_open(equals + 1, &limits, file);
    *kernel = (sm_own_kernel){.kind = kind};
    own.paths[own.n++] = sm_strdup(equals + 1); // to be closed
    if (file->said != NULL && file->said[0] != '\0') {
        cli_note("the compiler says of %s:\n%s", equals + 1, file->said);
    }
    SM_TRY(opened);
    SM_TRY(file->language == SM_OWN_OPENCL ? sm_kernel_load(equals + 1, file, kind, kernel) : SM_OK);
    sm_append(own.text, sizeof(own.text), "%s%s (%s)", own.text[0] != '\0' ? ", " : "", entry, digest);
    return SM_OK;
}

static void close_files(void) {
    for (int i = 0; i < own.n; i++) {
        sm_kernel_file_close(&own.files[i]);
        free((char *)own.paths[i]);
        own.paths[i] = NULL;
    }
}

static void end_apart(void) {
    sm_own_process_end(own.process);
    close_files();
}

sm_status cli_own_kernels(const cli_options *options, const sm_backend *backend, int n_threads,
                          const sm_own_kernel **list, int *n) {
    if (!own.is_loaded && options->device.kernel != NULL) {
        char entry[ENTRY_SIZE];
        sm_status status = SM_OK;
        for (const char *rest = options->device.kernel; rest != NULL && status == SM_OK;) {
            rest = take_entry(rest, entry);
            status = add(options, entry);
        }
        status = status == SM_OK ? load_apart(n_threads) : status;
        if (os_removes_loaded || own.process == NULL || atexit(end_apart) != 0) {
            close_files();
        }
        SM_TRY(status);
        cli_note("kernels of your own: %s", own.text);
        if (own.process != NULL) {
            cli_note("they run in a process apart: a call that does nothing takes %.2f us", own.call_ns / 1e3);
        }
    }
    own.is_loaded = true;
    for (int i = 0; i < own.n; i++) {
        const sm_own_language language = sm_own_kernel_language(&own.list[i]);
        SM_FAIL_IF(backend->own_kernels == SM_OWN_NONE, SM_ERR_UNSUPPORTED,
                   "%s: --kernel: it runs no kernels of your own; take --backend cpu or opencl", backend->name);
        SM_FAIL_IF(backend->own_kernels != language, SM_ERR_UNSUPPORTED,
                   "%s: --kernel %s: the file is %s, which --backend %s runs", backend->name,
                   sm_op_name(own.list[i].kind), language == SM_OWN_C ? "C" : "OpenCL C",
                   language == SM_OWN_C ? "cpu" : "opencl");
    }
    *list = own.list;
    *n = own.n;
    return SM_OK;
}

void cli_describe_own_code(sm_device *device) {
    sm_device_info *info = &device->info;
    const bool is_brought = brought.backend != NULL && device->backend == brought.backend;
    const sm_own_process *process = is_brought ? sm_backend_apart_process() : own.process;
    memcpy(info->own_kernels, is_brought ? brought.text : own.text, sizeof info->own_kernels);
    info->own_call_ns = is_brought ? info->own_call_ns : own.process != NULL ? own.call_ns : 0;
    const bool is_confined = process != NULL && sm_own_process_is_confined(process);
    if (process != NULL && !(is_confined && os_file_access_is_limited()) && info->n_warnings < SM_MAX_WARNINGS) {
        snprintf(info->warnings[info->n_warnings++], sizeof info->warnings[0], "%s",
                 is_confined ? os_says_unlimited : os_says_unconfined);
    }
}

sm_status cli_load_backend(const cli_options *options) {
    const char *path = cli_axis_text(&options->sweep.axes, "backend-library"); // in a sweep
    return cli_load_backend_file(path != NULL ? path : options->device.backend_library);
}

sm_status cli_load_backend_file(const char *path) {
    char digest[SM_DIGEST_SIZE];
    if (path == NULL || brought.backend != NULL) {
        return SM_OK;
    }
    SM_TRY(sm_digest_file(path, digest)); // before its code runs
    SM_TRY(sm_backend_apart_load(path, &brought.backend));
    snprintf(brought.text, sizeof(brought.text), "own backend %s (%s)", path, digest);
    cli_note("a backend of your own: %s, from %s, in a process apart", brought.backend->name, path);
    return SM_OK;
}

// `entry`, with the digest of its file, must be among those recorded.
static sm_status expect_recorded(const char *what, const char *entry, const char *path, const char *recorded) {
    char digest[SM_DIGEST_SIZE], text[PATH_MAX + CLI_TEXT_SIZE + SM_DIGEST_SIZE];
    SM_TRY(sm_digest_file(path, digest));
    snprintf(text, sizeof(text), "%s (%s)", entry, digest);
    return strstr(recorded, text) != NULL ? SM_OK
                                          : sm_fail(SM_ERR_INVALID,
                                                    "%s: %s is not the file that was measured: the row records no such "
                                                    "digest in own_kernels; it is not run",
                                                    what, path);
}

sm_status cli_own_code_check(const char *flag, const char *code, const char *recorded) {
    char entry[ENTRY_SIZE];
    if (strcmp(flag, "kernel") != 0) {
        snprintf(entry, sizeof(entry), "backend %s", code);
        return expect_recorded("--backend-library", entry, code, recorded);
    }
    for (const char *rest = code; rest != NULL;) {
        rest = take_entry(rest, entry);
        const char *equals = strchr(entry, '=');
        SM_TRY(expect_recorded("--kernel", entry, equals != NULL ? equals + 1 : entry, recorded));
    }
    return SM_OK;
}
