// tensor.c: the family for cards whose matrix units multiply 16-bit numbers and tf32. Other work (plain fp32, rows that
// are not aligned to 16 bytes) runs as in family `local`, op by op.

#include "backends/opencl/nvidia/tensor.h"

enum { OPTIONS_SIZE = 256 };

static const char *lacks(const opencl_facts *facts) { return opencl_find_matrix_units(facts)->missing; }

static bool suits(const opencl_facts *facts) {
    return opencl_family_local.suits(facts) && opencl_find_matrix_units(facts)->has_mma;
}

static const char *explain(const opencl_facts *facts) {
    static char text[SM_TEXT_SIZE];
    const opencl_matrix_units *units = opencl_find_matrix_units(facts);
    snprintf(text, sizeof text,
             units->has_wgmma ? "matrix units: wgmma fed by TMA%.0s" : "matrix units: mma.sync; no wgmma: %.80s",
             units->no_wgmma);
    return text;
}

// --- what products share --------------------------------------------------------------------------------

static int number_bytes(const opencl_product *p) { return (int)sm_dtype_size(p->plan->tensors[p->a].dtype); }

static bool is_bytes(const opencl_product *p) { return p->a_scale != SM_NO_TENSOR; }

enum { CHUNK_BYTES = 16 };

// The units multiply 16-bit numbers, and floats if the plan allows rounding or splitting.
static bool may_round(const opencl_product *p) {
    return sm_dtype_is_narrow(p->plan->tensors[p->a].dtype) || p->plan->products != SM_PRODUCTS_PLAIN;
}

static bool is_product_of_units(const opencl_product *p) {
    return may_round(p) && opencl_is_product_aligned(p, CHUNK_BYTES);
}

// Parts of K store their sums in scratch.
enum { MOST_PARTS = 16, MOST_SCRATCH_ELEMS = 32 * 1024 * 1024 };

static bool has_room_for_parts(const opencl_product *p, int n_parts) {
    return n_parts <= MOST_PARTS && p->M * p->N <= MOST_SCRATCH_ELEMS / n_parts;
}

static uint32_t what_is_beside(const opencl_product *p) { return (p->add ? OPENCL_ADD : 0) | opencl_epilogue(p); }

// Adds the sums of the parts, with the epilogue.
static void add_parts(opencl_binder *b, const opencl_product *p, int n_parts, int64_t at) {
    enum { ITEMS = 64, ITEM_COLS = 2 };
    char options[OPTIONS_SIZE];
    snprintf(options, sizeof options, "-DSUM_ONLY=1%s", opencl_result_option(p, false));
    opencl_begin(b, "matmul_tensor", options, "matmul_sum");
    opencl_arg_parts(b, p, what_is_beside(p), n_parts, at);
    opencl_arg_sides(b, p);
    opencl_launch_groups(b, opencl_count_up(p->N, ITEMS * ITEM_COLS), p->M, ITEMS);
}

// --- products by mma.sync (cl/nvidia/matmul_tensor.cl) -----------------------------------------------------------

// The sizes of cl/nvidia/matmul_tensor.cl, and the parts of K.
typedef struct {
    int tile_m, tile_n, warp_m, warp_n;
    int64_t part_cols; // of K in a part: a multiple of a tile's
    int n_parts;
} tiles;

// Bytes of an operand's row in a tile, and the number of tiles of both operands in local memory.
enum { K_BYTES = 128, STAGES = 3, WARP_ITEMS = 32 };

// 128 x 128 by 4 warps: two such groups fit in a unit, so that one computes while the other waits or stores.
static const tiles narrow_tiles[] = {
    {.tile_m = 128, .tile_n = 128, .warp_m = 64, .warp_n = 64},
    {.tile_m = 128, .tile_n = 256, .warp_m = 64, .warp_n = 64},
    {.tile_m = 64, .tile_n = 128, .warp_m = 32, .warp_n = 64},
    {.tile_m = 64, .tile_n = 64, .warp_m = 32, .warp_n = 32},
};

// Three products for each pair of numbers, and two kinds of sums: fewer fit in a warp's registers.
static const tiles split_tiles[] = {
    {.tile_m = 128, .tile_n = 128, .warp_m = 64, .warp_n = 32},
    {.tile_m = 128, .tile_n = 64, .warp_m = 64, .warp_n = 32},
    {.tile_m = 128, .tile_n = 128, .warp_m = 32, .warp_n = 64},
    {.tile_m = 64, .tile_n = 64, .warp_m = 32, .warp_n = 32},
};

// A way is one of these tiles, with the rule's number of parts, one part, or twice as many.
enum { N_TILES = sizeof narrow_tiles / sizeof narrow_tiles[0], N_CUTS = 3 };
_Static_assert(sizeof split_tiles == sizeof narrow_tiles, "ways of both");

static bool is_split(const opencl_product *p) { return p->plan->products == SM_PRODUCTS_TF32X3; }

static int tile_k(const opencl_product *p) { return K_BYTES / number_bytes(p); }

static void cut(const opencl_product *p, tiles *t, int n_parts) {
    t->part_cols = opencl_count_up(opencl_count_up(p->K, n_parts), tile_k(p)) * tile_k(p);
    t->n_parts = (int)opencl_count_up(p->K, t->part_cols);
}

// The cost of n_parts, in bytes of K. Units process their tiles in rounds; the last may leave many idle. Beginning and
// ending a tile costs as much as some of K, and so does writing and adding a part's sums.
static int64_t cost_of_parts(const opencl_facts *facts, const opencl_product *p, const void *of, int n_parts) {
    const tiles *t = of;
    enum { TILE_BYTES = 512, SUM_BYTES = 512, GROUPS_A_UNIT = 2, GROUP_SUMS = 128 * 128 };
    const int64_t n_groups = opencl_count_up(p->M, t->tile_m) * opencl_count_up(p->N, t->tile_n) * n_parts;
    const int64_t in_a_unit = (int64_t)GROUPS_A_UNIT * GROUP_SUMS / (t->tile_m * t->tile_n);
    const int64_t n_at_once = (facts->n_units > 0 ? facts->n_units : 1) * (in_a_unit > 0 ? in_a_unit : 1);
    const int64_t n_rounds = opencl_count_up(n_groups, n_at_once);
    tiles parted = *t;
    cut(p, &parted, n_parts);
    return n_rounds * (parted.part_cols * number_bytes(p) + TILE_BYTES + (n_parts > 1 ? SUM_BYTES : 0));
}

static bool can_cut(const opencl_product *p, int n_parts) {
    enum { LEAST_STEPS = 4 };
    return has_room_for_parts(p, n_parts) && p->K / n_parts >= LEAST_STEPS * tile_k(p);
}

static tiles choose_tiles(const opencl_facts *facts, const opencl_product *p, int way) {
    tiles t = (is_split(p) ? split_tiles : narrow_tiles)[way / N_CUTS];
    cut(p, &t, opencl_cheapest_parts(facts, p, &t, cost_of_parts, can_cut)); // no unit is idle for long
    if (way % N_CUTS > 0) {
        cut(p, &t, way % N_CUTS == 1 ? 1 : 2 * t.n_parts);
    }
    return t;
}

// False for a way that the device has no room for, or that is the same as the way with the rule's parts.
static bool mma_way(const opencl_facts *facts, const opencl_product *p, int way, char *text, size_t size_bytes) {
    if (way >= N_TILES * N_CUTS) {
        return false;
    }
    const tiles by_rule = choose_tiles(facts, p, way / N_CUTS * N_CUTS);
    const tiles t = choose_tiles(facts, p, way);
    snprintf(text, size_bytes, "mma %dx%d of %dx%d, %d parts", t.tile_m, t.tile_n, t.warp_m, t.warp_n, t.n_parts);
    return STAGES * K_BYTES * (t.tile_m + t.tile_n) <= opencl_tensor_local_bytes(facts) &&
           (way % N_CUTS == 0 || (t.n_parts != by_rule.n_parts && (t.n_parts == 1 || can_cut(p, t.n_parts))));
}

static void multiply_by_mma(opencl_binder *b, const opencl_product *p, const tiles *t) {
    char options[OPTIONS_SIZE];
    const bool is_parted = t->n_parts > 1;
    snprintf(options, sizeof options,
             "-DTILE_M=%d -DTILE_N=%d -DWARP_M=%d -DWARP_N=%d -DK_BYTES=%d -DSTAGES=%d -DK_TAIL=%d%s%s%s%s", t->tile_m,
             t->tile_n, t->warp_m, t->warp_n, K_BYTES, STAGES, p->K % tile_k(p) != 0, is_split(p) ? " -DSPLIT=1" : "",
             p->a_transposed ? " -DA_TRANSPOSED" : "", p->b_transposed ? " -DB_TRANSPOSED" : "",
             opencl_result_option(p, is_parted));
    opencl_begin(b, "matmul_tensor", options, "matmul");
    opencl_arg_product(b, p, what_is_beside(p), t->part_cols, t->n_parts);
    opencl_arg_sides(b, p);
    opencl_launch_groups(b, opencl_count_up(p->N, t->tile_n), opencl_count_up(p->M, t->tile_m) * t->n_parts,
                         (size_t)(t->tile_m / t->warp_m * (t->tile_n / t->warp_n) * WARP_ITEMS));
    if (is_parted) {
        add_parts(b, p, t->n_parts, 0);
    }
}

// --- products by wgmma (cl/nvidia/matmul_wgmma.cl) -----------------------------------------------------------------

// Tiles of 128 x tile_n (or for few rows 64), and rows of tiles that are processed together.
typedef struct {
    int tile_n, band, n_parts;
    bool is_low;
} wide_tiles;

enum { WIDE_TILE_M = 128, WIDE_ROW_BYTES = 128, PRODUCER_ITEMS = 128, GROUP_ROWS = 64, SUM_WARPS = 3 };

static int tile_m_of(const wide_tiles *t) { return t->is_low ? GROUP_ROWS : WIDE_TILE_M; }

static const wide_tiles wide_list[] = {
    {.tile_n = 256, .band = 8},  {.tile_n = 192, .band = 8},
    {.tile_n = 128, .band = 8},  {.tile_n = 256, .band = 16},
    {.tile_n = 192, .band = 16}, {.tile_n = 256, .band = 4},
    {.tile_n = 64, .band = 8},   {.tile_n = 64, .band = 8, .is_low = true},
};
enum { NARROWEST = 6 }; // and the lowest, which leaves no sums of columns, nor squares but in fp8

// With split numbers, and where sums are careful, sums are kept twice.
static const wide_tiles wide_split_list[] = {
    {.tile_n = 128, .band = 8}, {.tile_n = 128, .band = 16}, {.tile_n = 128, .band = 4}};

static bool is_float(const opencl_product *p) { return !sm_dtype_is_narrow(p->plan->tensors[p->a].dtype); }

// The units keep about 14 bits of sums of bytes: for a long K, those of 128 are added in fp32.
static bool is_careful(const opencl_product *p) {
    enum { LONG = 2048 };
    return is_bytes(p) && p->K > LONG;
}

static bool keeps_twice(const opencl_product *p) { return is_split(p) || is_careful(p); }

// Way 0 is the rule's; the others are one of these tiles, with the rule's number of parts, one part, or twice as many.
static int count_wide(const opencl_product *p) {
    return keeps_twice(p) ? (int)SM_COUNT(wide_split_list) : NARROWEST + (is_float(p) ? 0 : p->a_transposed ? 1 : 2);
}

// Floats of A can reach the units through registers, where they are rounded or split; those of B cannot. (With
// ACT_BACKWARD the assembler would serialise the products, unless they are serial anyway.)
static bool is_a_raw(const opencl_product *p) {
    return is_float(p) && (is_split(p) || (p->epilogue & SM_EPILOGUE_ACT_BACKWARD) == 0);
}

// Stride of rows of a float operand that was rounded or split.
static int64_t prepared_row(const opencl_product *p) {
    const int step = CHUNK_BYTES / (int)sizeof(float);
    return opencl_count_up(p->K, step) * step;
}

static bool is_wide_product(const opencl_facts *facts, const opencl_product *p) {
    enum { MOST_SHARE = 8 }; // of the memory, for the operands of a float product
    const int64_t n_rows = is_float(p) ? (is_a_raw(p) ? 0 : p->M) + p->N * (is_split(p) ? 2 : 1) : 0;
    const bool has_operands = n_rows * prepared_row(p) <= (int64_t)(facts->memory_bytes / sizeof(float)) / MOST_SHARE;
    const bool can_add = !p->add || !sm_dtype_is_narrow(p->plan->tensors[p->c].dtype);
    return has_operands && can_add && p->M <= INT32_MAX && p->N <= INT32_MAX && p->K <= INT32_MAX &&
           (is_bytes(p) ? opencl_has_wgmma_for(facts, OPENCL_FOR_BYTES)
                        : opencl_has_wgmma(facts, p->plan->tensors[p->a].dtype, p->plan->products));
}

// Columns of B are summed where they lie in local memory as they are: 16-bit numbers along C.
static bool matmul_sums(const opencl_facts *facts, const opencl_product *p) {
    return p->summed != SM_NO_TENSOR && p->summed == p->b && !p->b_transposed && !is_float(p) &&
           is_product_of_units(p) && is_wide_product(facts, p) && opencl_has_wgmma_for(facts, OPENCL_FOR_SUMS);
}

static int wide_tile_k(const opencl_product *p) { return WIDE_ROW_BYTES / number_bytes(p); }

static bool can_cut_wide(const opencl_product *p, int n_parts) {
    enum { LEAST_STEPS = 8 };
    return has_room_for_parts(p, n_parts) && opencl_count_up(p->K, wide_tile_k(p)) / n_parts >= LEAST_STEPS;
}

// The cost in 128 bytes of K of a column of C: the tiles of the busiest unit, each with its beginning and end. A's tile
// is loaded again for each of B's, which counts as 32 columns; a low tile costs two thirds, as its bytes. All units
// write and read the parts' sums once more.
static int64_t cost_of_wide(const opencl_facts *facts, const opencl_product *p, const void *of, int n_parts) {
    const wide_tiles *t = of;
    enum { TILE_STEPS = 2, A_COLS = 32, LAUNCH_STEPS = 1000, SUMS_A_STEP = 8 }; // sums that a unit writes and reads
    const int64_t n_units = facts->n_units > 0 ? facts->n_units : 1;
    const int64_t n_tiles = opencl_count_up(p->M, tile_m_of(t)) * opencl_count_up(p->N, t->tile_n) * n_parts;
    const int64_t n_steps = opencl_count_up(opencl_count_up(p->K, wide_tile_k(p)), n_parts) + TILE_STEPS;
    const int64_t sums = n_parts > 1 ? p->M * p->N * n_parts / (n_units * SUMS_A_STEP) + LAUNCH_STEPS : 0;
    return opencl_count_up(n_tiles, n_units) * n_steps * (t->tile_n + (t->is_low ? 0 : A_COLS)) + sums;
}

static wide_tiles wide_of(const opencl_facts *facts, const opencl_product *p, int index) {
    wide_tiles t = (keeps_twice(p) ? wide_split_list : wide_list)[index];
    t.n_parts = opencl_cheapest_parts(facts, p, &t, cost_of_wide, can_cut_wide);
    return t;
}

static wide_tiles choose_wide_by_rule(const opencl_facts *facts, const opencl_product *p) {
    enum { N_TRIED = 3 };        // the others differ in their bands, or are for few rows of 16-bit numbers
    enum { WORTH_PERCENT = 94 }; // another program takes half a second to build
    wide_tiles best = wide_of(facts, p, 0);
    for (int i = 1; i < count_wide(p); i += i == N_TRIED - 1 ? NARROWEST - i : 1) {
        const wide_tiles t = wide_of(facts, p, i);
        if (cost_of_wide(facts, p, &t, t.n_parts) * 100 < cost_of_wide(facts, p, &best, best.n_parts) * WORTH_PERCENT &&
            (!t.is_low || opencl_has_wgmma_for(facts, OPENCL_FOR_LOW))) {
            best = t;
        }
    }
    return best;
}

static wide_tiles choose_wide(const opencl_facts *facts, const opencl_product *p, int way) {
    if (way == 0) {
        return choose_wide_by_rule(facts, p);
    }
    wide_tiles t = wide_of(facts, p, (way - 1) / N_CUTS);
    const int cut_way = (way - 1) % N_CUTS;
    t.n_parts = cut_way == 0 ? t.n_parts : cut_way == 1 ? 1 : 2 * t.n_parts;
    return t;
}

static bool wide_way(const opencl_facts *facts, const opencl_product *p, int way, char *text, size_t size_bytes) {
    const wide_tiles t = choose_wide(facts, p, way);
    const int cut_way = way == 0 ? 0 : (way - 1) % N_CUTS;
    snprintf(text, size_bytes, "wgmma %dx%d, bands of %d, %d parts", tile_m_of(&t), t.tile_n, t.band, t.n_parts);
    return cut_way == 0 || (cut_way == 1 ? choose_wide(facts, p, way - 1).n_parts > 1 : can_cut_wide(p, t.n_parts));
}

// The number of stages that fit in local memory next to the boxes of results.
static int count_stages(const opencl_product *p, const wide_tiles *t, uint32_t beside) {
    enum { LOCAL_BYTES = 231424, BARRIER_BYTES = 128, BOX_BYTES = 8192 };
    const int n_outputs = beside & OPENCL_ACT ? 2 : 1;
    const int most = t->is_low ? 8 : 6; // as much as is on its way from the cache
    const int left = LOCAL_BYTES - BARRIER_BYTES - tile_m_of(t) / GROUP_ROWS * 2 * n_outputs * BOX_BYTES;
    const int n = left / ((tile_m_of(t) + t->tile_n * (is_split(p) ? 2 : 1)) * WIDE_ROW_BYTES);
    return n < most ? n : most;
}

// Offsets of float operands in scratch; the parts' sums follow, and strips of the sums of B's columns.
typedef struct {
    int64_t a, b, small_b, sums, strips;
} scratch_places;

static scratch_places place_in_scratch(const opencl_product *p, int n_parts) {
    const int64_t a_elems = is_float(p) && !is_a_raw(p) ? p->M * prepared_row(p) : 0;
    const int64_t b_elems = is_float(p) ? p->N * prepared_row(p) : 0;
    scratch_places at = {.a = 0, .b = a_elems};
    at.small_b = at.b + (is_split(p) ? b_elems : 0);
    at.sums = at.small_b + b_elems;
    at.strips = at.sums + (n_parts > 1 ? n_parts * p->M * p->N : 0);
    return at;
}

// One of each warp that sums columns, for each row of tiles and part of K.
static int64_t count_column_strips(const opencl_product *p, int n_parts) {
    return SUM_WARPS * opencl_count_up(p->M, WIDE_TILE_M) * n_parts;
}

// Rounds or splits an operand (rows,cols), and transposes it unless K is along its rows.
static void prepare_operand(opencl_binder *b, const opencl_product *p, int tensor, bool along_k, int64_t outer,
                            int64_t at, int64_t small_at) {
    enum { TILE = 64, ITEMS = 256 };
    char options[OPTIONS_SIZE];
    const int64_t n_rows = along_k ? outer : p->K;
    const int64_t n_cols = along_k ? p->K : outer;
    snprintf(options, sizeof options, "-DTRANSPOSE=%d -DSPLIT=%d", !along_k, is_split(p));
    opencl_begin(b, "operand_tensor", options, "prepare_operand");
    OPENCL_ARGS(b, arg_count(n_rows), arg_count(n_cols), arg_tensor(tensor), arg_scratch((size_t)at),
                arg_count(small_at));
    opencl_launch_groups(b, opencl_count_up(n_cols, TILE), opencl_count_up(n_rows, TILE), ITEMS);
}

// K as the kernel counts it: two bytes are a number of 16 bits.
static int64_t counted_k(const opencl_product *p) { return is_bytes(p) ? p->K / 2 : p->K; }

// An operand: along K a box has 128 bytes of K and all rows of a tile, otherwise 64 rows or columns of C and 64 of K.
static opencl_tensor_map map_operand(const opencl_product *p, int tensor, bool along_k, int64_t outer, int tile) {
    const int tile_k = is_bytes(p) ? wide_tile_k(p) / 2 : wide_tile_k(p);
    return (opencl_tensor_map){.tensor = tensor,
                               .dtype = is_bytes(p) ? SM_BF16 : p->plan->tensors[tensor].dtype,
                               .n_dims = 2,
                               .dims = {along_k ? counted_k(p) : outer, along_k ? outer : p->K},
                               .box = {tile_k, along_k ? tile : tile_k}};
}

// A prepared operand.
static opencl_tensor_map map_prepared(const opencl_product *p, int64_t outer, int tile, int64_t at) {
    return (opencl_tensor_map){.tensor = SM_NO_TENSOR,
                               .scratch_offset = at,
                               .dtype = SM_F32,
                               .n_dims = 2,
                               .dims = {p->K, outer},
                               .row_elems = prepared_row(p),
                               .box = {wide_tile_k(p), tile}};
}

// C, the activation's result (rows: a consumer's), or ACT_BACKWARD's pre (rows: a tile's).
static opencl_tensor_map map_result(const opencl_product *p, int tensor, int n_rows, int n_dims) {
    const sm_dtype dtype = p->plan->tensors[tensor].dtype;
    return (opencl_tensor_map){.tensor = tensor,
                               .dtype = dtype,
                               .n_dims = n_dims,
                               .dims = {p->N, p->M, 1},
                               .box = {WIDE_ROW_BYTES / (int)sm_dtype_size(dtype), n_rows, 1}};
}

static void arg_wide_maps(opencl_binder *b, const opencl_product *p, const wide_tiles *t) {
    const scratch_places at = place_in_scratch(p, t->n_parts);
    const bool has_pre = (p->epilogue & SM_EPILOGUE_ACT_BACKWARD) != 0;
    opencl_tensor_map maps[OPENCL_MOST_MAPS];
    maps[0] = is_float(p) && !is_a_raw(p) ? map_prepared(p, p->M, WIDE_TILE_M, at.a)
                                          : map_operand(p, p->a, !p->a_transposed, p->M, tile_m_of(t));
    maps[1] =
        is_float(p) ? map_prepared(p, p->N, t->tile_n, at.b) : map_operand(p, p->b, p->b_transposed, p->N, t->tile_n);
    maps[2] = map_result(p, p->c, GROUP_ROWS, 3);
    if (t->n_parts > 1) {
        maps[2] = (opencl_tensor_map){.tensor = SM_NO_TENSOR, // sums of parts, in scratch
                                      .scratch_offset = at.sums,
                                      .dtype = SM_F32,
                                      .n_dims = 3,
                                      .dims = {p->N, p->M, t->n_parts},
                                      .box = {WIDE_ROW_BYTES / (int)sizeof(float), GROUP_ROWS, 1}};
    }
    maps[3] = has_pre ? map_result(p, p->side, tile_m_of(t), 2)
                      : map_result(p, p->act != SM_NO_TENSOR ? p->act : p->c, GROUP_ROWS, 3);
    maps[4] = is_split(p) ? map_prepared(p, p->N, t->tile_n, at.small_b) : maps[1];
    opencl_arg_maps(b, maps, OPENCL_MOST_MAPS);
}

// The epilogue that a program is built with: bias and addition stay optional, so that fewer programs are built. Only
// forward products, with unprepared operands, have a bias.
static uint32_t compiled_beside(const opencl_product *p, uint32_t beside) {
    const uint32_t bias = p->a_transposed || p->b_transposed ? beside & OPENCL_BIAS : OPENCL_BIAS;
    return (beside & (OPENCL_ACT | OPENCL_ACT_BACKWARD)) | bias;
}

static void multiply_by_wgmma(opencl_binder *b, const opencl_product *p, const wide_tiles *t) {
    enum { FEW_STEPS = 64 }; // of K, on a unit: then others run beside it
    char options[OPTIONS_SIZE];
    const bool is_parted = t->n_parts > 1;
    const uint32_t beside = is_parted ? 0 : what_is_beside(p);
    const int64_t n_tiles = opencl_count_up(p->M, tile_m_of(t)) * opencl_count_up(p->N, t->tile_n) * t->n_parts;
    const int n_units = b->e->device->facts.n_units;
    const bool has_sums = matmul_sums(&b->e->device->facts, p);
    const int64_t n_steps = opencl_count_up(n_tiles, n_units) * opencl_count_up(p->K, wide_tile_k(p)) / t->n_parts;
    const bool spares = !is_float(p) && !is_careful(p) && n_steps <= FEW_STEPS;
    const scratch_places at = place_in_scratch(p, t->n_parts);
    if (is_float(p) && !is_a_raw(p)) {
        prepare_operand(b, p, p->a, !p->a_transposed, p->M, at.a, 0);
    }
    if (is_float(p)) {
        prepare_operand(b, p, p->b, p->b_transposed, p->N, at.b, at.small_b);
    }
    snprintf(options, sizeof options, "-DTILE_N=%d -DSTAGES=%d -DBESIDE=%u%s%s%s%s%s%s%s%s%s", t->tile_n,
             count_stages(p, t, beside), compiled_beside(p, beside), is_split(p) ? " -DSPLIT=1" : "",
             is_a_raw(p) ? " -DA_RAW=1" : "", p->a_transposed && (!is_float(p) || is_a_raw(p)) ? " -DA_TRANSPOSED" : "",
             p->b_transposed && !is_float(p) ? " -DB_TRANSPOSED" : "", opencl_result_option(p, is_parted),
             has_sums ? " -DCOLUMN_SUMS=1" : "", spares ? " -DSPARING" : "", p->leaves_squares ? " -DSQUARES=1" : "",
             t->is_low ? " -DCONSUMERS=1" : "");
    if (is_bytes(p)) {
        sm_append(options, sizeof options, " -DFP8_A=%s -DFP8_B=%s%s", sm_dtype_name(p->plan->tensors[p->a].dtype),
                  sm_dtype_name(p->plan->tensors[p->b].dtype), is_careful(p) ? " -DCAREFUL=1" : "");
    }
    opencl_begin(b, "matmul_wgmma", options, "matmul");
    OPENCL_ARGS(b, arg_uint(beside), arg_uint((uint32_t)p->M), arg_uint((uint32_t)p->N),
                arg_uint((uint32_t)counted_k(p)), arg_uint((uint32_t)t->n_parts), arg_uint((uint32_t)t->band));
    arg_wide_maps(b, p, t);
    OPENCL_ARGS(b, arg_tensor(p->epilogue & SM_EPILOGUE_BIAS ? p->side : SM_NO_TENSOR));
    if (has_sums) {
        OPENCL_ARGS(b, arg_scratch((size_t)at.strips));
    }
    if (is_bytes(p)) {
        OPENCL_ARGS(b, arg_tensor(p->a_scale), arg_tensor(p->b_scale));
    }
    if (p->leaves_squares) {
        OPENCL_ARGS(b, opencl_arg_squares(b, &p->plan->tensors[p->c], 0));
    }
    opencl_launch_groups(b, n_tiles < n_units ? n_tiles : n_units, 1, (size_t)(2 * tile_m_of(t) + PRODUCER_ITEMS));
    if (is_parted) {
        add_parts(b, p, t->n_parts, at.sums);
    }
    if (has_sums) {
        opencl_sum_strips(b, at.strips, count_column_strips(p, t->n_parts), p->N, p->sums, p->add);
    }
}

// --- matmul -----------------------------------------------------------------------------------------------

// With wgmma, ways by mma.sync are never faster and are left out.
static bool matmul_way(const opencl_facts *facts, const opencl_product *p, int way, char *text, size_t size_bytes) {
    if (!is_product_of_units(p)) {
        return opencl_family_local.matmul_way(facts, p, way, text, size_bytes);
    }
    if (!is_wide_product(facts, p)) {
        return mma_way(facts, p, way, text, size_bytes);
    }
    return way < 1 + count_wide(p) * N_CUTS && wide_way(facts, p, way, text, size_bytes);
}

static size_t matmul_scratch_elems(const opencl_facts *facts, const opencl_product *p, int way) {
    if (!is_product_of_units(p)) {
        return opencl_family_local.matmul_scratch_elems(facts, p, way);
    }
    if (is_wide_product(facts, p)) {
        const int n_parts = choose_wide(facts, p, way).n_parts;
        const int64_t strips = matmul_sums(facts, p) ? count_column_strips(p, n_parts) * p->N : 0;
        return (size_t)(place_in_scratch(p, n_parts).strips + strips);
    }
    const int n_parts = choose_tiles(facts, p, way).n_parts;
    return (size_t)(n_parts > 1 ? n_parts * p->M * p->N : 0);
}

// A sum for each warp's 16 rows of 64 columns.
static bool matmul_squares(const opencl_facts *facts, const opencl_product *p, int way) {
    return p->M % WIDE_TILE_M == 0 && p->N % OPENCL_BOX_CHANNELS == 0 && !is_float(p) && is_product_of_units(p) &&
           is_wide_product(facts, p) && choose_wide(facts, p, way).n_parts == 1;
}

static void matmul(opencl_binder *b, const opencl_product *p, int way) {
    const opencl_facts *facts = &b->e->device->facts;
    if (!is_product_of_units(p)) {
        b->e->n_beside_units += may_round(p);
        opencl_family_local.matmul(b, p, way);
        return;
    }
    b->e->n_on_units++;
    if (is_wide_product(facts, p)) {
        const wide_tiles t = choose_wide(facts, p, way);
        multiply_by_wgmma(b, p, &t);
    } else {
        const tiles t = choose_tiles(facts, p, way);
        multiply_by_mma(b, p, &t);
    }
}

// --- the family -------------------------------------------------------------------------------------------

static size_t map_bytes(const opencl_facts *facts, const sm_plan *plan) {
    const bool uses_maps = opencl_find_matrix_units(facts)->has_wgmma &&
                           (sm_dtype_is_narrow(plan->dtype) || plan->products != SM_PRODUCTS_PLAIN);
    return uses_maps ? opencl_map_bytes(plan) : 0;
}

static size_t local_bytes(const opencl_facts *facts) {
    return opencl_find_matrix_units(facts)->has_mma ? (size_t)opencl_tensor_local_bytes(facts) : 0;
}

// Products by a warp (cl/nvidia/peaks_tensor.cl) or by four (cl/nvidia/peaks_wgmma.cl), as in matmuls.
static opencl_arithmetic peak(const opencl_device *device, sm_precision precision) {
    enum { WARPS = 4, GROUPS_A_UNIT = 8, WGMMA_ITEMS = 256 };
    static const char *const options[] = {[SM_F32] = "", [SM_BF16] = "-DDATA_BF16", [SM_F16] = "-DDATA_F16"};
    const bool is_wide = opencl_has_wgmma(&device->facts, precision.dtype, precision.products);
    const bool is_fp8 = precision.products == SM_PRODUCTS_FP8;
    const double k = (double)K_BYTES / (double)sm_dtype_size(is_fp8 ? SM_E4M3 : precision.dtype);
    const size_t n_units = (size_t)device->facts.n_units;
    const bool is_split = precision.products == SM_PRODUCTS_TF32X3;
    const char *wide_text = is_split ? "a third of wgmma's tf32 products"
                            : is_fp8 ? "products of e4m3 by wgmma"
                                     : "products by wgmma";
    const char *warp_text = is_split ? "a third of mma.sync's tf32 products" : "products by mma.sync";
    return is_wide ? (opencl_arithmetic){.stem = "peaks_wgmma",
                                         .options = is_fp8 ? "-DDATA_BF16 -DFP8_A=e4m3 -DFP8_B=e4m3 -DB_TRANSPOSED"
                                                           : options[precision.dtype],
                                         .what = wide_text,
                                         .group = WGMMA_ITEMS,
                                         .n_groups = n_units,
                                         .flops_a_group = 2.0 * 2 * 64 * 256 * k,
                                         .share = is_split ? 1.0 / 3 : 1}
                   : (opencl_arithmetic){.stem = "peaks_tensor",
                                         .options = options[precision.dtype],
                                         .what = warp_text,
                                         .group = (size_t)WARPS * WARP_ITEMS,
                                         .n_groups = n_units * GROUPS_A_UNIT,
                                         .flops_a_group = 2.0 * WARPS * OPENCL_PEAK_CHAINS * 16 * 8 * k / 4,
                                         .share = is_split ? 1.0 / 3 : 1};
}

static bool multiplies(const opencl_facts *facts, sm_products products) {
    return products == SM_PRODUCTS_TF32 || products == SM_PRODUCTS_TF32X3 ||
           (products == SM_PRODUCTS_FP8 && opencl_has_wgmma_for(facts, OPENCL_FOR_BYTES));
}

static const opencl_recipe recipes[] = {
    {.name = "tensor_probe", .stems = {"tensor", "tensor_probe"}},
    {.name = "operand_tensor", .stems = {"tensor", "operand_tensor"}},
    {.name = "cast_fp8", .stems = {"tensor", "cast_fp8"}},
    {.name = "matmul_tensor", .stems = {"tensor", "matmul_tensor"}},
    {.name = "matmul_wgmma", .stems = {"tensor", "tma", "wgmma", "matmul_wgmma"}, .rewrite = opencl_retarget},
    {.name = "attention_tensor", .stems = {"tensor", "heads", "attention_tiles", "attention_tensor"}},
    {.name = "attention_wgmma",
     .stems = {"tensor", "tma", "attention_wgmma", "heads", "attention_tiles", "attention_tensor"},
     .rewrite = opencl_retarget},
    {.name = "peaks_tensor", .stems = {"tensor", "peaks_tensor"}},
    {.name = "peaks_wgmma", .stems = {"tensor", "tma", "wgmma", "peaks_wgmma"}, .rewrite = opencl_retarget},
    {.name = NULL},
};

const opencl_family opencl_family_tensor = {
    .name = "tensor",
    .why = "matrix units that compute rightly: products on them",
    .explain = explain,
    .suits = suits,
    .lacks = lacks,
    .multiplies_narrow = true,
    .multiplies = multiplies,
    .sizes = {.vector = 4, .row_items = 128, .group = 128, .options = " -DPACKS_BF16", .recipes = recipes},
    .most_head_channels = 256,
    .matmul_way = matmul_way,
    .matmul = matmul,
    .matmul_scratch_elems = matmul_scratch_elems,
    .matmul_sums = matmul_sums,
    .matmul_squares = matmul_squares,
    .attention = opencl_tensor_attention,
    .attention_scratch_elems = opencl_tensor_attention_scratch_elems,
    .peak = peak,
    .local_bytes = local_bytes,
    .own_bytes = map_bytes,
    .release = opencl_free_maps,
};
