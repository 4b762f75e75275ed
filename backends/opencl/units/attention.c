// attention.c: attention on matrix units (cl/units/attention_units.cl): which kernels run it, and in which sizes.
#include <math.h>

#include "backends/opencl/units/units.h"

enum { OPTIONS_SIZE = 320, CHUNK_BYTES = 16, MOST_HEAD_CHANNELS = 128, OWN_ROWS = 128 };

// --- sizes ----------------------------------------------------------------------------------------

// A work-group owns `waves` x tn rows or keys, of which n_local operands lie in local memory; the others come in tiles,
// of which a strip at a time has scores in registers.
typedef struct {
    int waves, tile, strip, n_local;
    bool is_ahead; // the next tile comes while one is multiplied
    bool is_apart; // dk and dv are other work-groups'
} sizes;

static int round_up(int n, int step) { return (n + step - 1) / step * step; }

static int number_bytes(units_format format) { return format <= UNITS_F16 ? 2 : 4; }

// Numbers of a tile that is read as first operand.
static int tile_elems(const opencl_unit *unit, int rows, int cols, int elem_bytes) {
    const bool in_blocks = unit->tm == 8; // as cl/units/units.cl has them for dpas
    return rows * (in_blocks ? cols : cols + CHUNK_BYTES / elem_bytes);
}

// Local memory of a part's kernel: tiles of rows of channels, and transposed; and own rows.
static int local_bytes(const opencl_unit *unit, int part, int HS, int elem_bytes, const sizes *s) {
    enum { MOST_ALIGNMENT = 1024 }; // what arrays lose by beginning at multiples of 256
    static const int n_rows[] = {1, 2, 2};
    static const int n_columns[] = {1, 1, 2};
    const int channels = round_up(HS, 32 / elem_bytes);
    const int own = s->n_local * s->waves * unit->tn * (channels + CHUNK_BYTES / elem_bytes);
    return elem_bytes *
               (n_rows[part] * tile_elems(unit, s->tile, channels, elem_bytes) + own +
                (n_columns[part] - s->is_apart) * tile_elems(unit, round_up(HS, unit->tm), s->tile, elem_bytes)) +
           2 * s->tile * (int)sizeof(float) + MOST_ALIGNMENT;
}

// A wave's registers hold the sums of its own rows or keys, these as operands, and the tiles on their way. Where that
// is more than there are (seen by the vendors' compilers: tools/vendors/check.sh), some of it is left out.
static sizes wish(const opencl_unit *unit, units_format format, int part, int64_t HS) {
    const bool is_keys = part == OPENCL_ATTENTION_KEYS;
    const bool is_narrow = format <= UNITS_F16;
    const int64_t channel_bytes = HS * number_bytes(format);
    const bool is_wide = channel_bytes > 128;
    const int n_own = part == OPENCL_ATTENTION_FORWARD ? 1 : 2;
    const int n_waves = OWN_ROWS / unit->tn;
    const bool is_light = part == OPENCL_ATTENTION_FORWARD && !is_wide;
    sizes s = {.waves = unit->wave * n_waves <= 256 ? n_waves : 256 / unit->wave, .tile = 32, .is_ahead = true};
    switch (unit->tm) {
    case 32: // 512 registers
        s.tile = is_light ? 64 : 32;
        s.strip = 32;
        s.is_apart = is_keys && channel_bytes > 256;
        s.is_ahead = !(format == UNITS_TF32X3 && channel_bytes > 256);
        break;
    case 16: // 256; gfx11's own rows take twice as many
        s.tile = is_wide ? 16 : 32;
        s.strip = 16;
        s.is_apart = is_keys && is_wide;
        s.n_local = unit->repeats && is_wide && n_own > 1 ? 1 : 0;
        s.is_ahead = !(s.n_local > 0 && is_keys);
        break;
    default: // 256
        s.tile = is_wide && is_narrow ? 16 : 32;
        s.strip = 16;
        s.is_apart = is_keys && is_wide;
        s.n_local = is_keys || is_wide ? n_own : 0;
        s.is_ahead = s.n_local == 0;
    }
    return s;
}

// The largest tile that fits into local memory.
static bool find_sizes(const opencl_facts *facts, units_format format, int part, int64_t HS, sizes *s) {
    const opencl_unit *unit = units_of(facts);
    const int elem_bytes = number_bytes(format);
    const int most = (int)facts->local_bytes;
    *s = wish(unit, format, part, HS);
    while (s->tile > s->strip && local_bytes(unit, part, (int)HS, elem_bytes, s) > most) {
        s->tile /= 2;
    }
    while (s->n_local > 0 && s->waves > 1 && local_bytes(unit, part, (int)HS, elem_bytes, s) > most) {
        s->waves /= 2;
    }
    return (size_t)(s->waves * unit->wave) <= facts->max_group &&
           local_bytes(unit, part, (int)HS, elem_bytes, s) <= most;
}

bool units_has_attention(const opencl_facts *facts, units_format format, int64_t HS) {
    sizes s;
    bool fits = HS % 8 == 0 && HS <= MOST_HEAD_CHANNELS;
    for (int part = 0; fits && part < OPENCL_ATTENTION_PARTS; part++) {
        fits = find_sizes(facts, format, part, HS, &s);
    }
    return fits;
}

static void write_options(const opencl_unit *unit, units_format format, const sizes *s, int part, int64_t HS,
                          bool drops, char *options, size_t size_bytes) {
    char which[64];
    units_options(unit, format, which, sizeof which);
    snprintf(options, size_bytes,
             "%s -DPART=%d -DHS=%lld -DSCALE=%.9gf -DWAVES=%d -DTILE=%d -DSTRIP=%d -DLOCAL_OWN=%d -DAHEAD=%d "
             "-DAPART=%d -DDROPOUT=%d%s",
             which, part, (long long)HS, 1 / sqrt((double)HS), s->waves, s->tile, s->strip, s->n_local, s->is_ahead,
             s->is_apart, drops, units_registers_option(unit));
}

sm_status units_find_attention(opencl_device *device, const void *format, const opencl_attention_example *example,
                               int HS, int part, opencl_attention_kernel *k) {
    char options[OPTIONS_SIZE];
    sizes s;
    const opencl_unit *unit = units_of(&device->facts);
    const units_format f = *(const units_format *)format;
    SM_FAIL_IF(!find_sizes(&device->facts, f, part, HS, &s), SM_ERR_UNSUPPORTED,
               "the device has too little local memory");
    write_options(unit, f, &s, part, HS, false, options, sizeof options);
    strncat(options, opencl_data_option(example->dtype), sizeof options - strlen(options) - 1);
    k->items = (size_t)(s.waves * unit->wave);
    k->own = s.waves * unit->tn;
    k->is_apart = s.is_apart;
    return opencl_get_kernel(device, "attention_units", options, opencl_attention_kernels[part], &k->kernel);
}

// Lists the kernels for heads like GPT-2's, in all variants, and for the widest heads.
void units_list_attention(const opencl_facts *facts, units_format format) {
    static const struct {
        int HS;
        bool drops;
        const char *more;
    } kinds[] = {{64, false, ""}, {64, true, " -DDOCUMENTS=1"}, {MOST_HEAD_CHANNELS, false, ""}};
    char options[OPTIONS_SIZE];
    sizes s;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        for (int part = 0; part < OPENCL_ATTENTION_PARTS; part++) {
            if (find_sizes(facts, format, part, kinds[i].HS, &s)) {
                write_options(units_of(facts), format, &s, part, kinds[i].HS, kinds[i].drops, options, sizeof options);
                printf("attention_units %s%s%s\n", options, kinds[i].more, opencl_data_option(units_dtype_of(format)));
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

static bool attends(const opencl_facts *facts, const sm_plan *plan, const opencl_attention *a) {
    return may_be_of_units(facts, plan, a) && !a->stores_weights &&
           units_has_attention(facts, format_of(plan, a), a->HS) && opencl_is_attention_aligned(plan, a, CHUNK_BYTES) &&
           units_are_right(facts, format_of(plan, a), UNITS_ATTENTION);
}

// --- launches ---------------------------------------------------------------------------------------

static void launch(opencl_binder *b, const opencl_attention *a, int part) {
    const sm_plan *plan = b->e->base.plan;
    const opencl_facts *facts = &b->e->device->facts;
    const opencl_unit *unit = units_of(facts);
    const int64_t n_heads = part == OPENCL_ATTENTION_KEYS ? a->NKV : a->NH;
    char options[OPTIONS_SIZE];
    sizes s;
    find_sizes(facts, format_of(plan, a), part, a->HS, &s);
    write_options(unit, format_of(plan, a), &s, part, a->HS, a->threshold > 0, options, sizeof options);
    strncat(options, opencl_documents_option(a), sizeof options - strlen(options) - 1);
    opencl_begin(b, "attention_units", options, opencl_attention_kernels[part]);
    opencl_arg_heads(b, a);
    OPENCL_ARGS(b, arg_count(a->B * n_heads), arg_tensor(a->starts));
    opencl_arg_mask(b, a);
    opencl_arg_attention(b, a, part);
    opencl_launch_groups(b, a->B * n_heads * opencl_count_up(a->T, s.waves * unit->tn), s.is_apart ? 2 : 1,
                         (size_t)(s.waves * unit->wave));
}

void units_attention(opencl_binder *b, const opencl_attention *a) {
    const opencl_facts *facts = &b->e->device->facts;
    if (!attends(facts, b->e->base.plan, a)) {
        b->e->n_beside_units += may_be_of_units(facts, b->e->base.plan, a);
        opencl_family_local.attention(b, a);
        return;
    }
    b->e->n_on_units++;
    for (int part = opencl_first_part(a); part <= opencl_last_part(a); part++) {
        launch(b, a, part);
    }
}

size_t units_attention_scratch_elems(const opencl_facts *facts, const sm_plan *plan, const opencl_attention *a) {
    return attends(facts, plan, a) ? (size_t)(a->B * a->NH * a->T) // D
                                   : opencl_family_local.attention_scratch_elems(facts, plan, a);
}
