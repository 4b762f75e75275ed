// precision.h: what --precision names: its text in a row, and what its plans are made of.
#ifndef STEPMARK_CLI_FLAGS_PRECISION_H
#define STEPMARK_CLI_FLAGS_PRECISION_H

#include "backend.h"
#include "cli/flags/options.h"

const char *cli_precision_name(cli_precision precision);

// How plans in that precision store their data and compute their products.
sm_precision cli_plan_precision(cli_precision precision);

// Does the device widen that precision's data for lack of instructions of its own?
bool cli_is_emulated(const sm_device *device, cli_precision precision);

// The loss scale's text in a row: "dynamic".
const char *cli_loss_scale(const cli_options *options, cli_precision precision);

// How --loss-scale, or where it is not given the precision, has the loss scaled. SM_ERR_USAGE for what is no scale.
sm_status cli_loss_scaling(const cli_options *options, cli_precision precision, sm_loss_scaling *scaling);

// sm_backend.measure_peaks of the arithmetic that works in that precision: where it is emulated, of fp32's. Its
// operands are that many bytes, and may lie in a cache; 0: they lie in memory.
sm_status cli_measure_peaks(sm_device *device, cli_precision precision, size_t working_set_bytes, double seconds,
                            sm_peaks *peaks);

#endif
