// page_kernel.c: a student's kernel for a page: compiled for browsers, with the arguments of each op that it computes.
#include <stdlib.h>

#include "cli/learn/learn.h"
#include "learn/own_kernels/kernel_library.h"
#include "learn/page/step_page.h"
#include "src/io/input_file.h"
#include "src/plan/own_members.h"
#include "src/processes/process.h"

enum { MOST_MODULE_BYTES = 1 << 22, MOST_SAID_BYTES = 1 << 14, MOST_SECONDS = 60 };

// What the page calls: memory, dropout's factor (a page has none), the kernel and its signature.
static sm_status write_frame(const char *path, const char *name) {
    FILE *out = fopen(path, "w");
    SM_FAIL_IF(out == NULL, SM_ERR_IO, "%s: cannot be written", path);
    fputs("#include <stdint.h>\n#include <stdlib.h>\n#define EXPORT(name) __attribute__((export_name(#name)))\n"
          "static float keep(const void *rng, int64_t i) { (void)rng; (void)i; return 1; }\n"
          "EXPORT(own_room) void *own_room(int n) { return calloc(1, n); }\n"
          "EXPORT(own_free) void own_free(void *room) { free(room); }\n"
          "EXPORT(own_keep) void *own_keep(void) { return (void *)keep; }\n",
          out);
    fprintf(out, "void %s(const void *args);\nextern const char %s_signature[];\n", name, name);
    fprintf(out, "EXPORT(own_signature) const char *own_signature(void) { return %s_signature; }\n", name);
    fprintf(out, "EXPORT(own_run) void own_run(const void *args) { %s(args); }\n", name);
    return fclose(out) == 0 ? SM_OK : sm_fail(SM_ERR_IO, "%s: cannot be written", path);
}

static sm_status compile(const char *file, const char *frame, const char *module) {
    char *const argv[] = {
        "clang", "--target=wasm32-wasi", "-mexec-model=reactor", "-std=gnu11", "-O2", "-w", "-Wl,--allow-undefined",
        "-o",    (char *)module,         (char *)frame,          (char *)file, NULL};
    SM_AT_END(sm_process_free) sm_process_result process = {.out = NULL};
    const sm_process_job job = {.argv = argv,
                                .has_no_input = true,
                                .output = SM_OUTPUT_KEPT,
                                .most_bytes = MOST_SAID_BYTES,
                                .own_session = true,
                                .timeout_s = MOST_SECONDS};
    const sm_status started = sm_process_run(&job, &process);
    SM_FAIL_IF(started == SM_ERR_UNSUPPORTED, started,
               "--page: clang makes a page's kernel, and is not installed (make wasm)");
    SM_TRY(started);
    SM_FAIL_IF(process.exit_code != 0, SM_ERR_UNSUPPORTED, "--page: clang cannot compile %s for wasm32 (make wasm): %s",
               file, sm_process_last_line(&process));
    return SM_OK;
}

// Of a struct's members: its name, "integer" or "real" with the value, "in" or "out" with the tensor (-1: none), "keep",
// "rng".
static json_t *arguments_json(const sm_plan *plan, const sm_op *op) {
    static const char *const types[] = {[OWN_INPUT] = "in",  [OWN_OUTPUT] = "out", [OWN_REAL] = "real",
                                        [OWN_KEEP] = "keep", [OWN_RNG] = "rng",    [OWN_THREAD] = NULL};
    const own_members m = own_members_of(op->kind);
    json_t *list = json_array();
    sm_own_args args;
    sm_own_args_fill(plan, op, (void *[SM_MAX_IN]){NULL}, (void *[SM_MAX_OUT]){NULL}, &args);
    for (int i = 0; i < m.n; i++) {
        const own_member *from = &m.list[i];
        const char *type = types[from->type] != NULL ? types[from->type] : "integer";
        json_t *value = from->type == OWN_INPUT                           ? json_integer(op->in[from->index])
                        : from->type == OWN_OUTPUT                        ? json_integer(op->out[from->index])
                        : from->type == OWN_REAL                          ? json_real(args.members[i].real)
                        : from->type == OWN_KEEP || from->type == OWN_RNG ? json_null()
                                                                          : json_integer(args.members[i].integer);
        json_array_append_new(list, json_pack("[s, s, o]", from->name, type, value));
    }
    return list;
}

static void remove_folder(char **folder) { (void)sm_remove_tree(*folder); }

sm_status cli_page_kernel(const char *file, sm_op_kind kind, const sm_plan *plan, json_t **json) {
    char folder[PATH_MAX], frame[PATH_MAX + 16], module[PATH_MAX + 16], signature[SM_OWN_SIGNATURE_SIZE];
    SM_FREED char *bytes = NULL;
    size_t size_bytes;
    SM_OWN(json_t) *ops = json_object();
    for (int i = 0; i < plan->n_ops; i++) {
        char number[16];
        snprintf(number, sizeof(number), "%d", i);
        if (plan->ops[i].kind == kind) {
            json_object_set_new(ops, number, arguments_json(plan, &plan->ops[i]));
        }
    }
    SM_TRY(sm_kernel_folder_make("page", folder));
    SM_AT_END(remove_folder) char *made = folder;
    snprintf(frame, sizeof(frame), "%s/frame.c", folder);
    snprintf(module, sizeof(module), "%s/kernel.wasm", folder);
    SM_TRY(write_frame(frame, sm_op_name(kind)));
    SM_TRY(compile(file, frame, module));
    SM_TRY(sm_input_whole(module, MOST_MODULE_BYTES, &bytes, &size_bytes));
    sm_own_kernel_signature(kind, signature);
    *json = json_pack("{s:s, s:o, s:s, s:O, s:o}", "kind", sm_op_name(kind), "file", sm_json_bytes(file), "signature",
                      signature, "ops", ops, "module", sm_base64_json(bytes, size_bytes));
    return SM_OK;
}
