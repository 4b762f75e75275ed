// own_opencl.c: a user's kernel in OpenCL C: its parameters, and the two definitions in its source.
#include <ctype.h>

#include "src/plan/own_members.h"

enum { LINE_SIZE = 128 };

// --- parameters ------------------------------------------------------------------------------------

static void fill_args(const sm_plan *plan, const sm_op *op, sm_own_args *args) {
    void *const in[SM_MAX_IN] = {NULL};
    void *const out[SM_MAX_OUT] = {NULL};
    sm_own_args_fill(plan, op, in, out, args);
}

int sm_own_opencl_parameters(const sm_plan *plan, const sm_op *op, sm_own_parameter list[SM_OWN_MAX_PARAMETERS]) {
    const own_members m = own_members_of(op->kind);
    sm_own_args args;
    int n = 0;
    fill_args(plan, op, &args);
    for (int i = 0; i < m.n; i++) {
        const own_member *from = &m.list[i];
        const sm_own_member *value = &args.members[i];
        switch (from->type) {
        case OWN_DIMENSION:
        case OWN_HEAD_SIZE:
        case OWN_INTEGER: list[n++] = (sm_own_parameter){.type = SM_OWN_LONG, .integer = value->integer}; break;
        case OWN_REAL: list[n++] = (sm_own_parameter){.type = SM_OWN_FLOAT, .real = value->real}; break;
        case OWN_RNG:
            list[n++] = (sm_own_parameter){.type = SM_OWN_DROPOUT, .tensor = sm_op_tensor(op, "rng_step")};
            break;
        case OWN_INPUT: list[n++] = (sm_own_parameter){.type = SM_OWN_TENSOR, .tensor = op->in[from->index]}; break;
        case OWN_OUTPUT: list[n++] = (sm_own_parameter){.type = SM_OWN_TENSOR, .tensor = op->out[from->index]}; break;
        case OWN_KEEP:
        case OWN_THREAD: break;
        }
    }
    return n;
}

// --- the two lines ---------------------------------------------------------------------------------

// The text of `#define KIND_end "TEXT"`. False: the line is missing or too long.
static bool find_line(sm_op_kind kind, const char *end, const char *source, char *text, size_t size_bytes) {
    char begin[LINE_SIZE];
    snprintf(begin, sizeof begin, "#define %s_%s \"", sm_op_name(kind), end);
    const char *line = strstr(source, begin);
    const char *value = line == NULL ? "" : line + strlen(begin);
    const size_t length = strcspn(value, "\"\n");
    if (line == NULL || value[length] != '"' || length >= size_bytes) {
        return false;
    }
    memcpy(text, value, length);
    text[length] = '\0';
    return true;
}

sm_status sm_own_opencl_check(sm_op_kind kind, const char *source, const char *name) {
    char expected[SM_OWN_SIGNATURE_SIZE];
    char found[SM_OWN_SIGNATURE_SIZE];
    char items[LINE_SIZE];
    const char *op = sm_op_name(kind);
    own_signature(kind, SM_OWN_OPENCL, expected);
    SM_FAIL_IF(
        !find_line(kind, "signature", source, found, sizeof found), SM_ERR_FORMAT,
        "%s: the line #define %s_signature \"%s\" is missing; add it (`stepmark exercise` and docs/adding.md show how)",
        name, op, expected);
    SM_FAIL_IF(strcmp(found, expected) != 0, SM_ERR_FORMAT,
               "%s: %s was written for the parameters \"%s\", but they are \"%s\"; adapt the kernel and its signature",
               name, op, found, expected);
    SM_FAIL_IF(!find_line(kind, "items", source, items, sizeof items), SM_ERR_FORMAT,
               "%s: the line #define %s_items \"...\" is missing; add it with the number of work-items", name, op);
    return SM_OK;
}

// --- numbers of work-items -------------------------------------------------------------------------

typedef struct {
    sm_op_kind kind;
    const sm_own_args *args;
    const char *at;
    bool failed;
} parser;

static int64_t read_sum(parser *p, int depth);

static void skip_spaces(parser *p) { p->at += strspn(p->at, " "); }

static bool take(parser *p, char word) {
    skip_spaces(p);
    const bool found = *p->at == word;
    p->at += found;
    return found;
}

// The value of a letter or an attribute.
static int64_t read_name(parser *p) {
    const own_members m = own_members_of(p->kind);
    size_t length = 0;
    while (isalnum((unsigned char)p->at[length]) || p->at[length] == '_') {
        length++;
    }
    for (int i = 0; i < m.n; i++) {
        const own_member *of = &m.list[i];
        if (strlen(of->name) == length && strncmp(of->name, p->at, length) == 0 &&
            (of->type == OWN_DIMENSION || of->type == OWN_HEAD_SIZE || of->type == OWN_INTEGER)) {
            p->at += length;
            return p->args->members[i].integer;
        }
    }
    p->failed = true;
    return 1;
}

static int64_t read_factor(parser *p, int depth) {
    enum { MOST_DEPTH = 8 };
    if (take(p, '(')) {
        const int64_t value = depth < MOST_DEPTH ? read_sum(p, depth + 1) : 1;
        p->failed |= depth >= MOST_DEPTH || !take(p, ')');
        return value;
    }
    if (isdigit((unsigned char)*p->at)) {
        char *end = NULL;
        const long value = strtol(p->at, &end, 10);
        p->failed |= end - p->at > 9;
        p->at = end;
        return value;
    }
    return read_name(p);
}

static int64_t read_product(parser *p, int depth) {
    int64_t value = read_factor(p, depth);
    while (!p->failed) {
        if (take(p, '*')) {
            p->failed |= __builtin_mul_overflow(value, read_factor(p, depth), &value);
        } else if (take(p, '/')) {
            const int64_t by = read_factor(p, depth);
            p->failed |= by < 1;
            value = by < 1 ? 1 : value / by + (value % by > 0);
        } else {
            break;
        }
    }
    return value;
}

static int64_t read_sum(parser *p, int depth) {
    int64_t value = read_product(p, depth);
    while (!p->failed) {
        if (take(p, '+')) {
            p->failed |= __builtin_add_overflow(value, read_product(p, depth), &value);
        } else if (take(p, '-')) {
            p->failed |= __builtin_sub_overflow(value, read_product(p, depth), &value);
        } else {
            break;
        }
    }
    return value;
}

// "F, N": one value or two. Returns their number.
static int read_list(parser *p, int64_t values[2]) {
    int n = 0;
    do {
        if (n == 2) {
            p->failed = true;
            break;
        }
        values[n] = read_sum(p, 0);
        p->failed |= values[n] < 1;
        n++;
    } while (!p->failed && take(p, ','));
    return n;
}

sm_status sm_own_opencl_work(const sm_plan *plan, const sm_op *op, const sm_own_kernel *kernel, sm_own_work *work) {
    char text[LINE_SIZE] = "";
    sm_own_args args;
    parser p = {.kind = op->kind, .args = &args, .at = text};
    *work = (sm_own_work){.items = {1, 1}, .group = {1, 1}};
    fill_args(plan, op, &args);
    p.failed = !find_line(op->kind, "items", kernel->source, text, sizeof text);
    work->n_dims = read_list(&p, work->items);
    skip_spaces(&p);
    if (strncmp(p.at, "by ", 3) == 0) {
        p.at += 3;
        p.failed |= read_list(&p, work->group) != work->n_dims;
    } else {
        work->group[0] = work->n_dims == 1 ? 64 : 8;
        work->group[1] = work->n_dims == 1 ? 1 : 8;
    }
    skip_spaces(&p);
    SM_FAIL_IF(p.failed || *p.at != '\0', SM_ERR_FORMAT,
               "%s: %s_items: \"%s\" is no number of work-items: write one or two, as in \"N\" or \"F/4, N by 16, 4\", "
               "of the kernel's letters, whole numbers, + - * /; each at least 1",
               kernel->name, sm_op_name(op->kind), text);
    return SM_OK;
}

// --- text ------------------------------------------------------------------------------------------

static const char *const cl_types[] = {
    [SM_OPERAND_DATA] = "float", [SM_OPERAND_REAL] = "float", [SM_OPERAND_I32] = "int",
    [SM_OPERAND_U32] = "uint",   [SM_OPERAND_U8] = "uchar",   [SM_OPERAND_FP8] = "uchar"};

static void print_parameter(const sm_op_info *info, const own_member *m, const char *end, FILE *out) {
    const sm_operand_info *operand = own_operand_of(info, m);
    char left[SM_NAME_SIZE * 2] = "";
    switch (m->type) {
    case OWN_DIMENSION: fprintf(out, "    const long %s%s\n", m->name, end); return;
    case OWN_HEAD_SIZE:
    case OWN_INTEGER: snprintf(left, sizeof left, "const long %s%s", m->name, end); break;
    case OWN_REAL: snprintf(left, sizeof left, "const float %s%s", m->name, end); break;
    case OWN_RNG:
        fprintf(out, "    DROPOUT%s // KEEP(element) is what dropout multiplies that element by\n", end);
        return;
    case OWN_INPUT:
    case OWN_OUTPUT:
        snprintf(left, sizeof left, "global %s%s *%s, const ulong %s_at%s", m->type == OWN_INPUT ? "const " : "",
                 cl_types[operand->type], m->name, m->name, end);
        break;
    case OWN_KEEP:
    case OWN_THREAD: return;
    }
    fprintf(out, "    %-48s // ", left);
    own_print_meaning(info, m, out);
}

void sm_own_opencl_skeleton(sm_op_kind kind, FILE *out) {
    const sm_op_info *info = sm_op_get_info(kind);
    const own_members m = own_members_of(kind);
    char signature[SM_OWN_SIGNATURE_SIZE];
    int last = m.n - 1;
    while (own_is_of_c_alone(m.list[last].type)) {
        last--;
    }
    own_signature(kind, SM_OWN_OPENCL, signature);
    own_print_places(kind, out);
    fprintf(out, "#define %s_signature \"%s\"\n\n", info->name, signature);
    fprintf(
        out,
        "// How many work-items, by dimension (one or two), of the letters below, numbers, + - * and / (rounded up).\n"
        "// After `by`: how many make a work-group. They are rounded up to whole groups: some have nothing to do.\n"
        "#define %s_items \"%s by 64\"\n\n",
        info->name, m.list[0].name);
    fprintf(out, "kernel void %s(\n", info->name);
    for (int i = 0; i <= last; i++) {
        print_parameter(info, &m.list[i], i < last ? "," : ")", out);
    }
    fputs("{\n", out);
    for (int i = 0; i <= last; i++) {
        if (own_operand_of(info, &m.list[i]) != NULL) { // a tensor begins at an offset in its buffer
            fprintf(out, "    %s += %s_at;\n", m.list[i].name, m.list[i].name);
        }
    }
    fputs("    const long i = get_global_id(0);\n\n    // Your code.\n}\n", out);
}
