// facts.c: rearranges the machine's facts, and takes Slurm's from the environment.
#include "bench/runs/metrics.h"

#include "bench/rows/machine.h"
#include "bench/tables/json_values.h"

#include <stdlib.h>
#include <string.h>

// --- the scheduler -----------------------------------------------------------------------------

// Variables on the job's layout; other SLURM_* have paths, addresses and a user's name.
static const char *const variables[] = {
    "SLURM_CLUSTER_NAME",  "SLURM_CPUS_ON_NODE",   "SLURM_CPUS_PER_TASK",
    "SLURM_DISTRIBUTION",  "SLURM_GPUS",           "SLURM_GPUS_ON_NODE",
    "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK",  "SLURM_JOB_ID",
    "SLURM_JOB_NAME",      "SLURM_JOB_NODELIST",   "SLURM_JOB_NUM_NODES",
    "SLURM_JOB_PARTITION", "SLURM_JOB_QOS",        "SLURM_MEM_PER_CPU",
    "SLURM_MEM_PER_NODE",  "SLURM_NTASKS",         "SLURM_NTASKS_PER_NODE",
    "SLURM_RESTART_COUNT", "SLURM_TASKS_PER_NODE", "SLURM_THREADS_PER_CORE",
};

// A number if the variable is one.
static json_t *number_of(const char *variable) {
    const char *text = getenv(variable);
    char *end = NULL;
    long long value = text != NULL ? strtoll(text, &end, 10) : 0;
    return text != NULL && end != text && *end == '\0' ? json_integer(value) : json_null();
}

// From the environment; JSON null outside of a Slurm job.
static json_t *scheduler_facts(void) {
    if (getenv("SLURM_JOB_ID") == NULL) {
        return json_null();
    }
    json_t *all = json_object();
    for (size_t i = 0; i < SM_COUNT(variables); i++) {
        const char *text = getenv(variables[i]);
        if (text != NULL) {
            json_object_set_new(all, variables[i], sm_json_bytes(text));
        }
    }
    return sm_json_put(json_object(), {"name", json_string("slurm")}, {"job_id", number_of("SLURM_JOB_ID")},
                       {"job_name", sm_json_text(getenv("SLURM_JOB_NAME"))},
                       {"partition", sm_json_text(getenv("SLURM_JOB_PARTITION"))},
                       {"nodes", sm_json_text(getenv("SLURM_JOB_NODELIST"))},
                       {"n_nodes", number_of("SLURM_JOB_NUM_NODES")}, {"n_tasks", number_of("SLURM_NTASKS")},
                       {"restart_count", number_of("SLURM_RESTART_COUNT")}, {"variables", all});
}

json_t *sm_training_facts(int argc, char *const argv[], const sm_device_info *device) {
    SM_OWN(json_t) *m = sm_machine_facts(argc, argv);
    json_t *host = sm_json_copy(json_object(), m, "name=host os kernel");
    json_t *build =
        sm_json_copy(json_object(), m, "commit=build_commit dirty=build_dirty compiler flags=compiler_flags");
    json_t *hardware = sm_json_put(sm_json_copy(json_object(), m, "cpu memory_bytes"),
                                   {"device", device != NULL ? sm_machine_device(device) : json_null()});
    return sm_json_put(sm_json_copy(json_object(), m, "environment argv"), {"host", host}, {"hardware", hardware},
                       {"build", build}, {"scheduler", scheduler_facts()});
}
