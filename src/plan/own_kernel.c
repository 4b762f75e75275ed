// own_kernel.c: the arguments of a user's kernel, from the table of op kinds: their names and their values. One list of
// members is behind the struct, its signature and what is put into it.
#include <string.h>

#include "own_members.h"
#include "philox.h"

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

// Once only: NH is a letter of some kinds and an attribute of others.
static void add(own_members *m, const char *name, size_t length, own_member_type type, int operand) {
    if (m->n < SM_OWN_MAX_MEMBERS && length < sizeof m->list[0].name && !has(m, name, length)) {
        own_member *fresh = &m->list[m->n++];
        *fresh = (own_member){.type = type, .operand = operand};
        memcpy(fresh->name, name, length);
    }
}

// The letters of a shape, but for h and s, of hyper and of the scaler's state, and for blocks: "n/256".
static void add_letters(own_members *m, const char *shape) {
    for (const char *part = shape + 1; *part != '\0'; part += strcspn(part, ",)") + 1) {
        const char *letter = part + strspn(part, "0123456789");
        const size_t length = strcspn(letter, ",)");
        const bool is_fixed = length == 1 && (*letter == 'h' || *letter == 's');
        if (length > 0 && !is_fixed && memchr(letter, '/', length) == NULL) {
            add(m, letter, length, OWN_DIMENSION, 0);
        }
    }
}

// The attributes of a kind by name, with a space behind each; `keep` is two members.
static const char *attributes_of(sm_op_kind kind) {
    switch (kind) {
    case SM_OP_LAYERNORM_FORWARD:
    case SM_OP_RMSNORM_FORWARD:
    case SM_OP_RESIDUAL_LAYERNORM_FORWARD:
    case SM_OP_RESIDUAL_RMSNORM_FORWARD: return "eps ";
    case SM_OP_ATTENTION_FORWARD:
    case SM_OP_ATTENTION_BACKWARD:
    case SM_OP_BLOCKED_ATTENTION_FORWARD:
    case SM_OP_BLOCKED_ATTENTION_BACKWARD:
    case SM_OP_FLASH_ATTENTION_FORWARD:
    case SM_OP_FLASH_ATTENTION_BACKWARD: return "NH NKV HS keep ";
    case SM_OP_DROPOUT: return "keep ";
    case SM_OP_ROPE: return "NH NKV HS theta inverse ";
    case SM_OP_MATMUL_FORWARD:
    case SM_OP_MATMUL_BACKWARD_INPUT: return "w_transposed ";
    case SM_OP_MATMUL_BACKWARD_WEIGHT: return "w_transposed overwrites ";
    case SM_OP_CROSSENTROPY_FORWARD:
    case SM_OP_CROSSENTROPY_BACKWARD: return "V ";
    case SM_OP_ADAMW:
    case SM_OP_ADAM:
    case SM_OP_SGD:
    case SM_OP_LION:
    case SM_OP_ADAMW8BIT:
    case SM_OP_ADAFACTOR: return "decay ";
    case SM_OP_NORMALIZE: return "w_transposed ";
    case SM_OP_MUON_UPDATE: return "w_transposed decay ";
    case SM_OP_COMBINE: return "a b ";
    default: return "";
    }
}

static void add_attributes(own_members *m, sm_op_kind kind) {
    for (const char *name = attributes_of(kind); *name != '\0'; name += strcspn(name, " ") + 1) {
        const size_t length = strcspn(name, " ");
        const bool is_real =
            is(name, length, "eps") || is(name, length, "theta") || is(name, length, "a") || is(name, length, "b");
        if (is(name, length, "keep")) {
            add(m, "keep", 4, OWN_KEEP, 0);
            add(m, "rng", 3, OWN_RNG, 0);
        } else {
            add(m, name, length, is_real ? OWN_REAL : OWN_INTEGER, 0);
        }
    }
}

// `rng_step` is behind `rng`, and not a member.
static bool is_hidden(const sm_operand_info *operand) { return strcmp(operand->name, "rng_step") == 0; }

own_members own_members_of(sm_op_kind kind) {
    const sm_op_info *info = sm_op_get_info(kind);
    own_members m = {.n = 0};
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        if (!is_hidden(&info->in[i])) {
            add_letters(&m, info->in[i].shape);
        }
    }
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        add_letters(&m, info->out[i].shape);
    }
    add_attributes(&m, kind);
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        if (!is_hidden(&info->in[i])) {
            add(&m, info->in[i].name, strlen(info->in[i].name), OWN_INPUT, i);
        }
    }
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        add(&m, info->out[i].name, strlen(info->out[i].name), OWN_OUTPUT, i);
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

static int64_t integer_of(const sm_plan *plan, const sm_op *op, const char *name) {
    const sm_attrs *a = &op->attr;
    const struct {
        const char *name;
        int64_t value;
    } values[] = {
        {"NH", a->n_head},
        {"NKV", a->n_kv_head},
        {"HS", a->n_head > 0 ? sm_op_dimension(plan, op, "QKV") / (a->n_head + 2 * (int64_t)a->n_kv_head) : 0},
        {"inverse", a->inverse},
        {"V", a->vocab},
        {"w_transposed", a->w_transposed},
        {"overwrites", a->overwrites},
        {"decay", a->decay},
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        if (strcmp(values[i].name, name) == 0) {
            return values[i].value;
        }
    }
    return 0;
}

static double real_of(const sm_attrs *a, const char *name) {
    switch (name[0]) {
    case 'e': return a->eps;
    case 't': return a->rope_theta;
    case 'a': return a->a;
    default: return a->b;
    }
}

static sm_own_rng rng_of(const sm_op *op, void *const in[SM_MAX_IN]) {
    const sm_op_info *info = sm_op_get_info(op->kind);
    sm_own_rng rng = {.key = op->attr.rng_key};
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        const uint32_t *step = in[i];
        if (is_hidden(&info->in[i]) && step != NULL) {
            rng.p = op->attr.dropout_p;
            rng.step = step[0] | (uint64_t)step[1] << 32;
        }
    }
    return rng;
}

void sm_own_args_fill(const sm_plan *plan, const sm_op *op, void *const in[SM_MAX_IN], void *const out[SM_MAX_OUT],
                      sm_own_args *args) {
    const own_members m = own_members_of(op->kind);
    args->n_members = m.n;
    args->rng = rng_of(op, in);
    for (int i = 0; i < m.n; i++) {
        const own_member *from = &m.list[i];
        sm_own_member *to = &args->members[i];
        switch (from->type) {
        case OWN_DIMENSION: to->integer = sm_op_dimension(plan, op, from->name); break;
        case OWN_INTEGER: to->integer = integer_of(plan, op, from->name); break;
        case OWN_REAL: to->real = real_of(&op->attr, from->name); break;
        case OWN_KEEP: to->keep = keep; break;
        case OWN_RNG: to->in = &args->rng; break;
        case OWN_INPUT: to->in = in[from->operand]; break;
        case OWN_OUTPUT: to->out = out[from->operand]; break;
        case OWN_THREAD: break;
        }
    }
    sm_own_args_set_thread(args, 0, 1);
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

void sm_own_kernel_signature(sm_op_kind kind, char text[SM_OWN_SIGNATURE_SIZE]) {
    const own_members m = own_members_of(kind);
    int used = snprintf(text, SM_OWN_SIGNATURE_SIZE, "%d", SM_OWN_KERNEL_VERSION);
    for (int i = 0; i < m.n && used < SM_OWN_SIGNATURE_SIZE; i++) {
        used += snprintf(text + used, (size_t)(SM_OWN_SIGNATURE_SIZE - used), " %s", m.list[i].name);
    }
}

static const char *c_type(sm_operand_type type) {
    switch (type) {
    case SM_OPERAND_DATA:
    case SM_OPERAND_REAL: return "float";
    case SM_OPERAND_I32: return "int32_t";
    case SM_OPERAND_U32: return "uint32_t";
    case SM_OPERAND_U8: return "uint8_t";
    }
    return "";
}

static const char *meaning_of(const char *attribute) {
    static const char *const meanings[][2] = {
        {"eps", "added to the variance"},
        {"NH", "heads"},
        {"NKV", "heads of keys and values; NH / NKV heads of queries, side by side, share one"},
        {"HS", "channels of a head"},
        {"theta", "base of the angles"},
        {"inverse", "1: angles of the other sign"},
        {"V", "columns that count; those from V to Vp are padding"},
        {"w_transposed", "1: the matrix is stored with rows and columns exchanged"},
        {"overwrites", "1: dW = x^T dy, whatever dW held"},
        {"decay", "1: these weights decay"},
        {"a", "factor"},
        {"b", "factor"},
    };
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (strcmp(meanings[i][0], attribute) == 0) {
            return meanings[i][1];
        }
    }
    return "";
}

static const char *output_meaning(const sm_operand_info *operand) {
    switch (operand->mode) {
    case SM_WRITES: return "written: what it held does not count";
    case SM_ADDS: return "added to: it holds a sum already";
    case SM_UPDATES: return "read and written";
    }
    return "";
}

const sm_operand_info *own_operand_of(const sm_op_info *info, const own_member *m) {
    return m->type == OWN_INPUT ? &info->in[m->operand] : m->type == OWN_OUTPUT ? &info->out[m->operand] : NULL;
}

void own_print_meaning(const sm_op_info *info, const own_member *m, FILE *out) {
    const sm_operand_info *operand = own_operand_of(info, m);
    if (operand == NULL) {
        fprintf(out, "%s\n", meaning_of(m->name));
        return;
    }
    fprintf(out, "%s%s%s%s%s", operand->shape, operand->flags & SM_TRANSPOSABLE ? ", exchanged where w_transposed" : "",
            m->type == OWN_OUTPUT ? "  " : "", m->type == OWN_OUTPUT ? output_meaning(operand) : "",
            operand->flags & SM_OPTIONAL ? "; NULL where it is left out" : "");
    if (m->type == OWN_OUTPUT && m->operand == 0 && info->inplace_in != SM_NO_OPERAND) {
        fprintf(out, "; may lie where %s lies", info->in[info->inplace_in].name);
    }
    fputc('\n', out);
}

static void print_member(const sm_op_info *info, const own_member *m, FILE *out) {
    char left[64] = "";
    const sm_operand_info *operand = own_operand_of(info, m);
    switch (m->type) {
    case OWN_DIMENSION:
    case OWN_THREAD: fprintf(out, "    int64_t %s;\n", m->name); return;
    case OWN_INTEGER: snprintf(left, sizeof left, "int64_t %s;", m->name); break;
    case OWN_REAL: snprintf(left, sizeof left, "double %s;", m->name); break;
    case OWN_KEEP:
        fputs("    float (*keep)(const void *rng, int64_t element); // dropout: what it multiplies that element by\n",
              out);
        return;
    case OWN_RNG: fputs("    const void *rng;\n", out); return;
    case OWN_INPUT: snprintf(left, sizeof left, "const %s *%s;", c_type(operand->type), m->name); break;
    case OWN_OUTPUT: snprintf(left, sizeof left, "%s *%s;", c_type(operand->type), m->name); break;
    }
    fprintf(out, "    %-24s // ", left);
    own_print_meaning(info, m, out);
}

static bool reads_hyper(const sm_op_info *info) {
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        if (strcmp(info->in[i].name, "hyper") == 0) {
            return true;
        }
    }
    return false;
}

void own_print_places(const sm_op_info *info, FILE *out) {
    if (reads_hyper(info)) { // in the order of sm_hyper (plan.h)
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
    own_print_places(info, out);
    fprintf(out, "const char %s_signature[] = \"%s\";\n", info->name, signature);
}

void sm_own_kernel_unpack(sm_op_kind kind, FILE *out) {
    const sm_op_info *info = sm_op_get_info(kind);
    const own_members m = own_members_of(kind);
    for (int i = 0; i < m.n; i++) {
        const own_member *from = &m.list[i];
        const char *name = from->name;
        switch (from->type) {
        case OWN_DIMENSION:
        case OWN_INTEGER: fprintf(out, "    const int64_t %s = args->%s;\n", name, name); break;
        case OWN_REAL: fprintf(out, "    const double %s = args->%s;\n", name, name); break;
        case OWN_INPUT:
            fprintf(out, "    const %s *%s = args->%s;\n", c_type(info->in[from->operand].type), name, name);
            break;
        case OWN_OUTPUT:
            fprintf(out, "    %s *%s = args->%s;\n", c_type(info->out[from->operand].type), name, name);
            break;
        case OWN_KEEP:
        case OWN_RNG:
        case OWN_THREAD: break;
        }
    }
}
