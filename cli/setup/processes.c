#include "cli/setup/setup.h"

#include "bench/rows/machine.h"
#include "src/weights/weights.h"

static const struct {
    const char *count, *rank;
    const char *sign; // of the launcher
} launchers[] = {{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
                 {"MPI_LOCALNRANKS", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
                 {"LOCAL_WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"}, // torchrun
                 {"PMI_SIZE", "PMI_RANK", "PMI_SMPD_ID"}};                  // Microsoft MPI

// The launcher that started several processes on this host; -1: none.
static int find_launcher(void) {
    for (size_t i = 0; i < sizeof launchers / sizeof launchers[0]; i++) {
        const char *text = getenv(launchers[i].count);
        if (text != NULL && atoi(text) > 1 && getenv(launchers[i].sign) != NULL) {
            return (int)i;
        }
    }
    return -1;
}

// Drivers begin before the processes have met, if --backend names theirs.
void cli_foresee(const cli_options *options) {
    const cli_texts *names = &options->device.backends;
    const int way = options->processes.transport;
    const bool exchanges = find_launcher() >= 0 && way != SM_TRANSPORT_MEMORY && way != SM_TRANSPORT_MESSAGES;
    for (int b = 0; b < sm_backend_count(); b++) {
        const sm_backend *backend = sm_backend_at(b);
        bool is_named = false;
        for (int i = 0; i < names->n; i++) {
            is_named |= strncmp(names->texts[i], backend->name, strlen(backend->name)) == 0;
        }
        if (backend->foresee != NULL) {
            cli_stage_beside = exchanges && is_named ? ", while drivers begin" : "";
            backend->foresee(os_program(), exchanges && is_named);
        }
    }
}

sm_status cli_join(const cli_options *options, sm_comm **comm) {
    const sm_comm_options how = {.timeout_s = options->processes.comm_timeout_s,
                                 .transport = (sm_transport)options->processes.transport,
                                 .nccl = options->processes.nccl};
    int n = 0, n_cores = 0;
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *all = getenv("OMPI_COMM_WORLD_SIZE");
    // On one host Open MPI needs none of its networks, of which some take 0.2 s to find that they have none: its
    // messages travel by shared memory. Set before there are threads, which may read the environment.
    if (here != NULL && all != NULL && strcmp(here, all) == 0) {
        (void)setenv("OMPI_MCA_pml", "ob1", false);
    }
    cli_foresee(options);
    cli_stage("meeting the other processes", NULL);
    SM_TRY(sm_comm_open(&how, comm));
    cli_mute(sm_comm_rank(*comm) > 0);
    SM_FREED sm_comm_fact *facts = sm_calloc((size_t)options->argc + 1, sizeof *facts);
    for (int i = 2; i < options->argc; i++) { // "--lr" "0.1"; "--lr=0.1" counts as the same
        const char *name = options->argv[i];
        const bool has_value = name[0] == '-' && i + 1 < options->argc && options->argv[i + 1][0] != '-';
        int place = 0;
        while (place < n && strcmp(facts[place].name, name) != 0) {
            place++;
        }
        facts[place] = (sm_comm_fact){name, has_value ? options->argv[++i] : ""}; // the last value counts
        n += place == n;
    }
    SM_TRY(sm_comm_compare(*comm, SM_OK, facts, n, "start all with the same arguments"));
    return options->device.cpu_mask == NULL ? sm_comm_bind(*comm, &n_cores) : SM_OK;
}

// --- what they read --------------------------------------------------------------------------------

enum { MOST_FACTS = 10, FACT_BYTES = 1100 };

typedef struct {
    sm_comm_fact facts[MOST_FACTS];
    char values[MOST_FACTS][FACT_BYTES];
    int n;
} fact_list;

static void add_fact(fact_list *list, const char *name, const char *value) {
    snprintf(list->values[list->n], FACT_BYTES, "%s", value);
    list->facts[list->n] = (sm_comm_fact){name, list->values[list->n]};
    list->n++;
}

static sm_status add_files(fact_list *list, const char *name, const char *before, char *const *paths, int n_paths) {
    char digest[SM_FILE_DIGEST_SIZE];
    int64_t size_bytes;
    SM_TRY(sm_files_digest(paths, n_paths, digest, &size_bytes));
    add_fact(list, name, SM_TEXT_IN(FACT_BYTES, "%s%lld bytes, %s", before, (long long)size_bytes, digest));
    return SM_OK;
}

// The embedded text depends only on the build.
static sm_status add_source(fact_list *list, const char *name, sm_train_source *source) {
    if (source == NULL || source->path == NULL) {
        return SM_OK;
    }
    SM_TRY(sm_train_source_digest(source));
    add_fact(list, name, SM_TEXT_IN(FACT_BYTES, "%lld bytes, %s", (long long)source->size_bytes, source->digest));
    return SM_OK;
}

static sm_status list_files(const cli_options *options, sm_train_source *data, sm_train_source *validation,
                            const sm_device *device, fact_list *list) {
    char build[64];
    snprintf(build, sizeof build, "commit %.32s, ", sm_build.commit);
    SM_TRY(add_files(list, "the build", build, (char *const[]){(char *)os_program()}, 1));
    SM_TRY(add_source(list, "--data", data));
    SM_TRY(add_source(list, "--val-data", validation));
    if (data->tokenizer != NULL) {
        add_fact(list, "--tokenizer", data->tokenizer);
    }
    if (device != NULL && device->info.own_kernels[0] != '\0') {
        add_fact(list, options->device.backend_library != NULL ? "--backend-library" : "--kernel",
                 device->info.own_kernels);
    }
    const char *folder = options->model.weights;
    for (int i = 0; i < SM_MODEL_FILE_COUNT && folder != NULL; i++) {
        static const char *const names[SM_MODEL_FILE_COUNT] = {
            [SM_FILE_MODEL] = "--weights: model.safetensors",
            [SM_FILE_CONFIG] = "--weights: config.json",
            [SM_FILE_OPTIMIZER] = "--weights: optimizer.safetensors",
        };
        char path[PATH_MAX];
        char *const only[] = {path};
        char *const *paths = only;
        int n = 1;
        SM_OWN(sm_safetensors) *parts = NULL; // a model may have several files
        bool found = false;
        SM_TRY(sm_model_folder_find(folder, (sm_model_file)i, path, &found));
        if (!found) {
            add_fact(list, names[i], "not there");
            continue;
        }
        if (i == SM_FILE_MODEL) {
            SM_TRY(sm_weights_open(folder, &parts));
            paths = sm_safetensors_paths(parts, &n);
        }
        SM_TRY(add_files(list, names[i], "", paths, n));
    }
    return SM_OK;
}

sm_status cli_compare_files(const cli_options *options, sm_status status, sm_train_source *data,
                            sm_train_source *validation, const sm_device *device, sm_comm *comm) {
    static fact_list list; // static because of its size
    list.n = 0;
    status = status == SM_OK && sm_comm_size(comm) > 1 ? list_files(options, data, validation, device, &list) : status;
    return sm_comm_compare(comm, status, list.facts, list.n, "give all processes the same files");
}

// --- who starts them, and what each does -----------------------------------------------------------

sm_status cli_require_alone(const cli_options *options) {
    const int i = find_launcher();
    if (i < 0) {
        return SM_OK;
    }
    const char *rank = getenv(launchers[i].rank);
    cli_mute(rank != NULL && atoi(rank) > 0); // one process prints it
    return sm_fail(SM_ERR_USAGE,
                   "%s measures with one process, and this is one of %s on this host (%s), which would disturb each "
                   "other; `loop` and `train` share their work among them",
                   cli_commands[options->command].name, getenv(launchers[i].count), launchers[i].count);
}

sm_status cli_choose_device(const sm_comm *comm, const cli_device_list *devices, cli_device *device) {
    const int n_here = sm_comm_local_size(comm);
    if (devices->n == 1 || (devices->n >= n_here && n_here > 1)) {
        *device = devices->devices[devices->n == 1 ? 0 : sm_comm_local_rank(comm)];
        return SM_OK;
    }
    return sm_fail(SM_ERR_USAGE,
                   "--backend: stands for %d devices, and this host has %d process%s; name one by its id (see "
                   "`stepmark devices`), or one for each process",
                   devices->n, n_here, n_here == 1 ? "" : "es");
}

void cli_wait_for_others(void) {
    enum { LOOK_NS = 20000000, MOST_LOOKS = 250 };
    for (int i = 0; i < MOST_LOOKS && find_launcher() >= 0 && !cli_interrupted; i++) {
        nanosleep(&(struct timespec){.tv_nsec = LOOK_NS}, NULL);
    }
}

sm_status cli_leave(sm_comm *comm, sm_status status) {
    if (status != SM_OK && !sm_comm_has_agreed(comm)) {
        // Several processes may see the same failure. The lowest rank reports it, and ends the others first. If it does
        // not do so in time, those that share memory with it see that it has begun, and wait a second for it.
        enum { TURN_NS = 150000000, MOST_TURNS = 6 };
        const int n_turns = sm_comm_rank(comm) < MOST_TURNS ? sm_comm_rank(comm) : MOST_TURNS;
        nanosleep(&(struct timespec){.tv_nsec = (long)n_turns * TURN_NS}, NULL);
        if (!cli_interrupted && !sm_comm_is_first_to_speak(comm)) {
            nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
        } else if (!cli_interrupted) {
            cli_mute(false);
            cli_note("rank %d: %s", sm_comm_rank(comm), sm_error_message());
        }
        sm_comm_abort(comm, status == SM_ERR_USAGE ? 2 : 1);
    }
    for (int b = 0; status != SM_OK && b < sm_backend_count(); b++) {
        if (sm_backend_at(b)->foresee != NULL) {
            sm_backend_at(b)->foresee(NULL, false);
        }
    }
    const bool is_silent = status != SM_OK && sm_comm_rank(comm) > 0;
    sm_comm_close(comm);
    if (is_silent) {
        cli_wait_for_others(); // the launcher ends all when the first ends, and rank 0 may have to report something
    }
    return status;
}

sm_status cli_together(const cli_options *options, sm_status (*work)(const cli_options *options, sm_comm *comm)) {
    sm_comm *comm = NULL;
    sm_status status = cli_join(options, &comm);
    status = status == SM_OK ? work(options, comm) : status;
    return cli_leave(comm, status);
}
