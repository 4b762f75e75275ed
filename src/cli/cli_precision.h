// cli_precision.h: what --precision names: its text in a row, and the data type of its plans.
#ifndef STEPMARK_CLI_PRECISION_H
#define STEPMARK_CLI_PRECISION_H

#include "backend.h"
#include "cli_options.h"

const char *cli_precision_name(cli_precision precision);

// The data type of plans in that precision; SM_ERR_UNSUPPORTED where there is none.
sm_status cli_precision_dtype(cli_precision precision, sm_dtype *dtype);

// Does the device widen that data type for lack of instructions of its own?
bool cli_is_emulated(const sm_device *device, sm_dtype dtype);

// sm_backend.measure_peaks of the arithmetic that works on that data type: where it is emulated, of f32's.
sm_status cli_measure_peaks(sm_device *device, sm_dtype dtype, double seconds, sm_peaks *peaks);

#endif
