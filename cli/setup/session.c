// session.c: devices by name, weights and data.
#include "cli/setup/setup.h"

#include "os/memory.h"
#include "src/weights/weights.h"

enum { CLI_MAX_BACKENDS = 16 };

// The devices of a backend, as another process listed them into shared memory.
typedef struct {
    int n;
    sm_device_info infos[CLI_MAX_DEVICES];
} census;

static struct {
    bool is_asked_for; // this process loads no driver
    double timeout_s;
    struct {
        census *found;    // NULL: not listed yet
        sm_status status; // SM_OK, or why its devices are not known
        char reason[SM_ROW_REASON_SIZE];
    } of[CLI_MAX_BACKENDS];
} censuses;

void cli_load_no_drivers(double timeout_s) {
    censuses.is_asked_for = true;
    censuses.timeout_s = timeout_s;
}

void cli_may_load_drivers(void) { censuses.is_asked_for = false; }

static int index_of(const sm_backend *backend) {
    int i = 0;
    while (sm_backend_at(i) != backend) {
        i++;
    }
    return i < CLI_MAX_BACKENDS ? i : CLI_MAX_BACKENDS - 1;
}

typedef struct {
    const sm_backend *backend;
    census *found;
} listing;

static int list_devices(void *ctx) {
    const listing *l = ctx;
    const int n = l->backend->device_count();
    for (int i = 0; i < n && i < CLI_MAX_DEVICES; i++) {
        if (l->backend->describe(i, &l->found->infos[i]) != SM_OK) {
            return 1;
        }
        l->found->n = i + 1;
    }
    return 0;
}

static sm_status take_census(const sm_backend *backend, census *found) {
    char stage[SM_TEXT_SIZE];
    listing l = {backend, found};
    sm_process_result end;
    const double timeout_s = censuses.timeout_s;
    SM_TRY(cli_work_apart(&(cli_work){.work = list_devices,
                                      .ctx = &l,
                                      .timeout_s = timeout_s,
                                      .told = json_pack("{s:s}", "list", backend->name),
                                      .shared = {(void **)&l.found, sizeof(*found)}},
                          &end));
    snprintf(stage, sizeof(stage), "looking for %s devices", backend->name);
    return end.signal == 0 && end.exit_code == 0 ? SM_OK : cli_worker_failure(&end, stage, timeout_s);
}

sm_status cli_list_as_told(const sm_backend *backend) { return take_census(backend, NULL); }

void cli_lose_backend(const sm_backend *backend) {
    const int i = index_of(backend);
    censuses.of[i].status = SM_ERR_DEVICE;
    SM_ROW_TEXT(censuses.of[i].reason, "a driver ended the process that asked for its devices");
}

sm_status cli_backend_failure(const sm_backend *backend) {
    const int i = index_of(backend);
    return censuses.of[i].status == SM_OK ? SM_OK : sm_fail(censuses.of[i].status, "%s", censuses.of[i].reason);
}

int cli_count_devices(const sm_backend *backend) {
    const int i = index_of(backend);
    if (censuses.of[i].status != SM_OK) {
        return 0;
    }
    if (!censuses.is_asked_for) {
        cli_stage_search(backend->name);
        const int n = backend->device_count();
        cli_stage_search("");
        return n;
    }
    if (censuses.of[i].found == NULL) {
        census *found = os_map_shared(sizeof(*found));
        censuses.of[i].status =
            found != NULL ? take_census(backend, found) : sm_fail(SM_ERR_OOM, "no memory for the list of its devices");
        censuses.of[i].found = found;
        SM_ROW_TEXT(censuses.of[i].reason, sm_error_message());
    }
    return censuses.of[i].status == SM_OK ? censuses.of[i].found->n : 0;
}

sm_status cli_describe(cli_device device, sm_device_info *info) {
    const int i = index_of(device.backend);
    if (device.index < 0) { // of a backend that could not list its devices
        *info = (sm_device_info){.available = false};
        SM_ROW_TEXT(info->id, device.backend->name);
        SM_ROW_TEXT(info->reason, censuses.of[i].reason);
        return SM_OK;
    }
    if (!censuses.is_asked_for) {
        return device.backend->describe(device.index, info);
    }
    (void)cli_count_devices(device.backend); // lists them, once
    *info = censuses.of[i].found->infos[device.index];
    return SM_OK;
}

json_t *cli_device_warnings(const sm_device_info *info) {
    json_t *warnings = json_array();
    for (int i = 0; i < info->n_warnings; i++) {
        json_array_append_new(warnings, sm_json_text(info->warnings[i]));
    }
    return warnings;
}

// Appends the devices with that name or id, or, with is_part, the benchmarked ones whose name, platform or driver
// contains it, in any case; *found tells whether there are any.
static sm_status append_named(const char *name, bool is_part, cli_device_list *list, bool *found) {
    const bool all = strcmp(name, "all") == 0;
    *found = false;
    for (int b = 0; b < sm_backend_count(); b++) {
        const sm_backend *backend = sm_backend_at(b);
        // Listing a backend's devices loads drivers, which takes time and memory: its name, or an id as "opencl:0.1".
        const size_t length = strlen(backend->name);
        const bool may_be_its =
            strncmp(name, backend->name, length) == 0 && (name[length] == '\0' || name[length] == ':');
        const bool is_asked = is_part ? backend->benchmarked : all || may_be_its;
        const int n = is_asked ? cli_count_devices(backend) : 0;
        for (int i = 0; i < n; i++) {
            sm_device_info info;
            SM_TRY(cli_describe((cli_device){backend, i}, &info));
            const bool has_part = strcasestr(info.name, name) != NULL || strcasestr(info.platform, name) != NULL ||
                                  strcasestr(info.driver, name) != NULL;
            const bool is_named = strcmp(name, backend->name) == 0 || strcmp(name, info.id) == 0 ||
                                  (all && backend->benchmarked && info.available);
            bool is_new = is_part ? has_part : is_named;
            *found = *found || is_new;
            for (int k = 0; k < list->n && is_new; k++) { // not named twice, for instance by "all,cpu"
                is_new = list->devices[k].backend != backend || list->devices[k].index != i;
            }
            SM_FAIL_IF(is_new && list->n == CLI_MAX_DEVICES, SM_ERR_USAGE, "--backend: more than %d devices",
                       CLI_MAX_DEVICES);
            if (is_new) {
                list->devices[list->n++] = (cli_device){backend, i};
            }
        }
    }
    return SM_OK;
}

sm_status cli_select_devices(const cli_texts *names, cli_device_list *list) {
    const char *backends[CLI_MAX_BACKENDS + 1] = {"all"};
    int n = 1;
    bool is_any_lost = false;
    list->n = 0;
    for (int i = 0; i < names->n; i++) {
        bool found;
        SM_TRY(append_named(names->texts[i], false, list, &found));
        if (!found && strlen(names->texts[i]) >= CLI_LEAST_PART) {
            SM_TRY(append_named(names->texts[i], true, list, &found));
        }
        for (int b = 0; !found && b < sm_backend_count() && n <= CLI_MAX_BACKENDS; b++) {
            backends[n++] = sm_backend_at(b)->name;
            is_any_lost = is_any_lost || cli_backend_failure(sm_backend_at(b)) != SM_OK;
        }
        if (!found && !is_any_lost) { // else the name may belong to a lost backend
            return cli_no_such_name("--backend", "backend or device", names->texts[i], backends, n);
        }
    }
    return SM_OK;
}

sm_open_options cli_open_options(const cli_options *options, int64_t n_threads) {
    return (sm_open_options){.n_threads = (int)n_threads,
                             .isa = options->device.isa,
                             .cpu_mask = options->device.cpu_mask,
                             .keep_env = options->device.keep_env,
                             .openblas = options->device.openblas,
                             .progress = options->out.progress ? cli_note_line : NULL,
                             .helper = os_program()};
}

sm_status cli_open_device(cli_device device, int64_t n_threads, const cli_options *options, sm_device **opened) {
    sm_device_info info;
    sm_open_options open_options = cli_open_options(options, n_threads);
    *opened = NULL;
    SM_TRY(device.backend->describe(device.index, &info));
    SM_FAIL_IF(!info.available, SM_ERR_UNSUPPORTED, "%s: %s", info.id, info.reason);
    SM_FAIL_IF(options->device.openblas && !device.backend->openblas, SM_ERR_UNSUPPORTED,
               "%s: --products openblas: backend %s multiplies by its own kernels alone", info.id,
               device.backend->name);
    SM_TRY(cli_own_kernels(options, device.backend, n_threads > 0 ? (int)n_threads : info.n_threads,
                           &open_options.own_kernels, &open_options.n_own_kernels));
    SM_TRY(device.backend->open(device.index, &open_options, opened));
    cli_stage_beside = "";
    cli_describe_own_code(*opened);
    return SM_OK;
}

sm_status cli_open_only_device(const cli_options *options, sm_device **opened) {
    cli_device_list devices;
    cli_device device;
    SM_TRY(cli_select_devices(&options->device.backends, &devices));
    SM_TRY(cli_choose_device(NULL, &devices, &device));
    return cli_open_device(device, options->device.threads.values[0], options, opened);
}

sm_status cli_load_weights(sm_session *session, const sm_model_config *config, uint64_t seed, const char *folder) {
    return folder != NULL ? sm_weights_load(folder, config, session, NULL) : sm_session_draw(session, seed);
}

sm_status cli_weights_digest(const cli_options *options, char digest[SM_DIGEST_SIZE]) {
    SM_OWN(sm_safetensors) *file = NULL;
    int n;
    digest[0] = '\0';
    if (options->model.weights == NULL) {
        return SM_OK;
    }
    SM_TRY(sm_weights_open(options->model.weights, &file));
    char *const *paths = sm_safetensors_paths(file, &n);
    return sm_digest_files(paths, n, digest);
}

sm_status cli_open_tokens(const cli_options *options, int64_t vocab, sm_tokens **tokens) {
    char side[SM_DATA_PATH_BYTES];
    const char *path = options->work.data;
    if (path == NULL) {
        return sm_tokens_embedded(vocab, tokens);
    }
    path = sm_data_files_side(path, "train", side) ? side : path;
    return sm_tokens_open(path, (sm_tokens_format)options->work.data_format, vocab, tokens);
}
