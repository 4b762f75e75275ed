// model_folder.c: writes files to a new folder, renames it, and moves the files to their places.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "src/io/atomic_file.h"
#include "src/weights/model_folder.h"

// In the order of moving.
static const char *const file_names[SM_MODEL_FILE_COUNT] = {
    [SM_FILE_MODEL] = "model.safetensors",
    [SM_FILE_CONFIG] = "config.json",
    [SM_FILE_OPTIMIZER] = "optimizer.safetensors",
};

static const char index_name[] = "model.safetensors.index.json"; // of a model in parts
static const char saved_name[] = ".stepmark-saved";

struct sm_model_folder {
    char dir[PATH_MAX];   // without trailing slashes
    char saved[PATH_MAX]; // the temporary's next name: `dir` if that is new
    char *temporary;
    int fd; // of the temporary: holds its lock
    bool is_new;
};

static sm_status join(const char *dir, const char *name, char path[PATH_MAX]) {
    int length = snprintf(path, PATH_MAX, "%s/%s", dir, name);
    SM_FAIL_IF(length < 0 || length >= PATH_MAX, SM_ERR_IO, "%.100s...: the path is too long", dir);
    return SM_OK;
}

sm_status sm_model_file_path(const char *dir, sm_model_file file, char path[PATH_MAX]) {
    return join(dir, file_names[file], path);
}

static bool exists(const char *path) { return access(path, F_OK) == 0 || errno != ENOENT; }

// Waits until no other process moves files in `dir`. Closing the descriptor releases the lock; -1: locks are
// unavailable.
static int lock_folder(const char *dir, int operation) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, operation) != 0 && errno == EINTR) {
    }
    return fd;
}

static void unlock_folder(int lock) {
    if (lock >= 0) {
        close(lock);
    }
}

// ---- reading ----

static sm_status find(const char *dir, sm_model_file file, char path[PATH_MAX], bool *found) {
    char saved[PATH_MAX];
    char key[PATH_MAX];
    SM_TRY(join(dir, saved_name, saved));
    SM_TRY(join(saved, file_names[SM_FILE_MODEL], key));
    SM_TRY(join(saved, file_names[file], path));
    *found = exists(path);
    if (!*found && !exists(key)) {
        SM_TRY(join(dir, file_names[file], path));
        *found = exists(path);
    }
    SM_TRY(join(dir, index_name, key));
    if (!*found && file == SM_FILE_MODEL && exists(key)) {
        memcpy(path, key, sizeof key);
        *found = true;
    }
    return SM_OK;
}

sm_status sm_model_folder_find(const char *dir, sm_model_file file, char path[PATH_MAX], bool *found) {
    struct stat info;
    SM_FAIL_IF(stat(dir, &info) == 0 && !S_ISDIR(info.st_mode), SM_ERR_INVALID,
               "%s: is a file; give the folder that holds it, with its config.json", dir);
    int lock = lock_folder(dir, LOCK_SH);
    sm_status status = find(dir, file, path, found);
    unlock_folder(lock);
    return status;
}

// ---- moving files to their places ----

static sm_status fail_finish(const char *dir) {
    return sm_fail(SM_ERR_IO,
                   "%s: a complete save in its %s cannot be moved to its place: %s; the model loads "
                   "from there",
                   dir, saved_name, strerror(errno));
}

static sm_status sync_names(const char *dir, const char *path) {
    return sm_sync_folder_of(path) == SM_OK
               ? SM_OK
               : sm_fail(SM_ERR_IO, "%s: saved, but lost if the machine stops now: %s", dir, sm_error_message());
}

// Removes the files that the new state does not have.
static sm_status remove_stale(const char *dir, const char *saved) {
    for (int i = 0; i < SM_MODEL_FILE_COUNT; i++) {
        char from[PATH_MAX];
        char to[PATH_MAX];
        SM_TRY(join(saved, file_names[i], from));
        SM_TRY(join(dir, file_names[i], to));
        if (!exists(from) && unlink(to) != 0 && errno != ENOENT) {
            return fail_finish(dir);
        }
    }
    return SM_OK;
}

static sm_status move_files(const char *dir, const char *saved) {
    for (int i = 0; i < SM_MODEL_FILE_COUNT; i++) {
        char from[PATH_MAX];
        char to[PATH_MAX];
        SM_TRY(join(saved, file_names[i], from));
        SM_TRY(join(dir, file_names[i], to));
        if (rename(from, to) != 0 && errno != ENOENT) {
            return fail_finish(dir);
        }
    }
    return SM_OK;
}

// Completes a save whose state is in .stepmark-saved, whether of this process or an interrupted one.
static sm_status finish(const char *dir) {
    char saved[PATH_MAX];
    char key[PATH_MAX];
    SM_TRY(join(dir, saved_name, saved));
    SM_TRY(join(saved, file_names[SM_FILE_MODEL], key));
    if (!exists(saved)) {
        return SM_OK;
    }
    if (exists(key)) {
        SM_TRY(remove_stale(dir, saved));
    }
    SM_TRY(move_files(dir, saved));
    if (!sm_temporary_remove(saved)) {
        return fail_finish(dir);
    }
    return sync_names(dir, saved);
}

// ---- writing ----

static sm_status set_paths(const char *dir, sm_model_folder *folder) {
    struct stat info;
    size_t length = strlen(dir);
    while (length > 1 && dir[length - 1] == '/') {
        length--;
    }
    SM_FAIL_IF(length == 0 || length >= PATH_MAX, SM_ERR_IO, "'%.100s' is not the name of a folder; give another", dir);
    memcpy(folder->dir, dir, length);
    folder->is_new = stat(folder->dir, &info) != 0 && errno == ENOENT;
    if (folder->is_new) {
        memcpy(folder->saved, folder->dir, length);
        return SM_OK;
    }
    return join(folder->dir, saved_name, folder->saved);
}

sm_status sm_model_folder_begin(const char *dir, sm_model_folder **folder) {
    *folder = NULL;
    sm_model_folder *f = sm_calloc(1, sizeof *f);
    sm_status status = set_paths(dir, f);
    if (status == SM_OK) {
        status = sm_temporary_folder(f->saved, &f->temporary, &f->fd);
    }
    if (status != SM_OK) {
        free(f);
        return status;
    }
    *folder = f;
    return SM_OK;
}

const char *sm_model_folder_new(const sm_model_folder *folder) { return folder->temporary; }

// Gives the new files the permissions of the old ones.
static sm_status take_permissions(const sm_model_folder *folder) {
    for (int i = 0; i < SM_MODEL_FILE_COUNT; i++) {
        char from[PATH_MAX];
        char to[PATH_MAX];
        mode_t permissions;
        SM_TRY(join(folder->temporary, file_names[i], from));
        SM_TRY(join(folder->dir, file_names[i], to));
        SM_TRY(sm_atomic_check(to, &permissions));
        SM_FAIL_IF(permissions != 0 && chmod(from, permissions) != 0 && errno != ENOENT, SM_ERR_IO,
                   "%s: cannot set permissions: %s", to, strerror(errno));
    }
    return SM_OK;
}

// The rename that makes the new state current.
static sm_status switch_state(sm_model_folder *folder) {
    SM_FAIL_IF(rename(folder->temporary, folder->saved) != 0, SM_ERR_IO,
               "%s: cannot rename the temporary folder to %s: %s", folder->dir, folder->saved, strerror(errno));
    free(folder->temporary);
    folder->temporary = NULL;
    return sync_names(folder->dir, folder->saved);
}

sm_status sm_model_folder_commit(sm_model_folder *folder) {
    sm_status status;
    int lock = folder->is_new ? -1 : lock_folder(folder->dir, LOCK_EX);
    if (!folder->is_new) {
        SM_TRY_GOTO(finish(folder->dir));
    }
    SM_TRY_GOTO(take_permissions(folder));
    SM_TRY_GOTO(switch_state(folder));
    if (!folder->is_new) {
        SM_TRY_GOTO(finish(folder->dir));
    }

cleanup:
    unlock_folder(lock);
    sm_model_folder_abandon(folder);
    return status;
}

void sm_model_folder_abandon(sm_model_folder *folder) {
    if (folder == NULL) {
        return;
    }
    if (folder->temporary != NULL) {
        sm_temporary_remove(folder->temporary);
        free(folder->temporary);
    }
    close(folder->fd);
    free(folder);
}
