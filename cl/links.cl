// links.cl: sums of the processes' gradients, in which the others' parts were copied here by the cards' links.
//
//   sum = part 0 + part 1 + ... + part N-1     in the order of ranks: the own part is in sum itself, the others' lie one
//                                              after another in theirs (N-1, each)
//   sum = bf16(part 0 + ... + part N-1)        of rounded parts
#if DATA_IS_NARROW
typedef ushort4 datas;
#else
typedef float4 datas;
#endif
#define each(f, x)      f((x).s0), f((x).s1), f((x).s2), f((x).s3)
#define widen_datas(x)  ((float4)(each(widen, x)))
#define narrow_datas(x) ((datas)(each(narrow, x)))
#define same(x)         (x)

// A work-item sums four elements, and the last one those that remain.
#define SUM_KERNEL(name, element, fours, from_four, to_four, from, to)                                           \
    kernel void name(ulong n, uint n_parts, uint own, IN(element, theirs), ulong each_, OUT(element, sum)) {         \
        const ulong i = get_global_id(0) * 4;                                                                    \
        const global element *part = theirs + theirs_at + i;                                                     \
        global element *to_sum = sum + sum_at + i;                                                               \
        if (i + 4 <= n) {                                                                                        \
            float4 all = 0;                                                                                      \
            for (uint rank = 0; rank < n_parts; rank++) {                                                        \
                const global element *p = rank == own ? to_sum : part;                                           \
                const float4 x = from_four(*(const global fours *)p);                                            \
                all = rank == 0 ? x : all + x;                                                                   \
                part += rank == own ? 0 : each_;                                                                 \
            }                                                                                                    \
            *(global fours *)to_sum = to_four(all);                                                              \
        } else {                                                                                                 \
            for (ulong k = i; k < n; k++, to_sum++) {                                                            \
                float one = 0;                                                                                   \
                part = theirs + theirs_at + k;                                                                   \
                for (uint rank = 0; rank < n_parts; rank++) {                                                    \
                    const float x = from(rank == own ? *to_sum : *part);                                         \
                    one = rank == 0 ? x : one + x;                                                               \
                    part += rank == own ? 0 : each_;                                                             \
                }                                                                                                \
                *to_sum = to(one);                                                                               \
            }                                                                                                    \
        }                                                                                                        \
    }

SUM_KERNEL(links_sum, float, float4, same, same, same, same)
SUM_KERNEL(links_sum_rounded, data, datas, widen_datas, narrow_datas, widen, narrow)
