// units.h: products and attention on the matrix units of AMD and Intel, one form for all (cl/units/units.cl).
//
//   unit.c       the table of units: which devices have one, and its sizes
//   found.c      what was found by trying it, in another process
//   probe.c      tries it
//   products.c   the families: products
//   attention.c  attention
#pragma once

#include "backends/opencl/families/families.h"

// --- unit.c --------------------------------------------------------------------------------------

// The factors of products, and how they are multiplied.
typedef enum { UNITS_BF16, UNITS_F16, UNITS_FP32, UNITS_TF32, UNITS_TF32X3, N_UNITS_FORMATS } units_format;

// Fragments of C that a wave has, and waves of a work-group: down and along.
typedef struct {
    int fm, fn, waves_m, waves_n;
} units_tile;

enum { UNITS_TILES = 3 };

typedef struct {
    const char *level;             // name of its family
    int number;                    // UNIT in cl/units/units.cl
    int wave, tm, tn;              // work-items, and the fragment of C of an instruction
    bool formats[N_UNITS_FORMATS]; // that it multiplies
    bool repeats;                  // lanes of the second half have the operands of the first once more
    bool block_reads;              // where a device can read blocks, products of 16 bits do
    int waves_a_unit;              // that a compute unit, as OpenCL counts them, has at a time

    // Tiles for products of numbers of 16 bits, of floats and of tf32x3: the best for large products first.
    units_tile narrow[UNITS_TILES];
    units_tile floats[UNITS_TILES];
    units_tile split[UNITS_TILES];
} opencl_unit;

extern const char *const units_format_names[N_UNITS_FORMATS];

// The unit that a device, not NVIDIA's, says it has, by a known name or an extension and sub-groups; NULL: none.
const opencl_unit *units_of(const opencl_facts *facts);
bool units_reads_blocks(const opencl_facts *facts); // says that it reads blocks of two dimensions

units_format units_format_of(sm_dtype dtype, sm_products products);
static inline sm_dtype units_dtype_of(units_format format) {
    return format == UNITS_BF16 ? SM_BF16 : format == UNITS_F16 ? SM_F16 : SM_F32;
}

// Program options that say which unit, and what it multiplies, but for the data type.
void units_options(const opencl_unit *unit, units_format format, char *options, size_t size_bytes);

// The option that gives Intel's work-items twice as many registers, and half as many threads; "" for AMD's.
const char *units_registers_option(const opencl_unit *unit);

// --- found.c -------------------------------------------------------------------------------------

enum { UNITS_TRIED_TEXT = 112, UNITS_MOST_TRIED = 64 };

enum { UNITS_PRODUCTS, UNITS_BLOCKS, UNITS_ATTENTION }; // products with block reads

// One thing that was tried: a line of the probe's report.
typedef struct {
    int32_t format;
    int32_t kind;
    bool is_right;
    char what[UNITS_TRIED_TEXT];    // "products bf16, NT, through local memory"
    char trouble[UNITS_TRIED_TEXT]; // "" if its numbers are right
} units_tried;

// Whether all that was tried of a kind and format came out right.
bool units_are_right(const opencl_facts *facts, units_format format, int kind);
static inline bool units_multiplies(const opencl_facts *facts, units_format format) {
    return units_are_right(facts, format, UNITS_PRODUCTS);
}
const char *units_trouble(const opencl_facts *facts); // why none of its products is believed; "" if they are

// Has what is not known tried by `helper`, a process, and keeps what it found. `again`: also what is known.
void units_try(const opencl_facts *facts, int index, const char *helper, bool again,
               void (*say)(void *ctx, const char *line), void *ctx);

// --- probe.c -------------------------------------------------------------------------------------

enum { UNITS_PROBE_VERSION = 2 };
void units_list(const opencl_facts *facts); // programs that plans may need, to standard output: stem and options
void units_help(const opencl_facts *facts); // tries everything, and tells units_try by standard output

// --- products.c ----------------------------------------------------------------------------------

enum { UNITS_PEAK_CHAINS = 4 }; // of cl/units/peaks_units.cl: sums of a wave

extern const opencl_family opencl_family_mfma;
extern const opencl_family opencl_family_wmma;
extern const opencl_family opencl_family_dpas8;
extern const opencl_family opencl_family_dpas16;

// The program options of a product's kernel, but for the data type, and its work-items.
void units_product_options(const opencl_unit *unit, units_format format, const units_tile *tile, bool a_transposed,
                           bool b_transposed, bool blocks, uint32_t beside, char *options, size_t size_bytes);
int units_items(const opencl_unit *unit, const units_tile *tile);

// --- attention.c ---------------------------------------------------------------------------------

bool units_has_attention(const opencl_facts *facts, units_format format, int64_t HS); // for heads of HS channels
sm_status units_find_attention(opencl_device *device, const void *format, const opencl_attention_example *example,
                               int HS, int part, opencl_attention_kernel *kernel);
void units_list_attention(const opencl_facts *facts, units_format format);
void units_attention(opencl_binder *b, const opencl_attention *attention);
size_t units_attention_scratch_elems(const opencl_facts *facts, const sm_plan *plan, const opencl_attention *attention);
