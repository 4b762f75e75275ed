// rope.c: rotary positions (Su et al. 2021, equation 34): channels i and i + HS/2 of a head, seen as a point of a
// plane, turn by an angle that grows with the token's position t, quickly for small i and slowly for large ones. The
// product of a query and a key then depends on the distance between their tokens alone.
#include "backends/reference/ref.h"

// angle = t / theta^(2i/HS);  y[i] = x[i] cos - x[i+HS/2] sin;  y[i+HS/2] = x[i] sin + x[i+HS/2] cos
// x, y (HS): one head; y may be x
static void turn_head(int64_t t, int64_t HS, double theta, bool inverse, const real *x, real *y) {
    for (int64_t i = 0; i < HS / 2; i++) {
        double angle = (double)t / pow(theta, 2 * (double)i / (double)HS);
        double c = cos(angle);
        double s = inverse ? -sin(angle) : sin(angle);
        double left = (double)x[i];
        double right = (double)x[i + HS / 2];
        y[i] = (real)(left * c - right * s);
        y[i + HS / 2] = (real)(left * s + right * c);
    }
}

// The NH heads of q and the NKV of k turn; the NKV of v stay. Positions count from the start of the token's document.
// starts (B,T), or NULL; x, y (B,T,(NH+2NKV)HS); y may be x
void REF(rope)(int64_t B, int64_t T, int64_t NH, int64_t NKV, int64_t HS, double theta, bool inverse,
               const int32_t *starts, const real *x, real *y) {
    for (int64_t n = 0; n < B * T; n++) {
        const int64_t t = n % T - (starts == NULL ? 0 : starts[n]);
        for (int64_t h = 0; h < NH + 2 * NKV; h++) {
            const int64_t first = (n * (NH + 2 * NKV) + h) * HS;
            if (h < NH + NKV) {
                turn_head(t, HS, theta, inverse, x + first, y + first);
            } else {
                for (int64_t i = 0; i < HS; i++) {
                    y[first + i] = x[first + i];
                }
            }
        }
    }
}
