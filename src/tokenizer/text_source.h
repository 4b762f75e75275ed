// text_source.h: documents from files, folders and stdin, in blocks that can be encoded separately.
//
// A document is a file, or the text between two <|endoftext|> in a file; empty ones are left out. All files below a
// folder are read in the order of their names, except those whose names begin with a dot. "-" is stdin.
//
// A long document is cut at a place that does not change its ids (sm_encoder_part); a block grows until it contains
// one.
#ifndef STEPMARK_TEXT_SOURCE_H
#define STEPMARK_TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct {
    char **paths;        // NULL: stdin
    int64_t *file_bytes; // of each file; -1: stdin
    int64_t n_files;
    int64_t size_bytes; // of all files; stdin counts 0
    uint64_t hash;      // of names, sizes and times of change: detects another list
    bool has_stdin;
} sm_text_files;

// Lists the files of `inputs`. SM_ERR_IO names one that cannot be read.
sm_status sm_text_files_list(char *const *inputs, int n_inputs, sm_text_files *files);
void sm_text_files_free(sm_text_files *files);

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

typedef struct sm_text_source sm_text_source;

// `val_percent` of a hundred documents are for validation, chosen by a hash of a document's first 64 KiB. `at` NULL:
// from the beginning. `files` must outlive the source.
sm_status sm_text_source_open(const sm_text_files *files, double val_percent, const sm_text_position *at,
                              sm_text_source **source);
void sm_text_source_close(sm_text_source *source); // NULL is fine

// Fills a block of about a MiB; a block without parts is the end. A zeroed block is an empty one; it grows.
sm_status sm_text_source_next(sm_text_source *source, sm_text_block *block);
void sm_text_block_free(sm_text_block *block);

#endif
