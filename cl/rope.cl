// rope.cl: rotary positions (Su et al. 2021, equation 34): channels i and i + HS/2 of each head of q and k turn by an
// angle; v stays.
//
//   angle = (t - starts[t]) / theta^(2i/HS);  y[i] = x[i] cos - x[i+HS/2] sin;  y[i+HS/2] = x[i] sin + x[i+HS/2] cos
//
// x, y (B,T,(n_turned + n_kept) HS); y may be x. A work-item has one pair of channels of a token, in all heads: they
// turn by the same angle. Angles are fractions of a turn, as whole numbers of 2^-64 of it, so that products that pass a
// whole turn are right by themselves, at any position and without doubles.
//
//   row n  |q, head 0: 0 1 .. HS/2 | 0 1 ..|head 1: 0 1 .. | ...|k ..|v ..|      item 1 turns each (1, HS/2 + 1)

#define HEADS_AT_ONCE 8

// first ratio^i, of fractions of 2^64
static inline ulong fraction_power(ulong first, ulong ratio, uint i) {
    for (uint bits = i; bits > 0; bits /= 2) {
        first = bits % 2 == 1 ? mul_hi(first, ratio) : first;
        ratio = mul_hi(ratio, ratio);
    }
    return first;
}

// starts (N) are looked at with `documents`: positions count from there.
// growth: of the angle of pair 0, a position; ratio: of each pair's growth to that of the one before.
kernel void rope(ulong N, ulong T, uint half_size, uint n_turned, uint n_kept, uint inverse, ulong growth, ulong ratio,
                 uint documents, IN(data, x), IN(int, starts), OUT(data, y)) {
    const uint i = (uint)get_global_id(0);
    const ulong n = get_global_id(1);
    if (i >= half_size || n >= N) {
        return;
    }
    const ulong t = n % T - (documents ? (ulong)starts[starts_at + n] : 0);
    const uint phase = (uint)(fraction_power(growth, ratio, i) * t >> 32);
    const float half_turns = (float)as_int(phase) * 0x1p-31f; // in [-1, 1]
    const float c = cospi(half_turns);
    const float s = inverse ? -sinpi(half_turns) : sinpi(half_turns);
    const ulong row = row_start(n, (ulong)(n_turned + n_kept) * 2 * half_size) + i;
    const global data *from = x + x_at + row;
    global data *to = y + y_at + row;
    for (uint first = 0; first < n_turned; first += HEADS_AT_ONCE) {
        float left[HEADS_AT_ONCE];
        float right[HEADS_AT_ONCE];
        UNROLLED
        for (uint h = 0; h < HEADS_AT_ONCE; h++) { // all are on their way before the first is stored: y may be x
            const uint at = min(first + h, n_turned - 1) * 2 * half_size;
            left[h] = widen(from[at]);
            right[h] = widen(from[at + half_size]);
        }
        UNROLLED
        for (uint h = 0; h < HEADS_AT_ONCE; h++) {
            const uint at = (first + h) * 2 * half_size;
            if (first + h < n_turned) {
                to[at] = narrow(left[h] * c - right[h] * s);
                to[at + half_size] = narrow(left[h] * s + right[h] * c);
            }
        }
    }
    for (uint h = 2 * n_turned; h < 2 * (n_turned + n_kept) && from != to; h++) {
        to[h * half_size] = from[h * half_size];
    }
}
