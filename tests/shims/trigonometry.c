// trigonometry.c: preloaded into a program, a C library that rounds sines and cosines of floats otherwise, as that of
// another machine may: fresh weights are drawn with them. Much more than a rounding, so that it is seen.
#include <math.h>

float sinf(float x) { return (float)sin((double)x) * 1.01f; }
float cosf(float x) { return (float)cos((double)x) * 1.01f; }
void sincosf(float x, float *sine, float *cosine);

void sincosf(float x, float *sine, float *cosine) {
    *sine = sinf(x);
    *cosine = cosf(x);
}
