// datasheet.h: what makers of cards and processors say that these compute. It stands beside the peak that stepmark
// measures and is never mixed with it: "% of datasheet" is what other programs call MFU.
#ifndef STEPMARK_BENCH_SCORE_DATASHEET_H
#define STEPMARK_BENCH_SCORE_DATASHEET_H

#include <stdbool.h>
#include <stddef.h>

// A line of the table: dense rates (without sparsity) in TFLOP/s, sums in fp32; 0: the maker gives none.
typedef struct {
    const char *name; // words of the device's name
    bool ends;        // and nothing follows: "RTX 4080" is neither a "RTX 4080 SUPER" nor a laptop's
    double fp32, tf32, bf16;
    const char *source; // of all three, with its date
} sm_datasheet;

const sm_datasheet *sm_datasheet_at(int index); // NULL after the last

enum { SM_DATASHEET_SOURCE_SIZE = 128 };

// FLOP/s of a card in a number format (fp16 as bf16); 0: not known. `source` says where the figure is from.
double sm_datasheet_card(const char *name, const char *precision, char source[SM_DATASHEET_SOURCE_SIZE]);

// Of a processor, from its cores, its highest clock and the width of its units, where all are known: `name` ends in the
// generation, "(Zen 4)", `isa` is that of the kernels, clock_hz 0 if the system does not say.
double sm_datasheet_processor(const char *name, const char *isa, const char *precision, int n_cores, double clock_hz,
                              char source[SM_DATASHEET_SOURCE_SIZE]);

// Whether no processor with this name has those instructions (`isa`; "": not known) or so many cores, or computes so fast
// at a clock that none has; `text` says which: "its kernels are of avx512, which 13th Gen Intel Core i9-13900K ...".
bool sm_datasheet_is_other(const char *name, const char *isa, const char *precision, int n_threads, double n_cores,
                           double flops, char *text, size_t size_bytes);

// The highest clock of the processor, as the system says; 0: it does not. `root`: "" except in tests.
double sm_datasheet_clock_hz(const char *root);

#endif
