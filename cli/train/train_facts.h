// train_facts.h: what run.json says of a training beyond what the trainer knows.
#ifndef STEPMARK_CLI_TRAIN_TRAIN_FACTS_H
#define STEPMARK_CLI_TRAIN_TRAIN_FACTS_H

#include "bench/sensors/sensors.h"
#include "cli/measure/measure.h"
#include "src/comm/comm.h"

// {engine, model, n_threads, precision, recompute, dropout, loss_scale, shard, gradients, weights}: what must agree
// where a run goes on, and between runs that are compared. The caller owns it; NULL: no memory.
json_t *cli_train_configuration(const cli_options *options, const cli_job *job, const sm_device *device);

// {processes, hosts [one a process], environment, host, hardware, build, scheduler}: what all processes call together.
sm_status cli_train_facts(const cli_options *options, const sm_device *device, sm_comm *comm, json_t **facts);

// {max_memory_bytes: of the device's memory, else of this process; other_cpus, own_cpus, steal_share,
// involuntary_switches: since `before`, as a row has them}. NULL: no memory.
json_t *cli_train_end_facts(const sm_session *session, const sm_sensors *sensors, const sm_reading *before);

// The command line as one text. The caller frees it; NULL: no memory.
char *cli_command_line(const cli_options *options);

#endif
