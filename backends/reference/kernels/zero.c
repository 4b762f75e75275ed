// zero.c: gradients start a step at zero.
#include "backends/reference/ref.h"

// x = 0
// x (n)
void REF(zero)(int64_t n, real *x) {
    for (int64_t i = 0; i < n; i++) {
        x[i] = 0;
    }
}
