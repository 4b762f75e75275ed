// scaler.cl: the loss is scaled so that small gradients do not vanish in f16, and the scale follows what the gradients
// do (Micikevicius et al. 2018, section 3.2, by the rule of PyTorch's GradScaler).
//
//   scale_loss      scale = scale scaler.scale
//   unscale_clip    norm = norm / scaler.scale;  clip = min(1, limit / (norm + 1e-6)) / scaler.scale, or 1 for that min
//                   when limit is 0;  -1 where norm is not finite: then the updates do nothing
//   scaler_update   clip < 0: scale *= backoff, good = 0, skipped += 1;  else good += 1, and at the interval
//                   scale *= growth unless that is infinite, good = 0
//
//
// scale, norm, clip (1); scaler (scale, good, skipped). One work-item does it.
//
// And the scales of factors in 8 bits, which have a history of 16 steps (n to each), from the newest:
//
//   scale_update    history = size and those before;  scale = the largest power of two by which none of them becomes
//                   larger than `largest`;  size = 0. A size that is not finite counts as 0, and the scale is NaN
enum { SCALE_S, GOOD_S, SKIPPED_S };                                       // enum sm_scaler of include/plan.h
enum { GRAD_CLIP_S = 7, SCALE_GROWTH = 14, SCALE_BACKOFF, SCALE_INTERVAL }; // enum sm_hyper

kernel void scale_loss(IN(float, scaler), OUT(float, scale)) {
    if (get_global_id(0) == 0) {
        scale[scale_at] *= scaler[scaler_at + SCALE_S];
    }
}

kernel void unscale_clip(IN(float, hyper), IN(float, scaler), OUT(float, norm), OUT(float, clip)) {
    if (get_global_id(0) > 0) {
        return;
    }
    const float scale = scaler[scaler_at + SCALE_S];
    const float length = norm[norm_at] / scale;
    const float limit = hyper[hyper_at + GRAD_CLIP_S];
    const float ratio = limit == 0 ? 1.0f : fmin(1.0f, limit / (length + 1e-6f));
    norm[norm_at] = length;
    clip[clip_at] = length < INFINITY ? ratio / scale : -1.0f; // NaN is not
}

kernel void scaler_update(IN(float, clip), IN(float, hyper), OUT(float, scaler)) {
    if (get_global_id(0) > 0) {
        return;
    }
    const global float *h = hyper + hyper_at;
    global float *s = scaler + scaler_at;
    const bool skipped = clip[clip_at] < 0;
    const bool grows = !skipped && s[GOOD_S] + 1.0f >= h[SCALE_INTERVAL];
    const float scale = s[SCALE_S] * (skipped ? h[SCALE_BACKOFF] : grows ? h[SCALE_GROWTH] : 1.0f);
    s[SCALE_S] = scale < INFINITY ? scale : s[SCALE_S];
    s[GOOD_S] = skipped || grows ? 0.0f : s[GOOD_S] + 1.0f;
    s[SKIPPED_S] += skipped ? 1.0f : 0.0f;
}

// An item has VECTOR tensors. Numbers above zero are ordered as their bits.
kernel void scale_update(ulong n, float largest, OUT(int, size), OUT(int, history), OUT(float, scale)) {
    const ulong first = get_global_id(0) * VECTOR;
    for (ulong i = first; i < min(n, first + VECTOR); i++) {
        const bool is_finite = (size[size_at + i] & 0x7FFFFFFF) < as_int(INFINITY);
        int seen = is_finite ? size[size_at + i] : 0;
        int most = 0;
        for (uint step = 0; step < 16; step++) {
            global int *place = history + history_at + step * n + i;
            const int before = *place;
            most = max(most, seen);
            *place = seen;
            seen = before;
        }
        size[size_at + i] = 0;
        if (most > 0 || !is_finite) {
            const int power = (as_int(largest) - most) >> 23; // rounded down
            scale[scale_at + i] = is_finite ? as_float((127 + clamp(power, -60, 60)) << 23) : NAN;
        }
    }
}
