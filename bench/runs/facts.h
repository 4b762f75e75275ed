// facts.h: where a training ran, in the fields of training_metrics.json.
#ifndef STEPMARK_BENCH_RUNS_FACTS_H
#define STEPMARK_BENCH_RUNS_FACTS_H

#include "backend.h"

#include <jansson.h>

// {environment {OMP_*, ...}, host {name, os, kernel}, hardware {cpu {...}, memory_bytes, device {...}},
//  build {commit, dirty, compiler, flags}, scheduler {name, job_id, nodes, n_tasks, variables {SLURM_*}} or null}
// `device` may be NULL. SM_ERR_OOM is its only failure. The caller owns *facts.
void sm_training_facts(int argc, char *const argv[], const sm_device_info *device, json_t **facts);

#endif
