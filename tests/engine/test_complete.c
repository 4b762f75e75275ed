// test_complete.c: what the compiler does not ask for, in a second: each kind of op has an equation and a source, cases
// with each of its attributes, a kernel on each backend, equations for readers, and a rule on pages. Derivatives,
// goldens and counts of parameters are asked for by test_gradient, test_golden and test_plan.
#include "tests/support/session.h"
#include "embedded.h"
#include "src/verify/op_cases.h"

static bool is_empty(const char *text) { return text == NULL || text[0] == '\0'; }

static bool has_case_with(sm_op_kind kind, sm_attr attr) {
    bool found = false;
    for (int i = 0; i < sm_op_case_count(kind) && !found; i++) {
        SM_OWN(sm_plan) *plan = NULL;
        assert_int_equal(sm_op_case_plan(kind, i, (sm_precision){.dtype = SM_F64}, &plan), SM_OK);
        found = sm_attr_get(&plan->ops[plan->n_ops - 1].attr, attr) != 0;
    }
    return found;
}

// Whether a file has a text, of which %s is the kind's name.
static bool file_has(const char *path, const char *form, const char *name) {
    char text[128];
    const int n = snprintf(text, sizeof text, form, name);
    const sm_embedded *file = sm_embedded_find(path);
    assert_non_null(file);
    return memmem(file->text, file->size_bytes, text, (size_t)n) != NULL;
}

// A kernel of cl/ has the kind's name, or one that begins with it; the others are here, with the reason.
static const struct {
    const char *kind, *kernel, *reason;
} named_otherwise[] = {
    {"matmul_forward", "matmul", "each family has one kernel for the three products"},
    {"matmul_backward_input", "matmul", "likewise"},
    {"matmul_backward_weight", "matmul", "likewise"},
    {"flash_attention_backward", "attention_backward", "one kernel, with and without stored weights"},
    {"normalize", "normalize_update", "OpenCL C has a function normalize"},
    {"layernorm_forward", "norm_forward", "both norms are made from one source"},
    {"layernorm_backward", "norm_backward", "likewise"},
    {"rmsnorm_forward", "norm_forward", "likewise"},
    {"rmsnorm_backward", "norm_backward", "likewise"},
#define X(CODE, name, f, slope)                                                \
    {#name "_forward", "name##_forward", "made from its pair of expressions"}, \
        {#name "_backward", "name##_backward", "likewise"},
    SM_ACTIVATION_PAIRS(X)
#undef X
};

static bool has_source(sm_op_kind kind) {
    const char *name = sm_op_name(kind);
    char text[96];
    for (size_t i = 0; i < sizeof named_otherwise / sizeof named_otherwise[0]; i++) {
        name = strcmp(name, named_otherwise[i].kind) == 0 ? named_otherwise[i].kernel : name;
    }
    for (int i = 0; i < 2 * sm_embedded_count(); i++) {
        const sm_embedded *file = sm_embedded_at(i / 2);
        const int n = snprintf(text, sizeof text, "void%c%s", i % 2 == 0 ? ' ' : '\n', name);
        if (strncmp(file->path, "cl/", 3) == 0 && memmem(file->text, file->size_bytes, text, (size_t)n) != NULL) {
            return true;
        }
    }
    return false;
}

// Each kind has the facts that the compiler does not ask for; the message names the kind.
static void check_kind(const sm_device *cpu, sm_op_kind kind) {
    const sm_op_info *info = sm_op_get_info(kind);
    const sm_op op = sm_op_make(kind, SM_PHASE_FORWARD, -1);
    const sm_plan fp32 = {.dtype = SM_F32, .real = SM_F32};
    const sm_plan bf16 = {.dtype = SM_BF16, .real = SM_F32};
    FAIL_IF(is_empty(info->equation) || is_empty(info->source), "%s has no equation or no source in include/op_table.h",
            info->name);
    FAIL_IF(strlen(info->equation) >= SM_EQUATION_SIZE, "%s has an equation of %zu characters", info->name,
            strlen(info->equation));
    FAIL_IF(!file_has("docs/equations.md", "\n## %s\n\n", info->name), "%s has no equations in docs/equations.md",
            info->name);
    if (sm_op_is_communication(kind)) { // done by the session, with other processes
        return;
    }
    FAIL_IF(sm_op_case_count(kind) == 0, "%s has no cases in src/verify/op_cases.c", info->name);
    for (sm_attr attr = 0; attr < SM_ATTR_COUNT; attr++) {
        FAIL_IF(sm_op_has_attr(kind, attr) && attr != SM_ATTR_when && !has_case_with(kind, attr),
                "%s has no case in src/verify/op_cases.c with its attribute %s", info->name,
                sm_attr_get_info(attr)->name);
    }
    if (sm_op_case_is_fp8(kind, "")) { // the cpu has no such products, nor does the page
        FAIL_IF(!has_source(kind), "%s has no kernel in cl", info->name);
        return;
    }
    FAIL_IF(!file_has("learn/page/view/step_rules.js", "\n        %s: ", info->name),
            "%s has no rule in learn/page/view/step_rules.js", info->name);
    FAIL_IF(!has_source(kind), "%s has no kernel in cl", info->name);
    FAIL_IF(cpu->backend->supports(cpu, &fp32, &op) != SM_OK || cpu->backend->supports(cpu, &bf16, &op) != SM_OK,
            "%s; see backends/cpu/kernels/table.c", sm_error_message());
}

TEST(every_kind_is_complete) {
    SM_OWN(sm_device) *cpu = open_backend("cpu", 1);
    for (int kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        check_kind(cpu, (sm_op_kind)kind);
    }
}
