// row_profile.c: a measured row's op times, joined to the plan that it measured.
#include "cli/measure/row_profile.h"

#include <math.h>
#include <string.h>

#include "bench/compare/evidence.h"

sm_status cli_row_profile_input(const cli_options *options, const cli_job *job, const sm_row *row, sm_plan **plan,
                                sm_profile_input *input) {
    sm_device_info info;
    SM_TRY(job->device.backend->describe(job->device.index, &info));
    SM_TRY(cli_job_plan(options, job, info.max_alloc_bytes, plan));
    (*plan)->attended_pairs = isfinite(row->attended_pairs) ? row->attended_pairs : 0;
    if (row->op_ns.n != (*plan)->n_ops) {
        return sm_fail(SM_ERR_INTERNAL, "%lld op times of a plan of %d ops", (long long)row->op_ns.n, (*plan)->n_ops);
    }
    *input = (sm_profile_input){
        .plan = *plan,
        .op_ns = row->op_ns.values,
        .op_least_ns = row->op_least_ns.n == (*plan)->n_ops ? row->op_least_ns.values : NULL,
        .is_noisy = strcmp(row->noise_verdict, sm_noise_name(SM_NOISE_NOISY)) == 0,
        .wall_ns = row->attribution_ns,
        .headline_ns = row->median_ns,
        .peak_flops = row->peak_flops,
        .peak_bandwidth = row->peak_bandwidth,
    };
    json_t *record = sm_row_to_json(row);
    if (record == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a row");
    }
    sm_doubt_row(record, input->doubt);
    json_decref(record);
    return SM_OK;
}
