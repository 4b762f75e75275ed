// local.c: the family for cards. Operands pass through local memory in tiles; the items of a work-group share a row,
// and neighbouring items read neighbouring elements.

#include "backends/opencl/families/families.h"

enum { OPTIONS_SIZE = 256 };

// The kernels' largest work-group: items, and bytes of local memory.
enum { MOST_ITEMS = 128, LOCAL_BYTES = 32 * 1024 };

static bool suits(const opencl_facts *facts) {
    return !facts->is_cpu && facts->has_local_memory && facts->max_group >= MOST_ITEMS &&
           facts->local_bytes >= LOCAL_BYTES;
}

// --- matmul -----------------------------------------------------------------------------------------

// The sizes of cl/products/matmul_local.cl, and the parts of K.
typedef struct {
    int tile_m, tile_n, tile_k, work_m, work_n;
    int64_t part_cols; // of K in a part: a multiple of tile_k
    int n_parts;
} tiles;

// 128 work-items with 8 x 8 sums each: several such groups fit in a unit, so that some compute while others wait.
static const tiles usual_tiles = {.tile_m = 64, .tile_n = 128, .tile_k = 8, .work_m = 8, .work_n = 8};

// Tiles for large products: each load serves twice as many sums.
static const tiles large_tiles = {.tile_m = 256, .tile_n = 128, .tile_k = 8, .work_m = 16, .work_n = 8};

// Others that are faster for some products on some devices.
static const tiles other_tiles[] = {
    {.tile_m = 64, .tile_n = 128, .tile_k = 16, .work_m = 8, .work_n = 8},
    {.tile_m = 128, .tile_n = 128, .tile_k = 8, .work_m = 16, .work_n = 8},
    {.tile_m = 64, .tile_n = 64, .tile_k = 16, .work_m = 8, .work_n = 8},
};

// A way is one of these tiles, with the rule's number of parts, one part, or twice as many.
enum { N_TILES = 2 + sizeof other_tiles / sizeof other_tiles[0], N_CUTS = 3 };

static int64_t part_cols(const opencl_product *p, const tiles *t, int n_parts) {
    return opencl_count_up(opencl_count_up(p->K, n_parts), t->tile_k) * t->tile_k;
}

// The cost of n_parts, in steps along K of one tile, doubled. Units process their tiles in rounds; the last round may
// leave many idle, and half a round passes before a unit is busy. A tile costs some steps to begin and end, and writing
// and adding a part's sums about 40 steps.
static int64_t cost_of_parts(const opencl_facts *facts, const opencl_product *p, const void *of, int n_parts) {
    const tiles *t = of;
    enum { TILE_STEPS = 48, SUM_STEPS = 40 };
    const int64_t n_units = facts->n_units > 0 ? facts->n_units : 1;
    const int64_t n_tiles = opencl_count_up(p->M, t->tile_m) * opencl_count_up(p->N, t->tile_n);
    const int64_t n_rounds = opencl_count_up(n_tiles * n_parts, n_units);
    const int64_t sums = n_parts > 1 ? 2 * SUM_STEPS * n_parts * n_tiles / n_units : 0;
    return (2 * n_rounds + 1) * (part_cols(p, t, n_parts) + TILE_STEPS) + sums;
}

enum { MOST_PARTS = 16, LEAST_COLS = 128, MOST_SCRATCH_ELEMS = 32 * 1024 * 1024 };

static bool can_cut(const opencl_product *p, int n_parts) {
    return n_parts <= MOST_PARTS && p->K / n_parts >= LEAST_COLS && p->M * p->N <= MOST_SCRATCH_ELEMS / n_parts;
}

static void cut(const opencl_product *p, tiles *t, int n_parts) {
    t->part_cols = part_cols(p, t, n_parts);
    t->n_parts = (int)opencl_count_up(p->K, t->part_cols);
}

// Divides K so that no unit is idle for long; not if C alone has enough tiles.
static void cut_by_cost(const opencl_facts *facts, const opencl_product *p, tiles *t) {
    cut(p, t, opencl_cheapest_parts(facts, p, t, cost_of_parts, can_cut));
}

static int64_t items_of(const tiles *t) { return t->tile_m / t->work_m * (t->tile_n / t->work_n); }

// Whether the large tiles, one a unit at a time, keep nearly all units busy in all rounds, and parts' sums are few.
static bool suits_large(const opencl_facts *facts, const opencl_product *p) {
    enum { LEAST_PERCENT = 92, LEAST_PART_COLS = 2048 };
    const int64_t n_units = facts->n_units > 0 ? facts->n_units : 1;
    tiles t = large_tiles;
    cut_by_cost(facts, p, &t);
    const int64_t n_groups = opencl_count_up(p->M, t.tile_m) * opencl_count_up(p->N, t.tile_n) * t.n_parts;
    return (int64_t)facts->max_group >= items_of(&t) && (t.n_parts == 1 || t.part_cols >= LEAST_PART_COLS) &&
           100 * n_groups >= LEAST_PERCENT * n_units * opencl_count_up(n_groups, n_units);
}

// The first are the rule's; the second is the other of the rule's two choices.
static tiles choose_tiles(const opencl_facts *facts, const opencl_product *p, int way) {
    const bool large = suits_large(facts, p) == (way < N_CUTS);
    tiles t = way < 2 * N_CUTS ? large ? large_tiles : usual_tiles : other_tiles[way / N_CUTS - 2];
    cut_by_cost(facts, p, &t);
    if (way % N_CUTS > 0) {
        cut(p, &t, way % N_CUTS == 1 ? 1 : 2 * t.n_parts);
    }
    return t;
}

// False for a way that the device has no room for, or that is the same as the way with the rule's parts.
static bool matmul_way(const opencl_facts *facts, const opencl_product *p, int way, char *text, size_t size_bytes) {
    enum { PAD = 4 };
    if (way >= N_TILES * N_CUTS) {
        return false;
    }
    const tiles by_rule = choose_tiles(facts, p, way / N_CUTS * N_CUTS);
    const tiles t = choose_tiles(facts, p, way);
    const size_t local_bytes = 2 * sizeof(float) * (size_t)(t.tile_k * (t.tile_m + t.tile_n + 2 * PAD));
    snprintf(text, size_bytes, "%dx%dx%d of %dx%d, %d parts", t.tile_m, t.tile_n, t.tile_k, t.work_m, t.work_n,
             t.n_parts);
    return (size_t)items_of(&t) <= facts->max_group && local_bytes <= facts->local_bytes &&
           (way % N_CUTS == 0 || (t.n_parts != by_rule.n_parts && (t.n_parts == 1 || can_cut(p, t.n_parts))));
}

static size_t matmul_scratch_elems(const opencl_facts *facts, const opencl_product *p, int way) {
    const tiles t = choose_tiles(facts, p, way);
    return t.n_parts > 1 ? (size_t)(t.n_parts * p->M * p->N) : 0;
}

static void begin_matmul(opencl_binder *b, const opencl_product *p, const tiles *t, const char *kernel,
                         bool to_scratch) {
    const uint32_t always_beside = t->n_parts > 1 ? 0 : opencl_epilogue(p);
    char options[OPTIONS_SIZE];
    snprintf(options, sizeof options,
             "-DTILE_M=%d -DTILE_N=%d -DTILE_K=%d -DWORK_M=%d -DWORK_N=%d -DLOAD=%d -DK_TAIL=%d -DBESIDE=%u%s%s%s",
             t->tile_m, t->tile_n, t->tile_k, t->work_m, t->work_n, opencl_is_product_aligned(p, 0) ? 4 : 1,
             p->K % t->tile_k != 0, always_beside, p->a_transposed ? " -DA_TRANSPOSED" : "",
             p->b_transposed ? " -DB_TRANSPOSED" : "", opencl_result_option(p, to_scratch));
    opencl_begin(b, "matmul_local", options, kernel);
}

// Adds the sums of the parts, with the epilogue.
static void add_parts(opencl_binder *b, const opencl_product *p, const tiles *t, uint32_t beside) {
    enum { ITEMS = 64, ITEM_COLS = 4 };
    begin_matmul(b, p, t, "matmul_sum", false);
    opencl_arg_parts(b, p, beside, t->n_parts, 0);
    OPENCL_ARGS(b, arg_tensor(p->side), arg_tensor(p->act));
    opencl_launch_groups(b, opencl_count_up(p->N, ITEMS * ITEM_COLS), p->M, ITEMS);
}

static void matmul(opencl_binder *b, const opencl_product *p, int way) {
    const tiles t = choose_tiles(&b->e->device->facts, p, way);
    const uint32_t beside = (p->add ? OPENCL_ADD : 0) | opencl_epilogue(p);
    begin_matmul(b, p, &t, "matmul", t.n_parts > 1);
    opencl_arg_product(b, p, beside, t.part_cols, t.n_parts);
    OPENCL_ARGS(b, arg_tensor(p->side), arg_tensor(p->act));
    opencl_launch_groups(b, opencl_count_up(p->N, t.tile_n), opencl_count_up(p->M, t.tile_m) * t.n_parts,
                         (size_t)items_of(&t));
    if (t.n_parts > 1) {
        add_parts(b, p, &t, beside);
    }
}

// --- attention --------------------------------------------------------------------------------------

// The sizes of cl/products/attention_local.cl.
typedef struct {
    int rows, keys, items_y, items_x;
} score_tile;

// Channels of a head in float4s.
static int64_t padded_channels(const opencl_attention *a) { return opencl_count_up(a->HS, 4) * 4; }

// Local memory of the largest kernel, in floats.
static int64_t tile_elems(const score_tile *t, const opencl_attention *a) {
    const int64_t ld = (opencl_count_up(a->HS, 4) | 1) * 4;
    const int64_t weights = t->rows * (t->keys + 8);
    const int64_t keys = t->keys * ld > weights ? t->keys * ld : weights;
    return a->forward ? t->rows * ld + keys + t->keys * ld + t->rows * t->items_x
                      : 2 * (t->rows + t->keys) * ld + weights * (a->threshold > 0 ? 2 : 1);
}

// The largest tile of scores that fits and is not much larger than all scores; the last ones are for wide heads.
static score_tile choose_score_tile(const opencl_facts *facts, const opencl_attention *a) {
    static const score_tile forward[] = {{64, 32, 16, 8}, {32, 32, 8, 8}, {16, 16, 4, 8}, {8, 8, 2, 8}};
    static const score_tile backward[] = {{64, 64, 8, 16}, {32, 32, 8, 8}, {16, 16, 4, 8}, {8, 8, 2, 8}};
    enum { N = sizeof forward / sizeof forward[0] };
    const score_tile *tile = a->forward ? forward : backward;
    // Cards with matrix units have more local memory than their drivers report.
    const size_t local_bytes =
        facts->local_bytes > facts->shown_local_bytes ? facts->local_bytes : facts->shown_local_bytes;
    for (int left = N; left > 1; left--, tile++) {
        if (tile_elems(tile, a) <= (int64_t)(local_bytes / sizeof(float)) && tile->keys < 2 * a->T) {
            break;
        }
    }
    return *tile;
}

// Groups that share a head's tiles of keys: enough for all units, while scratch has room for a dq of each.
static int64_t count_parts(const opencl_facts *facts, const opencl_attention *a) {
    enum { GROUPS_A_UNIT = 4, MOST_PART_ELEMS = 128 * 1024 * 1024 };
    const score_tile t = choose_score_tile(facts, a);
    const int64_t n_tiles = opencl_count_up(a->T, t.keys);
    const int64_t wanted = opencl_count_up((int64_t)GROUPS_A_UNIT * facts->n_units, a->B * a->NKV);
    const int64_t room = MOST_PART_ELEMS / (a->B * a->NH * a->T * padded_channels(a));
    const int64_t n = wanted < room ? wanted : room;
    return n < 1 ? 1 : n < n_tiles ? n : n_tiles;
}

// Scratch: lse if weights are stored instead; or D, and then the parts of dq, aligned to 4 floats.
static size_t parts_at(const opencl_attention *a) { return (size_t)opencl_count_up(a->B * a->NH * a->T, 4) * 4; }

static size_t attention_scratch_elems(const opencl_facts *facts, SM_UNUSED const sm_plan *plan,
                                      const opencl_attention *a) {
    const int64_t rows = a->B * a->NH * a->T;
    return a->forward ? (size_t)rows : parts_at(a) + (size_t)(count_parts(facts, a) * rows * padded_channels(a));
}

static void begin_attention(opencl_binder *b, const opencl_attention *a, const char *kernel) {
    const score_tile t = choose_score_tile(&b->e->device->facts, a);
    char options[OPTIONS_SIZE];
    snprintf(options, sizeof options,
             "-DFORWARD=%d -DHS=%lld -DROWS=%d -DKEYS=%d -DITEMS_Y=%d -DITEMS_X=%d -DLOAD=%d -DDROPOUT=%d "
             "-DSTORED=%d%s",
             a->forward, (long long)a->HS, t.rows, t.keys, t.items_y, t.items_x,
             opencl_is_attention_aligned(b->e->base.plan, a, 0) ? 4 : 1, a->threshold > 0, a->stores_weights,
             opencl_documents_option(a));
    opencl_begin(b, "attention_local", options, kernel);
    opencl_arg_heads(b, a);
    OPENCL_ARGS(b, arg_tensor(a->starts));
}

// A group for each tile of rows of each head.
static void launch_rows(opencl_binder *b, const opencl_attention *a) {
    const score_tile t = choose_score_tile(&b->e->device->facts, a);
    opencl_launch_groups(b, a->B * a->NH, opencl_count_up(a->T, t.rows), (size_t)(t.items_y * t.items_x));
}

static void attention_forward(opencl_binder *b, const opencl_attention *a) {
    begin_attention(b, a, "attention_forward");
    opencl_arg_mask(b, a);
    OPENCL_ARGS(b, arg_tensor(a->qkv), arg_tensor(a->rng_step), arg_tensor(a->y));
    if (!a->stores_weights) {
        OPENCL_ARGS(b, arg_tensor(a->weights));
        launch_rows(b, a);
        return;
    }
    OPENCL_ARGS(b, arg_scratch(0));
    launch_rows(b, a);
    begin_attention(b, a, "attention_weights");
    OPENCL_ARGS(b, arg_tensor(a->qkv), arg_scratch(0), arg_tensor(a->weights));
    launch_rows(b, a);
}

// The first arguments of the kernels of D, and of dk and dv.
static void begin_backward(opencl_binder *b, const opencl_attention *a, const char *kernel) {
    begin_attention(b, a, kernel);
    opencl_arg_mask(b, a);
    opencl_arg_gradient(b, a);
}

static void attention_backward(opencl_binder *b, const opencl_attention *a) {
    enum { ITEMS = 64, SUM_ROWS = 8 };
    const score_tile t = choose_score_tile(&b->e->device->facts, a);
    const int64_t n_parts = count_parts(&b->e->device->facts, a);
    begin_backward(b, a, "attention_backward_sums");
    OPENCL_ARGS(b, arg_tensor(a->y), arg_scratch(0));
    opencl_launch_groups(b, opencl_count_up(a->T, SUM_ROWS), a->B * a->NH, ITEMS);
    begin_backward(b, a, "attention_backward_keys");
    OPENCL_ARGS(b, arg_scratch(0), arg_scratch(parts_at(a)), arg_tensor(a->dqkv));
    opencl_launch_groups(b, a->B * a->NKV, n_parts, (size_t)(t.items_y * t.items_x));
    begin_attention(b, a, "attention_backward_queries");
    OPENCL_ARGS(b, arg_count(n_parts), arg_scratch(parts_at(a)), arg_tensor(a->dqkv));
    opencl_launch_groups(b, opencl_count_up(a->T * padded_channels(a) / 4, ITEMS), a->B * a->NH, ITEMS);
}

static void attention(opencl_binder *b, const opencl_attention *a) {
    (a->forward ? attention_forward : attention_backward)(b, a);
}

const opencl_family opencl_family_local = {
    .name = "local",
    .why = "a card with local memory of its own: tiles in local memory",
    .suits = suits,
    .sizes = {.vector = 4, .row_items = 128, .group = 128},
    .matmul_way = matmul_way,
    .matmul = matmul,
    .matmul_scratch_elems = matmul_scratch_elems,
    .attention = attention,
    .attention_scratch_elems = attention_scratch_elems,
    .most_head_channels = 256, // with the smallest tiles of a head's rows in local memory
};
