// products.c: products on matrix units (cl/units/matmul_units.cl), and the families, one a level. Ops that
// the units cannot do (formats that they lack, rows that do not begin at multiples of 16 bytes) run as in `local`.

#include "backends/opencl/units/units.h"

enum { OPTIONS_SIZE = 320, CHUNK_BYTES = 16, K_BYTES = 64, BLOCK_BYTES = 64 };

static units_format format_of(const opencl_product *p) {
    return units_format_of(p->plan->tensors[p->a].dtype, p->plan->products);
}

// Whether one would expect the units to multiply this.
static bool may_be_of_units(const opencl_facts *facts, const opencl_product *p) {
    const opencl_unit *unit = units_of(facts);
    return unit != NULL && unit->formats[format_of(p)];
}

static bool is_product_of_units(const opencl_facts *facts, const opencl_product *p) {
    return may_be_of_units(facts, p) && opencl_is_product_aligned(p, CHUNK_BYTES) &&
           units_multiplies(facts, format_of(p));
}

// --- sizes ----------------------------------------------------------------------------------------------------

// A tile of C, and the parts that K is cut into.
typedef struct {
    units_tile t;
    int tile_m, tile_n;
    int64_t part_cols; // of K in a part: a multiple of a tile's
    int n_parts;
} choice;

enum { N_CUTS = 3, MOST_PARTS = 16, MOST_SCRATCH_ELEMS = 32 * 1024 * 1024 };

static int number_bytes(const opencl_product *p) { return (int)sm_dtype_size(p->plan->tensors[p->a].dtype); }
static int tile_k(const opencl_product *p) { return K_BYTES / number_bytes(p); }

int units_items(const opencl_unit *unit, const units_tile *tile) { return tile->waves_m * tile->waves_n * unit->wave; }

static bool has_room(const opencl_facts *facts, const units_tile *tile) {
    return (size_t)units_items(units_of(facts), tile) <= facts->max_group;
}

static void cut(const opencl_product *p, choice *c, int n_parts) {
    c->part_cols = opencl_count_up(opencl_count_up(p->K, n_parts), tile_k(p)) * tile_k(p);
    c->n_parts = (int)opencl_count_up(p->K, c->part_cols);
}

static bool can_cut(const opencl_product *p, int n_parts) {
    enum { LEAST_STEPS = 8 };
    return n_parts <= MOST_PARTS && p->M * p->N <= MOST_SCRATCH_ELEMS / n_parts &&
           p->K / n_parts >= LEAST_STEPS * tile_k(p);
}

// The cost in bytes of K times the numbers fetched for them: units walk their share of the tiles in rounds, and the
// last round may leave many idle. Beginning and ending a tile costs as much as some of K, and so do the sums of a part.
static int64_t cost_of(const opencl_facts *facts, const opencl_product *p, const choice *c) {
    enum { TILE_BYTES = 512, SUM_BYTES = 1024, FETCHED = 48 };
    const opencl_unit *unit = units_of(facts);
    const int64_t n_groups = opencl_count_up(p->M, c->tile_m) * opencl_count_up(p->N, c->tile_n) * c->n_parts;
    const int64_t n_waves = (int64_t)(facts->n_units > 0 ? facts->n_units : 1) * unit->waves_a_unit;
    const int64_t n_at_once = n_waves / (c->t.waves_m * c->t.waves_n);
    const int64_t n_rounds = opencl_count_up(n_groups, n_at_once > 0 ? n_at_once : 1);
    const int64_t k_bytes = c->part_cols * number_bytes(p) + TILE_BYTES + (c->n_parts > 1 ? SUM_BYTES : 0);
    return n_rounds * k_bytes * (c->tile_m * c->tile_n + FETCHED * (c->tile_m + c->tile_n));
}

static choice make_choice(const opencl_facts *facts, const opencl_product *p, int tile) {
    const opencl_unit *unit = units_of(facts);
    choice c = {.t = number_bytes(p) == 2           ? unit->narrow[tile]
                     : format_of(p) == UNITS_TF32X3 ? unit->split[tile]
                                                    : unit->floats[tile]};
    c.tile_m = c.t.fm * unit->tm * c.t.waves_m;
    c.tile_n = c.t.fn * unit->tn * c.t.waves_n;
    cut(p, &c, 1);
    for (int n = 2; can_cut(p, n); n++) {
        choice parted = c;
        cut(p, &parted, n);
        c = cost_of(facts, p, &parted) < cost_of(facts, p, &c) ? parted : c;
    }
    return c;
}

// Way 0 is the rule's: the cheapest. Others are a tile, with as many parts as the rule says, none, or twice as many.
static choice choose(const opencl_facts *facts, const opencl_product *p, int way) {
    choice best = make_choice(facts, p, way == 0 ? UNITS_TILES - 1 : (way - 1) / N_CUTS);
    for (int i = 0; way == 0 && i < UNITS_TILES - 1; i++) {
        const choice c = make_choice(facts, p, i);
        best = has_room(facts, &c.t) && cost_of(facts, p, &c) <= cost_of(facts, p, &best) ? c : best;
    }
    const int cut_way = way == 0 ? 0 : (way - 1) % N_CUTS;
    if (cut_way > 0) {
        cut(p, &best, cut_way == 1 ? 1 : 2 * best.n_parts);
    }
    return best;
}

static bool reads_blocks(const opencl_facts *facts, const opencl_product *p) {
    enum { MOST_BYTES = 1 << 24 };
    const sm_tensor *a = &p->plan->tensors[p->a];
    const sm_tensor *b = &p->plan->tensors[p->b];
    const int64_t b_row_bytes = (p->b_transposed ? p->K : p->N) * 2;
    return number_bytes(p) == 2 && !p->a_transposed && p->K * 2 >= BLOCK_BYTES && b_row_bytes >= BLOCK_BYTES &&
           p->K * 2 < MOST_BYTES && b_row_bytes < MOST_BYTES && p->M < MOST_BYTES && p->N < MOST_BYTES &&
           a->offset_bytes % BLOCK_BYTES == 0 && b->offset_bytes % BLOCK_BYTES == 0 &&
           units_are_right(facts, format_of(p), UNITS_BLOCKS);
}

// --- products -------------------------------------------------------------------------------------------------

void units_product_options(const opencl_unit *unit, units_format format, const units_tile *tile, bool a_transposed,
                           bool b_transposed, bool blocks, uint32_t beside, char *options, size_t size_bytes) {
    char which[64];
    units_options(unit, format, which, sizeof which);
    // Operands that go through local memory spill in sub-groups of 16 that have 128 registers.
    const char *registers = unit->block_reads && !(blocks && b_transposed) ? units_registers_option(unit) : "";
    snprintf(options, size_bytes, "%s -DFM=%d -DFN=%d -DWAVES_M=%d -DWAVES_N=%d -DBESIDE=%u%s%s%s%s", which, tile->fm,
             tile->fn, tile->waves_m, tile->waves_n, beside, blocks ? " -DBLOCK_READS=1" : "",
             a_transposed ? " -DA_TRANSPOSED" : "", b_transposed ? " -DB_TRANSPOSED" : "", registers);
}

// Adds the sums of the parts in order, with the epilogue.
static void add_parts(opencl_binder *b, const opencl_product *p, const choice *c, uint32_t beside) {
    enum { ITEMS = 64, ITEM_ROWS = 4 };
    char options[OPTIONS_SIZE];
    units_options(units_of(&b->e->device->facts), format_of(p), options, sizeof options);
    strncat(options, " -DSUM_ONLY=1", sizeof options - strlen(options) - 1);
    strncat(options, opencl_result_option(p, false), sizeof options - strlen(options) - 1);
    opencl_begin(b, "matmul_units", options, "matmul_sum");
    opencl_arg_parts(b, p, beside, c->n_parts, 0);
    opencl_arg_sides(b, p);
    opencl_launch_groups(b, opencl_count_up(p->N, ITEMS), opencl_count_up(p->M, ITEM_ROWS), ITEMS);
}

static void multiply(opencl_binder *b, const opencl_product *p, const choice *c) {
    const opencl_facts *facts = &b->e->device->facts;
    const opencl_unit *unit = units_of(facts);
    const bool is_parted = c->n_parts > 1;
    const uint32_t epilogue = opencl_epilogue(p);
    const uint32_t beside = (p->add ? OPENCL_ADD : 0) | epilogue;
    char options[OPTIONS_SIZE];
    // Bias may be there or not, so that fewer programs are built; only forward products have one.
    units_product_options(unit, format_of(p), &c->t, p->a_transposed, p->b_transposed, reads_blocks(facts, p),
                          is_parted ? 0 : (epilogue | (p->a_transposed ? 0 : OPENCL_BIAS)), options, sizeof options);
    strncat(options, opencl_result_option(p, is_parted), sizeof options - strlen(options) - 1);
    opencl_begin(b, "matmul_units", options, "matmul");
    opencl_arg_product(b, p, beside, c->part_cols, c->n_parts);
    opencl_arg_sides(b, p);
    opencl_launch_groups(b, opencl_count_up(p->N, c->tile_n), opencl_count_up(p->M, c->tile_m) * c->n_parts,
                         (size_t)units_items(unit, &c->t));
    if (is_parted) {
        add_parts(b, p, c, beside);
    }
}

// --- the family -------------------------------------------------------------------------------------------------

// No way: what the device has no room for, or what does the same as the way with the rule's parts.
static bool matmul_way(const opencl_facts *facts, const opencl_product *p, int way, char *text, size_t size_bytes) {
    if (!is_product_of_units(facts, p)) {
        return opencl_family_local.matmul_way(facts, p, way, text, size_bytes);
    }
    if (way > UNITS_TILES * N_CUTS) {
        return false;
    }
    const choice c = choose(facts, p, way);
    const int cut_way = way == 0 ? 0 : (way - 1) % N_CUTS;
    snprintf(text, size_bytes, "%s %dx%d of %d waves, %d parts", units_of(facts)->level, c.tile_m, c.tile_n,
             c.t.waves_m * c.t.waves_n, c.n_parts);
    return has_room(facts, &c.t) &&
           (cut_way == 0 || (cut_way == 1 ? choose(facts, p, way - 1).n_parts > 1 : can_cut(p, c.n_parts)));
}

static size_t matmul_scratch_elems(const opencl_facts *facts, const opencl_product *p, int way) {
    if (!is_product_of_units(facts, p)) {
        return opencl_family_local.matmul_scratch_elems(facts, p, way);
    }
    const choice c = choose(facts, p, way);
    return c.n_parts > 1 ? (size_t)(c.n_parts * p->M * p->N) : 0;
}

static void matmul(opencl_binder *b, const opencl_product *p, int way) {
    const opencl_facts *facts = &b->e->device->facts;
    if (!is_product_of_units(facts, p)) {
        b->e->n_beside_units += may_be_of_units(facts, p);
        opencl_family_local.matmul(b, p, way);
        return;
    }
    const choice c = choose(facts, p, way);
    b->e->n_on_units++;
    multiply(b, p, &c);
}

static bool multiplies(const opencl_facts *facts, sm_products products) {
    return units_multiplies(facts, units_format_of(SM_F32, products));
}

// cl/units/peaks_units.cl
static opencl_arithmetic peak(const opencl_device *device, sm_precision precision) {
    enum { WAVES = 4 };
    static char options[OPTIONS_SIZE]; // until the next is asked for
    static char what[SM_TEXT_SIZE];
    const opencl_unit *unit = units_of(&device->facts);
    const units_format format = units_format_of(precision.dtype, precision.products);
    units_options(unit, format, options, sizeof options);
    strncat(options, opencl_data_option(precision.dtype), sizeof options - strlen(options) - 1);
    const bool is_split = format == UNITS_TF32X3;
    snprintf(what, sizeof what, "%s%s products by %s", is_split ? "a third of " : "",
             units_format_names[is_split ? UNITS_TF32 : format], unit->level);
    return (opencl_arithmetic){.stem = "peaks_units",
                               .options = options,
                               .what = what,
                               .group = (size_t)(WAVES * unit->wave),
                               .n_groups =
                                   (size_t)(device->facts.n_units * opencl_count_up(2 * unit->waves_a_unit, WAVES)),
                               // of each chain 32 bytes of K of a fragment's row or column
                               .flops_a_group = 2.0 * WAVES * UNITS_PEAK_CHAINS * unit->tm * unit->tn *
                                                (32.0 / (double)sm_dtype_size(precision.dtype)),
                               .share = is_split ? 1.0 / 3 : 1};
}

static const opencl_recipe recipes[] = {
    {.name = "matmul_units", .stems = {"units", "matmul_units"}},
    {.name = "attention_units", .stems = {"units", "heads", "attention_units"}},
    {.name = "peaks_units", .stems = {"units", "peaks_units"}},
    {.name = NULL},
};

static const char *explain(const opencl_facts *facts) {
    static char text[SM_TEXT_SIZE];
    snprintf(text, sizeof text, "matrix units that compute rightly:");
    for (int format = 0; format < N_UNITS_FORMATS; format++) {
        if (units_multiplies(facts, (units_format)format)) {
            sm_append(text, sizeof text, " %s", units_format_names[format]);
        }
    }
    if (units_are_right(facts, UNITS_BF16, UNITS_BLOCKS)) {
        sm_append(text, sizeof text, "; block reads");
    }
    return text;
}

static bool suits_level(const opencl_facts *facts, const char *level) {
    const opencl_unit *unit = units_of(facts);
    return unit != NULL && strcmp(unit->level, level) == 0 && opencl_family_local.suits(facts) &&
           units_multiplies(facts, UNITS_BF16) && units_multiplies(facts, UNITS_F16);
}

static const char *find_trouble(const opencl_facts *facts, const char *level) {
    const opencl_unit *unit = units_of(facts);
    return unit == NULL || strcmp(unit->level, level) != 0 ? "the device tells of no such matrix unit"
           : suits_level(facts, level)                     ? ""
                                                           : units_trouble(facts);
}

// Why a unit that the device has is not used.
static const char *find_doubt(const opencl_facts *facts, const char *level) {
    static char text[SM_TEXT_SIZE];
    const opencl_unit *unit = units_of(facts);
    if (unit == NULL || strcmp(unit->level, level) != 0 || suits_level(facts, level)) {
        return "";
    }
    snprintf(text, sizeof text, "no %s: %.110s", level, units_trouble(facts));
    return text;
}

#define FAMILY(of)                                                                                \
    static bool suits_##of(const opencl_facts *facts) { return suits_level(facts, #of); }         \
    static const char *lacks_##of(const opencl_facts *facts) { return find_trouble(facts, #of); } \
    static const char *doubts_##of(const opencl_facts *facts) { return find_doubt(facts, #of); }  \
    const opencl_family opencl_family_##of = {                                                    \
        .name = #of,                                                                              \
        .why = "matrix units that compute rightly: products on them",                             \
        .explain = explain,                                                                       \
        .suits = suits_##of,                                                                      \
        .lacks = lacks_##of,                                                                      \
        .doubts = doubts_##of,                                                                    \
        .multiplies_narrow = true,                                                                \
        .multiplies = multiplies,                                                                 \
        .builds_apart = true,                                                                     \
        .sizes = {.vector = 4, .row_items = 128, .group = 128, .recipes = recipes},               \
        .most_head_channels = 256,                                                                \
        .matmul_way = matmul_way,                                                                 \
        .matmul = matmul,                                                                         \
        .matmul_scratch_elems = matmul_scratch_elems,                                             \
        .attention = units_attention,                                                             \
        .attention_scratch_elems = units_attention_scratch_elems,                                 \
        .peak = peak,                                                                             \
    };
FAMILY(mfma)
FAMILY(wmma)
FAMILY(dpas8)
FAMILY(dpas16)
