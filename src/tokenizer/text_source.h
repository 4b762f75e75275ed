// text_source.h: documents from files, folders and stdin, in blocks that can be encoded separately.
//
// A document is a file, the text of a line of JSONL, or the text between two <|endoftext|> in these; empty ones are
// left out.
//
// A long document is cut at a place that does not change its ids (sm_encoder_part); a block grows until it contains
// one.
#pragma once

#include "src/data/data_files.h"
#include "src/tokenizer/tokenizer.h"

// The position of a source: file, offset, and document.
typedef struct {
    int64_t file;
    int64_t offset_bytes;
    bool in_document;   // inside a document
    bool is_validation; // the document is for validation
} sm_text_position;

// Text of a document or of a part of it.
typedef struct {
    size_t offset, n_bytes; // in the block
    int64_t file;           // its file
    int64_t at_bytes;       // its offset there
    bool is_validation;
    bool ends_document;
} sm_text_part;

typedef struct {
    uint8_t *text;
    size_t n_bytes, capacity;
    sm_text_part *parts;
    size_t n_parts, parts_capacity;
    sm_text_position after; // after its last byte
    int64_t n_read_bytes;   // read from files for this block, separators included
} sm_text_block;

// The text for validation: whole documents, chosen by a hash of their first 64 KiB, so that copies of a document
// are on the same side in any order and number of files; or, if those have another share of the text than was asked, by
// more than half of it, the end of every document.
typedef struct {
    int64_t file, from, end; // of a document: its end for validation begins at `from`
} sm_text_end;

typedef struct {
    double val_percent;
    sm_text_end *ends; // of all documents, in order; NULL: whole documents
    int64_t n_ends;
} sm_text_split;

// Reads the text once to decide, unless it is stdin's, or has more documents than that share can be left to chance for.
sm_status sm_text_split_find(const sm_data_files *files, double val_percent, sm_text_split *split);
void sm_text_split_free(sm_text_split *split);

// Whether a share of the text (0 to 1) is near enough to what was asked.
bool sm_text_split_fits(double val_percent, double share);

typedef struct sm_text_source sm_text_source;

// `split` NULL: all is for training. `at` NULL: from the beginning. `tokenizer` NULL: text is cut
// without regard to added tokens. These must outlive the source.
sm_text_source *sm_text_source_open(const sm_data_files *files, const sm_tokenizer *tokenizer,
                                    const sm_text_split *split, const sm_text_position *at);
void sm_text_source_close(sm_text_source *source); // NULL is fine
SM_OWNABLE(sm_text_source, sm_text_source_close)

// Fills a block of about a MiB; a block without parts is the end. A zeroed block is an empty one; it grows.
sm_status sm_text_source_next(sm_text_source *source, sm_text_block *block);
void sm_text_block_free(sm_text_block *block);
