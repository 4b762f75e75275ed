// processes.h: a subcommand that several processes perform together: joining them, the share of each, and their end.
#ifndef STEPMARK_CLI_SETUP_PROCESSES_H
#define STEPMARK_CLI_SETUP_PROCESSES_H

#include "cli/flags/options.h"
#include "cli/output/notes.h"
#include "cli/setup/session.h"
#include "src/comm/comm.h"
#include "src/train/trainer.h"

// Joins the processes that mpirun or srun started; SM_ERR_USAGE where their arguments differ. Binds each to its share
// of the host's cores, unless it is bound. From here on only rank 0 takes notes (cli_note).
sm_status cli_join(const cli_options *options, sm_comm **comm);

// What measures by itself would be disturbed by processes beside it that the same launcher started on this host.
sm_status cli_require_alone(const cli_options *options);

// Have all processes the same build, files and kernels? Names are compared by cli_join; here it is bytes and digests,
// as hosts may have files of their own under the same names. `status`: of what this process did since, as opening them;
// a failure of any is what all get. `validation` and `device` may be NULL.
sm_status cli_compare_files(const cli_options *options, sm_status status, sm_train_source *data,
                            sm_train_source *validation, const sm_device *device, sm_comm *comm);

// The device of this process: with as many devices as the host has processes, its own; with one, that one, which must
// be the cpu where there are several processes.
sm_status cli_choose_device(const sm_comm *comm, const cli_device_list *devices, cli_device *device);

// The processes as a plan has them.
sm_processes cli_plan_processes(const cli_options *options, const sm_comm *comm);

// Before a process ends that failed: the launcher then ends all processes at once, and another has something to say
// first, as rank 0 what all have agreed on, or of one that crashed, who misses it. A few seconds at most; it returns at
// once where there are no others, and when the launcher ends them.
void cli_wait_for_others(void);

// Leaves. A failure that this process has alone is said here, with its rank, and ends all of them; one that all have
// agreed on is left to rank 0 to say, and SM_OK or the failure is returned to say it.
sm_status cli_leave(sm_comm *comm, sm_status status);

#endif
