// model_folder.c: writes files to a new folder, renames it, and moves the files to their places.
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "src/io/atomic_file.h"
#include "src/weights/model_folder.h"

// Files are moved in this order.
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

sm_status sm_model_file_path(const char *dir, sm_model_file file, char path[PATH_MAX]) {
    return sm_make_path(path, "%s/%s", dir, file_names[file]);
}

static bool exists(const char *path) { return access(path, F_OK) == 0 || errno != ENOENT; }

// Waits until no other process moves files in `dir`. Closing the descriptor releases the lock; -1: there is none.
static int lock_folder(const char *dir, int operation) {
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (fd >= 0 && flock(fd, operation) != 0 && errno == EINTR) {
    }
    return fd;
}

// ---- reading ----

static sm_status find(const char *dir, sm_model_file file, char path[PATH_MAX], bool *found) {
    char saved[PATH_MAX];
    char key[PATH_MAX];
    SM_TRY(sm_make_path(saved, "%s/%s", dir, saved_name));
    SM_TRY(sm_make_path(key, "%s/%s", saved, file_names[SM_FILE_MODEL]));
    SM_TRY(sm_make_path(path, "%s/%s", saved, file_names[file]));
    *found = exists(path);
    if (!*found && !exists(key)) {
        SM_TRY(sm_make_path(path, "%s/%s", dir, file_names[file]));
        *found = exists(path);
    }
    SM_TRY(sm_make_path(key, "%s/%s", dir, index_name));
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
    SM_CLOSED int lock = lock_folder(dir, LOCK_SH);
    (void)lock; // until the end
    return find(dir, file, path, found);
}

// ---- moving files to their places ----

static sm_status fail_finish(const char *dir) {
    return sm_fail(SM_ERR_IO,
                   "%s: a complete save in its %s cannot be moved to its place: %s; the model loads from there", dir,
                   saved_name, strerror(errno));
}

static sm_status sync_names(const char *dir, const char *path) {
    return sm_sync_folder_of(path) == SM_OK
               ? SM_OK
               : sm_fail(SM_ERR_IO, "%s: saved, but lost if the machine stops now: %s", dir, sm_error_message());
}

// Moves the new state's files to their places, and removes those that it does not have if is_whole.
static sm_status move_files(const char *dir, const char *saved, bool is_whole) {
    for (int i = 0; i < 2 * SM_MODEL_FILE_COUNT; i++) {
        const bool is_removal = i < SM_MODEL_FILE_COUNT; // all of them first
        char from[PATH_MAX];
        char to[PATH_MAX];
        SM_TRY(sm_model_file_path(saved, i % SM_MODEL_FILE_COUNT, from));
        SM_TRY(sm_model_file_path(dir, i % SM_MODEL_FILE_COUNT, to));
        if (is_removal && (!is_whole || exists(from))) {
            continue;
        }
        if ((is_removal ? unlink(to) : rename(from, to)) != 0 && errno != ENOENT) {
            return fail_finish(dir);
        }
    }
    return SM_OK;
}

// Completes a save whose state is in .stepmark-saved, whether of this process or an interrupted one.
static sm_status finish(const char *dir) {
    char saved[PATH_MAX];
    char key[PATH_MAX];
    SM_TRY(sm_make_path(saved, "%s/%s", dir, saved_name));
    SM_TRY(sm_make_path(key, "%s/%s", saved, file_names[SM_FILE_MODEL]));
    if (!exists(saved)) {
        return SM_OK;
    }
    SM_TRY(move_files(dir, saved, exists(key)));
    return !sm_temporary_remove(saved) ? fail_finish(dir) : sync_names(dir, saved);
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
    return folder->is_new ? sm_make_path(folder->saved, "%s", folder->dir)
                          : sm_make_path(folder->saved, "%s/%s", folder->dir, saved_name);
}

sm_status sm_model_folder_begin(const char *dir, sm_model_folder **folder) {
    SM_OWN(sm_model_folder) *f = sm_calloc(1, sizeof *f);
    f->fd = -1;
    SM_TRY(set_paths(dir, f));
    SM_TRY(sm_temporary_folder(f->saved, &f->temporary, &f->fd));
    *folder = sm_give(&f);
    return SM_OK;
}

const char *sm_model_folder_new(const sm_model_folder *folder) { return folder->temporary; }

// Gives the new files the permissions of the old ones.
static sm_status take_permissions(const sm_model_folder *folder) {
    for (int i = 0; i < SM_MODEL_FILE_COUNT; i++) {
        char from[PATH_MAX];
        char to[PATH_MAX];
        mode_t permissions;
        SM_TRY(sm_model_file_path(folder->temporary, i, from));
        SM_TRY(sm_model_file_path(folder->dir, i, to));
        SM_TRY(sm_atomic_check(to, &permissions));
        SM_FAIL_IF(permissions != 0 && chmod(from, permissions) != 0 && errno != ENOENT, SM_ERR_IO,
                   "%s: cannot set permissions: %s", to, strerror(errno));
    }
    return SM_OK;
}

sm_status sm_model_folder_commit(sm_model_folder *folder) {
    int error = folder->is_new && rename(folder->temporary, folder->saved) != 0 ? errno : 0;
    const bool is_renamed = folder->is_new && error == 0;
    SM_CLOSED int lock = is_renamed ? -1 : lock_folder(folder->dir, LOCK_EX);
    (void)lock;                                                                 // until the end
    if (!is_renamed && (error == 0 || error == ENOTEMPTY || error == EEXIST)) { // another save made a new folder, too
        SM_TRY(sm_make_path(folder->saved, "%s/%s", folder->dir, saved_name));
        SM_TRY(finish(folder->dir));
        SM_TRY(take_permissions(folder));
        error = rename(folder->temporary, folder->saved) != 0 ? errno : 0;
    }
    SM_FAIL_IF(error != 0, SM_ERR_IO, "%s: cannot rename the temporary folder to %s: %s", folder->dir, folder->saved,
               strerror(error));
    free(sm_give(&folder->temporary));
    SM_TRY(sync_names(folder->dir, folder->saved)); // the new state is current
    return is_renamed ? SM_OK : finish(folder->dir);
}

void sm_model_folder_close(sm_model_folder *folder) {
    if (folder == NULL) {
        return;
    }
    sm_temporary_drop(&folder->temporary);
    sm_close_at(&folder->fd);
    free(folder);
}
