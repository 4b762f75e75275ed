// unit.c: the table of matrix units. A builtin that a device lacks ends the process inside of AMD's compiler, so its
// exact name decides before anything is built; Intel's devices report theirs by an extension.

#include "backends/opencl/units/units.h"

const char *const units_format_names[N_UNITS_FORMATS] = {"bf16", "fp16", "fp32", "tf32", "tf32x3"};

#define NARROW_FORMATS [UNITS_BF16] = true, [UNITS_F16] = true
#define MFMA_TILES                                                                                           \
    .wave = 64, .tm = 32, .tn = 32, .waves_a_unit = 8, .narrow = {{2, 2, 2, 2}, {2, 2, 1, 2}, {1, 1, 2, 2}}, \
    .floats = {{2, 2, 2, 2}, {2, 2, 1, 2}, {1, 1, 2, 2}}, .split = {{2, 1, 2, 2}, {1, 1, 2, 2}, {1, 1, 1, 2}}

static const opencl_unit mfma = {
    .level = "mfma", .number = 1, .formats = {NARROW_FORMATS, [UNITS_FP32] = true}, MFMA_TILES};
static const opencl_unit mfma_xf32 = {
    .level = "mfma",
    .number = 1,
    .formats = {NARROW_FORMATS, [UNITS_FP32] = true, [UNITS_TF32] = true, [UNITS_TF32X3] = true},
    MFMA_TILES};
static const opencl_unit mfma_wide = {
    .level = "mfma", .number = 2, .formats = {NARROW_FORMATS, [UNITS_FP32] = true}, MFMA_TILES};

#define WMMA_TILES \
    .wave = 32, .tm = 16, .tn = 16, .waves_a_unit = 16, .narrow = {{2, 4, 4, 2}, {2, 4, 2, 2}, {2, 2, 2, 2}}

static const opencl_unit wmma = {
    .level = "wmma", .number = 3, .formats = {NARROW_FORMATS}, .repeats = true, WMMA_TILES};
static const opencl_unit wmma_half = {.level = "wmma", .number = 4, .formats = {NARROW_FORMATS}, WMMA_TILES};

// A compute unit is a vector engine with eight threads, each of which runs a sub-group.
static const opencl_unit dpas8 = {.level = "dpas8",
                                  .number = 5,
                                  .wave = 8,
                                  .tm = 8,
                                  .tn = 8,
                                  .formats = {NARROW_FORMATS},
                                  .waves_a_unit = 8,
                                  .narrow = {{2, 2, 8, 8}, {2, 2, 4, 8}, {2, 2, 4, 4}}};
static const opencl_unit dpas16 = {.level = "dpas16",
                                   .number = 6,
                                   .wave = 16,
                                   .tm = 8,
                                   .tn = 16,
                                   .formats = {NARROW_FORMATS, [UNITS_TF32] = true, [UNITS_TF32X3] = true},
                                   .block_reads = true,
                                   .waves_a_unit = 8,
                                   .narrow = {{4, 2, 4, 4}, {4, 2, 2, 4}, {4, 2, 2, 2}},
                                   .floats = {{2, 2, 8, 4}, {2, 2, 4, 4}, {2, 2, 4, 2}},
                                   .split = {{2, 1, 8, 4}, {2, 1, 4, 4}, {2, 1, 4, 2}}};

// The target that kernels are compiled for: the part of ROCm's device name before ':'.
static const struct {
    const char *target;
    const opencl_unit *unit;
} targets[] = {
    {"gfx90a", &mfma},  {"gfx942", &mfma_xf32},  {"gfx950", &mfma_wide},  {"gfx1100", &wmma}, {"gfx1101", &wmma},
    {"gfx1102", &wmma}, {"gfx1103", &wmma},      {"gfx1150", &wmma},      {"gfx1151", &wmma}, {"gfx1152", &wmma},
    {"gfx1153", &wmma}, {"gfx1200", &wmma_half}, {"gfx1201", &wmma_half},
};

// Asks AMD's extension: if ROCm compiles for waves of 64, gfx11 and gfx12 lack the builtins used here.
static bool has_waves_of(const opencl_facts *facts, int wave) {
    enum { WAVEFRONT_WIDTH_AMD = 0x4043 };
    cl_uint width = 0;
    return opencl.clGetDeviceInfo(facts->id, WAVEFRONT_WIDTH_AMD, sizeof width, &width, NULL) == CL_SUCCESS &&
           width == (cl_uint)wave;
}

static const opencl_unit *unit_of_target(const opencl_facts *facts) {
    const size_t length = strcspn(facts->name, ":");
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        if (strlen(targets[i].target) == length && strncmp(facts->name, targets[i].target, length) == 0) {
            return has_waves_of(facts, targets[i].unit->wave) ? targets[i].unit : NULL;
        }
    }
    return NULL;
}

static const opencl_unit *unit_of_sub_groups(const opencl_facts *facts) {
    enum { SUB_GROUP_SIZES_INTEL = 0x4108, MOST_SIZES = 16 };
    size_t sizes[MOST_SIZES];
    size_t n_bytes = 0;
    size_t least = SIZE_MAX;
    if (!opencl_has_extension(facts->id, "cl_intel_subgroup_matrix_multiply_accumulate") ||
        !opencl_has_extension(facts->id, "cl_intel_required_subgroup_size") ||
        opencl.clGetDeviceInfo(facts->id, SUB_GROUP_SIZES_INTEL, sizeof sizes, sizes, &n_bytes) != CL_SUCCESS) {
        return NULL;
    }
    for (size_t i = 0; i < n_bytes / sizeof sizes[0]; i++) {
        least = sizes[i] < least ? sizes[i] : least;
    }
    return least == 8 ? &dpas8 : least == 16 ? &dpas16 : NULL;
}

const opencl_unit *units_of(const opencl_facts *facts) {
    if (facts->compute_capability > 0 || facts->is_cpu) {
        return NULL;
    }
    return strncmp(facts->name, "gfx", 3) == 0 ? unit_of_target(facts) : unit_of_sub_groups(facts);
}

bool units_reads_blocks(const opencl_facts *facts) {
    const opencl_unit *unit = units_of(facts);
    return unit != NULL && unit->block_reads && opencl_has_extension(facts->id, "cl_intel_subgroup_2d_block_io");
}

units_format units_format_of(sm_dtype dtype, sm_products products) {
    return dtype == SM_BF16                 ? UNITS_BF16
           : dtype == SM_F16                ? UNITS_F16
           : products == SM_PRODUCTS_TF32   ? UNITS_TF32
           : products == SM_PRODUCTS_TF32X3 ? UNITS_TF32X3
                                            : UNITS_FP32;
}

void units_options(const opencl_unit *unit, units_format format, char *options, size_t size_bytes) {
    const int products = format == UNITS_TF32 ? 1 : format == UNITS_TF32X3 ? 2 : 0;
    snprintf(options, size_bytes, "-DUNIT=%d -DPRODUCTS=%d", unit->number, products);
}

const char *units_registers_option(const opencl_unit *unit) {
    return unit->tm == 8 ? " -cl-intel-256-GRF-per-thread" : "";
}
