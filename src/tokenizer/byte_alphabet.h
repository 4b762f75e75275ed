// byte_alphabet.h: GPT-2's alphabet of bytes. Its files are text, so each of the 256 bytes has a visible character:
// printable ones of Latin-1 stand for themselves, the other 68 are U+0100, U+0101, ... in order of the bytes. A space
// is "Ġ" (U+0120), a newline "Ċ" (U+010A).
#ifndef STEPMARK_BYTE_ALPHABET_H
#define STEPMARK_BYTE_ALPHABET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SM_N_BYTES = 256, SM_ALPHABET_CHAR_BYTES = 2 /* the longest character, in UTF-8 */ };

// All bytes in the order of their characters: '!' first. GPT-2's ids 0 to 255 are in this order.
void sm_byte_alphabet_order(uint8_t order[SM_N_BYTES]);

// Writes the characters of n bytes; `text` has room for SM_ALPHABET_CHAR_BYTES * n. Returns their length in UTF-8.
size_t sm_byte_alphabet_write(const uint8_t *bytes, size_t n, char *text);

// The bytes of `text`, at most `length` of them; false if a character is not in the alphabet.
bool sm_byte_alphabet_read(const char *text, size_t length, uint8_t *bytes, size_t *n);

#endif
