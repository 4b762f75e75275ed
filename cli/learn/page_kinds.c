// page_kinds.c: a page's text for a kind of op: its equations, from docs/equations.md, and the embedded files that
// compute it; and a student's kernel.
#include "embedded.h"
#include "words.h"
#include "cli/learn/learn.h"
#include "learn/own_kernels/kernel_library.h"
#include "learn/page/step_page.h"
#include "src/io/input_file.h"
#include "src/plan/own_members.h"
#include "src/processes/process.h"

enum { NAME_SIZE = 96 };

// Files of a folder compute a kind if they have its name between these texts; `only` begins the kinds that a rule is of,
// and is left out of the name.
typedef struct {
    const char *backend, *folder, *only, *before;
    const char *after; // NULL: `before` alone
} source_rule;

static const source_rule rules[] = {{"reference", "backends/reference/", "", "void REF(", ")("},
                                    {"cpu", "backends/cpu/kernels/", "", "\nCPU_KERNEL(", ") {"},
                                    {"cpu", "backends/cpu/kernels/", "", "\nvoid ISA(cpu_", ")("},
                                    {"cpu", "backends/cpu/kernels/", "matmul_", "\nCPU_MATMUL(", ") {"},
                                    {"cpu", "backends/cpu/kernels/", "matmul_", "\nvoid ISA(cpu_multiply)(", NULL},
                                    {"opencl", "cl/", "", " void ", "("},
                                    {"opencl", "cl/", "", " void ", "_"},
#define X(CODE, name, f, slope)                                                 \
    {"reference", "backends/reference/", #name "_", "void REF(name##_", ")("},  \
        {"cpu", "backends/cpu/kernels/", #name "_", "CPU_KERNEL(name##_", ")"}, \
        {"opencl", "cl/", #name "_", " void name##_", "("},
                                    SM_ACTIVATION_PAIRS(X)
#undef X
};

// Kinds computed by functions with another name: fused kinds, or the same function with other operands.
static const char *named_as(const char *backend, const char *kind) {
    const bool is_opencl = strcmp(backend, "opencl") == 0;
    if (is_opencl && strncmp(kind, "matmul_", strlen("matmul_")) == 0) {
        return "matmul";
    }
    if (is_opencl && (strncmp(kind, "layernorm_", strlen("layernorm_")) == 0 ||
                      strncmp(kind, "rmsnorm_", strlen("rmsnorm_")) == 0)) {
        return strstr(kind, "norm_"); // cl/norm.cl
    }
    return is_opencl && strncmp(kind, "flash_", strlen("flash_")) == 0 ? kind + strlen("flash_") : kind;
}

static bool is_of_family(const char *path, const char *tier) {
    char end[NAME_SIZE];
    snprintf(end, sizeof(end), "_%s.cl", tier);
    return sm_ends_with(path, end);
}

// Whether a file belongs to one family of kernels: its name ends with the family's. Those of matrix units that are no
// family of these end with "units".
static bool is_of_tier(const char *path, const char *tier) {
    static const char *const tiers[] = {"registers", "local", "tensor", "wgmma"};
    bool is_level = true;
    for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) {
        if (is_of_family(path, tiers[i])) {
            return strcmp(tiers[i], tier) == 0;
        }
        is_level = is_level && strcmp(tiers[i], tier) != 0;
    }
    return is_level || !is_of_family(path, "units");
}

static bool has_kind(const sm_embedded *file, const source_rule *rule, const char *kind) {
    char text[NAME_SIZE];
    const size_t n_only = strlen(rule->only);
    if (strncmp(file->path, rule->folder, strlen(rule->folder)) != 0 || strncmp(kind, rule->only, n_only) != 0) {
        return false;
    }
    snprintf(text, sizeof(text), "%s%s%s", rule->before,
             rule->after != NULL ? named_as(rule->backend, kind) + n_only : "", rule->after != NULL ? rule->after : "");
    return memmem(file->text, file->size_bytes, text, strlen(text)) != NULL;
}

// The files that compute a kind, and the text of each in `files`.
static json_t *sources_of(const char *kind, const char *tier, json_t *files) {
    json_t *sources = json_array();
    for (int i = 0; i < sm_embedded_count(); i++) {
        const sm_embedded *file = sm_embedded_at(i);
        size_t r = 0;
        while (r < sizeof(rules) / sizeof(rules[0]) && !has_kind(file, &rules[r], kind)) {
            r++;
        }
        if (r < sizeof(rules) / sizeof(rules[0]) && is_of_tier(file->path, tier)) {
            json_array_append_new(sources, json_pack("{s:s, s:s}", "backend", rules[r].backend, "file", file->path));
            json_object_set_new(files, file->path, json_stringn(file->text, file->size_bytes));
        }
    }
    return sources;
}

// The section of docs/equations.md with the heading "## KIND"; empty if there is none.
static json_t *equations_of(const char *kind) {
    const sm_embedded *file = sm_embedded_find("docs/equations.md");
    char heading[NAME_SIZE];
    const size_t n_heading = (size_t)snprintf(heading, sizeof(heading), "\n## %s\n", kind);
    const char *text = file != NULL ? file->text : "";
    const char *end = text + (file != NULL ? file->size_bytes : 0);
    const char *begin = memmem(text, (size_t)(end - text), heading, n_heading);
    if (begin == NULL) {
        return json_string("");
    }
    begin += n_heading;
    const char *next = memmem(begin, (size_t)(end - begin), "\n## ", strlen("\n## "));
    return json_stringn(begin, (size_t)((next != NULL ? next : end) - begin));
}

json_t *cli_page_kinds(const sm_plan *const *plans, const char *tier, json_t *files) {
    json_t *kinds = json_object();
    for (int i = 0; i < sm_embedded_count(); i++) {
        const sm_embedded *file = sm_embedded_at(i);
        if (strncmp(file->path, "docs/course/", strlen("docs/course/")) == 0) {
            json_object_set_new(files, file->path, json_stringn(file->text, file->size_bytes));
        }
    }
    for (int p = 0; plans[p] != NULL; p++) {
        for (int i = 0; i < plans[p]->n_ops; i++) {
            const char *name = sm_op_name(plans[p]->ops[i].kind);
            const sm_exercise *exercise = sm_exercise_find(name); // in a lesson of the course
            if (json_object_get(kinds, name) == NULL) {
                json_object_set_new(kinds, name,
                                    json_pack("{s:o, s:o, s:o}", "text", equations_of(name), "sources",
                                              sources_of(name, tier, files), "lesson",
                                              exercise != NULL ? json_string(exercise->lesson) : json_null()));
            }
        }
    }
    return kinds;
}

// --- a student's kernel: compiled for browsers, with the arguments of each op that it computes --------

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
    SM_TRY(sm_input_whole(module, MOST_MODULE_BYTES, &bytes, &size_bytes));
    sm_own_kernel_signature(kind, signature);
    *json = json_pack("{s:s, s:o, s:s, s:O, s:o}", "kind", sm_op_name(kind), "file", sm_json_bytes(file), "signature",
                      signature, "ops", ops, "module", sm_base64_json(bytes, size_bytes));
    return SM_OK;
}
