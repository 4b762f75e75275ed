// corpus_files.h: the files that the embedded text (corpus.h) is made of, by name: the project's sources and documents.
#ifndef STEPMARK_CORPUS_FILES_H
#define STEPMARK_CORPUS_FILES_H

#include <stddef.h>

typedef struct {
    const char *path; // within the tree: "cl/gelu.cl"
    size_t offset;    // in sm_corpus_data
    size_t size_bytes;
} sm_corpus_file;

int sm_corpus_file_count(void);
const sm_corpus_file *sm_corpus_file_at(int index);

// The file of that path, or NULL.
const sm_corpus_file *sm_corpus_file_find(const char *path);

// Its text, size_bytes long, with no zero behind it.
const char *sm_corpus_file_text(const sm_corpus_file *file);

#endif
