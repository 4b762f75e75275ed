// own_kernel.c: the arguments of a user's kernel, from op kinds: one list makes the struct, its signature and values.
#include "philox.h"
#include "src/plan/own_members.h"

// --- the list --------------------------------------------------------------------------------------

static bool is(const char *name, size_t length, const char *word) {
    return strlen(word) == length && memcmp(name, word, length) == 0;
}

static bool has(const own_members *m, const char *name, size_t length) {
    for (int i = 0; i < m->n; i++) {
        if (is(name, length, m->list[i].name)) {
            return true;
        }
    }
    return false;
}

// Adds a member once: NH is a letter of some kinds and an attribute of others.
static void add(own_members *m, const char *name, size_t length, own_member_type type, int index) {
    if (m->n < SM_OWN_MAX_MEMBERS && length < sizeof m->list[0].name && !has(m, name, length)) {
        own_member *fresh = &m->list[m->n++];
        *fresh = (own_member){.type = type, .index = index};
        memcpy(fresh->name, name, length);
    }
}

// The letters of a shape, except h and s (of hyper and the scaler's state) and blocks such as "n/256".
static void add_letters(own_members *m, const char *shape) {
    sm_shape_dim dim;
    while (sm_shape_next(&shape, &dim)) {
        const bool is_fixed = dim.length == 1 && strchr("hs", *dim.letters) != NULL;
        if (dim.length > 0 && !is_fixed && dim.block == 1) {
            add(m, dim.letters, dim.length, OWN_DIMENSION, 0);
        }
    }
}

// A kernel does not see epilogues, which its operands imply, nor that a matmul's last columns are padding.
static void add_attribute(own_members *m, sm_op_kind kind, sm_attr attr) {
    const sm_attr_info *info = sm_attr_get_info(attr);
    const size_t length = strlen(info->letter);
    if (attr == SM_ATTR_dropout_p) {
        add(m, "keep", 4, OWN_KEEP, 0);
        add(m, "rng", 3, OWN_RNG, 0);
        return;
    }
    switch (info->type) {
    case SM_ATTR_INTEGER:
        if (attr != SM_ATTR_vocab || !sm_op_is_matmul(kind)) {
            add(m, info->letter, length, OWN_INTEGER, (int)attr);
        }
        break;
    case SM_ATTR_SWITCH: add(m, info->letter, length, OWN_INTEGER, (int)attr); break;
    case SM_ATTR_REAL: add(m, info->letter, length, OWN_REAL, (int)attr); break;
    case SM_ATTR_EPILOGUE:
    case SM_ATTR_KEY: break;
    }
    if (attr == SM_ATTR_n_kv_head) {
        add(m, "HS", 2, OWN_HEAD_SIZE, 0);
    }
}

// The kernel reads `rng_step` through `rng`, and its factors are never bytes with scales.
static bool is_hidden(const sm_operand_info *operand) {
    return strcmp(operand->name, "rng_step") == 0 || sm_ends_with(operand->name, "_scale");
}

own_members own_members_of(sm_op_kind kind) {
    const sm_op_info *info = sm_op_get_info(kind);
    own_members m = {.n = 0};
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        if (info->operands[k].name != NULL && !is_hidden(&info->operands[k])) {
            add_letters(&m, info->operands[k].shape);
        }
    }
    for (sm_attr attr = 0; attr < SM_ATTR_COUNT; attr++) {
        if (sm_op_has_attr(kind, attr) && attr != SM_ATTR_fp8) {
            add_attribute(&m, kind, attr);
        }
    }
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        const char *name = info->operands[k].name;
        const bool is_input = k < SM_MAX_IN;
        if (name != NULL && !is_hidden(&info->operands[k])) {
            add(&m, name, strlen(name), is_input ? OWN_INPUT : OWN_OUTPUT, is_input ? k : k - SM_MAX_IN);
        }
    }
    add(&m, "thread", 6, OWN_THREAD, 0);
    add(&m, "n_threads", 9, OWN_THREAD, 0);
    return m;
}

// --- values ----------------------------------------------------------------------------------------

static float keep(const void *rng, int64_t element) {
    const sm_own_rng *r = rng;
    if (r->p == 0) {
        return 1;
    }
    const bool kept = sm_dropout_keeps(r->key, r->step, (uint64_t)element, sm_dropout_threshold(r->p));
    return kept ? (float)(1 / (1 - r->p)) : 0;
}

void sm_own_args_fill(const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN], void *const out[SM_MAX_OUT],
                      sm_own_args *args) {
    const own_members m = own_members_of(op->kind);
    args->n_members = m.n;
    const int rng_step = sm_op_find_in(op->kind, "rng_step");
    const uint32_t *step = rng_step != SM_NO_OPERAND ? in[rng_step] : NULL;
    args->rng = (sm_own_rng){.key = op->attr.rng_key,
                             .p = step != NULL ? op->attr.dropout_p : 0,
                             .step = step != NULL ? step[0] | (uint64_t)step[1] << 32 : 0};
    for (int i = 0; i < m.n; i++) {
        const own_member *from = &m.list[i];
        sm_own_member *to = &args->members[i];
        switch (from->type) {
        case OWN_DIMENSION: to->integer = sm_op_dimension(plan, op, from->name); break;
        case OWN_HEAD_SIZE:
            to->integer = sm_op_dimension(plan, op, "QKV") / (op->attr.n_head + 2 * (int64_t)op->attr.n_kv_head);
            break;
        case OWN_INTEGER: to->integer = (int64_t)sm_attr_get(&op->attr, (sm_attr)from->index); break;
        case OWN_REAL: to->real = sm_attr_get(&op->attr, (sm_attr)from->index); break;
        case OWN_INPUT: to->in = in[from->index]; break;
        case OWN_OUTPUT: to->out = out[from->index]; break;
        case OWN_KEEP:
        case OWN_RNG:
        case OWN_THREAD: break;
        }
    }
    sm_own_args_bind(op->kind, args);
    sm_own_args_set_thread(args, 0, 1);
}

void sm_own_args_bind(sm_op_kind kind, sm_own_args *args) {
    const own_members m = own_members_of(kind);
    for (int i = 0; i < m.n; i++) {
        if (m.list[i].type == OWN_KEEP) {
            args->members[i].keep = keep;
        } else if (m.list[i].type == OWN_RNG) {
            args->members[i].in = &args->rng;
        }
    }
}

int sm_own_member_index(sm_op_kind kind, const char *name) {
    const own_members m = own_members_of(kind);
    for (int i = 0; i < m.n; i++) {
        if (strcmp(m.list[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

// --- text ------------------------------------------------------------------------------------------

void own_signature(sm_op_kind kind, sm_own_language language, char text[SM_OWN_SIGNATURE_SIZE]) {
    const own_members m = own_members_of(kind);
    const bool is_c = language == SM_OWN_C;
    snprintf(text, SM_OWN_SIGNATURE_SIZE, "%s%d", is_c ? "" : "cl ", SM_OWN_KERNEL_VERSION);
    for (int i = 0; i < m.n; i++) {
        if (is_c || !own_is_of_c_alone(m.list[i].type)) {
            sm_append(text, SM_OWN_SIGNATURE_SIZE, " %s",
                      is_c || m.list[i].type != OWN_RNG ? m.list[i].name : "DROPOUT");
        }
    }
}

void sm_own_kernel_signature(sm_op_kind kind, char text[SM_OWN_SIGNATURE_SIZE]) { own_signature(kind, SM_OWN_C, text); }

static const char *const c_types[] = {
    [SM_OPERAND_DATA] = "float",   [SM_OPERAND_REAL] = "float", [SM_OPERAND_I32] = "int32_t",
    [SM_OPERAND_U32] = "uint32_t", [SM_OPERAND_U8] = "uint8_t", [SM_OPERAND_FP8] = "uint8_t"};

static const char *const output_meanings[] = {[SM_WRITES] = "  written: what it held does not count",
                                              [SM_ADDS] = "  added to: it holds a sum already",
                                              [SM_UPDATES] = "  read and written"};

const sm_operand_info *own_operand_of(const sm_op_info *info, const own_member *m) {
    return m->type == OWN_INPUT ? &info->in[m->index] : m->type == OWN_OUTPUT ? &info->out[m->index] : NULL;
}

void own_print_meaning(const sm_op_info *info, const own_member *m, FILE *out) {
    const sm_operand_info *operand = own_operand_of(info, m);
    if (m->type == OWN_HEAD_SIZE) {
        fputs("channels of a head\n", out);
        return;
    }
    if (operand == NULL) {
        const sm_attr_info *attr = sm_attr_get_info((sm_attr)m->index);
        fprintf(out, "%s%s\n", attr->type == SM_ATTR_SWITCH ? "1: " : "", attr->text);
        return;
    }
    fprintf(out, "%s%s%s%s", operand->shape, operand->flags & SM_TRANSPOSABLE ? ", exchanged where w_transposed" : "",
            m->type == OWN_OUTPUT ? output_meanings[operand->mode] : "",
            operand->flags & SM_OPTIONAL ? "; NULL where it is left out" : "");
    if (m->type == OWN_OUTPUT && m->index == sm_op_inplace_out(info) && info->inplace_in != SM_NO_OPERAND) {
        fprintf(out, "; may lie where %s lies", info->in[info->inplace_in].name);
    }
    fputc('\n', out);
}

// "const float *x"
static void declare(const sm_op_info *info, const own_member *m, char *text, size_t size_bytes) {
    const sm_operand_info *operand = own_operand_of(info, m);
    if (operand != NULL) {
        snprintf(text, size_bytes, "%s%s *%s", m->type == OWN_INPUT ? "const " : "", c_types[operand->type], m->name);
    } else {
        snprintf(text, size_bytes, "%s %s", m->type == OWN_REAL ? "double" : "int64_t", m->name);
    }
}

static void print_member(const sm_op_info *info, const own_member *m, FILE *out) {
    char declared[64];
    char left[sizeof declared + 1];
    declare(info, m, declared, sizeof declared);
    snprintf(left, sizeof left, "%s;", declared);
    switch (m->type) {
    case OWN_DIMENSION:
    case OWN_THREAD: fprintf(out, "    %s\n", left); return;
    case OWN_KEEP:
        fputs("    float (*keep)(const void *rng, int64_t element); // dropout: what it multiplies that element by\n",
              out);
        return;
    case OWN_RNG: fputs("    const void *rng;\n", out); return;
    default: fprintf(out, "    %-24s // ", left); own_print_meaning(info, m, out);
    }
}

void own_print_places(sm_op_kind kind, FILE *out) {
    if (sm_op_find_in(kind, "hyper") != SM_NO_OPERAND) { // in the order of sm_hyper (plan.h)
        fputs("// Places in hyper.\n"
              "enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, BIAS_CORRECTION1, BIAS_CORRECTION2, GRAD_CLIP, LOSS_SCALE,\n"
              "       MOMENTUM, NESTEROV, RELATIVE_STEP, EPS2, UPDATE_RMS, SCALE_GROWTH, SCALE_BACKOFF, "
              "SCALE_INTERVAL };\n\n",
              out);
    }
}

void sm_own_kernel_header(sm_op_kind kind, FILE *out) {
    const sm_op_info *info = sm_op_get_info(kind);
    const own_members m = own_members_of(kind);
    char signature[SM_OWN_SIGNATURE_SIZE];
    sm_own_kernel_signature(kind, signature);
    fprintf(out, "typedef struct {\n");
    for (int i = 0; i < m.n; i++) {
        print_member(info, &m.list[i], out);
    }
    fprintf(out, "} %s_args;\n\n", info->name);
    own_print_places(kind, out);
    fprintf(out, "const char %s_signature[] = \"%s\";\n", info->name, signature);
}

void sm_own_kernel_unpack(sm_op_kind kind, FILE *out) {
    const sm_op_info *info = sm_op_get_info(kind);
    const own_members m = own_members_of(kind);
    for (int i = 0; i < m.n; i++) {
        char declared[64];
        declare(info, &m.list[i], declared, sizeof declared);
        if (m.list[i].type != OWN_RNG && !own_is_of_c_alone(m.list[i].type)) {
            fprintf(out, "    %s%s = args->%s;\n", own_operand_of(info, &m.list[i]) == NULL ? "const " : "", declared,
                    m.list[i].name);
        }
    }
}
