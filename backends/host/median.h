// median.h: of measured values.
#ifndef STEPMARK_BACKENDS_HOST_MEDIAN_H
#define STEPMARK_BACKENDS_HOST_MEDIAN_H

// Sorts the n > 0 values.
double host_median(double *values, int n);

#endif
