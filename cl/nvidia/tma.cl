// tma.cl: names for copies of whole tiles between global and local memory (TMA: the tensor memory accelerator) and for
// barriers in local memory that count their bytes (PTX ISA, "cp.async.bulk.tensor" and "mbarrier"), for matmul_wgmma.cl
// and attention_tiles.cl, before which the host puts this text.
//
// A tensor map (128 bytes, backends/opencl/nvidia/tensor_map.c) says where a tensor is, and how boxes of it lie in
// local memory: rows of 128 bytes, whose chunks of 16 bytes are exchanged by the row's number. Numbers outside of a
// tensor are read as zeros and not written.

enum { MAP_BYTES = 128 };

// --- barriers in local memory -----------------------------------------------------------------------------

static inline void make_barrier(uint barrier, uint n_arrivals) {
    __asm__ volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n_arrivals) : "memory");
}

// Called by the item that made the barriers, after all are made; the other items then wait for it.
static inline void show_barriers(void) {
    __asm__ volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}

static inline void arrive(uint barrier) {
    __asm__ volatile("{ .reg .b64 state; mbarrier.arrive.shared::cta.b64 state, [%0]; }" ::"r"(barrier) : "memory");
}

static inline void arrive_with_bytes(uint barrier, uint n_bytes) {
    __asm__ volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(n_bytes) : "memory");
}

// Bytes that come before its last arrival.
static inline void expect_bytes(uint barrier, uint n_bytes) {
    __asm__ volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(n_bytes) : "memory");
}

// Waits until the phase of that parity is over.
#define wait_for(barrier, parity)                                                                              \
    __asm__ volatile("{\n.reg .pred done;\nWAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"   \
                     "@!done bra WAIT;\n}" ::"r"(barrier),                                                     \
                     "r"(parity)                                                                               \
                     : "memory")

// The same, but ends the kernel with an error when that does not come: then the device is not lost. (Among wgmma's
// instructions it would cost registers, or have the compiler wait for each.)
#define wait_bounded(barrier, parity)                                                                          \
    __asm__ volatile("{\n.reg .pred done;\n.reg .u32 n;\nmov.u32 n, 0;\n"                                      \
                     "WAIT: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra DONE;\n"       \
                     "add.u32 n, n, 1;\nsetp.lt.u32 done, n, 4000000;\n@done bra WAIT;\ntrap;\nDONE:\n}" ::"r"( \
                         barrier),                                                                             \
                     "r"(parity)                                                                               \
                     : "memory")

// A barrier of four warps that work together; `number` from 1 to 15.
static inline void wait_for_four_warps(uint number) {
    __asm__ volatile("bar.sync %0, 128;" ::"r"(number) : "memory");
}

// --- copies -----------------------------------------------------------------------------------------------

// Before the first use of a map that another launch, or the host, wrote.
static inline void order_map(const global uchar *map) {
    __asm__ volatile("//@fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// Makes writes to local memory visible to the units and to TMA.
static inline void order_bulk_copies(void) { __asm__ volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// A box of a matrix from column x, row y on, or of a tensor's matrix z; its bytes are counted by the barrier.
static inline void bring_box(uint to, const global uchar *map, uint x, uint y, uint barrier) {
    __asm__ volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                     "[%4];" ::"r"(to),
                     "l"(map), "r"(x), "r"(y), "r"(barrier)
                     : "memory");
}

static inline void bring_box_of(uint to, const global uchar *map, uint x, uint y, uint z, uint barrier) {
    __asm__ volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
                     "%4}], [%5];" ::"r"(to),
                     "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
                     : "memory");
}

// A box of local memory to a tensor: stored, or added to the floats that are there; a group of these copies ends; waits
// until at most n (a literal number) groups still read local memory.
#define SEND_BOX(instruction, map, x, y, z, from)                                               \
    __asm__ volatile(instruction " [%0, {%1, %2, %3}], [%4];" ::"l"(map), "r"(x), "r"(y), "r"(z), \
                     "r"(from)                                                                     \
                     : "memory")
#define STORE_BOX "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group"
#define ADD_BOX   "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group"

static inline void send_commit(void) { __asm__ volatile("cp.async.bulk.commit_group;" ::: "memory"); }
#define send_wait_read(n) __asm__ volatile("cp.async.bulk.wait_group.read " TEXT(n) ";" ::: "memory")
