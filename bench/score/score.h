// score.h: the frozen work that machines are compared by, and what a row of it is worth. docs/score.md defines it.
//
// A row is a score if it did that work, from any program, with any micro-batch: nothing else tells a score from other
// rows of `run`. A row proves nothing by itself. So what can be checked is checked: its figures against its samples
// (read_rows.h), its losses against those of the work, its speed against what its device can do and against the
// scores that stepmark comes with.
#pragma once

#include "bench/tables/table.h"

#define SM_SCORE_NAME "stepmark-124M-v1"

enum { SM_SCORE_SEQ_LEN = 1024, SM_SCORE_N_LOSSES = 5, SM_SCORE_TEXT_SIZE = 512 };

// A micro-batch of the work: its batches' digest, and the losses of the first steps in fp32; 0: not known yet.
typedef struct {
    int64_t B;
    const char *data_digest;
    double losses[SM_SCORE_N_LOSSES];
} sm_score_batch;

const sm_score_batch *sm_score_batch_at(int index); // from the smallest on; NULL after the last

// Its work: model, length, optimizer, data and weights; not whether it was done right.
bool sm_score_is_work(const json_t *row);

// Whether a row of that work does not count, and why: `text`, "its losses are those of other weights: ...".
// `references`: the scores that stepmark comes with.
bool sm_score_lacks(const json_t *row, const json_t *references, char text[SM_SCORE_TEXT_SIZE]);

// Makes an error of each row of that name, or of a block, that lacks something; its reason says what.
void sm_score_hold(json_t *rows, const json_t *references);

// The standing of the fastest of some scores: "1/17 of 16 cores of an Intel Xeon; ten billion tokens take 442 days".
void sm_score_standing(const json_t *rows, const json_t *references, char text[SM_SCORE_TEXT_SIZE]);

// --- a table of scores -----------------------------------------------------------------------------

// Scores of many machines, the fastest first, and those that do not count, each with its reason.
extern const sm_table sm_score_table;

// Whether any of the rows is of a block.
bool sm_score_has_blocks(const json_t *rows);

// The records of the rows, a new array: fp32 first, then all other formats; after them rows that do not count.
// `references`: the scores that stepmark comes with, against which they are checked.
json_t *sm_score_board(const json_t *rows, const json_t *references);

// The standing of the user's own score among those of blocks, as by sm_score_standing; "": there is none.
void sm_score_yours(const json_t *rows, const json_t *references, char text[SM_SCORE_TEXT_SIZE]);

// --- what makers say -----------------------------------------------------------------------------

// The rates that makers state for their cards and processors. They are shown next to the peak that stepmark measures
// and are never mixed with it: "% of datasheet" is what other programs call MFU.

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

// The rate of a processor, from its cores, its highest clock and the width of its units, if all are known. `name` ends
// in the generation, "(Zen 4)"; `isa` is that of the kernels; clock_hz is 0 if the system does not say.
double sm_datasheet_processor(const char *name, const char *isa, const char *precision, int n_cores, double clock_hz,
                              char source[SM_DATASHEET_SOURCE_SIZE]);

// Whether no processor with this name has those instructions (`isa`; "": not known) or so many cores, or computes so
// fast at a clock that none has; `text` says which: "its kernels are of avx512, which 13th Gen Intel Core ...".
bool sm_datasheet_is_other(const char *name, const char *isa, const char *precision, int n_threads, double n_cores,
                           double flops, char *text, size_t size_bytes);

// The highest clock of the processor, as the system says; 0: it does not. `root`: "" except in tests.
double sm_datasheet_clock_hz(const char *root);
