// grad_norm.cl: the L2 norm of all gradients together, and the factor that keeps it below a limit
// (Pascanu et al. 2013, algorithm 1, with PyTorch's 1e-6).
//
//   sqnorm = sum_i g[i]^2                                  g (n): one group of gradients
//   norm = sqrt(sum_k sqnorm[k]);  clip = min(1, limit / (norm + 1e-6)), or 1 when limit is 0
//
// In two kernels: each work-item sums n_vecs vecs of g, in runs of RUN, so that no float gathers very many
// terms; then the items' sums are added up, in order. Item i begins at i item_step, and goes on by stride:
//
//   processors  |0 0 0 0 0 ..|1 1 1 1 1 ..|2 2 ..     item_step = n_vecs VECTOR, stride = VECTOR
//   cards       |0 1 2 3 .. |0 1 2 3 .. |0 1 ..       item_step = VECTOR, stride = n_parts VECTOR
#ifndef RUN
#define RUN 64 // vecs that are summed before their sum joins the part's
#endif
enum { HYPER_GRAD_CLIP = 7 }; // enum sm_hyper of include/plan.h

kernel void grad_sqnorm_parts(ulong n, ulong n_parts, ulong n_vecs, ulong item_step, ulong stride,
                              const global float *g, ulong g_at, global float *partial, ulong partial_at) {
    const ulong part = get_global_id(0);
    if (part >= n_parts) {
        return;
    }
    vec sum = to_vec(0.0f);
    ulong first = part * item_step;
    for (ulong done = 0; done < n_vecs && first < n;) {
        vec run_sum = to_vec(0.0f);
        const ulong run_end = min(n_vecs, done + RUN);
        for (; done < run_end && first < n; done++, first += stride) {
            const vec x = load_part(g + g_at + first, n - first, 0.0f);
            run_sum += x * x;
        }
        sum += run_sum;
    }
    partial[partial_at + part] = sum_of(sum);
}

kernel void grad_sqnorm_sum(ulong n_parts, const global float *partial, ulong partial_at, global float *sqnorm,
                            ulong sqnorm_at) {
    ROW_SHARED(shared);
    if (MY_ROW > 0) {
        return;
    }
    float sum = 0;
    FOR_MINE(i, n_parts, 1) {
        sum += partial[partial_at + i];
    }
    const float total = row_sum(sum, shared);
    if (MY_ITEM == 0) {
        sqnorm[sqnorm_at] = total;
    }
}

kernel void grad_clip(ulong G, const global float *sqnorm, ulong sqnorm_at, const global float *hyper, ulong hyper_at,
                      global float *norm, ulong norm_at, global float *clip, ulong clip_at) {
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
