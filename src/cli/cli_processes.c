// cli_processes.c: see cli_processes.h.
#include "cli_processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli_commands.h"

// --- joining ---------------------------------------------------------------------------------------

// Sets what that name has; the last holds where it comes again.
static void set_fact(sm_comm_fact *facts, int *n, const char *name, const char *value) {
    int i = 0;
    while (i < *n && strcmp(facts[i].name, name) != 0) {
        i++;
    }
    facts[i] = (sm_comm_fact){name, value};
    *n = i < *n ? *n : i + 1;
}

// Flags as they were given: "--lr" "0.1"; "--lr=0.1" as that.
static int list_arguments(const cli_options *options, sm_comm_fact *facts) {
    int n = 0;
    for (int i = 2; i < options->argc; i++) {
        const char *name = options->argv[i];
        const bool has_value = i + 1 < options->argc && options->argv[i + 1][0] != '-';
        set_fact(facts, &n, name, name[0] == '-' && has_value ? options->argv[++i] : "");
    }
    return n;
}

static sm_status compare_arguments(const cli_options *options, sm_comm *comm) {
    sm_comm_fact *facts = calloc((size_t)options->argc + 1, sizeof *facts);
    if (facts == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory to compare arguments");
    }
    const int n = list_arguments(options, facts);
    const sm_status status = sm_comm_compare(comm, facts, n);
    free(facts);
    return status;
}

sm_status cli_join(const cli_options *options, sm_comm **comm) {
    const sm_comm_options how = {.timeout_s = options->comm_timeout_s, .is_messages = options->transport != 0};
    int n_cores = 0;
    SM_TRY(sm_comm_open(&how, comm));
    cli_mute(sm_comm_rank(*comm) > 0);
    SM_TRY(compare_arguments(options, *comm));
    return options->cpu_mask == NULL ? sm_comm_bind(*comm, &n_cores) : SM_OK;
}

static const struct {
    const char *count;
    const char *rank;
} launchers[] = {{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"}, {"MPI_LOCALNRANKS", "MPI_LOCALRANKID"}};

// Of the launcher that started several processes on this host; -1: none did.
static int find_launcher(void) {
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *text = getenv(launchers[i].count);
        if (text != NULL && atoi(text) > 1) {
            return (int)i;
        }
    }
    return -1;
}

sm_status cli_require_alone(const cli_options *options) {
    const int i = find_launcher();
    if (i < 0) {
        return SM_OK;
    }
    const char *rank = getenv(launchers[i].rank);
    cli_mute(rank != NULL && atoi(rank) > 0); // one of them says it
    return sm_fail(SM_ERR_USAGE,
                   "%s measures with one process, and this is one of %s on this host (%s), which would disturb each "
                   "other; `loop` and `train` share their work among them",
                   cli_command_name(options->command), getenv(launchers[i].count), launchers[i].count);
}

// --- what each does --------------------------------------------------------------------------------

sm_status cli_choose_device(const sm_comm *comm, const cli_device_list *devices, cli_device *device) {
    const int n_here = sm_comm_local_size(comm);
    if (devices->n == 1 || (devices->n >= n_here && n_here > 1)) {
        *device = devices->devices[devices->n == 1 ? 0 : sm_comm_local_rank(comm)];
        return SM_OK;
    }
    if (n_here == 1) {
        return sm_fail(SM_ERR_USAGE, "--backend: stands for %d devices; name one by its id (see `stepmark devices`)",
                       devices->n);
    }
    return sm_fail(SM_ERR_USAGE,
                   "--backend: stands for %d devices, and this host has %d processes; name one device for "
                   "all of them, or one for each",
                   devices->n, n_here);
}

sm_processes cli_plan_processes(const cli_options *options, const sm_comm *comm) {
    return (sm_processes){
        .n = sm_comm_size(comm) > 1 ? sm_comm_size(comm) : (int)options->n_processes,
        .rank = sm_comm_rank(comm),
        .is_bf16 = options->gradient_format != 0,
        .is_sharded = options->shard != 0,
    };
}

// --- their end -------------------------------------------------------------------------------------

static int exit_code_of(sm_status status) { return status == SM_ERR_USAGE ? 2 : 1; }

// Several may see the same failure. The lowest of them says it, and ends the others before it is their turn; where it
// does not come to it in time, whoever shares memory with it knows that it has begun, and leaves it a second.
static bool is_first_to_tell(const sm_comm *comm) {
    enum { TURN_NS = 150000000, MOST_TURNS = 6 };
    const int n_turns = sm_comm_rank(comm) < MOST_TURNS ? sm_comm_rank(comm) : MOST_TURNS;
    nanosleep(&(struct timespec){.tv_nsec = (long)n_turns * TURN_NS}, NULL);
    if (cli_interrupted) {
        return false;
    }
    const bool is_first = sm_comm_is_first_to_speak(comm);
    if (!is_first) {
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    }
    return is_first;
}

void cli_wait_for_others(void) {
    enum { LOOK_NS = 20000000, MOST_LOOKS = 250 };
    for (int i = 0; i < MOST_LOOKS && find_launcher() >= 0 && !cli_interrupted; i++) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
}

sm_status cli_leave(sm_comm *comm, sm_status status) {
    if (status != SM_OK && !sm_comm_has_agreed(comm)) {
        if (is_first_to_tell(comm)) {
            cli_mute(false);
            cli_note("rank %d: %s", sm_comm_rank(comm), sm_error_message());
        }
        sm_comm_abort(comm, exit_code_of(status));
    }
    sm_comm_close(comm);
    return status;
}
