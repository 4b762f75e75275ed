// trigonometry.c: preloaded into a program, rounds sines and cosines of floats differently, as another machine's C
// library may: initial weights are drawn with them. The difference is much larger than rounding, so that it is visible.
#include <math.h>

float sinf(float x) { return (float)sin((double)x) * 1.01f; }
float cosf(float x) { return (float)cos((double)x) * 1.01f; }
void sincosf(float x, float *sine, float *cosine);

void sincosf(float x, float *sine, float *cosine) {
    *sine = sinf(x);
    *cosine = cosf(x);
}
