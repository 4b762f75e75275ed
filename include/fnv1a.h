// fnv1a.h: FNV-1a, 64 bits (Fowler, Noll, Vo): detects changed bytes, except changes that are meant to be hidden.
#ifndef STEPMARK_FNV1A_H
#define STEPMARK_FNV1A_H

#include <stddef.h>
#include <stdint.h>

#define SM_FNV1A_START UINT64_C(0xCBF29CE484222325)

// The hash after size_bytes more bytes: start with SM_FNV1A_START, or with the hash of the bytes before.
static inline uint64_t sm_fnv1a(uint64_t hash, const void *data, size_t size_bytes) {
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size_bytes; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001B3);
    }
    return hash;
}

#endif
