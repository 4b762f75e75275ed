// peers.h: what joins an OpenCL device with those of other processes: the same card as CUDA's driver sees it, memory
// that both reach, streams, and either NCCL or the other processes' memory.
//
//   cuda.c    functions of CUDA's driver
//   nccl.c    functions of NCCL, and where it is found
//   peers.c   finding the card, joining by NCCL, trying out, leaving
//   links.c   joining by the cards' own links: CUDA's driver maps the other processes' memory, too
//   shared.c  memory that CUDA's driver allocates and OpenCL imports
//   order.c   a stream that waits for a queue
//
// An OpenCL kernel cannot read CUDA's memory by its address, as the two have address spaces of their own. But NVIDIA's
// OpenCL imports memory by a file descriptor (cl_khr_external_memory_opaque_fd), as graphics libraries do.
#pragma once

#include <stdatomic.h>

#include "collectives.h"

#include "backends/opencl/peers/nccl.h"
#include "backends/opencl/program/program.h"

// Another process's piece of memory, where CUDA's driver reaches it.
typedef struct {
    cuda_memory memory;
    cuda_address address; // 0: not mapped
} opencl_linked;

// Memory that both OpenCL and CUDA reach.
typedef struct {
    cl_mem buffer; // NULL: none
    cuda_memory memory;
    cuda_address address; // 0: not mapped
    size_t size_bytes;
    opencl_linked
        *linked; // by rank, once all have linked theirs; the own rank's address is `address`. NULL: not linked
} opencl_shared;

// The way in which a stream waits for work enqueued in OpenCL.
typedef enum {
    OPENCL_ORDER_FLAG, // a number that the queue writes to shared memory, and the stream waits for
    OPENCL_ORDER_HOST, // the host waits for an event
} opencl_order;

// Words, each in a line of its own. Those of opencl_peers.words are in the card's memory: the flag of the queue
// (order.c), and one that each rank writes to try the links.
enum { OPENCL_WORD_BYTES = 64, OPENCL_FLAG = 0, OPENCL_TRIED = 1 };

// The words of opencl_told are in the host's memory: own streams, other processes and their streams write them.
typedef enum {
    OPENCL_READY,  // has computed its part, which others may read, and change where they sum
    OPENCL_LANDED, // the own streams: has copied what a sum needs
    OPENCL_TAKEN,  // has read what it needs, and written what others need
    OPENCL_MET,    // the trial of the links
    OPENCL_OF_SUMS,
    OPENCL_MATTERS = 2 * OPENCL_OF_SUMS, // gathers have words of their own, so that they do not wait for sums
} opencl_matter;

typedef struct {
    _Atomic uint32_t *words; // NULL: not mapped
    cuda_address address;    // where streams write them
} opencl_told;

struct opencl_peers;

typedef struct {
    int *connections;  // by rank
    opencl_told *told; // by rank; all of size told_bytes
    size_t told_bytes;
    cuda_stream pushing; // copies to others; opencl_peers.stream copies from others
    uint32_t n_begun;    // exchanges, the same in all processes
    void (*leave)(struct opencl_peers *peers);
} opencl_links;

typedef struct opencl_peers {
    int card; // CUDA's number of this device
    void *context;
    cuda_stream stream;
    nccl_comm comm;      // NULL: not joined by NCCL
    opencl_links *links; // NULL: not joined by links
    int rank, n_processes;
    bool is_busy; // in a thread that was left behind, or with exchanges that do not end: nothing is freed
    opencl_order order;
    opencl_shared words;
    uint32_t n_flags; // written so far
    atomic_bool is_aborted;
    // A function of OpenCL 3.0.
    cl_mem (*create_with_properties)(cl_context, const cl_ulong *, cl_mem_flags, size_t, void *, cl_int *);
} opencl_peers;

// --- peers.c (collectives.h says what they do) -----------------------------------------------------

bool opencl_peers_suit(const sm_device *device);
// The card; and NCCL, too.
sm_status opencl_peers_find_card(sm_device *device);
sm_status opencl_peers_find(sm_device *device, const char *library);
// A process that will exchange begins with CUDA's driver, and the card's context there, in a thread.
void opencl_peers_foresee(void);
bool opencl_peers_await(void); // whether it was foreseen, and no device needed it yet
void opencl_peers_begin_early(opencl_device *device);
// Makes CUDA's context and words: both ways to join begin with it.
sm_status opencl_peers_begin(opencl_device *device, int rank, int n_processes);
sm_status opencl_peers_make_id(sm_device *device, unsigned char id[SM_COLLECTIVES_ID_BYTES]);
sm_status opencl_peers_join(sm_device *device, const unsigned char id[SM_COLLECTIVES_ID_BYTES], int rank,
                            int n_processes);
void opencl_peers_describe(const sm_device *device, char text[SM_COLLECTIVES_TEXT_SIZE]);
void opencl_peers_abort(sm_device *device);
void opencl_peers_leave(opencl_device *device);

static inline bool opencl_has_peers(const opencl_device *device) {
    const opencl_peers *p = device->peers;
    return p != NULL && (p->comm != NULL || p->links != NULL) && !atomic_load(&p->is_aborted);
}

// --- links.c ---------------------------------------------------------------------------------------

sm_status opencl_links_find(sm_device *device, const char *library); // needs none
sm_status opencl_links_make_id(sm_device *device, unsigned char id[SM_COLLECTIVES_ID_BYTES]);
sm_status opencl_links_join(sm_device *device, const unsigned char id[SM_COLLECTIVES_ID_BYTES], int rank,
                            int n_processes);
void opencl_links_describe(const sm_device *device, char text[SM_COLLECTIVES_TEXT_SIZE]);
void opencl_links_abort(sm_device *device);

static inline size_t opencl_word_at(int word) { return (size_t)word * OPENCL_WORD_BYTES; }
// The place of rank `writer`'s word among a process's words.
static inline size_t opencl_told_at(opencl_matter matter, int writer) {
    return opencl_word_at(writer * OPENCL_MATTERS + (int)matter);
}
static inline _Atomic uint32_t *opencl_told_word(const opencl_peers *p, int whose, opencl_matter matter, int writer) {
    return p->links->told[whose].words + opencl_told_at(matter, writer) / sizeof(uint32_t);
}

// --- shared.c --------------------------------------------------------------------------------------

// At least size_bytes, with undefined contents. SM_ERR_OOM: there is no room.
sm_status opencl_share(opencl_device *device, size_t size_bytes, opencl_shared *shared);
void opencl_unshare(const opencl_device *device, opencl_shared *shared);
// All processes link a piece of memory of the same size: each then has the others' addresses.
sm_status opencl_link(opencl_device *device, opencl_shared *shared);
// Runs by CUDA, for trials.
sm_status opencl_write_shared(const opencl_device *device, const opencl_shared *shared, size_t at, uint32_t number);

// --- order.c ---------------------------------------------------------------------------------------

// A point of the computing queue that the stream is to wait for.
typedef struct {
    uint32_t flag;
    cl_event event; // NULL: none; with flag 0, too, nothing is to be waited for
} opencl_point;

// Chooses the best way that works here.
sm_status opencl_choose_order(opencl_device *device);
sm_status opencl_mark(opencl_device *device, opencl_point *point); // all that was enqueued so far
sm_status opencl_wait_in_stream(opencl_device *device, opencl_point *point);
