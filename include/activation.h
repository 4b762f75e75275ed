// activation.h: the functions between the two products of an MLP, element by element. C and OpenCL C both read this
// file: the kernels of each backend, the epilogues of products, and the checks of a run follow from a row.
//
//   X(CODE, name, f, slope)   f and its derivative, expressions of x and of p: the positive part of x, which is x itself
//                             where x is NaN. Both may be vectors, so that only +, -, *, / and constants that are
//                             floats work. Kinds of op: name_forward and name_backward
//
// Each backend writes GELU in its own way, since speed and exactness of exp differ.
#ifndef STEPMARK_ACTIVATION_H // the first text of OpenCL programs, where #pragma once is a warning
#define STEPMARK_ACTIVATION_H

#define SM_ACTIVATION_PAIRS(X) X(RELU2, relu2, (p * p), (2.0f * p))

#define SM_ACTIVATION_LIST(X) X(GELU, gelu, , ) SM_ACTIVATION_PAIRS(X)

#endif
