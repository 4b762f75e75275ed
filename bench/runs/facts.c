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
    json_t *s = json_object();
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *text = getenv(variables[i]);
        if (text != NULL) {
            json_object_set_new(all, variables[i], sm_json_bytes(text));
        }
    }
    sm_json_put(s, {"name", json_string("slurm")}, {"job_id", number_of("SLURM_JOB_ID")},
                {"job_name", sm_json_text(getenv("SLURM_JOB_NAME"))},
                {"partition", sm_json_text(getenv("SLURM_JOB_PARTITION"))},
                {"nodes", sm_json_text(getenv("SLURM_JOB_NODELIST"))}, {"n_nodes", number_of("SLURM_JOB_NUM_NODES")},
                {"n_tasks", number_of("SLURM_NTASKS")}, {"restart_count", number_of("SLURM_RESTART_COUNT")});
    json_object_set(s, "variables", all);
    json_decref(all);
    return s;
}

// --- the record's parts ------------------------------------------------------------------------

// Moves fields of `from` into a new object: pairs of new name and path, ending with NULL.
static json_t *gather(const json_t *from, const char *const *names) {
    json_t *part = json_object();
    for (; names[0] != NULL; names += 2) {
        json_t *value = sm_json_get(from, names[1]);
        if (value != NULL) {
            json_object_set(part, names[0], value);
        }
    }
    return part;
}

static json_t *device_facts(const sm_device_info *device) {
    return device != NULL ? sm_machine_device(device) : json_null();
}

void sm_training_facts(int argc, char *const argv[], const sm_device_info *device, json_t **facts) {
    static const char *const of_host[] = {"name", "host", "os", "os", "kernel", "kernel", NULL};
    static const char *const of_hardware[] = {"cpu", "cpu", "memory_bytes", "memory_bytes", NULL};
    static const char *const of_build[] = {"commit",   "build_commit", "dirty",          "build_dirty", "compiler",
                                           "compiler", "flags",        "compiler_flags", NULL};
    json_t *machine = NULL;
    machine = sm_machine_facts(argc, argv);
    json_t *f = json_object();
    json_t *hardware = gather(machine, of_hardware);
    json_object_set_new(hardware, "device", device_facts(device));
    json_object_set(f, "environment", json_object_get(machine, "environment"));
    json_object_set(f, "argv", json_object_get(machine, "argv"));
    json_object_set_new(f, "host", gather(machine, of_host));
    json_object_set(f, "hardware", hardware);
    json_object_set_new(f, "build", gather(machine, of_build));
    json_object_set_new(f, "scheduler", scheduler_facts());
    json_decref(hardware);
    json_decref(machine);
    *facts = f;
}
