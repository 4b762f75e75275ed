// own_kernel.c: the arguments of a user's kernel, from the table of op kinds: their names and their values. One list of
// members is behind the struct, its signature and what is put into it.
#include "own_kernel.h"

#include <string.h>

#include "philox.h"

typedef enum { DIMENSION, INTEGER, REAL, KEEP, RNG, INPUT, OUTPUT, THREAD } member_type;

typedef struct {
    char name[16];
    member_type type;
    int operand; // INPUT, OUTPUT: its index
} member;

typedef struct {
    member list[SM_OWN_MAX_MEMBERS];
    int n;
} members;

// --- the list --------------------------------------------------------------------------------------

static bool is(const char *name, size_t length, const char *word) {
    return strlen(word) == length && memcmp(name, word, length) == 0;
}

static bool has(const members *m, const char *name, size_t length) {
    for (int i = 0; i < m->n; i++) {
        if (is(name, length, m->list[i].name)) {
            return true;
        }
    }
    return false;
}

// Once only: NH is a letter of some kinds and an attribute of others.
static void add(members *m, const char *name, size_t length, member_type type, int operand) {
    if (m->n < SM_OWN_MAX_MEMBERS && length < sizeof m->list[0].name && !has(m, name, length)) {
        member *fresh = &m->list[m->n++];
        *fresh = (member){.type = type, .operand = operand};
        memcpy(fresh->name, name, length);
    }
}

// The letters of a shape, but for h and s, of hyper and of the scaler's state, and for blocks: "n/256".
static void add_letters(members *m, const char *shape) {
    for (const char *part = shape + 1; *part != '\0'; part += strcspn(part, ",)") + 1) {
        const char *letter = part + strspn(part, "0123456789");
        const size_t length = strcspn(letter, ",)");
        const bool is_fixed = length == 1 && (*letter == 'h' || *letter == 's');
        if (length > 0 && !is_fixed && memchr(letter, '/', length) == NULL) {
            add(m, letter, length, DIMENSION, 0);
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

static void add_attributes(members *m, sm_op_kind kind) {
    for (const char *name = attributes_of(kind); *name != '\0'; name += strcspn(name, " ") + 1) {
        const size_t length = strcspn(name, " ");
        const bool is_real =
            is(name, length, "eps") || is(name, length, "theta") || is(name, length, "a") || is(name, length, "b");
        if (is(name, length, "keep")) {
            add(m, "keep", 4, KEEP, 0);
            add(m, "rng", 3, RNG, 0);
        } else {
            add(m, name, length, is_real ? REAL : INTEGER, 0);
        }
    }
}

// `rng_step` is behind `rng`, and not a member.
static bool is_hidden(const sm_operand_info *operand) { return strcmp(operand->name, "rng_step") == 0; }

static members members_of(sm_op_kind kind) {
    const sm_op_info *info = sm_op_get_info(kind);
    members m = {.n = 0};
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
            add(&m, info->in[i].name, strlen(info->in[i].name), INPUT, i);
        }
    }
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        add(&m, info->out[i].name, strlen(info->out[i].name), OUTPUT, i);
    }
    add(&m, "thread", 6, THREAD, 0);
    add(&m, "n_threads", 9, THREAD, 0);
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
    const members m = members_of(op->kind);
    args->n_members = m.n;
    args->rng = rng_of(op, in);
    for (int i = 0; i < m.n; i++) {
        const member *from = &m.list[i];
        sm_own_member *to = &args->members[i];
        switch (from->type) {
        case DIMENSION: to->integer = sm_op_dimension(plan, op, from->name); break;
        case INTEGER: to->integer = integer_of(plan, op, from->name); break;
        case REAL: to->real = real_of(&op->attr, from->name); break;
        case KEEP: to->keep = keep; break;
        case RNG: to->in = &args->rng; break;
        case INPUT: to->in = in[from->operand]; break;
        case OUTPUT: to->out = out[from->operand]; break;
        case THREAD: break;
        }
    }
    sm_own_args_set_thread(args, 0, 1);
}

int sm_own_member_index(sm_op_kind kind, const char *name) {
    const members m = members_of(kind);
    for (int i = 0; i < m.n; i++) {
        if (strcmp(m.list[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

// --- text ------------------------------------------------------------------------------------------

void sm_own_kernel_signature(sm_op_kind kind, char text[SM_OWN_SIGNATURE_SIZE]) {
    const members m = members_of(kind);
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

static void print_member(const sm_op_info *info, const member *m, FILE *out) {
    char left[64] = "";
    const sm_operand_info *operand = m->type == INPUT    ? &info->in[m->operand]
                                     : m->type == OUTPUT ? &info->out[m->operand]
                                                         : NULL;
    switch (m->type) {
    case DIMENSION:
    case THREAD: fprintf(out, "    int64_t %s;\n", m->name); return;
    case INTEGER: snprintf(left, sizeof left, "int64_t %s;", m->name); break;
    case REAL: snprintf(left, sizeof left, "double %s;", m->name); break;
    case KEEP:
        fputs("    float (*keep)(const void *rng, int64_t element); // dropout: what it multiplies that element by\n",
              out);
        return;
    case RNG: fputs("    const void *rng;\n", out); return;
    case INPUT: snprintf(left, sizeof left, "const %s *%s;", c_type(operand->type), m->name); break;
    case OUTPUT: snprintf(left, sizeof left, "%s *%s;", c_type(operand->type), m->name); break;
    }
    fprintf(out, "    %-24s // ", left);
    if (operand == NULL) {
        fprintf(out, "%s\n", meaning_of(m->name));
        return;
    }
    fprintf(out, "%s%s%s%s%s", operand->shape, operand->flags & SM_TRANSPOSABLE ? ", exchanged where w_transposed" : "",
            m->type == OUTPUT ? "  " : "", m->type == OUTPUT ? output_meaning(operand) : "",
            operand->flags & SM_OPTIONAL ? "; NULL where it is left out" : "");
    if (m->type == OUTPUT && m->operand == 0 && info->inplace_in != SM_NO_OPERAND) {
        fprintf(out, "; may lie where %s lies", info->in[info->inplace_in].name);
    }
    fputc('\n', out);
}

static bool reads_hyper(const sm_op_info *info) {
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        if (strcmp(info->in[i].name, "hyper") == 0) {
            return true;
        }
    }
    return false;
}

void sm_own_kernel_header(sm_op_kind kind, FILE *out) {
    const sm_op_info *info = sm_op_get_info(kind);
    const members m = members_of(kind);
    char signature[SM_OWN_SIGNATURE_SIZE];
    sm_own_kernel_signature(kind, signature);
    fprintf(out, "typedef struct {\n");
    for (int i = 0; i < m.n; i++) {
        print_member(info, &m.list[i], out);
    }
    fprintf(out, "} %s_args;\n\n", info->name);
    if (reads_hyper(info)) { // in the order of sm_hyper (plan.h)
        fputs("// Places in hyper.\n"
              "enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, BIAS_CORRECTION1, BIAS_CORRECTION2, GRAD_CLIP, LOSS_SCALE,\n"
              "       MOMENTUM, NESTEROV, RELATIVE_STEP, EPS2, UPDATE_RMS, SCALE_GROWTH, SCALE_BACKOFF, "
              "SCALE_INTERVAL };\n\n",
              out);
    }
    fprintf(out, "const char %s_signature[] = \"%s\";\n", info->name, signature);
}

void sm_own_kernel_unpack(sm_op_kind kind, FILE *out) {
    const sm_op_info *info = sm_op_get_info(kind);
    const members m = members_of(kind);
    for (int i = 0; i < m.n; i++) {
        const member *from = &m.list[i];
        const char *name = from->name;
        switch (from->type) {
        case DIMENSION:
        case INTEGER: fprintf(out, "    const int64_t %s = args->%s;\n", name, name); break;
        case REAL: fprintf(out, "    const double %s = args->%s;\n", name, name); break;
        case INPUT:
            fprintf(out, "    const %s *%s = args->%s;\n", c_type(info->in[from->operand].type), name, name);
            break;
        case OUTPUT: fprintf(out, "    %s *%s = args->%s;\n", c_type(info->out[from->operand].type), name, name); break;
        case KEEP:
        case RNG:
        case THREAD: break;
        }
    }
}
