// attention.c: attention on matrix units (cl/units/attention_units.cl): which kernels run it, and in which sizes.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backends/opencl/units/units.h"

enum { OPTIONS_SIZE = 320, CHUNK_BYTES = 16, MOST_HEAD_CHANNELS = 128, OWN_ROWS = 128 };

// --- sizes ----------------------------------------------------------------------------------------

// A work-group owns `waves` x tn rows or keys; the others come in tiles, of which a strip at a time has scores in
// registers.
typedef struct {
    int waves, tile, strip;
} sizes;

static int round_up(int n, int step) { return (n + step - 1) / step * step; }

// Numbers of a tile that is read as first operand.
static int tile_elems(const opencl_unit *unit, int rows, int cols, int elem_bytes) {
    const bool in_blocks = unit->tm == 8; // as cl/units/units.cl has them for dpas
    return rows * (in_blocks ? cols : cols + CHUNK_BYTES / elem_bytes);
}

// Local memory of a part's kernel: tiles of rows of channels, and transposed.
static int local_bytes(const opencl_unit *unit, int part, int HS, int elem_bytes, int tile) {
    static const int n_rows[] = {1, 2, 2};
    static const int n_columns[] = {1, 1, 2};
    const int channels = round_up(HS, 32 / elem_bytes);
    return elem_bytes * (n_rows[part] * tile_elems(unit, tile, channels, elem_bytes) +
                         n_columns[part] * tile_elems(unit, round_up(HS, unit->tm), tile, elem_bytes)) +
           2 * tile * (int)sizeof(float);
}

// The largest tile that fits. Those of which more are on their way (dk and dv) or whose numbers are wider take more
// registers.
static bool find_sizes(const opencl_facts *facts, int part, int64_t HS, int elem_bytes, sizes *s) {
    const opencl_unit *unit = units_of(facts);
    const int least = unit->tm == 32 ? 32 : 16;
    const bool is_light = part == OPENCL_ATTENTION_FORWARD && elem_bytes == 2 && HS <= 64;
    const int most = is_light && unit->wave == 64 ? 64 : HS > 64 && unit->tm == 16 ? 16 : 32;
    const int n_waves = OWN_ROWS / unit->tn;
    *s = (sizes){.waves = unit->wave * n_waves <= 256 ? n_waves : 256 / unit->wave, .tile = most, .strip = least};
    while (s->tile > least && local_bytes(unit, part, (int)HS, elem_bytes, s->tile) > (int)facts->local_bytes) {
        s->tile /= 2;
    }
    return (size_t)(s->waves * unit->wave) <= facts->max_group &&
           local_bytes(unit, part, (int)HS, elem_bytes, s->tile) <= (int)facts->local_bytes;
}

static void write_options(const opencl_unit *unit, units_format format, const sizes *s, int part, int64_t HS,
                          bool drops, char *options, size_t size_bytes) {
    char which[64];
    units_options(unit, format, which, sizeof which);
    snprintf(options, size_bytes, "%s -DPART=%d -DHS=%lld -DSCALE=%.9gf -DWAVES=%d -DTILE=%d -DSTRIP=%d -DDROPOUT=%d%s",
             which, part, (long long)HS, 1 / sqrt((double)HS), s->waves, s->tile, s->strip, drops,
             units_registers_option(unit));
}

sm_status units_find_attention(opencl_device *device, const void *format, sm_dtype dtype, int HS, int part,
                               opencl_attention_kernel *k) {
    char options[OPTIONS_SIZE];
    sizes s;
    const opencl_unit *unit = units_of(&device->facts);
    if (!find_sizes(&device->facts, part, HS, (int)sm_dtype_size(dtype), &s)) {
        return sm_fail(SM_ERR_UNSUPPORTED, "the device has too little local memory");
    }
    write_options(unit, *(const units_format *)format, &s, part, HS, false, options, sizeof options);
    strncat(options, opencl_data_option(dtype), sizeof options - strlen(options) - 1);
    k->items = (size_t)(s.waves * unit->wave);
    k->own = s.waves * unit->tn;
    return opencl_get_kernel(device, "attention_units", options, opencl_attention_kernels[part], &k->kernel);
}

// Of heads as GPT-2's, with everything else that there may be, and of the widest.
void units_list_attention(const opencl_facts *facts, units_format format) {
    static const struct {
        int HS;
        bool drops;
        const char *more;
    } kinds[] = {{64, false, ""}, {64, true, " -DDOCUMENTS=1"}, {MOST_HEAD_CHANNELS, false, ""}};
    char options[OPTIONS_SIZE];
    sizes s;
    const int elem_bytes = format <= UNITS_F16 ? 2 : 4;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (int part = 0; part < OPENCL_ATTENTION_PARTS; part++) {
            if (find_sizes(facts, part, kinds[i].HS, elem_bytes, &s)) {
                write_options(units_of(facts), format, &s, part, kinds[i].HS, kinds[i].drops, options, sizeof options);
                printf("attention_units %s%s%s\n", options, kinds[i].more,
                       opencl_data_option(format == UNITS_BF16  ? SM_BF16
                                          : format == UNITS_F16 ? SM_F16
                                                                : SM_F32));
            }
        }
    }
}

// --- the rule ---------------------------------------------------------------------------------------

static units_format format_of(const sm_plan *plan, const opencl_attention *a) {
    return units_format_of(plan->tensors[a->qkv].dtype, plan->products);
}

static bool may_be_of_units(const opencl_facts *facts, const sm_plan *plan, const opencl_attention *a) {
    const opencl_unit *unit = units_of(facts);
    return unit != NULL && unit->formats[format_of(plan, a)];
}

static bool begins_aligned(const sm_plan *plan, int tensor) {
    return tensor == SM_NO_TENSOR || plan->tensors[tensor].offset_bytes % CHUNK_BYTES == 0;
}

static bool attends(const opencl_facts *facts, const sm_plan *plan, const opencl_attention *a) {
    const int first = a->forward ? OPENCL_ATTENTION_FORWARD : OPENCL_ATTENTION_ROWS;
    const int last = a->forward ? OPENCL_ATTENTION_FORWARD : OPENCL_ATTENTION_KEYS;
    bool fits = may_be_of_units(facts, plan, a) && !a->stores_weights && a->HS % 8 == 0 &&
                a->HS <= MOST_HEAD_CHANNELS && begins_aligned(plan, a->qkv) && begins_aligned(plan, a->y) &&
                begins_aligned(plan, a->dy) && begins_aligned(plan, a->dqkv) &&
                units_are_right(facts, format_of(plan, a), UNITS_ATTENTION);
    for (int part = first; fits && part <= last; part++) {
        sizes s;
        fits = find_sizes(facts, part, a->HS, (int)sm_dtype_size(plan->tensors[a->qkv].dtype), &s);
    }
    return fits;
}

// --- launches ---------------------------------------------------------------------------------------

// What all three begin with; and where the launch ends.
static void begin(opencl_binder *b, const opencl_attention *a, int part, int64_t n_heads, sizes *s) {
    const sm_plan *plan = b->e->base.plan;
    const opencl_facts *facts = &b->e->device->facts;
    char options[OPTIONS_SIZE];
    find_sizes(facts, part, a->HS, (int)sm_dtype_size(plan->tensors[a->qkv].dtype), s);
    write_options(units_of(facts), format_of(plan, a), s, part, a->HS, a->threshold > 0, options, sizeof options);
    strncat(options, opencl_documents_option(a), sizeof options - strlen(options) - 1);
    opencl_begin(b, "attention_units", options, opencl_attention_kernels[part]);
    opencl_arg_heads(b, a);
    opencl_arg_ulong(b, (uint64_t)(a->B * n_heads));
    opencl_arg_tensor(b, a->starts);
    opencl_arg_mask(b, a);
}

static void launch(opencl_binder *b, const opencl_attention *a, int64_t n_heads, const sizes *s) {
    const opencl_unit *unit = units_of(&b->e->device->facts);
    opencl_launch_groups(b, a->B * n_heads * opencl_count_up(a->T, s->waves * unit->tn), 1,
                         (size_t)(s->waves * unit->wave));
}

static void attend(opencl_binder *b, const opencl_attention *a) {
    sizes s;
    begin(b, a, OPENCL_ATTENTION_FORWARD, a->NH, &s);
    opencl_arg_tensor(b, a->qkv);
    opencl_arg_tensor(b, a->rng_step);
    opencl_arg_tensor(b, a->y);
    opencl_arg_tensor(b, a->weights);
    launch(b, a, a->NH, &s);
}

// dq first: its kernel leaves D in scratch, for that of dk and dv.
static void attend_backward(opencl_binder *b, const opencl_attention *a) {
    for (int part = OPENCL_ATTENTION_ROWS; part <= OPENCL_ATTENTION_KEYS; part++) {
        const int64_t n_heads = part == OPENCL_ATTENTION_ROWS ? a->NH : a->NKV;
        sizes s;
        begin(b, a, part, n_heads, &s);
        opencl_arg_gradient(b, a);
        if (part == OPENCL_ATTENTION_ROWS) {
            opencl_arg_tensor(b, a->y);
        }
        opencl_arg_scratch(b, 0);
        opencl_arg_tensor(b, a->dqkv);
        launch(b, a, n_heads, &s);
    }
}

void units_attention(opencl_binder *b, const opencl_attention *a) {
    const opencl_facts *facts = &b->e->device->facts;
    if (!attends(facts, b->e->base.plan, a)) {
        b->e->n_beside_units += may_be_of_units(facts, b->e->base.plan, a);
        opencl_family_local.attention(b, a);
        return;
    }
    b->e->n_on_units++;
    if (a->forward) {
        attend(b, a);
    } else {
        attend_backward(b, a);
    }
}

size_t units_attention_scratch_elems(const opencl_facts *facts, const sm_plan *plan, const opencl_attention *a) {
    return attends(facts, plan, a) ? (size_t)(a->B * a->NH * a->T) // D
                                   : opencl_family_local.attention_scratch_elems(facts, plan, a);
}
