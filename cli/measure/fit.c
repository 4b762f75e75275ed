// fit.c: chooses B and T by the planner's memory and a roofline's time.
#include "cli/measure/measure.h"

// Largest first; each has about half the work of the one before.
static const struct {
    int64_t B, T;
} candidates[] = {
    {32, 1024}, {16, 1024}, {8, 1024}, {4, 1024}, {4, 512}, {4, 256},
    {4, 128},   {4, 64},    {2, 64},   {1, 64},   {1, 32},  {1, 16},
};

// A cautious share of the ceilings that a step reaches, since the time must suffice.
static const double expected_efficiency = 0.6;

// Assumed if a device's ceilings are unknown.
static const double unknown_flops = 1e9, unknown_bandwidth = 5e9;

// Time for peaks, for weights, and for the checks' work on each parameter.
static const double overhead_seconds = 6, check_seconds_a_param = 3e-8;

// The rest is for the machine itself and the loss check's copy of the weights.
static const double memory_share = 0.8;

enum {
    N_INSTRUMENTED = 4, // first step and attribution
    N_CHECKED = 2,      // a repeated step, the forwards of the gradient check
    N_AUTO_WARMUP = 6,  // approximate number of steps until steady
};

typedef struct {
    size_t memory_bytes;
    double step_seconds, total_seconds;
} prediction;

// `fit_s` 0: T was given, so that B alone was chosen. OpenCL tells the whole memory, and not what is free of it.
static void announce(const cli_job *job, const sm_device_info *info, const prediction *p, double fit_s,
                     int64_t limit_bytes, bool fits) {
    const int64_t here_bytes = (int64_t)(info->free_bytes > 0 ? info->free_bytes : info->memory_bytes);
    const bool is_limited = limit_bytes > 0 && limit_bytes < here_bytes;
    char how[128] = "";
    if (fit_s > 0 && (fits || p->total_seconds > fit_s)) {
        snprintf(how, sizeof(how), ", %s %.0f s (--fit; -b and --seq-len choose otherwise)",
                 fits ? "to end within" : "more than", fit_s);
    }
    cli_say("%s: %s: %s B=%lld T=%lld: %s of %s%s, at most about %.2g s a step%s", info->id, job->model,
            fits || fit_s == 0 ? "chose" : "takes the smallest,", (long long)job->B, (long long)job->T,
            SM_TEXT_BYTES(p->memory_bytes), SM_TEXT_BYTES(is_limited ? limit_bytes : here_bytes),
            is_limited ? " allowed" : info->free_bytes > 0 ? " available" : "", p->step_seconds, how);
}

sm_status cli_fit(cli_bench *bench, int64_t limit_bytes, cli_job *job) {
    sm_device_info info;
    sm_peaks peaks;
    prediction p = {.memory_bytes = 0};
    const double share_s = bench->options->work.fit_s / bench->n_devices;
    const int64_t T = job->T;
    SM_TRY(job->device.backend->describe(job->device.index, &info));
    SM_TRY(cli_get_peaks(bench, job, NULL, &peaks));
    const double flops = peaks.flops > 0 ? peaks.flops : unknown_flops;
    const double bandwidth = peaks.bandwidth_bytes_per_s > 0 ? peaks.bandwidth_bytes_per_s : unknown_bandwidth;
    const int n_warmup = job->protocol.n_warmup >= 0 ? job->protocol.n_warmup : N_AUTO_WARMUP;
    const double n_steps = (double)(n_warmup + job->protocol.n_repetitions + N_INSTRUMENTED + N_CHECKED);
    bool fits = false;
    for (size_t i = 0; i < sizeof(candidates) / sizeof(candidates[0]) && !fits; i++) {
        const bool is_tried = i > 0 && candidates[i].B == candidates[i - 1].B; // with the length that is given
        if (T > 0 ? is_tried : candidates[i].T > job->config.context) {
            continue;
        }
        job->B = candidates[i].B;
        job->T = T > 0 ? T : candidates[i].T;
        SM_OWN(sm_plan) *plan = NULL;
        if (cli_job_plan(job, info.max_alloc_bytes, &plan) != SM_OK ||
            sm_plan_assign_memory(plan, info.max_alloc_bytes) != SM_OK) {
            continue; // a tensor is larger than the device allocates
        }
        p.memory_bytes = sm_plan_memory(plan, NULL);
        p.step_seconds =
            sm_pass_ideal_ns(plan, job->pass, job->protocol.n_accum, flops, bandwidth) / 1e9 / expected_efficiency;
        p.total_seconds = overhead_seconds + check_seconds_a_param * (double)plan->n_params + p.step_seconds * n_steps;
        const bool is_free = info.free_bytes == 0 || (double)p.memory_bytes <= memory_share * (double)info.free_bytes;
        fits = is_free && (limit_bytes == 0 || (int64_t)p.memory_bytes <= limit_bytes) && p.total_seconds <= share_s;
    }
    announce(job, &info, &p, T > 0 ? 0 : share_s, limit_bytes, fits);
    return SM_OK;
}
