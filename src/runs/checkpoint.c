#include "src/runs/checkpoint.h"

#include <errno.h>
#include <unistd.h>

#include "src/io/atomic_file.h"
#include "src/io/json_text.h"

enum { SCHEMA_VERSION = 1, MOST_MANIFEST_BYTES = 1 << 26 };

static const char manifest_name[] = "checkpoint.json";
static const char step_prefix[] = "step-";

// ---- names ----

static sm_status folder_of(const char *run_dir, int64_t step, char path[PATH_MAX]) {
    return sm_make_path(path, "%s/checkpoints/%s%lld", run_dir, step_prefix, (long long)step);
}

// The step of a checkpoint from its folder's name; -1: not a checkpoint.
static int64_t step_of(const char *name) {
    const size_t prefix = strlen(step_prefix);
    if (strncmp(name, step_prefix, prefix) != 0) {
        return -1;
    }
    const long long step = strtoll(name + prefix, NULL, 10);
    return step >= 0 && strcmp(SM_TEXT_IN(64, "%s%lld", step_prefix, step), name) == 0 ? step : -1;
}

// ---- what is there ----

static int later_first(const void *left, const void *right) {
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;
    return (a < b) - (a > b);
}

sm_status sm_checkpoint_list(const char *run_dir, int64_t **steps, int *n) {
    char path[PATH_MAX];
    *steps = NULL;
    *n = 0;
    SM_TRY(sm_make_path(path, "%s/checkpoints", run_dir));
    SM_AT_END(os_free_names) os_names names;
    SM_FAIL_IF(!os_list_folder(path, &names) && errno != ENOENT, SM_ERR_IO, "%s: cannot be read: %s", path,
               strerror(errno));
    for (int i = 0; i < names.n; i++) {
        const int64_t step = step_of(names.list[i]);
        if (step >= 0) {
            SM_PUSH(*steps, *n, step);
        }
    }
    if (*n > 0) {
        qsort(*steps, (size_t)*n, sizeof **steps, later_first);
    }
    return SM_OK;
}

sm_status sm_checkpoint_prepare(const char *run_dir) {
    char path[PATH_MAX];
    SM_TRY(sm_make_path(path, "%s/checkpoints", run_dir));
    SM_TRY(sm_make_folder(path));
    SM_AT_END(os_free_names) os_names names;
    (void)os_list_folder(path, &names);
    for (int i = 0; i < names.n; i++) {
        if (strncmp(names.list[i], step_prefix, strlen(step_prefix)) == 0 && strstr(names.list[i], ".tmp-") != NULL) {
            SM_TRY(sm_make_path(path, "%s/checkpoints/%s", run_dir, names.list[i]));
            (void)sm_temporary_remove(path); // it only takes space
        }
    }
    return SM_OK;
}

// Renames the folder first, so that no reader finds a checkpoint with a part missing. -0 may be the new checkpoint.
static void remove_folder(const char *path) {
    char aside[PATH_MAX];
    if (sm_make_path(aside, "%s.tmp-%ld-1000", path, (long)getpid()) == SM_OK && rename(path, aside) == 0) {
        (void)sm_temporary_remove(aside);
    }
}

static void remove_old(const char *run_dir, int64_t step, int64_t keep) {
    char path[PATH_MAX];
    SM_FREED int64_t *steps = NULL;
    int n;
    int64_t n_kept = 0;
    if (keep <= 0 || sm_checkpoint_list(run_dir, &steps, &n) != SM_OK) {
        return;
    }
    for (int i = 0; i < n; i++) {
        n_kept += steps[i] <= step; // later ones are damaged: training resumed from before them
        if (steps[i] <= step && n_kept > keep && folder_of(run_dir, steps[i], path) == SM_OK) {
            remove_folder(path);
        }
    }
}

// ---- the manifest ----

static const size_t manifest_flags = JSON_INDENT(2) | JSON_SORT_KEYS;

// The digest is that of the manifest's text without it.
static void digest_manifest(const json_t *manifest, char digest[SM_FILE_DIGEST_SIZE]) {
    SM_FREED char *text = json_dumps(manifest, manifest_flags);
    sm_bytes_digest(text, strlen(text), digest);
}

static sm_status write_manifest(const char *dir, const sm_checkpoint *c,
                                char digests[SM_MODEL_FILE_COUNT][SM_FILE_DIGEST_SIZE]) {
    char path[PATH_MAX];
    char digest[SM_FILE_DIGEST_SIZE];
    json_auto_t *files = json_object();
    json_auto_t *manifest = json_pack("{s: i, s: s, s: I, s: I, s: I, s: I, s: b, s: O?}", "schema_version",
                                      SCHEMA_VERSION, "run_id", c->run_id, "step", (json_int_t)c->step, "sequences",
                                      (json_int_t)c->n_sequences, "micro_steps", (json_int_t)c->n_micro_steps,
                                      "log_bytes", (json_int_t)c->log_bytes, "pending", c->is_pending, "files", files);
    for (int i = 0; i < SM_MODEL_FILE_COUNT; i++) {
        struct stat info;
        SM_TRY(sm_model_file_path(dir, (sm_model_file)i, path));
        SM_FAIL_IF(digests[i][0] != '\0' && stat(path, &info) != 0, SM_ERR_IO, "%s: cannot be read: %s", path,
                   strerror(errno));
        if (digests[i][0] != '\0') {
            json_object_set_new(files, strrchr(path, '/') + 1,
                                json_pack("{s: I, s: s}", "bytes", (json_int_t)info.st_size, "digest", digests[i]));
        }
    }
    digest_manifest(manifest, digest);
    json_object_set_new(manifest, "digest", json_string(digest));
    SM_TRY(sm_make_path(path, "%s/%s", dir, manifest_name));
    return sm_json_write(path, manifest, manifest_flags);
}

// ---- writing ----

sm_status sm_checkpoint_write(const char *run_dir, const sm_checkpoint *checkpoint, const sm_model_config *config,
                              const sm_weights_copy *copy, int64_t keep) {
    char path[PATH_MAX];
    char digests[SM_MODEL_FILE_COUNT][SM_FILE_DIGEST_SIZE];
    SM_CLOSED int lock = -1; // after the removal
    SM_AT_END(sm_temporary_drop) char *temporary = NULL;
    SM_TRY(folder_of(run_dir, checkpoint->step, path));
    SM_TRY(sm_temporary_folder(path, &temporary, &lock));
    SM_TRY(sm_weights_write(temporary, config, copy, checkpoint->step, digests));
    SM_TRY(write_manifest(temporary, checkpoint, digests));
    int failed = rename(temporary, path);
    if (failed != 0 && (errno == ENOTEMPTY || errno == EEXIST)) { // a damaged checkpoint of the same step
        remove_folder(path);
        failed = rename(temporary, path);
    }
    SM_FAIL_IF(failed != 0, SM_ERR_IO, "%s: cannot be given its name: %s", path, strerror(errno));
    free(sm_give(&temporary));
    SM_TRY(sm_sync_folder_of(path));
    remove_old(run_dir, checkpoint->step, keep);
    return SM_OK;
}

// ---- loading ----

static sm_status check_own_digest(json_t *manifest, const char *path, char digest[SM_FILE_DIGEST_SIZE]) {
    json_auto_t *told = json_incref(json_object_get(manifest, "digest"));
    json_object_del(manifest, "digest");
    digest_manifest(manifest, digest);
    SM_FAIL_IF(told == NULL || !json_is_string(told) || strcmp(json_string_value(told), digest) != 0, SM_ERR_FORMAT,
               "%s: is damaged: its digest is that of another text", path);
    return SM_OK;
}

static sm_status read_manifest(const char *path, json_t **manifest, sm_checkpoint *c) {
    int version = 0;
    int is_pending = 0;
    char digest[SM_FILE_DIGEST_SIZE];
    const char *run_id = "";
    json_int_t step = -1;
    json_int_t n_sequences = 0;
    json_int_t n_micro_steps = 0;
    json_int_t log_bytes = 0;
    SM_TRY(sm_json_read(path, MOST_MANIFEST_BYTES, manifest));
    SM_TRY(check_own_digest(*manifest, path, digest));
    const int failed = json_unpack(*manifest, "{s: i, s: s, s: I, s: I, s: I, s: I, s: b}", "schema_version", &version,
                                   "run_id", &run_id, "step", &step, "sequences", &n_sequences, "micro_steps",
                                   &n_micro_steps, "log_bytes", &log_bytes, "pending", &is_pending);
    SM_FAIL_IF(failed != 0 || version != SCHEMA_VERSION || log_bytes < 0, SM_ERR_FORMAT,
               "%s: is not a checkpoint of this version of stepmark", path);
    *c = (sm_checkpoint){.step = step,
                         .n_sequences = n_sequences,
                         .n_micro_steps = n_micro_steps,
                         .log_bytes = log_bytes,
                         .is_pending = is_pending != 0};
    snprintf(c->run_id, sizeof c->run_id, "%s", run_id);
    memcpy(c->digest, digest, sizeof digest);
    return SM_OK;
}

static sm_status check_file(const char *path, const json_t *told) {
    char digest[SM_FILE_DIGEST_SIZE];
    int64_t size_bytes;
    const json_int_t told_bytes = json_integer_value(json_object_get(told, "bytes"));
    const char *told_digest = json_string_value(json_object_get(told, "digest"));
    SM_TRY(sm_file_digest(path, digest, &size_bytes));
    SM_FAIL_IF(size_bytes != told_bytes, SM_ERR_FORMAT, "%s: has %lld bytes; the checkpoint was written with %lld",
               path, (long long)size_bytes, (long long)told_bytes);
    SM_FAIL_IF(told_digest == NULL || strcmp(told_digest, digest) != 0, SM_ERR_FORMAT,
               "%s: is damaged, or belongs to another checkpoint: its digest differs from that in checkpoint.json",
               path);
    return SM_OK;
}

static sm_status check_files(const char *dir, const json_t *manifest, bool has_optimizer) {
    const json_t *files = json_object_get(manifest, "files");
    for (int i = 0; i < SM_MODEL_FILE_COUNT; i++) {
        char path[PATH_MAX];
        SM_TRY(sm_model_file_path(dir, (sm_model_file)i, path));
        const json_t *told = json_object_get(files, strrchr(path, '/') + 1);
        SM_FAIL_IF(told == NULL && (i != SM_FILE_OPTIMIZER || has_optimizer), SM_ERR_FORMAT,
                   "%s: is not part of the checkpoint", path);
        SM_TRY(told != NULL ? check_file(path, told) : SM_OK);
    }
    return SM_OK;
}

// `run_id` may be NULL: of any run.
static sm_status check_whole(const char *dir, int64_t step, const char *run_id, bool has_optimizer,
                             sm_checkpoint *checkpoint) {
    char path[PATH_MAX];
    json_auto_t *manifest = NULL;
    SM_TRY(sm_make_path(path, "%s/%s", dir, manifest_name));
    SM_TRY(read_manifest(path, &manifest, checkpoint));
    SM_FAIL_IF(run_id != NULL && strcmp(checkpoint->run_id, run_id) != 0, SM_ERR_FORMAT,
               "%s: is a checkpoint of another run, %s", dir, checkpoint->run_id);
    SM_FAIL_IF(checkpoint->step != step, SM_ERR_FORMAT, "%s: holds the state after step %lld", dir,
               (long long)checkpoint->step);
    return check_files(dir, manifest, has_optimizer);
}

sm_status sm_checkpoint_check(const char *run_dir, int64_t step, char dir[PATH_MAX]) {
    sm_checkpoint checkpoint;
    SM_TRY(folder_of(run_dir, step, dir));
    return check_whole(dir, step, NULL, false, &checkpoint);
}

sm_status sm_checkpoint_load(const char *run_dir, int64_t step, const char *run_id, const sm_model_config *config,
                             sm_session *session, sm_checkpoint *checkpoint) {
    char dir[PATH_MAX];
    int64_t loaded_step = 0;
    SM_TRY(folder_of(run_dir, step, dir));
    SM_TRY(check_whole(dir, step, run_id, session->plan->optimizer != NULL, checkpoint));
    SM_TRY(sm_weights_load(dir, config, session, &loaded_step));
    SM_FAIL_IF(loaded_step != step, SM_ERR_FORMAT, "%s: its optimizer's state is that after step %lld", dir,
               (long long)loaded_step);
    return SM_OK;
}
