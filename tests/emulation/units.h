// units.h: emulates the matrix units of AMD and Intel on a processor. Each work-item is a fiber; an operation of a wave
// waits for all its items. Each lane holds the elements that the vendors document, or wrong ones on purpose.
#pragma once

#include <stddef.h>
#include <stdint.h>

// One launch: `item` runs as every item of all work-groups, and the process ends if they cannot continue.
void units_run(const size_t n_groups[2], int items_a_group, void (*item)(void));

// The faults of the layouts; SPOILS of them, and 0 is none.
enum {
    SPOIL_NOTHING,
    SPOIL_A_LANES,
    SPOIL_B_LANES,
    SPOIL_K,
    SPOIL_C_ROWS,
    SPOIL_C_HALVES,
    SPOIL_A_B,
    SPOIL_HALF,
    SPOILS
};
extern int units_spoilt;
