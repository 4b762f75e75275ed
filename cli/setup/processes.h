// processes.h: a subcommand run by several processes: joining them, each one's share, and their end.
#ifndef STEPMARK_CLI_SETUP_PROCESSES_H
#define STEPMARK_CLI_SETUP_PROCESSES_H

#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "cli/setup/session.h"
#include "src/comm/comm.h"
#include "src/train/trainer.h"

// Joins the processes that mpirun or srun started; SM_ERR_USAGE if their arguments differ. Binds each to its share of
// the host's cores, unless it is bound. Afterwards only rank 0 prints notes (cli_note).
sm_status cli_join(const cli_options *options, sm_comm **comm);

// Refuses to measure next to other processes that the same launcher started on this host.
sm_status cli_require_alone(const cli_options *options);

// Checks that all processes have the same build, files and kernels. cli_join compares names; this compares sizes and
// digests, as hosts may have different files with the same names. `status`: this process's outcome of opening them; a
// failure of any is returned to all. `validation` and `device` may be NULL.
sm_status cli_compare_files(const cli_options *options, sm_status status, sm_train_source *data,
                            sm_train_source *validation, const sm_device *device, sm_comm *comm);

// The device of this process: its own if there are as many devices as processes on the host; a single device is for
// all, and must be the cpu if there are several.
sm_status cli_choose_device(const sm_comm *comm, const cli_device_list *devices, cli_device *device);

// The processes in the form of a plan.
sm_processes cli_plan_processes(const cli_options *options, const sm_comm *comm);

// Call it before a process ends after a failure: the launcher then ends all processes at once, and another may have
// something to report first: rank 0 what all agreed on, or the process that misses a crashed one. Waits a few seconds
// at most; returns at once without other processes.
void cli_wait_for_others(void);

// Leaves. Reports a failure of this process alone, with its rank, and ends all processes. Rank 0 reports a failure that
// all agreed on: it gets that failure, the others SM_OK.
sm_status cli_leave(sm_comm *comm, sm_status status);

#endif
