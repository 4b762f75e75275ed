// byte_alphabet.c: by counting; there are only 256.
#include "src/tokenizer/tokenizer.h"

enum { FIRST_STAND_IN = 0x100, LAST_CHARACTER = 0x143 };

static bool stands_for_itself(int byte) {
    return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

static int character_of(uint8_t byte) {
    int character = FIRST_STAND_IN;
    if (stands_for_itself(byte)) {
        return byte;
    }
    for (int b = 0; b < byte; b++) {
        character += !stands_for_itself(b);
    }
    return character;
}

static int byte_of(int character) {
    if (character < FIRST_STAND_IN) {
        return stands_for_itself(character) ? character : -1;
    }
    for (int b = 0, stand_in = FIRST_STAND_IN; b < SM_N_BYTES; b++) {
        if (!stands_for_itself(b) && stand_in++ == character) {
            return b;
        }
    }
    return -1;
}

void sm_byte_alphabet_order(uint8_t order[SM_N_BYTES]) {
    int n = 0;
    for (int character = 0; character <= LAST_CHARACTER; character++) {
        const int byte = byte_of(character);
        if (byte >= 0) {
            order[n++] = (uint8_t)byte;
        }
    }
}

size_t sm_byte_alphabet_write(const uint8_t *bytes, size_t n, char *text) {
    size_t length = 0;
    for (size_t i = 0; i < n; i++) {
        const int character = character_of(bytes[i]);
        if (character < 0x80) {
            text[length++] = (char)character;
        } else {
            text[length++] = (char)(0xc0 | character >> 6);
            text[length++] = (char)(0x80 | (character & 0x3f));
        }
    }
    return length;
}

bool sm_byte_alphabet_read(const char *text, size_t length, uint8_t *bytes, size_t *n) {
    *n = 0;
    for (size_t i = 0; i < length; i++) {
        int character = (uint8_t)text[i];
        if (character >= 0x80) { // more than two bytes, or too large
            if ((character & 0xe0) != 0xc0 || i + 1 == length) {
                return false;
            }
            character = (character & 0x1f) << 6 | ((uint8_t)text[++i] & 0x3f);
        }
        const int byte = byte_of(character);
        if (byte < 0) {
            return false;
        }
        bytes[(*n)++] = (uint8_t)byte;
    }
    return true;
}
