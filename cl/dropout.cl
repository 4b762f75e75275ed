// dropout.cl: elements are dropped at random, and the kept ones scaled so that the expectation stays
// (Srivastava et al. 2014, section 4, inverted form). Its own derivative.
//
//   y[i] = keep[i] x[i] / (1 - p)             x, y (n); y may be x
//
// A work-item draws one Philox block, which is good for four elements.
//
//   x      |0 1 2 3|4 5 6 7| ... |last: a part|
//   block      0       1
kernel void dropout(ulong n, ulong key, uint threshold, float scale, IN(data, x), IN(uint, rng_step), OUT(data, y)) {
    const ulong first = get_global_id(0) * (ulong)4;
    const uint4 words = philox(key, get_global_id(0), micro_step(rng_step + rng_step_at));
    const uint word[4] = {words.x, words.y, words.z, words.w};
    for (uint i = 0; i < 4; i++) {
        if (first + i < n) {
            const float factor = word[i] >= threshold ? scale : 0.0f;
            y[y_at + first + i] = narrow(factor * widen(x[x_at + first + i]));
        }
    }
}
