// harness_support.h: shared by the fuzzers (fuzz_NAME.c). Each gives one input, of any bytes, to one of the program's
// readers. Any return value is fine; failures are crashes, accesses that a sanitizer reports, leaks, and time that
// grows faster than the input.
#pragma once

#include "status.h"

// Of each fuzzer: gives the reader one input; and the time that a byte of a long input may take, under sanitizers on a
// busy machine, where it is not 5. 0: not bounded by its bytes.
void fuzz_one(const uint8_t *data, size_t size_bytes);
extern const double fuzz_longest_us_per_byte;

// Holds for every input or the run ends, as with assert, which release builds would drop too.
void fuzz_expect(int holds, const char *what);

// The path of a regular file, without a name in any folder, that holds these bytes. Valid until the next call.
const char *fuzz_file(const void *data, size_t size_bytes);

// A folder for this run, gone at its end; the path of a file in it, valid for a few calls; and a file, written again.
const char *fuzz_folder(void);
const char *fuzz_path(const char *name);
void fuzz_write(const char *path, const void *data, size_t size_bytes);

// A copy with a zero after it; the caller's to free.
char *fuzz_text(const void *data, size_t size_bytes);
