// token_output.h: the folder that tokenize.h describes, while it is being written.
#ifndef STEPMARK_SRC_TEXT_TOKEN_OUTPUT_H
#define STEPMARK_SRC_TEXT_TOKEN_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>

#include "src/tokenizer/text_source.h"
#include "src/tokenizer/tokenizer.h"

enum { SM_TRAIN_SIDE, SM_VAL_SIDE, SM_N_SIDES };

// So far.
typedef struct {
    int64_t n_tokens, n_documents, text_bytes;
} sm_side_counts;

typedef struct sm_token_output sm_token_output;

// Opens the unfinished folder of `output`. `work` describes the work. If it was begun before, *position and the counts
// say where to resume, and *is_resumed is set; if it was completed before, *is_complete is set, and `out` only has its
// counts. `may_resume` false: it begins again, and is never taken for complete.
sm_status sm_token_output_open(const char *output, const json_t *work, int id_bytes, bool may_resume,
                               sm_token_output **out);
void sm_token_output_close(sm_token_output *out); // leaves unfinished work; NULL is fine

bool sm_token_output_is_complete(const sm_token_output *out);
bool sm_token_output_is_resumed(const sm_token_output *out);
const sm_text_position *sm_token_output_position(const sm_token_output *out);
const sm_side_counts *sm_token_output_counts(const sm_token_output *out, int side);

// Appends ids of id_bytes each, and counts their source.
sm_status sm_token_output_append(sm_token_output *out, int side, const void *ids, const sm_side_counts *more);

// Everything so far is durable, and the work continues at `position`.
sm_status sm_token_output_save(sm_token_output *out, const sm_text_position *position);

// Completes the folder and gives it its name. tokens.json lists `files` by name and bytes.
sm_status sm_token_output_finish(sm_token_output *out, const sm_tokenizer *tokenizer, const sm_text_files *files);

// Removes the unfinished folder.
void sm_token_output_abandon(sm_token_output *out);

#endif
