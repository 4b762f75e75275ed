// warps.h: work-groups of NVIDIA's warps on a processor. Each item is a fiber; what a warp does together (ldmatrix,
// mma, wgmma, shfl, vote) waits for all 32. Copies to local memory happen when they are waited for, not before; of
// those by TMA every second one happens at once.
#pragma once

#include <stdint.h>

// Numbers that are multiplied; BYTES: e4m3, 1 more if the first operand is e5m2, 2 more if the second is.
enum { BF16, F16, TF32, BYTES };

// A tensor map: sizes of dimensions, innermost first, and of a box, whose rows have 128 bytes.
typedef struct {
    uint64_t address, dims[3];
    uint32_t elem_bytes, box[3];
} warps_map;

float warps_widen_byte(uint8_t x, int is_e5m2);

extern uint32_t warps_columns; // of work-groups, if they are rows and columns

// Runs `item` as every item of n_groups work-groups.
void warps_run(uint32_t n_groups, int items_a_group, void (*item)(void));
