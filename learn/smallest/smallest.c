// smallest.c: trains a tiny GPT-2 on a text, in one file to be read from top to bottom.
//
// It computes what `stepmark train -m tiny --mode naive --backend reference` computes, with the same functions: those
// in backends/reference/kernels, a few loops each, whose comments have their equations. This file has the order of the
// calls: parameters, the forward from top to bottom, the backward from bottom to top, the update. The engine has the
// same order as data (a plan), so that it can choose other kernels, share memory and check results. Here every tensor
// has memory of its own, and nothing is chosen.
//
// Letters: B sequences of T tokens, N = B T; C channels; NH heads; F channels inside the MLP; V tokens; L blocks.
//
//     make build/release/smallest && build/release/smallest        # 10 steps on src/io/text.txt
//     build/release/smallest 300 my.txt                            # 300 steps on a text of yours
#include <stdio.h>
#include <stdlib.h>

#include "backends/reference/ref.h"
#include "philox.h"

enum { B = 4, T = 64, N = B * T, C = 32, NH = 2, F = 4 * C, V = 256, L = 2, SEED = 42 };

static float *floats(int64_t n) {
    float *values = calloc((size_t)n, sizeof *values);
    if (values == NULL) {
        fprintf(stderr, "smallest: no memory for %lld numbers\n", (long long)n);
        exit(1);
    }
    return values;
}

// --- the text: each byte is a token ------------------------------------------------------------------

static unsigned char text[1 << 24];
static int64_t text_bytes;

static void read_text(const char *path) {
    FILE *file = fopen(path, "rb");
    text_bytes = file == NULL ? 0 : (int64_t)fread(text, 1, sizeof text, file);
    if (text_bytes == 0) {
        fprintf(stderr, "smallest: %s cannot be read, or is empty; give a text: smallest STEPS FILE\n", path);
        exit(1);
    }
    fclose(file);
}

// Batch i = 0, 1, ...: N tokens of the text, which begins again at its end. The target of a token is the next one.
static void fill_batch(int64_t i, int32_t token[N], int32_t target[N]) {
    for (int64_t n = 0; n < N; n++) {
        token[n] = text[(i * N + n) % text_bytes];
        target[n] = text[(i * N + n + 1) % text_bytes];
    }
}

// --- parameters ----------------------------------------------------------------------------------------

// With its gradient, and AdamW's running means of the gradient and of its square.
typedef struct {
    int64_t n;
    bool decays; // matrices do, biases and norms do not
    float *value, *gradient, *m, *v;
} parameter;

static parameter parameters[64];
static int n_parameters;

// Normally distributed values, from random numbers that depend on seed, name and place alone (Box and Muller 1958).
static void draw(const char *name, int64_t n, float std, float *value) {
    for (int64_t i = 0; i < n; i += 2) {
        const sm_philox_block random = sm_philox4x32(sm_philox_key(SEED, name), (uint64_t)i / 4, 0);
        const float u = ((float)(random.word[i % 4] >> 8) + 1.0F) * 0x1p-24F;
        const float angle = (float)(random.word[i % 4 + 1] >> 8) * 0x1p-24F * 6.28318530718F;
        const float radius = std * sqrtf(-2.0F * logf(u));
        value[i] = radius * cosf(angle);
        value[i + 1] = radius * sinf(angle);
    }
}

static parameter *matrix(const char *name, int64_t n, double std) {
    parameter *p = &parameters[n_parameters++];
    *p = (parameter){n, true, floats(n), floats(n), floats(n), floats(n)};
    draw(name, n, (float)std, p->value);
    return p;
}

static parameter *vector(int64_t n, float value) {
    parameter *p = &parameters[n_parameters++];
    *p = (parameter){n, false, floats(n), floats(n), floats(n), floats(n)};
    for (int64_t i = 0; i < n; i++) {
        p->value[i] = value;
    }
    return p;
}

// --- layers: a forward, and a backward that adds to the gradients of parameters --------------------------

typedef struct {
    parameter *w, *b;
    int64_t from, to; // channels
} linear;

static linear new_linear(const char *name, int layer, int64_t from, int64_t to, double std) {
    char full[64];
    snprintf(full, sizeof full, "h.%d.%s.weight", layer, name);
    parameter *w = matrix(full, from * to, std);
    return (linear){w, vector(to, 0), from, to};
}

static void linear_forward(const linear *l, const float *x, float *y) {
    REF(matmul_forward)(N, l->from, l->to, false, x, l->w->value, y);
    REF(bias_forward)(N, l->to, y, l->b->value, y);
}

static void linear_backward(const linear *l, const float *x, const float *dy, float *dx) {
    REF(bias_backward)(N, l->to, dy, l->b->gradient);
    REF(matmul_backward_weight)(N, l->from, l->to, false, x, dy, l->w->gradient);
    REF(matmul_backward_input)(N, l->from, l->to, false, dy, l->w->value, dx);
}

typedef struct {
    parameter *w, *b;
    float *mean, *rstd; // of each row, for the backward
} norm;

static norm new_norm(void) {
    parameter *w = vector(C, 1);
    return (norm){w, vector(C, 0), floats(N), floats(N)};
}

static void norm_forward(const norm *l, const float *x, float *y) {
    REF(layernorm_forward)(N, C, 1e-5, x, l->w->value, l->b->value, NULL, y, l->mean, l->rstd, NULL);
}

static void norm_backward(const norm *l, const float *x, const float *dy, float *dx) {
    REF(layernorm_backward)(N, C, dy, x, l->w->value, l->mean, l->rstd, NULL, dx, l->w->gradient, l->b->gradient, NULL);
}

// --- a block: attention mixes tokens, then an MLP works on each; both add to the residual stream x ---------

typedef struct {
    norm ln1, ln2;
    linear qkv, attproj, fc, mlpproj;
    float *ln1_y, *qkv_y, *att, *att_y, *res1, *ln2_y, *fc_y, *gelu_y, *res2; // kept for the backward
} block;

static const ref_attention heads = {.B = B, .T = T, .NH = NH, .NKV = NH, .HS = C / NH};
static double scratch[2 * T * T + V];

static block new_block(int layer) {
    const double std = 0.02;
    const double stream_std = 0.02 / sqrt(2.0 * L); // the stream's variance does not grow with L
    return (block){
        .ln1 = new_norm(),
        .qkv = new_linear("attn.c_attn", layer, C, 3 * C, std),
        .attproj = new_linear("attn.c_proj", layer, C, C, stream_std),
        .ln2 = new_norm(),
        .fc = new_linear("mlp.c_fc", layer, C, F, std),
        .mlpproj = new_linear("mlp.c_proj", layer, F, C, stream_std),
        .ln1_y = floats(N * C),
        .qkv_y = floats(N * 3 * C),
        .att = floats(B * NH * T * T),
        .att_y = floats(N * C),
        .res1 = floats(N * C),
        .ln2_y = floats(N * C),
        .fc_y = floats(N * F),
        .gelu_y = floats(N * F),
        .res2 = floats(N * C),
    };
}

static const float *block_forward(const block *b, const float *x) {
    static float y[N * C];
    norm_forward(&b->ln1, x, b->ln1_y);
    linear_forward(&b->qkv, b->ln1_y, b->qkv_y);
    REF(attention_forward)(&heads, b->qkv_y, b->att_y, b->att, scratch);
    linear_forward(&b->attproj, b->att_y, y);
    REF(residual)(N * C, x, y, b->res1);
    norm_forward(&b->ln2, b->res1, b->ln2_y);
    linear_forward(&b->fc, b->ln2_y, b->fc_y);
    REF(gelu_forward)(N * F, b->fc_y, b->gelu_y);
    linear_forward(&b->mlpproj, b->gelu_y, y);
    REF(residual)(N * C, b->res1, y, b->res2);
    return b->res2;
}

// d is the gradient of the block's output, and becomes that of its input x: the same lines from bottom to top. Through
// each residual the gradient arrives twice: straight, and through the branch.
static void block_backward(const block *b, const float *x, float *d) {
    static float d_wide[N * F], d_more[N * F], dy[N * C];
    linear_backward(&b->mlpproj, b->gelu_y, d, d_wide);
    REF(gelu_backward)(N * F, d_wide, b->fc_y, d_more);
    linear_backward(&b->fc, b->ln2_y, d_more, dy);
    norm_backward(&b->ln2, b->res1, dy, dy);
    REF(residual)(N * C, d, dy, d);
    linear_backward(&b->attproj, b->att_y, d, dy);
    REF(attention_backward)(&heads, dy, b->qkv_y, b->att, d_wide, scratch);
    linear_backward(&b->qkv, b->ln1_y, d_wide, dy);
    norm_backward(&b->ln1, x, dy, dy);
    REF(residual)(N * C, d, dy, d);
}

// --- the model -------------------------------------------------------------------------------------------

static parameter *wte, *wpe; // vectors of tokens, which also are the head's weights, and of positions
static block blocks[L];
static norm lnf;

static void make_model(void) {
    wte = matrix("wte.weight", V * C, 0.02);
    wpe = matrix("wpe.weight", T * C, 0.02);
    for (int layer = 0; layer < L; layer++) {
        blocks[layer] = new_block(layer);
    }
    lnf = new_norm();
}

// The mean loss of a batch; all gradients are then those of this loss.
static float forward_and_backward(const int32_t token[N], const int32_t target[N]) {
    static const float hyper[SM_HYPER_COUNT] = {[SM_HYPER_LOSS_SCALE] = 1};
    static float x0[N * C], lnf_y[N * C], logits[N * V], dlogits[N * V], d[N * C], losses[N], lse[N];
    const float *x[L + 1] = {x0}; // the residual stream before each block, and after the last
    float loss;
    float scale;

    REF(embedding_forward)(B, T, C, token, NULL, wte->value, wpe->value, x0);
    for (int layer = 0; layer < L; layer++) {
        x[layer + 1] = block_forward(&blocks[layer], x[layer]);
    }
    norm_forward(&lnf, x[L], lnf_y);
    REF(matmul_forward)(N, C, V, true, lnf_y, wte->value, logits);
    REF(crossentropy_forward)(N, V, V, logits, target, losses, lse);
    REF(loss_mean)(N, losses, target, &loss);

    for (int i = 0; i < n_parameters; i++) {
        REF(zero)(parameters[i].n, parameters[i].gradient);
    }
    REF(loss_scale)(N, target, hyper, NULL, &scale); // the mean's 1/N
    REF(crossentropy_backward)(N, V, V, logits, target, lse, &scale, dlogits);
    REF(matmul_backward_weight)(N, C, V, true, lnf_y, dlogits, wte->gradient);
    REF(matmul_backward_input)(N, C, V, true, dlogits, wte->value, d);
    norm_backward(&lnf, x[L], d, d);
    for (int layer = L - 1; layer >= 0; layer--) {
        block_backward(&blocks[layer], x[layer], d);
    }
    REF(embedding_backward)(B, T, C, V, token, NULL, d, wte->gradient, wpe->gradient, scratch);
    return loss;
}

// AdamW's step t = 1, 2, ... of all parameters.
static void update(int64_t t) {
    const float clip = 1; // a factor on the gradients: none
    const float hyper[SM_HYPER_COUNT] = {
        [SM_HYPER_LR] = 1e-3F,
        [SM_HYPER_BETA1] = 0.9F,
        [SM_HYPER_BETA2] = 0.999F,
        [SM_HYPER_EPS] = 1e-8F,
        [SM_HYPER_WEIGHT_DECAY] = 0.01F,
        [SM_HYPER_BIAS_CORRECTION1] = (float)(1 - pow(0.9, (double)t)),
        [SM_HYPER_BIAS_CORRECTION2] = (float)(1 - pow(0.999, (double)t)),
    };
    for (int i = 0; i < n_parameters; i++) {
        const parameter *p = &parameters[i];
        REF(adamw)(p->n, p->decays, p->gradient, hyper, &clip, p->value, p->m, p->v);
    }
}

// The length of all gradients together.
static double gradient_norm(void) {
    double sum = 0;
    for (int i = 0; i < n_parameters; i++) {
        float square;
        REF(grad_sqnorm)(parameters[i].n, parameters[i].gradient, &square);
        sum += (double)square;
    }
    return sqrt(sum);
}

int main(int argc, char **argv) {
    const int n_steps = argc > 1 ? atoi(argv[1]) : 10;
    int32_t token[N];
    int32_t target[N];
    if (n_steps < 1 || argc > 3) {
        fprintf(stderr, "usage: smallest [STEPS [FILE]]; STEPS from 1 on\n");
        return 2;
    }
    read_text(argc > 2 ? argv[2] : "src/io/text.txt");
    make_model();
    for (int step = 1; step <= n_steps; step++) {
        fill_batch(step - 1, token, target);
        const float loss = forward_and_backward(token, target);
        printf("step %d/%d | loss %.6f | norm %.4f\n", step, n_steps, (double)loss, gradient_norm());
        update(step);
    }
    return 0;
}
