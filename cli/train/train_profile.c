// train_profile.c: see train/train.h.
#include "cli/train/train.h"

#include <math.h>

#include "bench/rows/machine.h"
#include "bench/tables/screen.h"

enum { PERIOD = 4, N_UNTYPICAL = 2, MOST_APART = 64 };

void cli_train_profile_open(const sm_train_settings *s, sm_loop **loop) {
    char name[CLI_LOADER_NAME_SIZE];
    const sm_loader_settings *loader = &s->loader;
    const int64_t round = s->session->plan->B * sm_comm_size(s->comm);
    cli_loader_name(loader, name);
    *loop =
        sm_loop_open(&(sm_loop_settings){.stepper = {.session = s->session, .n_accum = s->global_batch / round},
                                         .loader = name,
                                         .n_loader_threads = loader->kind == SM_LOADER_INLINE ? 0 : loader->n_threads,
                                         .n_attribution = MOST_APART});
}

// Within this process, from 0.
static int64_t index_of(const sm_train_progress *progress, int64_t step) {
    return step - progress->first_step - 1 - N_UNTYPICAL;
}

sm_step_phases *cli_train_profile_next(sm_loop *loop, const sm_train_progress *progress) {
    const int64_t index = index_of(progress, progress->step + 1);
    return index >= 0 && index % PERIOD == PERIOD - 1 ? sm_loop_time_apart(loop) : NULL;
}

void cli_train_profile_keep(sm_loop *loop, const sm_train_progress *progress, const sm_train_step *step,
                            const sm_step_phases *phases) {
    if (index_of(progress, step->step) >= 0) {
        sm_loop_keep(loop, step, phases);
    }
}

sm_status cli_train_profile_show(const cli_options *options, const cli_job *job, const sm_session *session,
                                 const sm_peaks *peaks, const sm_loop *loop) {
    SM_AT_END(sm_row_free) sm_row row = {.schema_version = 0};
    SM_OWN(json_t) *machine = NULL;
    int n_apart;
    (void)sm_loop_steps(loop, &n_apart);
    if (n_apart == 0) {
        cli_note("--profile: a training of fewer than %d steps has no step whose ops are timed", N_UNTYPICAL + PERIOD);
        return SM_OK;
    }
    machine = sm_machine_facts(options->argc, options->argv);
    sm_row_init(&row);
    const cli_bench bench = {.options = options, .machine = (json_t *)machine};
    SM_TRY(cli_set_configuration(&bench, job, &row));
    sm_row_set_device(&row, session->device->backend->name, &session->device->info);
    SM_ROW_TEXT(row.status, "ok");
    row.peak_flops = peaks->flops > 0 ? peaks->flops : NAN;
    row.peak_bandwidth = peaks->bandwidth_bytes_per_s > 0 ? peaks->bandwidth_bytes_per_s : NAN;
    row.peak_rss_bytes = sm_machine_peak_rss_bytes();
    row.device_peak_bytes = (int64_t)session->executable->memory_bytes;
    SM_TRY(sm_loop_conclude(loop, &row));
    putchar('\n');
    return cli_loop_show(&row, NULL, sm_screen_width(stdout) > 0 ? SM_FORMAT_TEXT : SM_FORMAT_MARKDOWN);
}
