// vector_exp.h: exp of a vec of numbers <= 0, by a polynomial, to about one unit in the last place.
#include "vector.h"

static inline vec greater(vec a, vec b) {
    const ivec is_a = a > b;
    return (vec)(((ivec)a & is_a) | ((ivec)b & ~is_a));
}

// exp(x) = 2^k exp(r), |r| <= ln(2) / 2. Adding 1.5 2^23 rounds to an integer, which is then in the last bits.
static inline vec exp_of(vec x) {
    const vec shift = (vec){0} + 12582912.0F;
    x = greater(x, (vec){0} - 87.0F);
    const vec shifted = x * 1.44269504F + shift;
    const vec k = shifted - shift;
    const vec r = x - k * 0.693359375F + k * 2.12194440e-4F; // ln(2) in two parts
    vec p = r * 1.9875691500e-4F + 1.3981999507e-3F;
    p = p * r + 8.3334519073e-3F;
    p = p * r + 4.1665795894e-2F;
    p = p * r + 1.6666665459e-1F;
    p = p * r + 5.0000001201e-1F;
    p = p * r * r + r + 1;
    return (vec)((ivec)p + ((ivec)shifted << 23));
}
