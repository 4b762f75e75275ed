// utf8.h: the characters of a text in UTF-8.
#pragma once

#include <stddef.h>
#include <stdint.h>

// The bytes of the well-formed character that n > 0 bytes begin with, 1 to 4, more than n if they end within it; 0: none.
// Its first byte says the length and how far the second may go, which shuts out overlong forms, surrogates and what lies
// above U+10FFFF (Unicode 15, table 3-7).
static inline size_t sm_utf8_bytes(const void *text, size_t n) {
    const uint8_t *byte = text;
    const size_t length = byte[0] < 0x80   ? 1
                          : byte[0] < 0xc2 ? 0
                          : byte[0] < 0xe0 ? 2
                          : byte[0] < 0xf0 ? 3
                          : byte[0] < 0xf5 ? 4
                                           : 0;
    const uint8_t least = byte[0] == 0xe0 ? 0xa0 : byte[0] == 0xf0 ? 0x90 : 0x80;
    const uint8_t most = byte[0] == 0xed ? 0x9f : byte[0] == 0xf4 ? 0x8f : 0xbf;
    for (size_t i = 1; i < length && i < n; i++) {
        if (byte[i] < (i == 1 ? least : 0x80) || byte[i] > (i == 1 ? most : 0xbf)) {
            return 0;
        }
    }
    return length;
}

// Likewise of a text that ends with a zero; 0 for "".
static inline int sm_utf8_length(const char *text) { return *text != '\0' ? (int)sm_utf8_bytes(text, SIZE_MAX) : 0; }

// The character of so many bytes.
static inline uint32_t sm_utf8_code(const void *text, size_t length) {
    const uint8_t *byte = text;
    uint32_t code = length == 1 ? byte[0] : byte[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        code = code << 6 | (byte[i] & 0x3fU);
    }
    return code;
}
