// page_kinds.c: a page's text for a kind of op: its equations, from docs/equations.md, and the functions that compute
// it, from the embedded sources.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embedded.h"
#include "cli/learn/page.h"
#include "learn/page/excerpt.h"

enum { NAME_SIZE = 96, MAX_NAMES = 3, MOST_BYTES = 9000 };

// The place of a backend's functions, and the form of their definitions; %s is the kind.
typedef struct {
    const char *backend;
    const char *folder; // common beginning of its files' paths
    const char *names[MAX_NAMES];
} source_rule;

static const source_rule rules[] = {
    {"reference", "backends/reference/", {"REF(%s)"}},
    {"cpu", "backends/cpu/kernels/", {"CPU_KERNEL(%s)", "ISA(cpu_%s)"}}, // matmuls have two
    {"opencl", "cl/", {"%s", "%s_*"}},
};

// Kinds computed by functions with another name: fused kinds, or the same function with other operands.
static const char *named_as(const char *backend, const char *kind) {
    static const char *const prefixes[] = {"flash_"};
    const bool is_opencl = strcmp(backend, "opencl") == 0;
    const bool is_reference = strcmp(backend, "reference") == 0;
    if (is_opencl && strncmp(kind, "matmul_", strlen("matmul_")) == 0) {
        return "matmul";
    }
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (strncmp(kind, prefixes[i], strlen(prefixes[i])) == 0 &&
            (is_opencl || (is_reference && strcmp(prefixes[i], "flash_") != 0))) {
            return strchr(kind, '_') + 1;
        }
    }
    return kind;
}

static bool ends_with(const char *path, const char *tier) {
    char end[NAME_SIZE];
    const size_t n = (size_t)snprintf(end, sizeof(end), "_%s.cl", tier);
    const size_t n_path = strlen(path);
    return n_path > n && strcmp(path + n_path - n, end) == 0;
}

// Whether a file belongs to one family of kernels: its name ends with the family's. Those of matrix units that are no
// family of these end with "units".
static bool is_of_tier(const char *path, const char *tier) {
    static const char *const tiers[] = {"registers", "local", "tensor", "wgmma"};
    bool is_level = true;
    for (size_t i = 0; i < sizeof(tiers) / sizeof(tiers[0]); i++) {
        if (ends_with(path, tiers[i])) {
            return strcmp(tiers[i], tier) == 0;
        }
        is_level = is_level && strcmp(tiers[i], tier) != 0;
    }
    return is_level || !ends_with(path, "units");
}

// The names to search for, ending with NULL.
static void find_names(const source_rule *rule, const char *kind, char texts[MAX_NAMES][NAME_SIZE],
                       const char *names[MAX_NAMES + 1]) {
    const char *product = strncmp(kind, "matmul_", strlen("matmul_")) == 0 ? kind + strlen("matmul_") : NULL;
    const bool is_cpu_product = product != NULL && strcmp(rule->backend, "cpu") == 0;
    for (int i = 0; i < MAX_NAMES && rule->names[i] != NULL; i++) {
        const char *at = strstr(rule->names[i], "%s");
        snprintf(texts[i], NAME_SIZE, "%.*s%s%s", (int)(at - rule->names[i]), rule->names[i],
                 named_as(rule->backend, kind), at + strlen("%s"));
        names[i] = texts[i];
    }
    if (is_cpu_product) { // the set-up of the matmul, and its kernel
        snprintf(texts[0], NAME_SIZE, "CPU_MATMUL(%s)", product);
        snprintf(texts[1], NAME_SIZE, "ISA(cpu_multiply)");
    }
}

static sm_status append_source(const source_rule *rule, const char *kind, const sm_embedded *file, json_t *sources) {
    char texts[MAX_NAMES][NAME_SIZE];
    const char *names[MAX_NAMES + 1] = {NULL};
    char *excerpt;
    find_names(rule, kind, texts, names);
    const sm_source text = {file->text, file->size_bytes};
    SM_TRY(sm_excerpt(text, names, MOST_BYTES, &excerpt));
    if (excerpt == NULL) {
        return SM_OK;
    }
    json_t *source = json_pack("{s:s, s:s, s:s}", "backend", rule->backend, "file", file->path, "text", excerpt);
    free(excerpt);
    return json_array_append_new(sources, source) == 0 ? SM_OK : sm_fail(SM_ERR_OOM, "page: no memory for sources");
}

static sm_status append_sources(const char *kind, const char *tier, json_t *sources) {
    for (size_t r = 0; r < sizeof(rules) / sizeof(rules[0]); r++) {
        for (int i = 0; i < sm_embedded_count(); i++) {
            const sm_embedded *file = sm_embedded_at(i);
            if (strncmp(file->path, rules[r].folder, strlen(rules[r].folder)) == 0 && is_of_tier(file->path, tier)) {
                SM_TRY(append_source(&rules[r], kind, file, sources));
            }
        }
    }
    return SM_OK;
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

static sm_status add_kind(sm_op_kind kind, const char *tier, json_t *kinds) {
    const char *name = sm_op_name(kind);
    json_t *sources = json_array();
    json_t *entry = json_pack("{s:o, s:o}", "text", equations_of(name), "sources", sources);
    if (json_object_set_new(kinds, name, entry) != 0) {
        return sm_fail(SM_ERR_OOM, "page: no memory for %s", name);
    }
    return append_sources(name, tier, sources);
}

sm_status cli_page_kinds(const sm_plan *const *plans, const char *tier, json_t **kinds) {
    *kinds = json_object();
    for (int p = 0; plans[p] != NULL; p++) {
        for (int i = 0; i < plans[p]->n_ops; i++) {
            const sm_op_kind kind = plans[p]->ops[i].kind;
            if (json_object_get(*kinds, sm_op_name(kind)) == NULL) {
                SM_TRY(add_kind(kind, tier, *kinds));
            }
        }
    }
    return SM_OK;
}
