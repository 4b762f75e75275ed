// opencl.h: the device layer of the opencl backend: devices opened, plans run on them. The backend is made of layers, a
// folder each, from the ground up; a layer includes and calls those below it, and is called by them through tables and
// pointers alone that it hands down.
//
//   program/    which devices there are, and programs built for one
//   memory/     a plan's tensors in a device's memory, copies, waiting
//   launch/     kernels with their arguments set
//   binders/    from an op to launches
//   families/   kernels of products and attention; nvidia/, units/: those for matrix units
//
//   families.c  the list of families, and which one suits a device
//   opencl.c    opens a device
//   execute.c   prepares a plan, runs a range of launches
//   helpers.c   has programs built by several processes
//   tune.c      chooses among kernels by measurement
//   peaks.c     measures ceilings
#pragma once

#include "backends/opencl/binders/binders.h"

// --- families.c ----------------------------------------------------------------------------------

// The first family that suits the device, or the one with that name (SM_ERR_UNSUPPORTED if there is none).
sm_status opencl_choose_family(const opencl_facts *facts, const char *name, const char *device_id,
                               const opencl_family **family);

// Why that family was chosen, or why not one for the device's units.
void opencl_explain_family(const opencl_family *family, const opencl_facts *facts, char *text, size_t size_bytes);

// Tests a device's matrix units in a process `helper`, which calls opencl_help_units, unless that was done before, or
// with `again`; reports a line for each test. NVIDIA's units are tested at first use instead.
void opencl_try_units(const opencl_facts *facts, int index, const char *helper, bool again,
                      void (*say)(void *ctx, const char *line), void *ctx);

// Requests to a process next to building: "units" tries them and tells a parent; "programs" lists those that units
// need; "try HELPER" has them tried by such a process, also where they are known, and prints what came of it.
sm_status opencl_help_units(const opencl_facts *facts, int index, int n_words, char *const *words);

// Local memory that some family found beyond what the driver reports; 0: none.
size_t opencl_shown_local_bytes(const opencl_facts *facts);

// --- helpers.c -----------------------------------------------------------------------------------

// If the device was opened with a helper, several processes build the programs of the plan that the cache lacks. A
// failure is left to the process that needs the program, unless other processes alone build those of its family.
sm_status opencl_build_ahead(opencl_executable *e);
sm_status opencl_help(int n_words, char *const *words); // in such a process

// Announces that this process will run a plan on some device. From now on, helper processes start as soon as a device
// is found without known programs, as they need the driver for as long as this process does. One that exchanges begins
// with the drivers of OpenCL and CUDA in threads.
void opencl_foresee(const char *helper, bool exchanges);
void opencl_dismiss_helpers(const opencl_device *device);
void opencl_end_dismissed(const opencl_device *device); // waits for those: no step runs at their end
void opencl_end_helpers(const opencl_device *device);   // waits for their end

// --- tune.c --------------------------------------------------------------------------------------

// Measures the ways to compute every product of the plan without a known choice, in bounded time, and saves the fastest
// correct ones, also on disk. Sets e->base.tune_ns and e->base.tune_warning.
sm_status opencl_tune(opencl_executable *e);

// --- opencl.c, execute.c, peaks.c ----------------------------------------------------------------

size_t opencl_working_bytes(const sm_device *device, const sm_plan *plan);
sm_status opencl_prepare(sm_device *device, const sm_plan *plan, sm_executable **executable);
void opencl_release(sm_executable *executable);
sm_status opencl_execute(sm_executable *executable, sm_range range, int64_t *op_ns);
sm_status opencl_synchronize(sm_executable *executable);
sm_status opencl_measure_peaks(sm_device *device, sm_precision precision, double seconds, sm_peaks *peaks);
sm_status opencl_measure_ceilings(sm_device *device, double seconds, sm_ceiling_sink sink, void *ctx);
