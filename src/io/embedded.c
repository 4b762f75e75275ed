// corpus_files.c: the embedded text's files. The build makes corpus_files.list beside the text: an entry a file.
#include "corpus_files.h"

#include <string.h>

#include "corpus.h"

static const sm_corpus_file files[] = {
#define CORPUS_FILE(its_path, its_offset, its_size) {.path = its_path, .offset = its_offset, .size_bytes = its_size},
#include "corpus_files.list"
#undef CORPUS_FILE
};

int sm_corpus_file_count(void) { return (int)(sizeof(files) / sizeof(files[0])); }

const sm_corpus_file *sm_corpus_file_at(int index) { return &files[index]; }

const sm_corpus_file *sm_corpus_file_find(const char *path) {
    for (int i = 0; i < sm_corpus_file_count(); i++) {
        if (strcmp(files[i].path, path) == 0) {
            return &files[i];
        }
    }
    return NULL;
}

const char *sm_corpus_file_text(const sm_corpus_file *file) { return (const char *)sm_corpus_data + file->offset; }
