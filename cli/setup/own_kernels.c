// own_kernels.c: OP=FILE[,OP=FILE]: finds the kinds, compiles and loads the files.
#include "cli/setup/session.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "bench/rows/digest.h"
#include "cli/flags/flag.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "learn/own_kernels/backend_file.h"
#include "learn/own_kernels/kernel_library.h"

static struct {
    bool is_loaded;
    sm_own_kernel list[SM_OP_KIND_COUNT];
    int n;
    char text[SM_TEXT_SIZE * 4];
} own;

static sm_status find_kind(const char *name, sm_op_kind *kind) {
    const char *names[SM_OP_KIND_COUNT];
    *kind = sm_op_kind_find(name);
    for (int i = 0; i < SM_OP_KIND_COUNT; i++) {
        names[i] = sm_op_name((sm_op_kind)i);
    }
    return *kind < SM_OP_KIND_COUNT ? SM_OK : cli_no_such_name("--kernel", "op", name, names, SM_OP_KIND_COUNT);
}

static sm_status load(sm_op_kind kind, const char *path, double timeout_s) {
    sm_kernel_file file;
    const sm_kernel_limits limits = {.timeout_s = timeout_s, .interrupted = &cli_interrupted};
    sm_status status = sm_kernel_file_open(path, &limits, &file);
    if (status == SM_OK) {
        status = sm_kernel_load(path, &file, kind, &own.list[own.n]);
    }
    if (file.said != NULL && file.said[0] != '\0') {
        cli_note("the compiler says of %s:\n%s", path, file.said);
    }
    sm_kernel_file_close(&file);
    return status;
}

// One OP=FILE.
static sm_status add(const char *entry, const void *ctx) {
    const cli_options *options = ctx;
    char name[CLI_TEXT_SIZE];
    char digest[SM_DIGEST_SIZE];
    sm_op_kind kind;
    const char *equals = strchr(entry, '=');
    if (equals == NULL || equals == entry || equals[1] == '\0' || equals - entry >= CLI_TEXT_SIZE) {
        return sm_fail(SM_ERR_USAGE, "--kernel: '%s' is not OP=FILE, as in gelu_forward=gelu_forward.c", entry);
    }
    snprintf(name, sizeof(name), "%.*s", (int)(equals - entry), entry);
    SM_TRY(find_kind(name, &kind));
    for (int i = 0; i < own.n; i++) {
        if (own.list[i].kind == kind) {
            return sm_fail(SM_ERR_USAGE, "--kernel: %s is given twice", name);
        }
    }
    SM_TRY(sm_digest_file(equals + 1, digest)); // before its code runs
    SM_TRY(load(kind, equals + 1, options->measure.timeout_s));
    own.n++;
    const size_t used = strlen(own.text);
    snprintf(own.text + used, sizeof(own.text) - used, "%s%s (%s)", used > 0 ? ", " : "", entry, digest);
    return SM_OK;
}

static sm_status for_each(const char *text, sm_status (*take)(const char *entry, const void *ctx), const void *ctx) {
    char entry[PATH_MAX + CLI_TEXT_SIZE];
    for (;;) {
        const size_t length = strcspn(text, ",");
        snprintf(entry, sizeof(entry), "%.*s", (int)length, text);
        SM_TRY(take(entry, ctx));
        if (text[length] == '\0') {
            return SM_OK;
        }
        text += length + 1;
    }
}

static sm_status check_languages(const sm_backend *backend) {
    for (int i = 0; i < own.n; i++) {
        const sm_own_language language = sm_own_kernel_language(&own.list[i]);
        if (backend->own_kernels == SM_OWN_NONE) {
            return sm_fail(SM_ERR_UNSUPPORTED,
                           "%s: --kernel: it runs no kernels of your own; take --backend cpu or opencl", backend->name);
        }
        if (backend->own_kernels != language) {
            return sm_fail(SM_ERR_UNSUPPORTED, "%s: --kernel %s: the file is %s, which --backend %s runs",
                           backend->name, sm_op_name(own.list[i].kind), language == SM_OWN_C ? "C" : "OpenCL C",
                           language == SM_OWN_C ? "cpu" : "opencl");
        }
    }
    return SM_OK;
}

sm_status cli_own_kernels(const cli_options *options, const sm_backend *backend, const sm_own_kernel **list, int *n,
                          const char **text) {
    if (!own.is_loaded && options->device.kernel != NULL) {
        SM_TRY(for_each(options->device.kernel, add, options));
        cli_note("kernels of your own: %s", own.text);
    }
    own.is_loaded = true;
    SM_TRY(check_languages(backend));
    *list = own.list;
    *n = own.n;
    *text = own.text;
    return SM_OK;
}

static struct {
    const sm_backend *backend; // NULL: none was given
    char text[SM_TEXT_SIZE * 4];
} brought;

// In a sweep flags are lists; this one has one value.
static const char *library_of(const cli_options *options) {
    const char *path = options->device.backend_library;
    for (int i = 0; i < options->sweep.axes.n; i++) {
        if (strcmp(cli_flag_at(options->sweep.axes.axes[i].flag)->name, "backend-library") == 0) {
            path = options->sweep.axes.axes[i].text;
        }
    }
    return path;
}

sm_status cli_load_backend(const cli_options *options) { return cli_load_backend_file(library_of(options)); }

sm_status cli_load_backend_file(const char *path) {
    char digest[SM_DIGEST_SIZE];
    if (path == NULL || brought.backend != NULL) {
        return SM_OK;
    }
    SM_TRY(sm_digest_file(path, digest)); // before its code runs
    SM_TRY(sm_backend_file_load(path, &brought.backend));
    snprintf(brought.text, sizeof(brought.text), "backend %s (%s)", path, digest);
    cli_note("a backend of your own: %s, from %s", brought.backend->name, path);
    return SM_OK;
}

const char *cli_backend_text(void) { return brought.text; }

// --- of a row ----------------------------------------------------------------------------------------

// `entry`, with the digest of its file, must be among those recorded.
static sm_status expect_recorded(const char *what, const char *entry, const char *path, const char *recorded) {
    char digest[SM_DIGEST_SIZE];
    char text[PATH_MAX + CLI_TEXT_SIZE + SM_DIGEST_SIZE];
    SM_TRY(sm_digest_file(path, digest));
    snprintf(text, sizeof(text), "%s (%s)", entry, digest);
    return strstr(recorded, text) != NULL
               ? SM_OK
               : sm_fail(SM_ERR_INVALID,
                         "%s: %s is not the file that was measured: the row records no such digest in own_kernels; "
                         "it is not run",
                         what, path);
}

static sm_status expect_kernel(const char *entry, const void *recorded) {
    const char *equals = strchr(entry, '=');
    return expect_recorded("--kernel", entry, equals != NULL ? equals + 1 : entry, recorded);
}

sm_status cli_own_code_check(const char *flag, const char *code, const char *recorded) {
    char entry[PATH_MAX + CLI_TEXT_SIZE];
    if (strcmp(flag, "kernel") == 0) {
        return for_each(code, expect_kernel, recorded);
    }
    snprintf(entry, sizeof(entry), "backend %s", code);
    return expect_recorded("--backend-library", entry, code, recorded);
}
