// median.h: of measured values.
#pragma once

// Sorts the n > 0 values.
double host_median(double *values, int n);
