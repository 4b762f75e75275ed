// opencl_tier_tensor.c: the tier for cards whose matrix units multiply 16-bit numbers and tf32. What they cannot do
// (fp32 as it is, rows that do not begin at multiples of 16 bytes) runs as in tier `local`, op by op.
#include <stdio.h>

#include "opencl_tensor.h"
#include "opencl_tier.h"

enum { OPTIONS_SIZE = 256 };

static const char *lacks(const opencl_facts *facts) { return opencl_find_matrix_units(facts)->missing; }

static bool suits(const opencl_facts *facts) {
    return opencl_tier_local.suits(facts) && opencl_find_matrix_units(facts)->has_mma;
}

static int vector(const opencl_facts *facts) { return opencl_tier_local.vector(facts); }

// --- matmul -----------------------------------------------------------------------------------------

// The sizes of cl/matmul_tensor.cl, and the parts that K is cut into.
typedef struct {
    int tile_m, tile_n, warp_m, warp_n;
    int64_t part_cols; // of K in a part: a multiple of a tile's
    int n_parts;
} tiles;

// Bytes of a row of an operand that a tile has, and how many tiles of both operands are in local memory.
enum { K_BYTES = 128, STAGES = 3, CHUNK_BYTES = 16, WARP_ITEMS = 32 };

// 128 x 128 by 4 warps: two such groups fit in a unit, so that one computes while the other waits or stores.
static const tiles narrow_tiles[] = {
    {.tile_m = 128, .tile_n = 128, .warp_m = 64, .warp_n = 64},
    {.tile_m = 128, .tile_n = 256, .warp_m = 64, .warp_n = 64},
    {.tile_m = 64, .tile_n = 128, .warp_m = 32, .warp_n = 64},
    {.tile_m = 64, .tile_n = 64, .warp_m = 32, .warp_n = 32},
};

// Three products a pair of numbers, and sums of two kinds: fewer of them fit in a warp's registers.
static const tiles split_tiles[] = {
    {.tile_m = 128, .tile_n = 128, .warp_m = 64, .warp_n = 32},
    {.tile_m = 128, .tile_n = 64, .warp_m = 64, .warp_n = 32},
    {.tile_m = 128, .tile_n = 128, .warp_m = 32, .warp_n = 64},
    {.tile_m = 64, .tile_n = 64, .warp_m = 32, .warp_n = 32},
};

// A way is one of these tiles, with as many parts as the rule says, or none, or twice as many.
enum { N_TILES = sizeof narrow_tiles / sizeof narrow_tiles[0], N_CUTS = 3 };
_Static_assert(sizeof split_tiles == sizeof narrow_tiles, "ways of both");

static bool is_split(const opencl_product *p) { return p->plan->products == SM_PRODUCTS_TF32X3; }

static int number_bytes(const opencl_product *p) { return (int)sm_dtype_size(p->plan->tensors[p->a].dtype); }

static int tile_k(const opencl_product *p) { return K_BYTES / number_bytes(p); }

static int64_t count_up(int64_t n, int64_t step) { return (n + step - 1) / step; }

static void cut(const opencl_product *p, tiles *t, int n_parts) {
    t->part_cols = count_up(count_up(p->K, n_parts), tile_k(p)) * tile_k(p);
    t->n_parts = (int)count_up(p->K, t->part_cols);
}

// What n_parts cost, in bytes of K. Units walk their share of the tiles in rounds, the last of which may leave many
// idle. A tile costs some of K to begin and to end, and writing and adding up its sums of a part as much as some more.
static int64_t cost_of_parts(const opencl_facts *facts, const opencl_product *p, const tiles *t, int n_parts) {
    enum { TILE_BYTES = 512, SUM_BYTES = 512, GROUPS_A_UNIT = 2, GROUP_SUMS = 128 * 128 };
    const int64_t n_groups = count_up(p->M, t->tile_m) * count_up(p->N, t->tile_n) * n_parts;
    const int64_t in_a_unit = (int64_t)GROUPS_A_UNIT * GROUP_SUMS / (t->tile_m * t->tile_n);
    const int64_t n_at_once = (facts->n_units > 0 ? facts->n_units : 1) * (in_a_unit > 0 ? in_a_unit : 1);
    const int64_t n_rounds = count_up(n_groups, n_at_once);
    tiles parted = *t;
    cut(p, &parted, n_parts);
    return n_rounds * (parted.part_cols * number_bytes(p) + TILE_BYTES + (n_parts > 1 ? SUM_BYTES : 0));
}

enum { MOST_PARTS = 16, LEAST_STEPS = 4, MOST_SCRATCH_ELEMS = 32 * 1024 * 1024 };

static bool can_cut(const opencl_product *p, int n_parts) {
    return n_parts <= MOST_PARTS && p->K / n_parts >= LEAST_STEPS * tile_k(p) &&
           p->M * p->N <= MOST_SCRATCH_ELEMS / n_parts;
}

// Cuts K so that no unit is idle for long; not at all where C alone has enough tiles.
static void cut_by_cost(const opencl_facts *facts, const opencl_product *p, tiles *t) {
    int best = 1;
    for (int n = 2; can_cut(p, n); n++) {
        if (cost_of_parts(facts, p, t, n) < cost_of_parts(facts, p, t, best)) {
            best = n;
        }
    }
    cut(p, t, best);
}

static tiles choose_tiles(const opencl_facts *facts, const opencl_product *p, int way) {
    tiles t = (is_split(p) ? split_tiles : narrow_tiles)[way / N_CUTS];
    cut_by_cost(facts, p, &t);
    if (way % N_CUTS > 0) {
        cut(p, &t, way % N_CUTS == 1 ? 1 : 2 * t.n_parts);
    }
    return t;
}

static int items_of(const tiles *t) { return t->tile_m / t->warp_m * (t->tile_n / t->warp_n) * WARP_ITEMS; }

int opencl_tensor_local_bytes(const opencl_facts *facts) {
    enum { KIB = 1024 };
    switch (facts->compute_capability) {
    case 80:
    case 87: return 163 * KIB;
    case 90:
    case 100: return 226 * KIB;
    default: return 99 * KIB;
    }
}

// Whether the rows of a tensor of n_cols columns all begin at a multiple of 16 bytes.
static bool is_aligned(const sm_plan *plan, int tensor, int64_t n_cols) {
    if (tensor == SM_NO_TENSOR) {
        return true;
    }
    const sm_tensor *t = &plan->tensors[tensor];
    return t->offset_bytes % CHUNK_BYTES == 0 && n_cols * (int64_t)sm_dtype_size(t->dtype) % CHUNK_BYTES == 0;
}

// What the units multiply: 16-bit numbers, and floats where the plan says that they may be rounded or cut in two.
static bool is_product_of_units(const opencl_product *p) {
    const sm_plan *plan = p->plan;
    return (sm_dtype_is_narrow(plan->tensors[p->a].dtype) || plan->products != SM_PRODUCTS_PLAIN) &&
           is_aligned(plan, p->a, p->a_transposed ? p->M : p->K) &&
           is_aligned(plan, p->b, p->b_transposed ? p->K : p->N) && is_aligned(plan, p->c, p->N) &&
           is_aligned(plan, p->side, p->N) && is_aligned(plan, p->act, p->N);
}

// No way: what the device has no room for, or what does the same as the way with the rule's parts.
static bool matmul_way(const opencl_facts *facts, const opencl_product *p, int way, char *text, size_t size_bytes) {
    if (!is_product_of_units(p)) {
        return opencl_tier_local.matmul_way(facts, p, way, text, size_bytes);
    }
    if (way >= N_TILES * N_CUTS) {
        return false;
    }
    const tiles by_rule = choose_tiles(facts, p, way / N_CUTS * N_CUTS);
    const tiles t = choose_tiles(facts, p, way);
    snprintf(text, size_bytes, "mma %dx%d of %dx%d, %d parts", t.tile_m, t.tile_n, t.warp_m, t.warp_n, t.n_parts);
    return STAGES * K_BYTES * (t.tile_m + t.tile_n) <= opencl_tensor_local_bytes(facts) &&
           (way % N_CUTS == 0 || (t.n_parts != by_rule.n_parts && (t.n_parts == 1 || can_cut(p, t.n_parts))));
}

static size_t matmul_scratch_elems(const opencl_facts *facts, const opencl_product *p, int way) {
    if (!is_product_of_units(p)) {
        return opencl_tier_local.matmul_scratch_elems(facts, p, way);
    }
    const tiles t = choose_tiles(facts, p, way);
    return t.n_parts > 1 ? (size_t)(t.n_parts * p->M * p->N) : 0;
}

// to_scratch: what the kernel writes are sums of parts.
static void begin_matmul(opencl_binder *b, const opencl_product *p, const tiles *t, const char *kernel,
                         bool to_scratch) {
    char options[OPTIONS_SIZE];
    const bool is_real = to_scratch || !sm_dtype_is_narrow(p->plan->tensors[p->c].dtype);
    snprintf(options, sizeof options,
             "-DTILE_M=%d -DTILE_N=%d -DWARP_M=%d -DWARP_N=%d -DK_BYTES=%d -DSTAGES=%d -DK_TAIL=%d%s%s%s%s", t->tile_m,
             t->tile_n, t->warp_m, t->warp_n, K_BYTES, STAGES, p->K % tile_k(p) != 0, is_split(p) ? " -DSPLIT=1" : "",
             p->a_transposed ? " -DA_TRANSPOSED" : "", p->b_transposed ? " -DB_TRANSPOSED" : "",
             is_real ? " -DC_REAL" : "");
    opencl_begin(b, "matmul_tensor", options, kernel);
}

// What is beside the product: bias, pre, act.
static void arg_beside(opencl_binder *b, const opencl_product *p) {
    const bool is_bias = (p->epilogue & SM_EPILOGUE_BIAS) != 0;
    opencl_arg_tensor(b, is_bias ? p->side : SM_NO_TENSOR);
    opencl_arg_tensor(b, is_bias ? SM_NO_TENSOR : p->side);
    opencl_arg_tensor(b, p->act);
}

// The sums of the parts, added up, and what is done beside the product.
static void add_parts(opencl_binder *b, const opencl_product *p, const tiles *t, uint32_t beside) {
    enum { ITEMS = 64, ITEM_COLS = 2 };
    begin_matmul(b, p, t, "matmul_sum", false);
    opencl_arg_uint(b, beside);
    opencl_arg_ulong(b, (uint64_t)p->M);
    opencl_arg_ulong(b, (uint64_t)p->N);
    opencl_arg_ulong(b, (uint64_t)t->n_parts);
    opencl_arg_scratch(b, 0);
    opencl_arg_tensor(b, p->c);
    arg_beside(b, p);
    opencl_launch_groups(b, count_up(p->N, ITEMS * ITEM_COLS), p->M, ITEMS);
}

static void multiply(opencl_binder *b, const opencl_product *p, const tiles *t) {
    const uint32_t beside = (p->add ? OPENCL_ADD : 0) | opencl_epilogue(p);
    begin_matmul(b, p, t, "matmul", t->n_parts > 1);
    opencl_arg_uint(b, t->n_parts > 1 ? 0 : beside);
    opencl_arg_ulong(b, (uint64_t)p->M);
    opencl_arg_ulong(b, (uint64_t)p->N);
    opencl_arg_ulong(b, (uint64_t)p->K);
    opencl_arg_ulong(b, (uint64_t)t->part_cols);
    opencl_arg_tensor(b, p->a);
    opencl_arg_tensor(b, p->b);
    if (t->n_parts > 1) {
        opencl_arg_scratch(b, 0);
    } else {
        opencl_arg_tensor(b, p->c);
    }
    arg_beside(b, p);
    opencl_launch_groups(b, count_up(p->N, t->tile_n), count_up(p->M, t->tile_m) * t->n_parts, (size_t)items_of(t));
    if (t->n_parts > 1) {
        add_parts(b, p, t, beside);
    }
}

static void matmul(opencl_binder *b, const opencl_product *p, int way) {
    if (!is_product_of_units(p)) {
        opencl_tier_local.matmul(b, p, way);
        return;
    }
    const tiles t = choose_tiles(&b->e->device->facts, p, way);
    multiply(b, p, &t);
}

const opencl_tier opencl_tier_tensor = {
    .name = "tensor",
    .why = "matrix units that compute rightly: products on them",
    .suits = suits,
    .lacks = lacks,
    .rounds_products = true,
    .row_items = 128,
    .vector = vector,
    .group = 128,
    .matmul_way = matmul_way,
    .matmul = matmul,
    .matmul_scratch_elems = matmul_scratch_elems,
    .attention = opencl_tensor_attention,
    .attention_scratch_elems = opencl_tensor_attention_scratch_elems,
    .most_head_channels = 256,
};
