// page_kinds.c: a page's text for a kind of op: its equations, from docs/equations.md, and the embedded files that
// compute it.
#include <string.h>

#include "embedded.h"
#include "words.h"
#include "cli/learn/learn.h"

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
