// fnv1a.h: FNV-1a, 64 bits (Fowler, Noll, Vo): detects accidental changes of bytes, not deliberate ones.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SM_FNV1A_START UINT64_C(0xCBF29CE484222325)

// Extends a hash by size_bytes bytes. The first hash is SM_FNV1A_START.
static inline uint64_t sm_fnv1a(uint64_t hash, const void *data, size_t size_bytes) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    }
    return hash;
}
