// op_cases.c: the texts of the cases, and the plan and inputs made from a text.
#include <math.h>

#include "src/verify/op_cases.h"
#include "philox.h"
#include "src/plan/host_threads.h"

// --- texts ----------------------------------------------------------------------------

// The cases of a kind: every shape with every variant, then the extras. Lists end with NULL.
typedef struct {
    const char *const *shapes;
    const char *const *variants;
    const char *const *extras;
    const char *summed; // letters of the dimensions that it sums over, each followed by a comma
} family;

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

// Products with each activation: cases, the words of them, and the operands that they need.
#define BENT(CODE, name, f, slope)       "bias=1 " #name "=1",
#define BENT_NAN(CODE, name, f, slope)   "N=17 C=33 F=65 bias=1 " #name "=1 nan=1",
#define SLOPED(CODE, name, f, slope)     #name "_backward=1",
#define SLOPED_NAN(CODE, name, f, slope) "N=17 C=33 F=65 " #name "_backward=1 nan=1",
#define EPILOGUES(CODE, name, f, slope)  #name "=", #name "_backward=",
#define OPERANDS(CODE, name, f, slope)   {"act", #name}, {"pre", #name "_backward"},

#define ELEMENTS LIST("n=1", "n=7", "n=64", "n=1000", "n=4099", "n=70001")
#define ROWS     LIST("N=1 C=1", "N=3 C=5", "N=2 C=64", "N=17 C=48", "N=5 C=257", "N=33 C=768", "N=130 C=33")
// The gradient of a layernorm with one or two channels is zero except for rounding.
#define NORM_ROWS LIST("N=1 C=3", "N=3 C=5", "N=2 C=64", "N=17 C=48", "N=5 C=257", "N=33 C=768", "N=130 C=33")
// Numbers next to which epsilon counts.
#define SMALL_ROWS                                                                                                  \
    LIST("N=17 C=48 small=1", "N=3 C=257 small=1", "N=17 C=48 small=1 add=1", "N=3 C=257 small=1 add=1", "N=3 C=1", \
         HARD_ROWS)
// Rows that break kernels in practice.
#define HARD_ROWS "N=5 C=64 mean=1000", "N=5 C=64 flat=1"
// Numbers that are not finite must show in the result.
#define NOT_FINITE      LIST("n=7 nan=1", "n=1000 nan=1", "n=1000 tiny=1", "n=1000 mean=20", "n=1000 wide=8")
#define NOT_FINITE_ROWS LIST("N=17 C=48 nan=1")
#define SWIGLUS         LIST("N=1 F=1", "N=3 F=5", "N=2 F=64", "N=17 F=48", "N=5 F=257", "N=130 F=33")
#define TOKENS          LIST("N=1", "N=7", "N=64", "N=1000")
#define EMBEDDINGS                                                                                               \
    LIST("B=1 T=1 C=1 V=1 P=1", "B=2 T=5 C=7 V=11 P=5", "B=3 T=17 C=48 V=20 P=32", "B=1 T=100 C=64 V=257 P=128", \
         "B=4 T=33 C=130 V=3 P=64", "B=2 T=700 C=9 V=4 P=700")
#define MATMULS                                                                                                \
    LIST("N=1 C=1 F=1", "N=1 C=64 F=3", "N=3 C=5 F=7", "N=16 C=64 F=48", "N=17 C=33 F=65", "N=100 C=37 F=130", \
         "N=33 C=257 F=96", "N=2 C=300 F=515", "N=131 C=129 F=133", "N=700 C=36 F=40", "N=1003 C=72 F=136",    \
         "N=120 C=264 F=200")
// Devices multiply bytes where all dimensions are multiples of 16.
#define FP8_MATMULS                                                                                       \
    "N=16 C=16 F=16 fp8=1", "N=48 C=64 F=144 fp8=1", "N=144 C=272 F=80 fp8=1", "N=1008 C=80 F=144 fp8=1", \
        "N=272 C=528 F=400 fp8=1"
#define HEADS "N=5 C=16 F=64 w_transposed=1 vocab=50", "N=33 C=40 F=320 w_transposed=1 vocab=257"
#define ATTENTIONS                                                                                                  \
    LIST("B=1 T=1 C=1 NH=1", "B=2 T=1 C=10 NH=2", "B=1 T=2 C=16 NH=1", "B=2 T=17 C=15 NH=3", "B=1 T=17 C=128 NH=2", \
         "B=1 T=33 C=4 NH=4", "B=3 T=33 C=32 NH=2", "B=1 T=65 C=64 NH=1", "B=1 T=65 C=20 NH=4",                     \
         "B=1 T=100 C=192 NH=3", "B=1 T=130 C=48 NH=2")
#define SHARED_HEADS                                                                                              \
    "B=1 T=1 C=2 NH=2 NKV=1", "B=2 T=17 C=15 NH=3 NKV=1", "B=1 T=33 C=24 NH=6 NKV=2", "B=2 T=65 C=64 NH=4 NKV=2", \
        "B=1 T=130 C=96 NH=6 NKV=3 p=0.2", "B=2 T=70 C=40 NH=4 NKV=1 p=0.2"
// Documents that share a row; with `padded`, sequence 0 is all padding.
#define DOCUMENTS                                                                                       \
    "B=2 T=17 C=15 NH=3 docs=5", "B=1 T=65 C=64 NH=1 docs=1", "B=2 T=130 C=48 NH=2 docs=40",            \
        "B=2 T=200 C=64 NH=2 docs=150", "B=1 T=330 C=64 NH=1 docs=20", "B=1 T=330 C=128 NH=2 docs=300", \
        "B=2 T=100 C=128 NH=1 docs=100 padded=1", "B=3 T=70 C=40 NH=4 NKV=1 docs=30 p=0.2 padded=1", SHARED_HEADS
// Flash attention's backward takes the difference of two sums, of which little remains among such scores.
#define FAR_SCORES "B=2 T=33 C=32 NH=2 far=12"
#define EMBEDDED_DOCUMENTS                                                                                    \
    LIST("B=3 T=17 C=48 V=20", "B=1 T=5 C=7 V=2", "B=3 T=17 C=48 V=20 docs=5", "B=2 T=5 C=7 V=11 P=5 docs=3", \
         "B=4 T=33 C=130 V=3 P=33 docs=20 padded=1", "B=2 T=700 C=9 V=4 P=700 docs=300",                      \
         "B=3 T=17 C=48 V=20 P=32 same=1")
#define ROPES                                                                          \
    LIST("B=1 T=1 NH=1 NKV=1 HS=2 theta=1e4", "B=2 T=17 NH=3 NKV=1 HS=10 theta=1e4",   \
         "B=1 T=65 NH=2 NKV=2 HS=64 theta=1e4", "B=3 T=33 NH=4 NKV=2 HS=34 theta=5e5", \
         "B=1 T=2049 NH=2 NKV=1 HS=8 theta=1e4", "B=2 T=5 NH=1 NKV=1 HS=6 theta=1")
#define HEADS_NORMED                                                                              \
    LIST("B=1 T=1 NH=1 NKV=1 HS=3", "B=2 T=17 NH=3 NKV=1 HS=10", "B=1 T=65 NH=2 NKV=2 HS=64",     \
         "B=3 T=33 NH=4 NKV=2 HS=34", "B=1 T=130 NH=6 NKV=3 HS=128", "B=2 T=5 NH=2 NKV=1 HS=257", \
         "B=1 T=9 NH=3 NKV=3 HS=32", "B=1 T=7 NH=2 NKV=1 HS=96", "B=1 T=3 NH=1 NKV=1 HS=1056")
#define MATRICES \
    LIST("R=1 C=1", "R=3 C=5", "R=64 C=2", "R=17 C=48", "R=257 C=5", "R=33 C=768", "R=130 C=133", "R=700 C=36")
#define LOSSES                                                                                     \
    LIST("N=3 vocab=3 Vp=64", "N=7 vocab=11 Vp=64", "N=3 vocab=64 Vp=64", "N=33 vocab=257 Vp=320", \
         "N=130 vocab=65 Vp=128", "N=2 vocab=50257 Vp=50304", "N=9 vocab=13 Vp=64 ignored=1")

#define HARD_LOSSES LIST("N=9 vocab=13 Vp=64 far=200", "N=9 vocab=13 Vp=64 mean=-1000")

#define PLAIN   LIST("")
#define INPLACE LIST("", "inplace=1")
#define ADDED   LIST("", "add=1", "add=1 inplace=1") // the residual's sum
#define SKIPPED "dskip=1", "dskip=1 inplace=1"       // and backward
#define DROPPED LIST("", "p=0.2")
#define DECAYED LIST("decay=0", "decay=1")

static const family families[SM_OP_KIND_COUNT] = {
    [SM_OP_ZERO] = {ELEMENTS, PLAIN, NULL, ""},
    [SM_OP_LOSS_SCALE] = {TOKENS, PLAIN, LIST("N=33 ignored=1", "N=33 scaled=1"), ""},
    [SM_OP_EMBEDDING_FORWARD] = {EMBEDDINGS, PLAIN, EMBEDDED_DOCUMENTS, ""},
    [SM_OP_EMBEDDING_BACKWARD] = {EMBEDDINGS, PLAIN, EMBEDDED_DOCUMENTS, "T,"},
    [SM_OP_DROPOUT] = {ELEMENTS, LIST("p=0.1", "p=0.5", "p=0.9", "p=0.25 inplace=1"), NULL, ""},
    [SM_OP_LAYERNORM_FORWARD] = {NORM_ROWS, ADDED, SMALL_ROWS, "C,"},
    [SM_OP_LAYERNORM_BACKWARD] = {NORM_ROWS,
                                  LIST("", "dbias=1", SKIPPED, "dskip=1 dbias=1", "dskip=1 inplace=1 dbias=1"),
                                  LIST(HARD_ROWS), "N,C,"},
    [SM_OP_MATMUL_FORWARD] = {MATMULS,
                              LIST("", "w_transposed=1", "bias=1", "w_transposed=1 bias=1", "gelu=1",
                                   SM_ACTIVATION_LIST(BENT) "w_transposed=1 bias=1 gelu=1"),
                              LIST(HEADS, FP8_MATMULS, "N=48 C=64 F=144 fp8=1 bias=1",
                                   "N=144 C=272 F=80 fp8=1 bias=1 gelu=1",
                                   SM_ACTIVATION_LIST(BENT_NAN) "N=17 C=33 F=65 nan=1"),
                              "C,"},
    [SM_OP_MATMUL_BACKWARD_INPUT] =
        {MATMULS, LIST("", "w_transposed=1", SM_ACTIVATION_LIST(SLOPED) "w_transposed=1 gelu_backward=1"),
         LIST(SM_ACTIVATION_LIST(SLOPED_NAN) HEADS, FP8_MATMULS, "N=144 C=272 F=80 fp8=1 gelu_backward=1"), "F,"},
    [SM_OP_MATMUL_BACKWARD_WEIGHT] = {MATMULS,
                                      LIST("", "w_transposed=1", "overwrites=1", "w_transposed=1 overwrites=1", "db=1",
                                           "w_transposed=1 db=1", "overwrites=1 db=1"),
                                      LIST(HEADS, FP8_MATMULS, "N=144 C=272 F=80 fp8=1 overwrites=1",
                                           "N=144 C=80 F=272 fp8=1 w_transposed=1"),
                                      "N,"},
    [SM_OP_CAST_FP8] = {LIST("N=16 C=16", "N=48 C=272", "N=144 C=64", "N=1008 C=80"),
                        LIST("", "db=1", "e5m2=1", "e5m2=1 db=1", "wide=1000", "e5m2=1 wide=1e5"),
                        LIST("N=48 C=80 nan=1", "N=48 C=80 zero=1"), "N,"},
    [SM_OP_SCALE_UPDATE] = {LIST("n=1", "n=8", "n=97", "n=384"), LIST("a=448", "a=57344"), LIST("n=8 a=448 zero=1"),
                            ""},
    [SM_OP_BIAS_FORWARD] = {ROWS, INPLACE, NOT_FINITE_ROWS, ""},
    [SM_OP_BIAS_BACKWARD] = {ROWS, PLAIN, NULL, "N,"},
    [SM_OP_ATTENTION_FORWARD] = {ATTENTIONS, DROPPED, LIST(DOCUMENTS, FAR_SCORES), "T,C,"},
    [SM_OP_ATTENTION_BACKWARD] = {ATTENTIONS, DROPPED, LIST(DOCUMENTS, FAR_SCORES), "T,C,"},
    [SM_OP_RMSNORM_FORWARD] = {NORM_ROWS, ADDED, SMALL_ROWS, "C,"},
    [SM_OP_RMSNORM_BACKWARD] = {NORM_ROWS, LIST("", SKIPPED), NULL, "N,C,"},
    [SM_OP_ROPE] = {ROPES, LIST("", "inplace=1", "inverse=1"),
                    LIST("B=3 T=33 NH=4 NKV=2 HS=34 theta=5e5 docs=9",
                         "B=2 T=17 NH=3 NKV=1 HS=10 theta=1e4 inverse=1 docs=5",
                         "B=2 T=65 NH=2 NKV=2 HS=64 theta=1e4 inplace=1 docs=30 padded=1"),
                    ""},
    [SM_OP_HEAD_RMSNORM_FORWARD] = {HEADS_NORMED, INPLACE, LIST("B=3 T=33 NH=4 NKV=2 HS=34 small=1"), "HS,"},
    [SM_OP_HEAD_RMSNORM_BACKWARD] = {HEADS_NORMED, INPLACE, NULL, "B,T,NH,HS,"},
    [SM_OP_SWIGLU_FORWARD] = {SWIGLUS, PLAIN, LIST("N=17 F=48 nan=1", "N=17 F=48 wide=8"), ""},
    [SM_OP_SWIGLU_BACKWARD] = {SWIGLUS, INPLACE, LIST("N=17 F=48 nan=1", "N=17 F=48 wide=8"), ""},
    [SM_OP_CROSSENTROPY_FORWARD] = {LOSSES, PLAIN, HARD_LOSSES, "vocab,"},
    [SM_OP_CROSSENTROPY_BACKWARD] = {LOSSES, INPLACE, HARD_LOSSES, "vocab,"},
    [SM_OP_CROSSENTROPY_WITH_GRADIENT] = {LOSSES, INPLACE, HARD_LOSSES, "vocab,"},
    [SM_OP_LOSS_MEAN] = {TOKENS, PLAIN, LIST("N=33 ignored=1"), "N,"},
    [SM_OP_GRAD_SQNORM] = {ELEMENTS, PLAIN, NULL, "n,"},
    [SM_OP_GRAD_CLIP] = {LIST("G=1", "G=2", "G=5", "G=300"), LIST("clip=0", "clip=0.5", "clip=1e6"),
                         LIST("G=3 clip=1 zero=1", "G=5 clip=0 scaled=1", "G=300 clip=0.5 scaled=1"), "G,"},
    [SM_OP_SCALER_UPDATE] = {LIST("interval=2000", "interval=1", "interval=2000 skip=1"), PLAIN, NULL, ""},
    [SM_OP_ADAMW] = {ELEMENTS, DECAYED, LIST("n=5 decay=1 zero=1", "n=1000 decay=1 skip=1", "n=1000 decay=1 tiny=1"),
                     ""},
    [SM_OP_ADAM] = {ELEMENTS, DECAYED, LIST("n=5 decay=1 zero=1", "n=1000 decay=1 skip=1"), ""},
    [SM_OP_SGD] = {ELEMENTS, LIST("", "decay=1", "decay=1 nesterov=1"), LIST("n=1000 decay=1 skip=1"), ""},
    [SM_OP_LION] = {ELEMENTS, DECAYED, LIST("n=5 decay=1 zero=1", "n=1000 decay=1 skip=1"), ""},
    [SM_OP_ADAMW8BIT] = {ELEMENTS, DECAYED, LIST("n=256 decay=1", "n=300 decay=1 zero=1", "n=1000 decay=1 skip=1"), ""},
    [SM_OP_ADAFACTOR] = {MATRICES, DECAYED, LIST("R=3 C=5 decay=1 zero=1", "R=33 C=48 decay=1 skip=1"), "R,C,"},
    [SM_OP_ADAFACTOR_VECTOR] = {ELEMENTS, PLAIN, LIST("n=5 zero=1", "n=1000 skip=1"), "n,"},
    [SM_OP_MUON_MOMENTUM] = {ELEMENTS, LIST("", "nesterov=1"), NULL, ""},
    [SM_OP_NORMALIZE] = {MATRICES, LIST("", "w_transposed=1"), LIST("R=3 C=5 zero=1"), ""},
    [SM_OP_MUON_UPDATE] = {MATRICES, LIST("decay=1", "w_transposed=1"), LIST("R=33 C=48 decay=1 skip=1"), ""},
    [SM_OP_FLASH_ATTENTION_FORWARD] = {ATTENTIONS, DROPPED, LIST(DOCUMENTS, FAR_SCORES), "T,C,"},
    [SM_OP_FLASH_ATTENTION_BACKWARD] = {ATTENTIONS, DROPPED, LIST(DOCUMENTS), "T,C,"},
};

// A kind that is not above works element by element, on operands "(n)": these are its cases.
static const family elementwise = {ELEMENTS, PLAIN, NOT_FINITE, ""};
static const family elementwise_inplace = {ELEMENTS, INPLACE, NOT_FINITE, ""};
static const family none = {NULL, NULL, NULL, ""};

static const family *family_of(sm_op_kind kind) {
    const sm_op_info *info = sm_op_get_info(kind);
    bool by_element = !info->is_shared;
    for (int i = 0; i < SM_MAX_IN && info->in[i].name != NULL; i++) {
        by_element = by_element && strcmp(info->in[i].shape, "(n)") == 0;
    }
    return families[kind].shapes != NULL       ? &families[kind]
           : !by_element                       ? &none
           : info->inplace_in == SM_NO_OPERAND ? &elementwise
                                               : &elementwise_inplace;
}

static int list_length(const char *const *list) {
    int n = 0;
    while (list != NULL && list[n] != NULL) {
        n++;
    }
    return n;
}

int sm_op_case_count(sm_op_kind kind) {
    const family *f = family_of(kind);
    return list_length(f->shapes) * list_length(f->variants) + list_length(f->extras);
}

void sm_op_case_text(sm_op_kind kind, int index, char *text) {
    const family *f = family_of(kind);
    int n_shapes = list_length(f->shapes);
    int n_products = n_shapes * list_length(f->variants);
    if (index >= n_products) {
        snprintf(text, SM_CASE_TEXT_SIZE, "%s", f->extras[index - n_products]);
        return;
    }
    const char *variant = f->variants[index / n_shapes];
    snprintf(text, SM_CASE_TEXT_SIZE, "%s%s%s", f->shapes[index % n_shapes], variant[0] == '\0' ? "" : " ", variant);
}

// Value of a key of a text, given with its length; 0 if absent.
static double get(const char *text, const char *key, size_t length) {
    for (const char *word = text; *word != '\0'; word += strspn(word, " ")) {
        if (strncmp(word, key, length) == 0 && word[length] == '=') {
            return strtod(word + length + 1, NULL);
        }
        word += strcspn(word, " ");
    }
    return 0;
}

static double value_of(const char *text, const char *key) { return get(text, key, strlen(key)); }

int64_t sm_op_text_size(const char *text, const char *letter) { return (int64_t)value_of(text, letter); }

int64_t sm_op_text_sum_length(sm_op_kind kind, const char *text) {
    // An argument of exp as large as this has the rounding error of a sum of its square of terms.
    const double largest = value_of(text, "far") * (value_of(text, "NH") > 0 ? 12 : 2);
    int64_t longest = largest > 1 ? (int64_t)(largest * largest) : 1;
    for (const char *key = family_of(kind)->summed; *key != '\0'; key += strcspn(key, ",") + 1) {
        int64_t length = (int64_t)get(text, key, strcspn(key, ","));
        longest = length > longest ? length : longest;
    }
    return longest;
}

bool sm_op_case_is_fp8(sm_op_kind kind, const char *text) {
    return kind == SM_OP_CAST_FP8 || kind == SM_OP_SCALE_UPDATE || value_of(text, "fp8") > 0;
}

bool sm_op_case_is_naive(sm_op_kind kind, int index) {
    static const char *const made_by_rewrites[] = {
        SM_ACTIVATION_LIST(EPILOGUES) "bias=", "db=", "add=", "overwrites=", "skip=", "docs=", "nan="};
    char text[SM_CASE_TEXT_SIZE];
    sm_op_case_text(kind, index, text);
    for (size_t i = 0; i < SM_COUNT(made_by_rewrites); i++) {
        if (strstr(text, made_by_rewrites[i]) != NULL) {
            return false;
        }
    }
    return true;
}

// --- plans ----------------------------------------------------------------------------

// Whether a backward op reads the first input and some output of a forward op, by the same names.
static bool reads_results(sm_op_kind backward, sm_op_kind forward) {
    const sm_op_info *info = sm_op_get_info(forward);
    bool reads = false;
    for (int i = 0; i < SM_MAX_OUT && info->out[i].name != NULL; i++) {
        reads |= sm_op_find_in(backward, info->out[i].name) != SM_NO_OPERAND;
    }
    return reads && sm_op_find_in(backward, info->in[0].name) != SM_NO_OPERAND;
}

// The forward op with the statistics or weights that a backward op reads: that of the longest name; else the kind.
static sm_op_kind forward_of(sm_op_kind kind) {
    char name[SM_NAME_SIZE];
    size_t longest = 0;
    const char *backward = sm_op_name(kind);
    sm_op_kind found = kind;
    if (!sm_ends_with(backward, "_backward")) {
        return kind;
    }
    snprintf(name, sizeof name, "%.*sforward", (int)(strlen(backward) - strlen("backward")), backward);
    for (sm_op_kind other = 0; other < SM_OP_KIND_COUNT; other++) {
        const char *forward = sm_op_name(other);
        if (strlen(forward) > longest && sm_ends_with(name, forward) && reads_results(kind, other)) {
            longest = strlen(forward);
            found = other;
        }
    }
    return found;
}

// NKV; NH if the text does not set it.
static int64_t kv_heads(const char *text) {
    const double NKV = value_of(text, "NKV");
    return (int64_t)(NKV > 0 ? NKV : value_of(text, "NH"));
}

// Value of a dimension: computed for QKV, NQK, W, h and s, otherwise from the text. 1 without letters.
static int64_t dim_value(const char *text, const char *letters, size_t length) {
    if (length == 3 && strncmp(letters, "QKV", length) == 0) {
        const int64_t NH = (int64_t)value_of(text, "NH");
        const int64_t HS = (int64_t)value_of(text, "HS");
        return (HS > 0 ? HS : (int64_t)value_of(text, "C") / NH) * (NH + 2 * kv_heads(text));
    }
    if (length == 3 && strncmp(letters, "NQK", length) == 0) {
        return (int64_t)value_of(text, "NH") + kv_heads(text);
    }
    if (length == 1 && *letters == 'h') {
        return SM_HYPER_COUNT;
    }
    return length == 1 && *letters == 's' ? SM_SCALER_COUNT : length == 0 ? 1 : (int64_t)get(text, letters, length);
}

// Shape of an operand, such as "(N,2F)", with the text's values. Returns the number of dims.
static int make_dims(const char *text, const sm_operand_info *operand, const sm_attrs *attr,
                     int64_t dims[SM_MAX_DIMS]) {
    int n = 0;
    sm_shape_dim dim;
    for (const char *shape = operand->shape; sm_shape_next(&shape, &dim);) {
        dims[n++] = dim.factor * ((dim_value(text, dim.letters, dim.length) + dim.block - 1) / dim.block);
    }
    if (sm_operand_is_transposed(operand, attr)) {
        int64_t rows = dims[0];
        dims[0] = dims[1];
        dims[1] = rows;
    }
    return n;
}

static bool has_optional(const sm_plan *plan, const char *text, const char *name) {
    if (strcmp(name, "w") == 0) { // an optimizer's working copy
        return plan->dtype != plan->real && value_of(text, "skip") == 0;
    }
    const char *const needs[][2] = {SM_ACTIVATION_LIST(OPERANDS){"b", "bias"},
                                    {"rng_step", "p"},
                                    {"wpe", "P"},
                                    {"dwpe", "P"},
                                    {"scaler", "scaled"},
                                    {"dbias", "dbias"},
                                    {"starts", "docs"},
                                    {"db", "db"},
                                    {"add", "add"},
                                    {"r", "add"},
                                    {"dskip", "dskip"},
                                    {"x_scale", "fp8"},
                                    {"W_scale", "fp8"},
                                    {"dy_scale", "fp8"}};
    for (size_t i = 0; i < SM_COUNT(needs); i++) {
        if (strcmp(name, needs[i][0]) == 0 && value_of(text, needs[i][1]) > 0) {
            return true;
        }
    }
    return false;
}

// Finds or adds the tensor of an operand.
static int bind_operand(sm_plan *plan, const char *text, const sm_operand_info *operand, const sm_attrs *attr,
                        sm_role role) {
    int64_t dims[SM_MAX_DIMS];
    if ((operand->flags & SM_OPTIONAL) && !has_optional(plan, text, operand->name)) {
        return SM_NO_TENSOR;
    }
    char name[SM_NAME_SIZE];
    const bool is_fp8 = operand->type == SM_OPERAND_FP8 || (attr->fp8 && operand->flags & SM_FACTOR);
    const bool is_turned =
        attr->fp8 && (operand->flags & SM_TURNABLE ||
                      (operand->flags & SM_TRANSPOSABLE && operand->flags & SM_FACTOR && !attr->w_transposed));
    const bool is_gradient = strcmp(operand->name, "dy") == 0 || value_of(text, "e5m2") > 0;
    snprintf(name, sizeof name, "%s%s", operand->name, is_turned ? ".turned" : "");
    const int found = sm_plan_find_tensor(plan, name);
    const sm_dtype dtype = !is_fp8 ? sm_plan_operand_dtype(plan, operand->type) : is_gradient ? SM_E5M2 : SM_E4M3;
    return found != SM_NO_TENSOR
               ? found
               : sm_plan_add_tensor(plan, role, dtype, make_dims(text, operand, attr, dims), dims, "%s", name);
}

// Values of attributes that a text does not name.
static const double usual[SM_ATTR_COUNT] = {[SM_ATTR_eps] = 1e-5, [SM_ATTR_a] = 3.4445, [SM_ATTR_b] = -4.775};

// Attributes by their letters, but V by its name, since shapes also have Vp.
static sm_attrs make_attrs(sm_op_kind kind, const char *text) {
    sm_attrs attrs = {.n_head = 0};
    for (sm_attr attr = 0; attr < SM_ATTR_COUNT; attr++) {
        const sm_attr_info *info = sm_attr_get_info(attr);
        if (sm_op_has_attr(kind, attr)) {
            const double value = value_of(text, attr == SM_ATTR_vocab ? info->name : info->letter);
            sm_attr_set(&attrs, attr, value != 0 ? value : usual[attr]);
        }
    }
    if (sm_op_has_attr(kind, SM_ATTR_n_kv_head)) {
        attrs.n_kv_head = (int)kv_heads(text);
    }
    if (sm_op_has_attr(kind, SM_ATTR_rng_key)) {
        attrs.rng_key = sm_philox_key(1, "op_cases"); // the same for a forward op and its backward
    }
    if (attrs.fp8 && kind != SM_OP_MATMUL_BACKWARD_WEIGHT) { // W lies as the units want it
        attrs.w_transposed = kind == SM_OP_MATMUL_FORWARD;
    }
    return attrs;
}

// Adds an op and its tensors. Every tensor has its own memory (batch, result), except in an in-place case:
// `overwritten`, the input that output 0 may overwrite, and that output are activations: the planner makes them one.
static sm_status add_op(sm_plan *plan, sm_op_kind kind, sm_phase phase, const char *text, const char *overwritten) {
    const sm_op_info *info = sm_op_get_info(kind);
    sm_op op = sm_op_make(kind, phase, -1);
    op.attr = make_attrs(kind, text);
    const int inplace_out = SM_MAX_IN + sm_op_inplace_out(info);
    for (int i = 0; i < SM_MAX_OPERANDS; i++) {
        const int overwrites = i == inplace_out ? info->inplace_in : i < SM_MAX_IN ? i : SM_NO_OPERAND;
        if (info->operands[i].name != NULL) {
            const bool shared = overwrites != SM_NO_OPERAND && strcmp(info->in[overwrites].name, overwritten) == 0;
            op.operands[i] = bind_operand(plan, text, &info->operands[i], &op.attr,
                                          shared          ? SM_ROLE_ACTIVATION
                                          : i < SM_MAX_IN ? SM_ROLE_BATCH
                                                          : SM_ROLE_RESULT);
        }
    }
    return sm_plan_add_op(plan, &op);
}

sm_status sm_op_case_plan(sm_op_kind kind, int index, sm_precision precision, sm_plan **plan) {
    char text[SM_CASE_TEXT_SIZE];
    sm_op_case_text(kind, index, text);
    return sm_op_text_plan(kind, text, precision, plan);
}

sm_status sm_op_text_plan(sm_op_kind kind, const char *text, sm_precision precision, sm_plan **plan) {
    *plan = NULL;
    SM_OWN(sm_plan) *built = sm_plan_new(precision.dtype);
    built->products = precision.products;
    const sm_op_info *info = sm_op_get_info(kind);
    const char *overwritten = value_of(text, "inplace") > 0 ? info->in[info->inplace_in].name : "";
    SM_TRY(forward_of(kind) != kind ? add_op(built, forward_of(kind), SM_PHASE_FORWARD, text, overwritten) : SM_OK);
    SM_TRY(add_op(built, kind, SM_PHASE_FORWARD, text, overwritten));
    *plan = sm_give(&built);
    return SM_OK;
}

// --- the ops of a name --------------------------------------------------------------------------

sm_status sm_op_set_find(const char *name, sm_op_set *set) {
    const size_t length = strlen(name);
    *set = (sm_op_set){.n = 0};
    for (sm_op_kind kind = 0; kind < SM_OP_KIND_COUNT; kind++) {
        const char *own = sm_op_name(kind);
        const char *rest = strncmp(own, name, length) == 0 ? own + length : "";
        const bool is_backward = strncmp(rest, "_backward", strlen("_backward")) == 0;
        if (strcmp(own, name) == 0 && !sm_op_is_communication(kind)) {
            const bool reads = forward_of(kind) != kind;
            *set = (sm_op_set){.kinds = {kind}, .n = 1, .has_forward = !reads, .has_backward = reads};
            return SM_OK;
        }
        if (set->n < SM_MAX_OPS_OF_NAME && (is_backward || strcmp(rest, "_forward") == 0)) {
            set->kinds[set->n++] = kind;
            set->has_forward |= !is_backward;
            set->has_backward |= is_backward;
        }
    }
    SM_FAIL_IF(set->n == 0 || length == 0, SM_ERR_USAGE, "no op is called '%s'", name);
    return SM_OK;
}

// Whether a shape, "(N,2F)", has the letter.
static bool shape_has(const char *shape, const char *letter) {
    sm_shape_dim dim;
    bool has = false;
    while (sm_shape_next(&shape, &dim)) {
        has |= dim.length == strlen(letter) && strncmp(dim.letters, letter, dim.length) == 0;
    }
    return has;
}

bool sm_op_set_has(const sm_op_set *set, const char *letter) {
    bool has = false;
    for (int i = 0; i < set->n; i++) {
        const sm_op_info *info = sm_op_get_info(set->kinds[i]);
        for (int k = 0; k < SM_MAX_OPERANDS; k++) {
            const bool is_there = info->operands[k].name != NULL && (info->operands[k].flags & SM_OPTIONAL) == 0;
            has |= is_there && shape_has(info->operands[k].shape, letter);
        }
        for (sm_attr attr = 0; attr < SM_ATTR_COUNT; attr++) {
            has |= attr != SM_ATTR_vocab && sm_op_has_attr(set->kinds[i], attr) &&
                   strcmp(sm_attr_get_info(attr)->letter, letter) == 0;
        }
    }
    return has;
}

sm_status sm_op_set_plan(const sm_op_set *set, const char *text, bool backward, sm_precision precision,
                         sm_plan **plan) {
    char overwriting[2 * SM_CASE_TEXT_SIZE];
    *plan = NULL;
    SM_OWN(sm_plan) *built = sm_plan_new(precision.dtype);
    built->products = precision.products;
    built->one_micro_batch = true;
    built->B = (int64_t)value_of(text, "B");
    built->T = (int64_t)value_of(text, "T");
    built->V = (int64_t)value_of(text, "V");
    snprintf(overwriting, sizeof overwriting, "%s overwrites=1", text);
    for (int i = 0; i < set->n; i++) {
        const sm_op_kind kind = set->kinds[i];
        const bool is_alone = set->n == 1 && set->has_backward;
        SM_TRY(is_alone ? add_op(built, forward_of(kind), SM_PHASE_FORWARD, text, "") : SM_OK);
        const sm_phase phase = i > 0 || is_alone ? SM_PHASE_BACKWARD : SM_PHASE_FORWARD;
        SM_TRY(phase == SM_PHASE_FORWARD || backward ? add_op(built, kind, phase, overwriting, "") : SM_OK);
    }
    *plan = sm_give(&built);
    return SM_OK;
}

// --- inputs ---------------------------------------------------------------------------

bool sm_op_case_is_input(const sm_plan *plan, int tensor) {
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        for (int k = 0; k < SM_MAX_OPERANDS; k++) {
            if (op->operands[k] == tensor) {
                return k < SM_MAX_IN || sm_op_get_info(op->kind)->operands[k].mode != SM_WRITES;
            }
        }
    }
    return false;
}

// The distribution of an input's elements.
typedef struct {
    uint64_t key;
    int64_t n_cols;
    int64_t vocab; // 0: none
    int64_t n_ids; // token: rows of the table; target: V
    double low;    // uniform in [low, high)
    double high;
    bool has_nan;   // some elements are NaN
    bool has_inf;   // and others infinite
    double padding; // value beyond V: in columns, or in rows of W
    bool pads_columns;
    bool pads_rows;
    bool is_token;
    bool ignored;                       // all targets are -1
    double mean, far, flat, tiny, same; // as in the text; 0: not so
    double hyper[SM_HYPER_COUNT];
    bool is_hyper;
} source;

static uint32_t word_at(const source *from, int64_t i) {
    return sm_philox4x32(from->key, (uint64_t)i / 4, 0).word[i % 4];
}

// Settings of step 3, with a learning rate large enough that an error in the update shows in p.
static void set_hyper(source *from, const char *text) {
    const double hyper[SM_HYPER_COUNT] = {
        [SM_HYPER_LR] = 0.1,
        [SM_HYPER_BETA1] = 0.9,
        [SM_HYPER_BETA2] = 0.95,
        [SM_HYPER_EPS] = 1e-3,
        [SM_HYPER_WEIGHT_DECAY] = 0.1,
        [SM_HYPER_BIAS_CORRECTION1] = 1 - 0.9 * 0.9 * 0.9,
        [SM_HYPER_BIAS_CORRECTION2] = 1 - 0.95 * 0.95 * 0.95,
        [SM_HYPER_GRAD_CLIP] = value_of(text, "clip"),
        [SM_HYPER_LOSS_SCALE] = 0.25,
        [SM_HYPER_MOMENTUM] = 0.9,
        [SM_HYPER_NESTEROV] = value_of(text, "nesterov"),
        [SM_HYPER_RELATIVE_STEP] = 0.05,
        [SM_HYPER_EPS2] = 1e-3,
        [SM_HYPER_UPDATE_RMS] = 0.5,
        [SM_HYPER_SCALE_GROWTH] = 2,
        [SM_HYPER_SCALE_BACKOFF] = 0.5,
        [SM_HYPER_SCALE_INTERVAL] = value_of(text, "interval"),
    };
    memcpy(from->hyper, hyper, sizeof hyper);
}

// Ranges of inputs outside of [-1, 1): positive ones, factors, and those of softmaxes, far from uniform.
static void set_range(source *from, const char *name, bool zero) {
    const struct {
        const char *name;
        double low, high;
    } ranges[] = {{"logits", -4, 4}, {"qkv", -2, 2},   {"v", 0, 1},       {"sqnorm", 0, 1},  {"losses", 0, 1},
                  {"scale", 0.5, 1}, {"clip", 0.5, 1}, {"row", 0, 1},     {"col", 0, 1},     {"m_max", 0, 1},
                  {"v_max", 0, 1},   {"scaler", 1, 9}, {"x_scale", 4, 4}, {"W_scale", 8, 8}, {"dy_scale", 2, 2},
                  {"amax", 0, 3},    {"history", 0, 1}};
    from->low = zero ? 0 : -1;
    from->high = zero ? 0 : 1;
    for (size_t i = 0; i < SM_COUNT(ranges) && !zero; i++) {
        if (strcmp(name, ranges[i].name) == 0) {
            from->low = ranges[i].low;
            from->high = ranges[i].high;
        }
    }
}

// The input that a function is applied to: an epilogue's, or x, or else the first.
static const char *gets_nan(const sm_plan *plan) {
    const sm_op *op = &plan->ops[plan->n_ops - 1];
    const int pre = SM_IN(matmul_backward_input, pre);
    const int x = op->kind == SM_OP_MATMUL_BACKWARD_INPUT ? pre : sm_plan_find_tensor(plan, "x") == op->in[1] ? 1 : 0;
    return plan->tensors[op->in[x]].name;
}

static source make_source(uint64_t seed, const char *text, const sm_plan *plan, const sm_tensor *t) {
    source from = {.key = sm_philox_key(seed, t->name), .n_cols = sm_tensor_cols(t)};
    int wte = sm_plan_find_tensor(plan, "wte");
    int table = wte != SM_NO_TENSOR ? wte : sm_plan_find_tensor(plan, "dwte");
    from.vocab = (int64_t)value_of(text, "vocab");
    from.is_token = strcmp(t->name, "token") == 0;
    from.n_ids = from.vocab > 0 ? from.vocab : 100;
    if (from.is_token) {
        from.n_ids = plan->tensors[table].dims[0];
    }
    from.ignored = value_of(text, "ignored") > 0;
    from.tiny = value_of(text, "tiny");
    from.same = value_of(text, "same");
    // Padding is zero in W and dy, as in the head's weights and gradients; in logits it is large and must not count.
    bool is_logits = strcmp(t->name, "logits") == 0;
    from.padding = is_logits ? 50 : 0;
    from.pads_rows = from.vocab > 0 && strcmp(t->name, "W") == 0;
    from.pads_columns = from.vocab > 0 && (is_logits || strcmp(t->name, "dy") == 0);
    if (is_logits || strcmp(t->name, "x") == 0) {
        from.mean = value_of(text, "mean");
        from.flat = value_of(text, "flat");
    }
    from.far = is_logits || strcmp(t->name, "qkv") == 0 ? value_of(text, "far") : 0;
    from.n_ids -= value_of(text, "far") > 0; // the last logit is -1e30
    from.is_hyper = strcmp(t->name, "hyper") == 0;
    set_hyper(&from, text);
    set_range(&from, t->name, value_of(text, "zero") > 0);
    const double wide = strcmp(t->name, "x") == 0 ? value_of(text, "wide") : 0;
    const double factor = value_of(text, "small") > 0 ? 0.004 : wide > 0 ? wide : 1;
    from.low *= factor;
    from.high *= factor;
    from.has_nan = value_of(text, "nan") > 0 && strcmp(t->name, gets_nan(plan)) == 0;
    // The formula of a derivative may be inf 0 where its limit is 0 or 1, which a kernel may give.
    from.has_inf = strstr(sm_op_name(plan->ops[plan->n_ops - 1].kind), "backward") == NULL;
    if (strcmp(t->name, "clip") == 0 && value_of(text, "skip") > 0) {
        from.low = from.high = -1;
    }
    return from;
}

// A token, or a target, of which one in five is ignored.
static int32_t draw_id(const source *from, int64_t i) {
    uint32_t word = word_at(from, i);
    if (!from->is_token && (from->ignored || word % 5 == 0)) {
        return -1;
    }
    return from->same > 0 ? 0 : (int32_t)(word / 5 % (uint64_t)from->n_ids);
}

static double draw(const source *from, int64_t i) {
    if (from->is_hyper) {
        return from->hyper[i];
    }
    if ((from->pads_rows && i / from->n_cols >= from->vocab) ||
        (from->pads_columns && i % from->n_cols >= from->vocab)) {
        return from->padding;
    }
    if (from->has_nan && i % 61 == 3) {
        return from->has_inf && i % 2 == 0 ? (double)INFINITY : (double)NAN;
    }
    const int64_t drawn = from->flat > 0 ? i / from->n_cols : i;
    const double value = from->low + (from->high - from->low) * (double)word_at(from, drawn) * 0x1p-32;
    if (from->far > 0 && from->vocab > 0 && i % from->n_cols == from->vocab - 1) {
        return -1e30;
    }
    // Sums of these are exact in float, so that a right kernel has the error that it has elsewhere.
    return from->far > 0                       ? rint(value / from->high * from->far)
           : from->mean != 0 || from->flat > 0 ? from->mean + rint(64 * value) / 16
           : from->tiny > 0 && i % 2 == 1      ? value * 1e-38
                                               : value;
}

// Starts of documents of 1 to `docs` positions. The last eighth of a row is padding, whose positions attend only to
// themselves; with `padded`, all of row 0.
static void draw_starts(const source *from, const char *text, const sm_tensor *t, int32_t *starts) {
    const int64_t T = sm_tensor_cols(t);
    const uint32_t longest = (uint32_t)value_of(text, "docs");
    for (int64_t b = 0; b < sm_tensor_rows(t); b++) {
        const int64_t n_real = b == 0 && value_of(text, "padded") > 0 ? 0 : T - T / 8;
        int64_t start = 0;
        int64_t end = 0;
        for (int64_t i = 0; i < T; i++) {
            if (i == end || i >= n_real) {
                start = i;
                end = i + 1 + word_at(from, b * T + i) % longest;
            }
            starts[b * T + i] = (int32_t)start;
        }
    }
}

enum { MANY_ELEMS = 1 << 20 }; // worth threads

void sm_op_text_fill(const char *text, uint64_t seed, const sm_plan *plan, int tensor, void *values) {
    const sm_tensor *t = &plan->tensors[tensor];
    const sm_number_format *format = sm_dtype_format(t->dtype);
    const source from = make_source(seed, text, plan, t);
    // An ignored token's loss is 0, as in a step, so an op may add it or leave it out.
    const int target = strcmp(t->name, "losses") == 0 ? sm_plan_find_tensor(plan, "target") : SM_NO_TENSOR;
    const source targets = target != SM_NO_TENSOR ? make_source(seed, text, plan, &plan->tensors[target]) : from;
    if (strcmp(t->name, "starts") == 0) {
        draw_starts(&from, text, t, values);
        return;
    }
    const int64_t n_elems = sm_tensor_elems(t);
#pragma omp parallel for schedule(static) if (n_elems > MANY_ELEMS) num_threads(sm_host_threads())
    for (int64_t i = 0; i < n_elems; i++) {
        const double value = target != SM_NO_TENSOR && draw_id(&targets, i) == -1 ? 0 : draw(&from, i);
        const float drawn = (float)value;
        switch (t->dtype) {
        case SM_F32:
        case SM_BF16:
        case SM_F16:
        case SM_E4M3:
        case SM_E5M2: format->round(1, &drawn, (char *)values + (size_t)i * format->size_bytes); break;
        case SM_F64: ((double *)values)[i] = value; break;
        case SM_I32: ((int32_t *)values)[i] = draw_id(&from, i); break;
        case SM_U8: ((uint8_t *)values)[i] = (uint8_t)word_at(&from, i); break;
        case SM_U32: ((uint32_t *)values)[i] = (uint32_t)i + 5; break; // rng_step: both words matter
        }
    }
}

sm_status sm_op_text_upload(const char *text, uint64_t seed, const sm_plan *plan, sm_executable *executable) {
    for (int i = 0; i < plan->n_tensors; i++) {
        if (sm_op_case_is_input(plan, i)) {
            SM_FREED void *values = malloc(sm_tensor_bytes(&plan->tensors[i]));
            SM_FAIL_IF(values == NULL, SM_ERR_OOM, "no memory for the operand %s", plan->tensors[i].name);
            sm_op_text_fill(text, seed, plan, i, values);
            SM_TRY(executable->device->backend->upload(executable, i, 0, sm_tensor_elems(&plan->tensors[i]), values));
        }
    }
    return SM_OK;
}
