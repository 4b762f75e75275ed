// grad_norm.cl: the L2 norm of all gradients together, and the factor that keeps it below a limit
// (Pascanu et al. 2013, algorithm 1, with PyTorch's 1e-6).
//
//   sqnorm = sum_i g[i]^2                                  g (n): one group of gradients
//   norm = sqrt(sum_k sqnorm[k]);  clip = min(1, limit / (norm + 1e-6)), or 1 when limit is 0
//
// Two kernels: ROW_ITEMS work-items sum a part of g, in runs of RUN vecs each, so that no float sums very many terms,
// and of the squares' sums that products left; then one work-group adds the parts' sums, in order.
//
//   g  |part 0: item 0|item 1| .. |item 0|item 1| .. |part 1: item 0|item 1| ..
//                 <----- ROW_ITEMS ----->
#if ROW_ITEMS == 1
#define RUN 64
#else
#define RUN 4
#endif
enum { HYPER_GRAD_CLIP = 7 }; // enum sm_hyper of include/plan.h

kernel void grad_sqnorm_parts(ulong n, ulong n_parts, ulong part_elems, IN(float, g), ulong n_squares,
                              IN(float, squares), OUT(float, partial)) {
    ROW_SHARED(shared);
    const ulong part = MY_ROW;
    if (part >= n_parts) {
        return;
    }
    const ulong run_elems = (ulong)RUN * ROW_ITEMS * VECTOR;
    const ulong end = min(n, (part + 1) * part_elems);
    vec sum = to_vec(0.0f);
    ulong first = part * part_elems;
    for (; first + run_elems <= end; first += run_elems) {
        vec run_sum = to_vec(0.0f);
        UNROLLED
        for (uint k = 0; k < RUN; k++) {
            const vec x = load_part(g + g_at + first + (k * ROW_ITEMS + MY_ITEM) * VECTOR, VECTOR, 0.0f);
            run_sum += x * x;
        }
        sum += run_sum;
    }
    vec rest = to_vec(0.0f);
    for (first += MY_ITEM * VECTOR; first < end; first += ROW_ITEMS * VECTOR) {
        const vec x = load_part(g + g_at + first, end - first, 0.0f);
        rest += x * x;
    }
    float left = 0;
    for (ulong i = part * ROW_ITEMS + MY_ITEM; i < n_squares; i += n_parts * ROW_ITEMS) {
        left += squares[squares_at + i];
    }
    const float total = row_sum(sum_of(sum + rest) + left, shared);
    if (MY_ITEM == 0) {
        partial[partial_at + part] = total;
    }
}

kernel void grad_sqnorm_sum(ulong n_parts, IN(float, partial), OUT(float, sqnorm)) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    float sum = 0;
    for (ulong i = MY_ITEM; i < n_parts; i += ROW_ITEMS) {
        sum += partial[partial_at + i];
    }
    const float total = row_sum(sum, shared);
    if (MY_ITEM == 0) {
        sqnorm[sqnorm_at] = total;
    }
}

kernel void grad_clip(ulong G, IN(float, sqnorm), IN(float, hyper), OUT(float, norm), OUT(float, clip)) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    float sum = 0;
    FOR_MINE(k, G, 1) {
        sum += sqnorm[sqnorm_at + k];
    }
    const float length = sqrt(row_sum(sum, shared));
    const float limit = hyper[hyper_at + HYPER_GRAD_CLIP];
    if (MY_ITEM == 0) {
        norm[norm_at] = length;
        clip[clip_at] = limit == 0 ? 1.0f : fmin(1.0f, limit / (length + 1e-6f));
    }
}
