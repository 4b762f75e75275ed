// corpus.h: real text that is always at hand: stepmark's own sources and docs, embedded at
// build. Read as bytes, it is what `run` and `train` learn from when no --data is given.
#ifndef STEPMARK_CORPUS_H
#define STEPMARK_CORPUS_H

#include <stdint.h>

extern const unsigned char sm_corpus_data[];
extern const uint64_t sm_corpus_size_bytes;

#endif
