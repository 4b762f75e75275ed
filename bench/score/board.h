// board.h: a table of scores from many machines, the fastest first, and those that do not count, each with its reason.
#ifndef STEPMARK_BENCH_SCORE_BOARD_H
#define STEPMARK_BENCH_SCORE_BOARD_H

#include "bench/score/score.h"
#include "bench/tables/table.h"

extern const sm_table sm_score_table;

// Whether any of the rows is of a block.
bool sm_score_has_blocks(const json_t *rows);

// The records of the rows, a new array: fp32 first, then all other formats; after them rows that do not count.
// `references`: the scores that stepmark comes with, against which they are checked.
json_t *sm_score_board(const json_t *rows, const json_t *references);

// Where the user's own score stands among those of blocks, as sm_score_standing says it; "": there is none.
void sm_score_yours(const json_t *rows, const json_t *references, char text[SM_SCORE_TEXT_SIZE]);

#endif
