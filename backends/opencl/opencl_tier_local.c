// opencl_tier_local.c: the tier for cards. Operands pass through local memory in tiles; a row is shared by the
// items of a work-group, and items side by side read side by side.
#include <stdio.h>

#include "opencl_tier.h"

enum { OPTIONS_SIZE = 256, MATMUL_ITEMS = 256, ROWS = 64 };

// What matmul_local.cl takes at its largest: two tiles of each operand, padded.
enum { TILE_K = 16, PAD = 4, LARGE = 128, SMALL = 64, LOCAL_BYTES = 2 * 2 * TILE_K * (LARGE + PAD) * 4 };

static bool suits(const opencl_facts *facts) {
    return !facts->is_cpu && facts->has_local_memory && facts->max_group >= MATMUL_ITEMS &&
           facts->local_bytes >= LOCAL_BYTES;
}

static int vector(const opencl_facts *facts) {
    (void)facts;
    return 1;
}

// --- matmul -----------------------------------------------------------------------------------------

// Side of a work-group's tile: small where large ones would leave units without work.
static int choose_side(const opencl_facts *facts, const opencl_product *p) {
    const int64_t n_groups = ((p->M + LARGE - 1) / LARGE) * ((p->N + LARGE - 1) / LARGE);
    return n_groups < facts->n_units ? SMALL : LARGE;
}

// Whether the rows of a tensor of n_cols columns all begin at a multiple of 4 floats.
static bool is_aligned(const sm_plan *plan, int tensor, int64_t n_cols) {
    return tensor == SM_NO_TENSOR || (plan->tensors[tensor].offset_bytes % 16 == 0 && n_cols % 4 == 0);
}

static bool can_load4(const sm_plan *plan, const opencl_product *p) {
    return is_aligned(plan, p->a, p->a_transposed ? p->M : p->K) &&
           is_aligned(plan, p->b, p->b_transposed ? p->K : p->N) && is_aligned(plan, p->c, p->N) &&
           is_aligned(plan, p->side, p->N) && is_aligned(plan, p->act, p->N);
}

static size_t matmul_scratch_elems(const opencl_facts *facts, const opencl_product *p) {
    (void)facts;
    (void)p;
    return 0;
}

static void matmul(opencl_binder *b, const opencl_product *p) {
    const int side = choose_side(&b->e->device->facts, p);
    const int work = side == LARGE ? 8 : 4;
    char options[OPTIONS_SIZE];
    snprintf(options, sizeof options, "-DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DWORK_M=%d -DWORK_N=%d -DLOAD=%d%s%s", side,
             side, TILE_K, work, work, can_load4(b->e->base.plan, p) ? 4 : 1, p->a_transposed ? " -DA_TRANSPOSED" : "",
             p->b_transposed ? " -DB_TRANSPOSED" : "");
    opencl_begin(b, "matmul_local", options, "matmul");
    opencl_arg_uint(b, (p->add ? OPENCL_ADD : 0) | opencl_epilogue(p));
    opencl_arg_ulong(b, (uint64_t)p->M);
    opencl_arg_ulong(b, (uint64_t)p->N);
    opencl_arg_ulong(b, (uint64_t)p->K);
    opencl_arg_tensor(b, p->a);
    opencl_arg_tensor(b, p->b);
    opencl_arg_tensor(b, p->c);
    opencl_arg_tensor(b, p->side);
    opencl_arg_tensor(b, p->act);
    opencl_launch_groups(b, (p->N + side - 1) / side, (p->M + side - 1) / side, MATMUL_ITEMS);
}

// --- attention --------------------------------------------------------------------------------------

// Rows of a tile: two tiles of HS channels fit in 32 KiB, which every device has.
static int64_t tile_rows(int64_t HS) {
    enum { MOST = 32, TILES_BYTES = 32 * 1024 };
    int64_t rows = MOST;
    while (rows > 1 && 2 * rows * HS * (int64_t)sizeof(float) > TILES_BYTES) {
        rows /= 2;
    }
    return rows;
}

static size_t attention_scratch_elems(const opencl_attention *a) {
    return (size_t)(a->B * a->NH * a->T); // lse where the weights are stored in its place; D
}

static void begin_attention(opencl_binder *b, const opencl_attention *a, const char *kernel) {
    enum { STEP = 8 };
    const int64_t rows = tile_rows(a->HS);
    char options[OPTIONS_SIZE];
    snprintf(options, sizeof options, "-DHS=%lld -DROWS=%d -DTILE=%lld -DSTEP=%lld", (long long)a->HS, ROWS,
             (long long)rows, (long long)(rows < STEP ? rows : STEP));
    opencl_begin(b, "attention_local", options, kernel);
    if (!a->forward) {
        opencl_arg_uint(b, a->stores_weights);
    }
    opencl_arg_ulong(b, (uint64_t)a->T);
    opencl_arg_ulong(b, (uint64_t)a->NH);
}

static void arg_mask(opencl_binder *b, const opencl_attention *a) {
    opencl_arg_ulong(b, a->key);
    opencl_arg_uint(b, a->threshold);
    opencl_arg_float(b, a->drop_scale);
}

static void launch_attention(opencl_binder *b, const opencl_attention *a) {
    opencl_launch_groups(b, (a->T + ROWS - 1) / ROWS, a->B * a->NH, ROWS);
}

static void attention_forward(opencl_binder *b, const opencl_attention *a) {
    begin_attention(b, a, "attention_forward");
    arg_mask(b, a);
    opencl_arg_tensor(b, a->qkv);
    opencl_arg_tensor(b, a->rng_step);
    opencl_arg_tensor(b, a->y);
    if (!a->stores_weights) {
        opencl_arg_tensor(b, a->weights);
        launch_attention(b, a);
        return;
    }
    opencl_arg_scratch(b, 0);
    launch_attention(b, a);
    begin_attention(b, a, "attention_weights");
    opencl_arg_tensor(b, a->qkv);
    opencl_arg_scratch(b, 0);
    opencl_arg_tensor(b, a->weights);
    launch_attention(b, a);
}

static void attention(opencl_binder *b, const opencl_attention *a) {
    static const char *const kernels[] = {"attention_backward_sums", "attention_backward_rows",
                                          "attention_backward_keys", "attention_backward_values"};
    if (a->forward) {
        attention_forward(b, a);
        return;
    }
    for (int i = 0; i < 4; i++) {
        begin_attention(b, a, kernels[i]);
        arg_mask(b, a);
        opencl_arg_tensor(b, a->dy);
        opencl_arg_tensor(b, a->qkv);
        opencl_arg_tensor(b, a->weights);
        opencl_arg_tensor(b, a->rng_step);
        if (i == 0) {
            opencl_arg_tensor(b, a->y);
        }
        opencl_arg_scratch(b, 0);
        if (i > 0) {
            opencl_arg_tensor(b, a->dqkv);
        }
        launch_attention(b, a);
    }
}

const opencl_tier opencl_tier_local = {
    .name = "local",
    .why = "a card with local memory of its own: tiles in local memory",
    .suits = suits,
    .row_items = 128,
    .vector = vector,
    .group = 128,
    .matmul = matmul,
    .matmul_scratch_elems = matmul_scratch_elems,
    .attention = attention,
    .attention_scratch_elems = attention_scratch_elems,
    .most_head_channels = 1024, // a few rows of a head are a work-item's own
};
