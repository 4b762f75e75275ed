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

// Local memory of a part's kernel by mma.sync: its own operands, two stages of tiles of two others, and values for each
// row.
static int64_t local_bytes(int part, int64_t HS, int elem_bytes, const opencl_score_sizes *s) {
    const int64_t n_chunks = HS * elem_bytes / CHUNK_BYTES;
    const int64_t pitch = ((n_chunks + 1) / 2 * 2) | 1; // chunks of a row
    const int n_own = part == OPENCL_ATTENTION_FORWARD ? 1 : 2;
    const int64_t sums = part == OPENCL_ATTENTION_KEYS ? 4 * (int64_t)sizeof(float) * s->tile : 0;
    return (n_own * opencl_own_rows(s) + 4 * s->tile) * pitch * CHUNK_BYTES + sums;
}

// The first that fits. Heads of more than 64 channels leave fewer registers for scores; so do floats, whose fragments
// have half as many channels.
enum { N_SIZES = 3 };
static const opencl_score_sizes narrow_sizes[OPENCL_ATTENTION_PARTS][N_SIZES] = {
    [OPENCL_ATTENTION_FORWARD] = {{.warps = 4, .fragments = 2, .tile = 64, .step = 64, .kept = 1},
                                  {.warps = 4, .fragments = 1, .tile = 32, .step = 32, .kept = 1},
                                  {.warps = 2, .fragments = 1, .tile = 16, .step = 16, .kept = 1}},
    [OPENCL_ATTENTION_ROWS] = {{.warps = 4, .fragments = 2, .tile = 64, .step = 32, .kept = 2},
                               {.warps = 4, .fragments = 1, .tile = 32, .step = 32, .kept = 2},
                               {.warps = 2, .fragments = 1, .tile = 16, .step = 16, .kept = 2}},
    [OPENCL_ATTENTION_KEYS] = {{.warps = 4, .fragments = 2, .tile = 64, .step = 32, .kept = 1},
                               {.warps = 4, .fragments = 1, .tile = 32, .step = 32, .kept = 2},
                               {.warps = 2, .fragments = 1, .tile = 16, .step = 16, .kept = 2}},
};
static const opencl_score_sizes wide_sizes[OPENCL_ATTENTION_PARTS][N_SIZES] = {
    [OPENCL_ATTENTION_FORWARD] = {{.warps = 8, .fragments = 1, .tile = 64, .step = 32},
                                  {.warps = 4, .fragments = 1, .tile = 32, .step = 32},
                                  {.warps = 2, .fragments = 1, .tile = 16, .step = 16}},
    [OPENCL_ATTENTION_ROWS] = {{.warps = 8, .fragments = 1, .tile = 32, .step = 32},
                               {.warps = 4, .fragments = 1, .tile = 32, .step = 32},
                               {.warps = 2, .fragments = 1, .tile = 16, .step = 16}},
    [OPENCL_ATTENTION_KEYS] = {{.warps = 8, .fragments = 1, .tile = 32, .step = 32},
                               {.warps = 4, .fragments = 1, .tile = 32, .step = 32},
                               {.warps = 2, .fragments = 1, .tile = 16, .step = 16}},
};
static const opencl_score_sizes float_sizes[OPENCL_ATTENTION_PARTS][N_SIZES] = {
    [OPENCL_ATTENTION_FORWARD] = {{.warps = 8, .fragments = 1, .tile = 32, .step = 32},
                                  {.warps = 4, .fragments = 1, .tile = 32, .step = 32},
                                  {.warps = 2, .fragments = 1, .tile = 16, .step = 16}},
    [OPENCL_ATTENTION_ROWS] = {{.warps = 8, .fragments = 1, .tile = 64, .step = 32},
                               {.warps = 4, .fragments = 1, .tile = 32, .step = 32},
                               {.warps = 2, .fragments = 1, .tile = 16, .step = 16}},
    [OPENCL_ATTENTION_KEYS] = {{.warps = 8, .fragments = 1, .tile = 64, .step = 32},
                               {.warps = 4, .fragments = 1, .tile = 32, .step = 32},
                               {.warps = 2, .fragments = 1, .tile = 16, .step = 16}},
};

// Sizes for wgmma, for 16-bit numbers. A tile that more warps share is read less often; smaller groups leave no unit
// idle for long at the end, if there are few. A unit has registers for `groups` of them.
static const opencl_score_sizes wgmma_sizes[OPENCL_ATTENTION_PARTS][OPENCL_HEADS_KINDS] = {
    [OPENCL_ATTENTION_FORWARD] = {[OPENCL_HEADS_64] = {.warps = 8, .stages = 4, .groups = 2},
                                  [OPENCL_LONG_64] = {.warps = 8, .stages = 4, .groups = 2},
                                  [OPENCL_FEW_64] = {.warps = 8, .stages = 4, .groups = 2},
                                  [OPENCL_HEADS_128] = {.warps = 12, .stages = 4, .groups = 1}},
    [OPENCL_ATTENTION_ROWS] = {[OPENCL_HEADS_64] = {.warps = 8, .stages = 4, .groups = 2},
                               [OPENCL_LONG_64] = {.warps = 12, .stages = 4, .groups = 1},
                               [OPENCL_FEW_64] = {.warps = 4, .stages = 2, .groups = 4},
                               [OPENCL_HEADS_128] = {.warps = 8, .stages = 4, .groups = 1}},
    [OPENCL_ATTENTION_KEYS] = {[OPENCL_HEADS_64] = {.warps = 4, .stages = 3, .groups = 3},
                               [OPENCL_LONG_64] = {.warps = 4, .stages = 3, .groups = 3},
                               [OPENCL_FEW_64] = {.warps = 4, .stages = 3, .groups = 3},
                               [OPENCL_HEADS_128] = {.warps = 8, .stages = 3, .groups = 1}},
};

opencl_heads opencl_kind_of_heads(const opencl_facts *facts, sm_dtype dtype, int64_t HS, int64_t T, int64_t n_rows) {
    enum { GROUP_ROWS = 128, GROUPS_A_UNIT = 2, LEAST_ROUNDS = 3, LONG = 2048 };
    const bool is_few = n_rows < (int64_t)GROUP_ROWS * GROUPS_A_UNIT * LEAST_ROUNDS * facts->n_units;
    return !sm_dtype_is_narrow(dtype) ? OPENCL_OTHER_HEADS
           : HS == 64                 ? (is_few ? OPENCL_FEW_64 : T < LONG ? OPENCL_HEADS_64 : OPENCL_LONG_64)
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
    const opencl_score_sizes *candidates = elem_bytes > 2 ? float_sizes[part]
                                           : HS > 64      ? wide_sizes[part]
                                                          : narrow_sizes[part];
    for (int i = 0; i < N_SIZES; i++) {
        if (local_bytes(part, HS, elem_bytes, &candidates[i]) <= opencl_tensor_local_bytes(facts)) {
            *sizes = candidates[i];
            return true;
        }
    }
    return false;
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
