// links.cl: exchanges of a device with those of other processes, whose memory it reaches by a link (NVLink). p0 .. p7 is
// the same memory in each process, by rank: unused ones are any of them, and `own` is this process's rank.
//
//   tell:   words[rank][at] = number                    for all, after what the queue did before
//   await:  until words[at + rank stride] >= number     for all; counters may wrap around
//   sum:    p_own = p_0 + p_1 + ... + p_{n-1}           in the order of ranks, elements at .. at + n - 1; given to all
//                                                       others, too, if it `gives`
//   give:   p_rank = p_own                              for all
//
// Kernels of few work-items, so that they find room next to those that compute. A link answers late (2 us), so each
// work-item has several vecs on their way.
#define MOST_PARTS 8
#define DEPTH      4 // vecs on their way
#define PARTS_OF(element)                                                                                      \
    global element *p0, global element *p1, global element *p2, global element *p3, global element *p4,        \
        global element *p5, global element *p6, global element *p7
#define LIST_OF(element) global element *const parts[MOST_PARTS] = {p0, p1, p2, p3, p4, p5, p6, p7}

// Orders accesses to the memory of all devices.
#ifdef PTX
#define fence_all() __asm__ volatile("fence.acq_rel.sys;" ::: "memory")
#else
#define fence_all() mem_fence(CLK_GLOBAL_MEM_FENCE)
#endif

kernel void links_tell(uint n, ulong at, uint number, PARTS_OF(volatile uint)) {
    LIST_OF(volatile uint);
    fence_all();
    UNROLLED
    for (uint rank = 0; rank < MOST_PARTS; rank++) {
        if (rank == get_global_id(0) && rank < n) {
            parts[rank][at] = number;
        }
    }
    fence_all();
}

kernel void links_await(uint n, ulong at, ulong stride, uint number, const global volatile uint *words) {
    const ulong rank = get_global_id(0);
    if (rank < n) {
        while ((int)(words[at + rank * stride] - number) < 0) {
        }
    }
    fence_all();
}

#if DATA_IS_NARROW
typedef ushort8 datas;
#else
typedef float8 datas;
#endif
#define each(f, x) f((x).s0), f((x).s1), f((x).s2), f((x).s3), f((x).s4), f((x).s5), f((x).s6), f((x).s7)
#define widen_datas(x)  ((float8)(each(widen, x)))
#define narrow_datas(x) ((datas)(each(narrow, x)))
#define same_floats(x)  (x)

// Sums DEPTH_ vecs, the first of them i, which are `stride` apart.
#define SUM_VECS(DEPTH_, element, vec_, sums_, from_vec, to_vec)                              \
    {                                                                                         \
        sums_ sum[DEPTH_];                                                                    \
        UNROLLED                                                                              \
        for (uint rank = 0; rank < MOST_PARTS; rank++) {                                      \
            if (rank < n_parts) {                                                             \
                const global vec_ *part = (const global vec_ *)(parts[rank] + at);            \
                vec_ x[DEPTH_];                                                               \
                UNROLLED                                                                      \
                for (uint d = 0; d < DEPTH_; d++) {                                           \
                    x[d] = part[i + d * stride];                                              \
                }                                                                             \
                UNROLLED                                                                      \
                for (uint d = 0; d < DEPTH_; d++) {                                           \
                    sum[d] = rank == 0 ? from_vec(x[d]) : sum[d] + from_vec(x[d]);            \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
        UNROLLED                                                                              \
        for (uint rank = 0; rank < MOST_PARTS; rank++) {                                      \
            if (rank < n_parts && (gives || rank == own)) {                                   \
                global vec_ *part = (global vec_ *)(parts[rank] + at);                        \
                UNROLLED                                                                      \
                for (uint d = 0; d < DEPTH_; d++) {                                           \
                    part[i + d * stride] = to_vec(sum[d]);                                    \
                }                                                                             \
            }                                                                                 \
        }                                                                                     \
    }

// n is a multiple of a vec's elements, but for the last slice's: its rest is summed one by one.
#define SUM_KERNEL(name, element, vec_, per_vec, sums_, from_vec, to_vec, from, to)                                   \
    kernel void name(uint n_parts, uint own, uint gives, ulong at, ulong n, PARTS_OF(element)) {                      \
        LIST_OF(element);                                                                                             \
        const ulong stride = get_global_size(0);                                                                      \
        const ulong n_vecs = n / per_vec;                                                                             \
        ulong i = get_global_id(0);                                                                                   \
        for (; i + (DEPTH - 1) * stride < n_vecs; i += DEPTH * stride)                                                \
            SUM_VECS(DEPTH, element, vec_, sums_, from_vec, to_vec)                                                   \
        for (; i < n_vecs; i += stride)                                                                               \
            SUM_VECS(1, element, vec_, sums_, from_vec, to_vec)                                                       \
        const ulong last = n_vecs * per_vec + get_global_id(0);                                                       \
        if (last < n) {                                                                                               \
            float sum = 0;                                                                                            \
            UNROLLED                                                                                                  \
            for (uint rank = 0; rank < MOST_PARTS; rank++) {                                                          \
                if (rank < n_parts) {                                                                                 \
                    sum = rank == 0 ? from(parts[rank][at + last]) : sum + from(parts[rank][at + last]);              \
                }                                                                                                     \
            }                                                                                                         \
            UNROLLED                                                                                                  \
            for (uint rank = 0; rank < MOST_PARTS; rank++) {                                                          \
                if (rank < n_parts && (gives || rank == own)) {                                                       \
                    parts[rank][at + last] = to(sum);                                                                 \
                }                                                                                                     \
            }                                                                                                         \
        }                                                                                                             \
        fence_all();                                                                                                  \
    }

SUM_KERNEL(links_sum, float, float4, 4, float4, same_floats, same_floats, same_floats, same_floats)
SUM_KERNEL(links_sum_rounded, data, datas, 8, float8, widen_datas, narrow_datas, widen, narrow)

// n pairs of bytes, at a multiple of eight.
kernel void links_give(uint n_parts, uint own, ulong at, ulong n, PARTS_OF(ushort)) {
    LIST_OF(ushort);
    const ulong stride = get_global_size(0);
    const ulong n_vecs = n / 8;
    const ulong last = n_vecs * 8 + get_global_id(0);
    const global ushort *from = p0;
    UNROLLED
    for (uint rank = 1; rank < MOST_PARTS; rank++) {
        from = rank == own ? parts[rank] : from;
    }
    for (ulong i = get_global_id(0); i < n_vecs; i += stride) {
        const ushort8 x = ((const global ushort8 *)(from + at))[i];
        UNROLLED
        for (uint rank = 0; rank < MOST_PARTS; rank++) {
            if (rank < n_parts && rank != own) {
                ((global ushort8 *)(parts[rank] + at))[i] = x;
            }
        }
    }
    UNROLLED
    for (uint rank = 0; rank < MOST_PARTS; rank++) {
        if (last < n && rank < n_parts && rank != own) {
            parts[rank][at + last] = from[at + last];
        }
    }
    fence_all();
}
