#include "cli/setup/setup.h"

#include "clock.h"

const char *cli_stage_beside = "";

void cli_stage(const char *what, const sm_row *row) {
    (void)sm_worker_send(json_pack("{s:s+, s:o*}", "stage", what, cli_stage_beside, "draft",
                                   row != NULL ? sm_row_to_json(row) : NULL)); // for messages only
}

void cli_stage_search(const char *backend) {
    const bool begins = backend[0] != '\0';
    json_t *message = json_pack("{s:s, s:o*}", "search", backend, "stage",
                                begins ? json_sprintf("looking for %s devices", backend) : NULL);
    (void)sm_worker_send(message);
}

sm_status cli_worker_failure(const sm_process_result *end, const char *stage, double timeout_s) {
    SM_FAIL_IF((end->killed && !end->late) || end->signal == SIGTERM, SM_ERR_INTERRUPTED,
               "interrupted during: %s, which did not end by itself", stage); // SIGTERM: its whole group was to end
    SM_FAIL_IF(end->late, SM_ERR_TIMEOUT,
               "the limit of %g s ran out during: %s, which did not return; --timeout is too short, or it hangs",
               timeout_s, stage);
    SM_FAIL_IF(end->no_memory, SM_ERR_OOM,
               "the process was killed during: %s, by the kernel for want of memory it seems", stage);
    SM_FAIL_IF(end->signal == SIGKILL, SM_ERR_DEVICE, "the process was killed (SIGKILL) during: %s", stage);
    SM_FAIL_IF(end->signal != 0, SM_ERR_DEVICE, "the process crashed during: %s, by signal %d (%s)", stage, end->signal,
               strsignal(end->signal));
    return sm_fail(SM_ERR_DEVICE, "the process ended during: %s, with exit code %d", stage, end->exit_code);
}

// Now and timeout_s; 0, or more than a clock has: none.
static int64_t deadline_after(double timeout_s) {
    const bool has_limit = timeout_s > 0 && timeout_s * 1e9 < 9e18 - (double)sm_now_ns();
    return has_limit ? sm_now_ns() + (int64_t)(timeout_s * 1e9) : INT64_MAX;
}

sm_status cli_work_apart(const cli_work *work, sm_process_result *end) {
    SM_FREED char *told = json_dumps(work->told, JSON_COMPACT);
    const sm_worker_job job = {.work = work->work,
                               .receive = work->receive,
                               .ctx = work->ctx,
                               .told = told,
                               .shared = work->shared,
                               .deadline_ns = deadline_after(work->timeout_s),
                               .stop_s = CLI_RUN_STOP_S,
                               .memory = {.kind = OS_LIMIT_MEMORY, .most = work->most_bytes},
                               .interrupted = &cli_interrupted};
    json_decref(work->told);
    return sm_worker_run(&job, end);
}

typedef struct {
    int (*work)(void *ctx);
    cli_options *options;
    char stage[SM_ROW_REASON_SIZE];
    char search[SM_TEXT_SIZE]; // the backend whose devices it asks for; "" otherwise
} performance;

static int perform(void *ctx) {
    performance *p = ctx;
    return p->work(p->options);
}

// One limit for all stages.
static sm_status receive(void *ctx, const json_t *message, SM_UNUSED int64_t *deadline_ns) {
    performance *p = ctx;
    const char *stage = json_string_value(json_object_get(message, "stage"));
    const char *search = json_string_value(json_object_get(message, "search"));
    const bool has_searched = stage == NULL && search != NULL;
    if (search != NULL) {
        SM_ROW_TEXT(p->search, search);
    }
    if (stage != NULL || has_searched) {
        SM_ROW_TEXT(p->stage, has_searched ? cli_commands[p->options->command].name : stage);
    }
    return SM_OK;
}

sm_status cli_perform_in_worker(const cli_options *options, int (*work)(void *ctx), int *exit_code) {
    performance p = {.work = work, .options = (cli_options *)options};
    sm_process_result end;
    const bool is_one_row = options->command == CLI_PROFILE || options->command == CLI_LOOP;
    sm_worker_job job = {
        .work = perform,
        .receive = receive,
        .ctx = &p,
        .told = os_told() != NULL ? os_told() : "", // the name of a backend that is left out
        .deadline_ns = deadline_after(is_one_row ? options->measure.timeout_s : 0),
        .stop_s = CLI_STOP_S,
        .interrupted = &cli_interrupted,
    };
    SM_ROW_TEXT(p.stage, cli_commands[options->command].name);
    if (sm_backend_find(job.told) != NULL) {
        cli_lose_backend(sm_backend_find(job.told));
    }
    SM_TRY(sm_worker_run(&job, &end));
    // A driver's fault: others may do.
    while (end.signal != 0 && !end.killed && sm_backend_find(p.search) != NULL) {
        (void)cli_worker_failure(&end, p.stage, options->measure.timeout_s);
        cli_note("%s; %s is left out", sm_error_message(), p.search);
        cli_lose_backend(sm_backend_find(p.search));
        job.told = sm_backend_find(p.search)->name;
        p.search[0] = '\0';
        SM_TRY(sm_worker_run(&job, &end));
    }
    *exit_code = end.exit_code;
    if (end.signal == 0) {
        return SM_OK;
    }
    cli_wait_for_others();
    sm_status status = cli_worker_failure(&end, p.stage, options->measure.timeout_s);
    if (end.signal != SIGKILL) {
        if (end.signal != SIGPIPE) { // not a crash: nobody reads the results any more
            cli_note("%s", sm_error_message());
        }
        // Passes a crash on to our parent.
        os_leave_no_core(); // the worker has a core file already
        signal(end.signal, SIG_DFL);
        raise(end.signal);
    }
    return status;
}
