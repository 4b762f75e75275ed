// loader.h: makes the batches of a training's steps: reads or tokenises, places documents, and prefetches. Batches and
// their order do not depend on the kind of loader or its threads.
//
// A load is the data of one process for one step: its micro-batches, one after another. Inline, the training thread
// makes it on demand; otherwise threads make up to `queue_depth` loads ahead of the one in use.
#pragma once

#include "src/documents/documents.h"
#include "src/runs/background.h"

// The order in which a training reads sequences of the data. A sequence is T tokens, and the targets shifted by one:
// sequence i begins at token i T, and the data hold (tokens - 1) / T of them; the rest is never read. With documents, a
// sequence is a batch of them (src/documents/documents.h), since the documents of a batch belong together.
//
// Sequence number k = 0, 1, ... of a training is the (k mod n)-th of epoch k / n, in the order of that epoch: as in the
// file, or a permutation that depends only on seed and epoch. So a step reads the same sequences with any number of
// processes, and the position in the data is one number.

// X(code, name)
#define SM_ORDER_LIST(X)                 \
    X(SM_ORDER_SEQUENTIAL, "sequential") \
    X(SM_ORDER_SHUFFLED, "shuffled")

typedef enum { SM_ORDER_LIST(SM_CODE) } sm_order_kind;

typedef struct {
    sm_order_kind kind;
    uint64_t seed;
    int64_t n_sequences; // in an epoch, at least 1
} sm_data_order;

const char *sm_order_name(sm_order_kind kind);

// The index in the data of sequence number k: 0 .. n_sequences - 1.
int64_t sm_data_order_at(const sm_data_order *order, int64_t k);

// X(code, name)
#define SM_LOADER_LIST(X)         \
    X(SM_LOADER_INLINE, "inline") \
    X(SM_LOADER_THREADS, "threads")

typedef enum { SM_LOADER_LIST(SM_CODE) } sm_loader_kind;

const char *sm_loader_name(sm_loader_kind kind);

// The time of making a load, in its thread: the sum of three parts.
typedef struct {
    int64_t read_ns;     // reading files
    int64_t tokenise_ns; // text to ids
    int64_t collate_ns;  // the rest: making rows, targets and starts of documents
} sm_load_cost;

enum { SM_LOADER_MAX_THREADS = 256, SM_LOADER_MAX_DEPTH = 4096 };

typedef struct {
    sm_loader_kind kind;
    int n_threads;            // threads: at least 1
    int queue_depth;          // threads: loads made ahead; 0: two for each thread
    sm_background background; // processors that the threads may use
    sm_load_cost delay;       // for tests: each part of a load sleeps this much longer
} sm_loader_settings;

// A process's share of the data. A piece is the unit of the data's order: a row, or with documents a batch of B rows.
typedef struct {
    const sm_tokens *tokens;
    const sm_collation *collation; // documents in rows of T; NULL: a row is T tokens of the stream
    sm_data_order order;           // of the pieces
    int64_t B;                     // rows of a micro-batch
    int64_t T;
    int64_t stride; // pieces in a step, of all processes
    int64_t first;  // the first of these for this process
    int64_t n;      // and their number
} sm_load_share;

int64_t sm_load_epoch(const sm_load_share *share, int64_t step);       // 1, 2, ...: epoch of its first piece
int64_t sm_load_first_token(const sm_load_share *share, int64_t step); // in the stream

typedef struct {
    const int32_t *inputs;  // n_micro x B x T
    const int32_t *targets; // -1: padding
    const int32_t *starts;  // for each position, the start of its document in its row; NULL: 0
    int64_t n_micro;
    const int64_t *n_real; // for each micro-batch: targets that count, at least one
    int64_t n_real_of_all; // of the step's micro-batches in all processes

    sm_load_cost cost;
    int thread;        // that made it: 0, 1, ...; -1: the caller's
    int64_t begin_ns;  // time of sm_now_ns at which the thread began it
    int64_t end_ns;    // and at which it was ready
    int64_t waited_ns; // by the caller; 0 inline, where making it is the cost
    int64_t n_ready;   // loads that were ready when the caller asked, at most queue_depth
} sm_load;

// The training thread's time for it: waiting, or making it.
static inline int64_t sm_load_main_ns(const sm_load *load) {
    return load->thread < 0 ? load->end_ns - load->begin_ns : load->waited_ns;
}

typedef struct sm_loader sm_loader;

// Starts with the data of step `step` = 1, 2, ... `share` is copied; what it points to must outlive the loader.
sm_status sm_loader_open(const sm_loader_settings *settings, const sm_load_share *share, int64_t step,
                         sm_loader **loader);
void sm_loader_close(sm_loader *loader); // NULL is fine
SM_OWNABLE(sm_loader, sm_loader_close)

// The load of the next step. Its arrays are valid until the next call.
sm_status sm_loader_next(sm_loader *loader, sm_load *load);
