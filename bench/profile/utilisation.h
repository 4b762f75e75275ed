// utilisation.h: how busy the machine is while something is measured: a thread looks at even intervals. It takes a
// fraction of a millisecond a look, on a processor that may be one of those measured.
//
//   processors  /proc/stat, which counts in hundredths of a second
//   memory      resident, of this process
//   GPU         NVML: busy share, memory taken and power, of the device of that name
//
// Its observations are kept in 1024 places; when they are full, neighbours become one and the interval doubles.
#ifndef STEPMARK_BENCH_PROFILE_UTILISATION_H
#define STEPMARK_BENCH_PROFILE_UTILISATION_H

#include "bench/tables/json_values.h"
#include "src/runs/background.h"

// X(code, name)
#define SM_UTILISATION_LIST(X)               \
    X(SM_UTILISATION_WARMUP, "n_warmup")     \
    X(SM_UTILISATION_HEADLINE, "n_headline") \
    X(SM_UTILISATION_AFTER, "n_after")

typedef enum { SM_UTILISATION_LIST(SM_CODE) SM_UTILISATION_COUNT } sm_utilisation_stage;

static const int64_t sm_utilisation_interval_ns = 100000000;

typedef struct sm_utilisation sm_utilisation;

// Starts in the stage warm-up. `root` and `gpu` as in sm_sensors_open.
sm_status sm_utilisation_start(const char *root, const char *gpu, const sm_background *background, int64_t interval_ns,
                               sm_utilisation **utilisation);

// Begins a stage; nothing changes if it, or a later one, has begun. NULL is fine.
void sm_utilisation_enter(sm_utilisation *utilisation, sm_utilisation_stage stage);

// Ends the thread. *series: {interval_ms, n_warmup, n_headline, n_after: numbers of samples in each stage; cpu: busy
// share of all processors, by sample; processors: busy share of each, in the headline; rss_bytes; gpu,
// gpu_memory_bytes, power_w}. Values that cannot be read are left out. The caller owns it.
void sm_utilisation_stop(sm_utilisation *utilisation, json_t **series);

void sm_utilisation_close(sm_utilisation *utilisation); // NULL is fine

#endif
