// jsonl.h: a file with a JSON object {"text": ...} on each line as one text: that of each document, and <|endoftext|>
// after it. Other keys are ignored, and so are blank lines and a byte order mark.
//
// Opening reads the file once and checks each line. An index of the text every few KiB makes any part of it readable,
// at the cost of the lines around it.
#ifndef STEPMARK_SRC_DATA_JSONL_H
#define STEPMARK_SRC_DATA_JSONL_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

typedef struct sm_jsonl sm_jsonl;

// SM_ERR_INVALID names a line that is no such object.
sm_status sm_jsonl_open(const char *path, sm_jsonl **jsonl);
void sm_jsonl_close(sm_jsonl *jsonl); // NULL is fine

int64_t sm_jsonl_bytes(const sm_jsonl *jsonl); // of the text

// Reads n bytes of the text from the open file. Several threads may read at once. SM_ERR_INVALID: the file has changed.
sm_status sm_jsonl_read(const sm_jsonl *jsonl, int fd, const char *path, int64_t at, void *data, size_t n);

#endif
