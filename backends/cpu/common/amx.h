// amx.h: AMX's tile registers (Intel, "Intel 64 and IA-32 Architectures Software Developer's Manual", volume 1,
// chapter 18): eight of 16 rows of 64 bytes.
#pragma once

#include <immintrin.h>
#include <stdint.h>

// Configures the shapes of all eight registers, for this thread until cpu_amx_end().
static inline void cpu_amx_begin(void) {
    static const struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } shapes = {
        .palette = 1,
        .row_bytes = {64, 64, 64, 64, 64, 64, 64, 64},
        .rows = {16, 16, 16, 16, 16, 16, 16, 16},
    };
    _tile_loadconfig(&shapes);
}

static inline void cpu_amx_end(void) { _tile_release(); }
