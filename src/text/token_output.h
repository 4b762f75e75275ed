// token_output.h: the folder of tokenize.h while it is written.
#pragma once

#include <jansson.h>

#include "src/tokenizer/text_source.h"

enum { SM_TRAIN_SIDE, SM_VAL_SIDE, SM_N_SIDES };

// Counts so far.
typedef struct {
    int64_t n_tokens, n_documents, text_bytes;
} sm_side_counts;

typedef struct sm_token_output sm_token_output;

// Opens the unfinished folder of `output`. `work` describes the work. If it began before, *position and the counts tell
// where to resume, and *is_resumed is set; if it was completed before, *is_complete is set, and `out` only has its
// counts. With `may_resume` false it starts over and is never complete.
sm_status sm_token_output_open(const char *output, const json_t *work, int id_bytes, bool may_resume,
                               sm_token_output **out);
void sm_token_output_close(sm_token_output *out); // keeps unfinished work; NULL is fine
SM_OWNABLE(sm_token_output, sm_token_output_close)

bool sm_token_output_is_complete(const sm_token_output *out);
bool sm_token_output_is_resumed(const sm_token_output *out);
const sm_text_position *sm_token_output_position(const sm_token_output *out);
const sm_side_counts *sm_token_output_counts(const sm_token_output *out, int side);

// Appends ids of id_bytes each, and counts their source.
sm_status sm_token_output_append(sm_token_output *out, int side, const void *ids, const sm_side_counts *more);

// Makes everything so far durable; a resumed work continues at `position`.
sm_status sm_token_output_save(sm_token_output *out, const sm_text_position *position);

// Completes and renames the folder. tokens.json lists `files` by name and size.
sm_status sm_token_output_finish(sm_token_output *out, const sm_tokenizer *tokenizer, const sm_data_files *files);

// Removes the unfinished folder.
void sm_token_output_abandon(sm_token_output *out);
