// data_files.h: the files of --data or of operands, all of one format: named, below a folder, or matching a pattern.
//
// All files below a folder are meant, in the order of their names' bytes, except those whose names begin with a dot.
// "-" is stdin.
#pragma once

#include "src/data/data_format.h"

typedef struct sm_jsonl sm_jsonl;

typedef struct {
    char **paths;        // NULL: stdin
    int64_t *file_bytes; // of each file; -1: stdin
    sm_jsonl **jsonl;    // of each file; NULL: its bytes are its text
    int64_t n_files;
    int64_t size_bytes; // of all files; stdin counts 0
    uint64_t hash;      // of names, sizes and times of change: detects another list
    bool has_stdin;
    sm_tokens_format asked;
    sm_tokens_format format; // never auto
} sm_data_files;

// Lists files by name. SM_ERR_IO names one that cannot be read. Here and below: free *files, also after a failure.
sm_status sm_data_files_list(char *const *inputs, int n_inputs, sm_data_files *files);

// Lists them and finds their format (data_format.h). Empty files have any.
sm_status sm_data_files_open(char *const *inputs, int n_inputs, sm_tokens_format asked, sm_data_files *files);

// The same; SM_ERR_USAGE if they hold ids, not text.
sm_status sm_data_files_open_text(char *const *inputs, int n_inputs, sm_tokens_format asked, sm_data_files *files);
void sm_data_files_free(sm_data_files *files);

// Bytes of the text of a file, or of its ids.
int64_t sm_data_files_bytes(const sm_data_files *files, int64_t file);

// Reads n bytes at an offset of that text from the open file.
sm_status sm_data_files_read(const sm_data_files *files, int64_t file, int fd, int64_t at, void *data, size_t n);

// The token files in a folder for one side, "train" or "val", of a training: SIDE.bin, or a pattern for all whose names
// contain SIDE and end in .bin, or in .npy. False: there are none, or it is no folder.
enum { SM_DATA_PATH_BYTES = 4096 };
bool sm_data_files_side(const char *folder, const char *side, char path[SM_DATA_PATH_BYTES]);

// The last of n elements, which begin with ascending numbers, whose number is at most `most`; 0: none is.
static inline int64_t sm_find_last(const void *elements, size_t elem_bytes, int64_t n, int64_t most) {
    int64_t low = 0;
    for (int64_t high = n; high - low > 1;) {
        const int64_t middle = low + (high - low) / 2;
        const int64_t *number = (const void *)((const char *)elements + (size_t)middle * elem_bytes);
        *(*number <= most ? &low : &high) = middle;
    }
    return low;
}

// A file with a JSON object {"text": ...} on each line as one text: that of each document, and <|endoftext|>
// after it. Other keys are ignored, and so are blank lines and a byte order mark.
//
// Opening reads the file once and checks each line. An index of the text every few KiB makes any part of it readable,
// at the cost of the lines around it.

// SM_ERR_INVALID names a line that is no such object.
sm_status sm_jsonl_open(const char *path, sm_jsonl **jsonl);
void sm_jsonl_close(sm_jsonl *jsonl); // NULL is fine
SM_OWNABLE(sm_jsonl, sm_jsonl_close)

int64_t sm_jsonl_bytes(const sm_jsonl *jsonl); // of the text

// Reads n bytes of the text from the open file. Several threads may read at once. SM_ERR_INVALID: the file has changed.
sm_status sm_jsonl_read(const sm_jsonl *jsonl, int fd, const char *path, int64_t at, void *data, size_t n);
