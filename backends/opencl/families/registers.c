// registers.c: the family for processors. Tiles are in vector registers; local memory is ordinary memory there, and
// keeps a packed operand in the cache; each row is processed by one work-item.

#include "backends/opencl/families/families.h"

// The sizes of cl/products/matmul_registers.cl for one device.
typedef struct {
    int tile_m, tile_v, block_tiles, block_k;
} tiles;

enum { PACK_K = 64, LANE_VECS = 2, OPTIONS_SIZE = 256, N_WIDTHS = 3, N_WAYS = 2 * N_WIDTHS };

// The last in the list of families: it suits every device.
static bool suits(SM_UNUSED const opencl_facts *facts) { return true; }

// Floats in the device's vectors, as a size of OpenCL C.
static int vector(const opencl_facts *facts) {
    return facts->vector_width >= 16 ? 16 : facts->vector_width >= 8 ? 8 : 4;
}

// 32 registers of 16 floats hold 24 sums, 16 of 8 floats 12: way 0. Others have wider, narrower or shorter blocks of B.
static tiles choose_tiles(const opencl_facts *facts, int way) {
    static const int block_tiles[N_WIDTHS] = {4, 8, 2};
    tiles t = {.tile_m = 6, .tile_v = 2, .block_tiles = 4, .block_k = 256};
    if (vector(facts) == 16) {
        t = (tiles){.tile_m = 12, .tile_v = 2, .block_tiles = 4, .block_k = 512};
    }
    t.block_tiles = block_tiles[way % N_WIDTHS];
    t.block_k >>= way / N_WIDTHS;
    // The packed part of B takes half of the device's local memory.
    const size_t column_bytes = (size_t)(t.tile_v * vector(facts) * t.block_tiles) * sizeof(float);
    while (t.block_k > 32 && (size_t)t.block_k * column_bytes > facts->local_bytes / 2) {
        t.block_k /= 2;
    }
    return t;
}

// Columns of C of a work-group.
static int64_t block_cols(const opencl_facts *facts, const tiles *t) {
    return (int64_t)t->tile_v * vector(facts) * t->block_tiles;
}

// --- matmul -----------------------------------------------------------------------------------------

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

// A product is divided so that a packed piece of A' stays small: its rows and columns.
typedef struct {
    int64_t rows, cols;
} piece;

static int64_t split_evenly(int64_t n, int64_t most, int64_t step) {
    return opencl_count_up(opencl_count_up(n, opencl_count_up(n, most)), step) * step;
}

static piece choose_piece(const opencl_product *p, const tiles *t) {
    enum { MOST_COLS = 4096, MOST_ELEMS = 4 * 1024 * 1024 };
    piece part;
    part.cols = split_evenly(p->K, MOST_COLS, t->block_k);
    part.cols = part.cols < p->K ? part.cols : p->K;
    part.rows = split_evenly(p->M, MOST_ELEMS / part.cols, t->tile_m);
    return part;
}

static bool matmul_way(const opencl_facts *facts, SM_UNUSED const opencl_product *p, int way, char *text,
                       size_t size_bytes) {
    if (way >= N_WAYS) {
        return false;
    }
    const tiles t = choose_tiles(facts, way);
    snprintf(text, size_bytes, "blocks of %d x %d", t.block_tiles, t.block_k);
    return true;
}

// If C is rounded and K is added in several steps, the sums of some columns are kept in scratch, after the piece of A'.
static bool keeps_sums(const opencl_product *p, const tiles *t) { return opencl_rounds(p) && p->K > t->block_k; }

static int64_t packed_elems(const piece *part) { return (part->rows * part->cols + 15) / 16 * 16; }

// Columns of C computed together: all, or those with sums in scratch.
static int64_t choose_cols(const opencl_facts *facts, const opencl_product *p, const tiles *t, const piece *part) {
    enum { MOST_SUMS = 4 * 1024 * 1024 };
    return keeps_sums(p, t) ? split_evenly(p->N, MOST_SUMS / part->rows, block_cols(facts, t)) : p->N;
}

static size_t matmul_scratch_elems(const opencl_facts *facts, const opencl_product *p, int way) {
    const tiles t = choose_tiles(facts, way);
    const piece part = choose_piece(p, &t);
    const int64_t sums = keeps_sums(p, &t) ? part.rows * choose_cols(facts, p, &t, &part) : 0;
    return (size_t)(packed_elems(&part) + sums);
}

// Panels of A' for each work-group: all, unless there are too few groups to keep the device busy. Groups of the same
// columns each pack B', which few panels do not repay.
static int64_t choose_block_panels(const opencl_facts *facts, int64_t n_blocks, int64_t n_panels) {
    enum { LEAST_GROUPS_A_UNIT = 3, GROUPS_A_UNIT = 6, LEAST_PANELS = 8, FEW_PANELS = 24 };
    const int64_t split = opencl_count_up(n_panels, opencl_count_up((int64_t)GROUPS_A_UNIT * facts->n_units, n_blocks));
    const int64_t less =
        opencl_count_up(n_panels, opencl_count_up((int64_t)LEAST_GROUPS_A_UNIT * facts->n_units, n_blocks));
    const int64_t panels = split < FEW_PANELS ? less : split;
    return panels > LEAST_PANELS ? panels : LEAST_PANELS;
}

// A part of the product: rows [m, m + M) and columns [n, n + N) of C, and the range [k, k + K) of the sum.
typedef struct {
    int64_t m, n, k, M, N, K;
} span;

static void pack_piece(opencl_binder *b, const opencl_product *p, const tiles *t, const char *options, const span *s) {
    opencl_begin(b, "matmul_registers", options, "matmul_pack");
    OPENCL_ARGS(b, arg_uint(p->a_transposed), arg_count(s->M), arg_count(s->K),
                arg_count(p->a_transposed ? p->M : p->K),
                arg_tensor_at(p->a, p->a_transposed ? s->k * p->M + s->m : s->m * p->K + s->k), arg_scratch(0));
    const int64_t n_chunks = opencl_count_up(s->K, PACK_K);
    const int64_t n_panels = opencl_count_up(s->M, t->tile_m);
    opencl_launch_groups(b, p->a_transposed ? n_panels : n_chunks, p->a_transposed ? n_chunks : n_panels, 1);
}

// Epilogue: cl/products/matmul_registers.cl. Sums before the rest of K are in C, or in scratch from sums_at.
static void multiply_piece(opencl_binder *b, const opencl_product *p, const tiles *t, const char *options,
                           const span *s, int64_t sums_at) {
    const opencl_facts *facts = &b->e->device->facts;
    const int64_t n_blocks = opencl_count_up(s->N, block_cols(facts, t));
    const int64_t n_panels = opencl_count_up(s->M, t->tile_m);
    const int64_t block_panels = choose_block_panels(facts, n_blocks, n_panels);
    const int64_t at = s->m * p->N + s->n; // in C
    const bool side_is_matrix = (p->epilogue & SM_EPILOGUE_ACT_BACKWARD) != 0;
    opencl_begin(b, "matmul_registers", options, "matmul");
    OPENCL_ARGS(b, arg_uint(p->b_transposed), arg_uint(p->add || s->k > 0 ? OPENCL_ADD : 0),
                arg_uint(s->k + s->K == p->K ? OPENCL_LAST | opencl_epilogue(p) : 0), arg_count(s->M), arg_count(s->N),
                arg_count(s->K), arg_count(block_panels), arg_scratch(0), arg_count(p->b_transposed ? p->K : p->N),
                arg_tensor_at(p->b, p->b_transposed ? s->n * p->K + s->k : s->k * p->N + s->n));
    if (keeps_sums(p, t)) {
        OPENCL_ARGS(b, arg_count(s->N), arg_scratch((size_t)sums_at));
    } else {
        OPENCL_ARGS(b, arg_count(p->N), arg_tensor_at(p->c, at));
    }
    OPENCL_ARGS(b, arg_count(p->N), arg_tensor_at(p->c, at), arg_tensor_at(p->side, side_is_matrix ? at : s->n),
                arg_tensor_at(p->act, at), arg_local((size_t)(block_cols(facts, t) * t->block_k) * sizeof(float)));
    opencl_launch_groups(b, n_blocks, opencl_count_up(n_panels, block_panels), 1);
}

// Rows from m and columns from n, over all of K.
static void multiply_block(opencl_binder *b, const opencl_product *p, const tiles *t, const char *options,
                           const piece *part, span s) {
    const bool is_packed = s.n > 0 && part->cols >= p->K; // for the columns before
    for (s.k = 0; s.k < p->K; s.k += part->cols) {
        s.K = least(part->cols, p->K - s.k);
        if (!is_packed) {
            pack_piece(b, p, t, options, &s);
        }
        multiply_piece(b, p, t, options, &s, packed_elems(part));
    }
}

static void matmul(opencl_binder *b, const opencl_product *p, int way) {
    const opencl_facts *facts = &b->e->device->facts;
    const tiles t = choose_tiles(facts, way);
    const piece part = choose_piece(p, &t);
    const int64_t cols = choose_cols(facts, p, &t, &part);
    char options[OPTIONS_SIZE];
    snprintf(options, sizeof options, "-DTILE_M=%d -DTILE_V=%d -DBLOCK_TILES=%d -DBLOCK_K=%d -DPACK_K=%d%s", t.tile_m,
             t.tile_v, t.block_tiles, t.block_k, PACK_K, opencl_result_option(p, false));
    for (int64_t m = 0; m < p->M; m += part.rows) {
        for (int64_t n = 0; n < p->N; n += cols) {
            const span s = {.m = m, .n = n, .M = least(part.rows, p->M - m), .N = least(cols, p->N - n)};
            multiply_block(b, p, &t, options, &part, s);
        }
    }
}

// --- attention --------------------------------------------------------------------------------------

static size_t attention_scratch_elems(SM_UNUSED const opencl_facts *facts, SM_UNUSED const sm_plan *plan,
                                      const opencl_attention *a) {
    return a->forward ? 0 : (size_t)(a->B * a->NH * a->T); // D
}

static void attention(opencl_binder *b, const opencl_attention *a) {
    char options[OPTIONS_SIZE];
    snprintf(options, sizeof options, "-DHS=%lld -DLANE_VECS=%d%s", (long long)a->HS, LANE_VECS,
             opencl_documents_option(a));
    // An item for some tokens of each head in a sequence: one in each lane of LANE_VECS vecs.
    const int64_t n_items = opencl_count_up(a->T, (int64_t)LANE_VECS * vector(&b->e->device->facts));
    for (int part = opencl_first_part(a); part <= opencl_last_part(a); part++) {
        opencl_begin(b, "attention_registers", options, opencl_attention_kernels[part]);
        OPENCL_ARGS(b, arg_uint(a->stores_weights));
        opencl_arg_heads(b, a);
        OPENCL_ARGS(b, arg_tensor(a->starts));
        opencl_arg_mask(b, a);
        opencl_arg_attention(b, a, part);
        opencl_launch_groups(b, n_items, a->B * (part == OPENCL_ATTENTION_KEYS ? a->NKV : a->NH), 1);
    }
}

const opencl_family opencl_family_registers = {
    .name = "registers",
    .why = "a processor, or too little local memory of its own: tiles in vector registers",
    .suits = suits,
    .sizes = {.row_items = 1, .group = 64},
    .vector = vector,
    .matmul_way = matmul_way,
    .matmul = matmul,
    .matmul_scratch_elems = matmul_scratch_elems,
    .attention = attention,
    .attention_scratch_elems = attention_scratch_elems,
    .most_head_channels = 1024, // an item's own memory holds some of its rows' channels: 0.8 MB in the backward
};
