// sizes.c: sizes of attention's kernels on matrix units, and what fits a work-group.
#include <math.h>

#include "backends/opencl/nvidia/tensor.h"

enum { CHUNK_BYTES = 16 };

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

// Local memory of a part's kernel by mma.sync: its own operands, two stages of two others' tiles, and values a row.
static int64_t local_bytes(int part, int64_t HS, int elem_bytes, const opencl_score_sizes *s) {
    const int64_t n_chunks = HS * elem_bytes / CHUNK_BYTES;
    const int64_t pitch = ((n_chunks + 1) / 2 * 2) | 1; // chunks of a row
    const int n_own = part == OPENCL_ATTENTION_FORWARD ? 1 : 2;
    const int64_t sums = part == OPENCL_ATTENTION_KEYS ? 4 * (int64_t)sizeof(float) * s->tile : 0;
    return (n_own * opencl_own_rows(s) + 4 * s->tile) * pitch * CHUNK_BYTES + sums;
}

// By mma.sync: the largest for heads of up to 64 channels, of more, which leave fewer registers for scores, and for
// floats, whose fragments have half as many channels; where they do not fit, smaller ones.
enum { NARROW, WIDE, FLOAT };
static const opencl_score_sizes largest_sizes[][OPENCL_ATTENTION_PARTS] = {
    [NARROW] = {{.warps = 4, .fragments = 2, .tile = 64, .step = 64, .kept = 1},
                {.warps = 4, .fragments = 2, .tile = 64, .step = 32, .kept = 2},
                {.warps = 4, .fragments = 2, .tile = 64, .step = 32, .kept = 1}},
    [WIDE] = {{.warps = 8, .fragments = 1, .tile = 64, .step = 32},
              {.warps = 8, .fragments = 1, .tile = 32, .step = 32},
              {.warps = 8, .fragments = 1, .tile = 32, .step = 32}},
    [FLOAT] = {{.warps = 8, .fragments = 1, .tile = 32, .step = 32},
               {.warps = 8, .fragments = 1, .tile = 64, .step = 32},
               {.warps = 8, .fragments = 1, .tile = 64, .step = 32}},
};
static const opencl_score_sizes smaller_sizes[] = {{.warps = 4, .fragments = 1, .tile = 32, .step = 32},
                                                   {.warps = 2, .fragments = 1, .tile = 16, .step = 16}};

// Sizes for wgmma, for 16-bit numbers. A tile that more warps share is read less often; smaller groups leave no unit
// idle for long at the end, if there are few. A unit has registers for `groups` of them.
static const opencl_score_sizes wgmma_sizes[OPENCL_ATTENTION_PARTS][OPENCL_HEADS_KINDS] = {
    [OPENCL_ATTENTION_FORWARD] = {[OPENCL_HEADS_64] = {.warps = 8, .stages = 4, .groups = 2},
                                  [OPENCL_LONG_64] = {.warps = 8, .stages = 4, .groups = 2},
                                  [OPENCL_FEW_64] = {.warps = 8, .stages = 4, .groups = 2},
                                  [OPENCL_FEWEST_64] = {.warps = 4, .stages = 4, .groups = 3},
                                  [OPENCL_HEADS_128] = {.warps = 12, .stages = 4, .groups = 1}},
    [OPENCL_ATTENTION_ROWS] = {[OPENCL_HEADS_64] = {.warps = 8, .stages = 4, .groups = 2},
                               [OPENCL_LONG_64] = {.warps = 12, .stages = 4, .groups = 1},
                               [OPENCL_FEW_64] = {.warps = 4, .stages = 2, .groups = 4},
                               [OPENCL_FEWEST_64] = {.warps = 4, .stages = 4, .groups = 2},
                               [OPENCL_HEADS_128] = {.warps = 8, .stages = 4, .groups = 1}},
    [OPENCL_ATTENTION_KEYS] = {[OPENCL_HEADS_64] = {.warps = 4, .stages = 3, .groups = 3},
                               [OPENCL_LONG_64] = {.warps = 4, .stages = 3, .groups = 3},
                               [OPENCL_FEW_64] = {.warps = 4, .stages = 3, .groups = 3},
                               [OPENCL_FEWEST_64] = {.warps = 4, .stages = 3, .groups = 3},
                               [OPENCL_HEADS_128] = {.warps = 8, .stages = 3, .groups = 1}},
};

opencl_heads opencl_kind_of_heads(const opencl_facts *facts, sm_dtype dtype, int64_t HS, int64_t T, int64_t n_rows) {
    enum { GROUP_ROWS = 128, GROUPS_A_UNIT = 2, LONG = 2048 };
    const int64_t round_rows = (int64_t)GROUP_ROWS * GROUPS_A_UNIT * facts->n_units;
    return !sm_dtype_is_narrow(dtype) ? OPENCL_OTHER_HEADS
           : HS == 64                 ? (n_rows < round_rows                        ? OPENCL_FEWEST_64
                                         : n_rows < round_rows * (T < LONG ? 3 : 2) ? OPENCL_FEW_64
                                         : T < LONG                                 ? OPENCL_HEADS_64
                                                                                    : OPENCL_LONG_64)
           : HS == 128                ? OPENCL_HEADS_128
                                      : OPENCL_OTHER_HEADS;
}

opencl_score_sizes opencl_wgmma_score_sizes(opencl_heads heads, int part) {
    opencl_score_sizes sizes = wgmma_sizes[part][heads];
    sizes.fragments = 1;
    sizes.tile = sizes.step = OPENCL_BOX_ROWS;
    return sizes;
}

bool opencl_mma_score_sizes(const opencl_facts *facts, int part, int64_t HS, int elem_bytes,
                            opencl_score_sizes *sizes) {
    const int kind = elem_bytes > 2 ? FLOAT : HS > 64 ? WIDE : NARROW;
    *sizes = largest_sizes[kind][part];
    for (size_t i = 0; local_bytes(part, HS, elem_bytes, sizes) > opencl_tensor_local_bytes(facts); i++) {
        if (i == SM_COUNT(smaller_sizes)) {
            return false;
        }
        *sizes = smaller_sizes[i];
        sizes->kept = kind != NARROW ? 0 : part == OPENCL_ATTENTION_FORWARD ? 1 : 2;
    }
    return true;
}

void opencl_attention_options(const opencl_score_sizes *s, int part, int64_t HS, bool drops, char *options,
                              size_t size_bytes) {
    char wgmma[64] = "";
    if (s->stages > 0) {
        snprintf(wgmma, sizeof wgmma, " -DSTAGES=%d -DGROUPS=%d", s->stages, s->groups);
    }
    snprintf(options, size_bytes,
             "-DPART=%d -DHS=%lld -DSCALE=%.9gf -DWARPS=%d -DFRAGMENTS=%d -DTILE=%d -DSTEP=%d -DIN_REGISTERS=%d "
             "-DDROPOUT=%d%s",
             part, (long long)HS, 1 / sqrt((double)HS), s->warps, s->fragments, s->tile, s->step, s->kept, drops,
             wgmma);
}
