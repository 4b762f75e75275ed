#include "src/runs/run_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "os/os.h"
#include "src/io/atomic_file.h"
#include "src/io/input_file.h"
#include "src/io/json_text.h"
#include "src/io/shell_word.h"

enum { SCHEMA_VERSION = 1 };
enum { VALUE_BYTES = 96, REAL_DIGITS = 15 };

struct sm_run_folder {
    const char *dir;
    int lock;
    bool is_new;
    json_t *run; // run.json
};

// ---- names and times ----

static void format_time(const char *format, char *text, size_t size_bytes) {
    const time_t now = time(NULL);
    struct tm parts;
    gmtime_r(&now, &parts);
    strftime(text, size_bytes, format, &parts);
}

// ---- opening ----

static sm_status take_lock(sm_run_folder *folder) {
    folder->lock = open(folder->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    SM_FAIL_IF(folder->lock < 0, SM_ERR_IO, "--run: %s: cannot be opened: %s", folder->dir, strerror(errno));
    SM_FAIL_IF(os_lock_soon(folder->lock) == EWOULDBLOCK, SM_ERR_USAGE,
               "--run: %s: another process trains there; wait for its end", folder->dir);
    return SM_OK; // also where the file system has no locks
}

static sm_status read_run(sm_run_folder *folder) {
    char path[PATH_MAX];
    SM_TRY(sm_make_path(path, "%s/run.json", folder->dir));
    const sm_status status = sm_json_read(path, SM_RUN_MOST_BYTES, &folder->run);
    if (status != SM_OK && status != SM_ERR_FORMAT) {
        return status;
    }
    const bool is_whole = json_is_string(json_object_get(folder->run, "run_id")) &&
                          json_is_object(json_object_get(folder->run, "configuration")) &&
                          json_array_size(json_object_get(folder->run, "starts")) > 0 &&
                          json_integer_value(json_object_get(folder->run, "schema_version")) == SCHEMA_VERSION;
    SM_FAIL_IF(!is_whole, SM_ERR_FORMAT, "%s: is damaged, or of another version of stepmark; choose another --run",
               path);
    return SM_OK;
}

static const char *const ours[] = {"log.jsonl", "checkpoints",           "model",
                                   "best",      "training_metrics.json", "RUN_COMPLETE.txt"};

// Begins a run in a folder without files of one. Its id is the time and a random number: runs may begin together.
static sm_status make_run(sm_run_folder *folder) {
    char path[PATH_MAX];
    for (size_t i = 0; i < SM_COUNT(ours); i++) {
        SM_FAIL_IF(sm_file_is_in(folder->dir, ours[i], path), SM_ERR_USAGE,
                   "--run: %s: has %s and no run.json; choose another folder", folder->dir, ours[i]);
    }
    char now[32];
    uint32_t drawn = (uint32_t)getpid();
    if (!os_draw(&drawn, sizeof drawn)) {
        drawn ^= (uint32_t)clock();
    }
    format_time("%Y%m%dT%H%M%SZ", now, sizeof now);
    folder->run = json_pack("{s: i, s: s, s: {}, s: s, s: []}", "schema_version", SCHEMA_VERSION, "run_id",
                            SM_TEXT_IN(48, "%s-%08x", now, drawn), "configuration", "command_line", "", "starts");
    return SM_OK;
}

static sm_status look(sm_run_folder *folder, sm_resume resume) {
    const char *dir = folder->dir;
    char model[PATH_MAX];
    folder->is_new = !sm_file_is_in(dir, "run.json", model);
    if (folder->is_new) {
        return make_run(folder);
    }
    if (sm_file_is_in(dir, "RUN_COMPLETE.txt", model)) {
        char word[SM_SHELL_PATH_SIZE];
        SM_TRY(sm_make_path(model, "%s/model", dir));
        return sm_fail(SM_ERR_USAGE,
                       "--run: %s: holds a run that is complete; choose another folder, or train on from its weights: "
                       "--weights %s",
                       dir, sm_shell_path(model, word));
    }
    SM_FAIL_IF(resume == SM_RESUME_NONE, SM_ERR_USAGE,
               "--run: %s: holds a run that is not complete; resume it with --resume auto, or choose another folder",
               dir);
    for (size_t i = 0; i < SM_COUNT(ours); i++) { // else who sent the folder chose what this run replaces and removes
        struct stat info;
        SM_TRY(sm_make_path(model, "%s/%s", dir, ours[i]));
        SM_FAIL_IF(lstat(model, &info) == 0 && S_ISLNK(info.st_mode), SM_ERR_IO,
                   "%s: cannot be written: a link; put what it leads to there", model);
    }
    return read_run(folder);
}

sm_status sm_run_folder_check(const char *dir, sm_resume resume) {
    sm_run_folder f = {.dir = dir, .lock = -1};
    const sm_status status = look(&f, resume);
    json_decref(f.run);
    return status;
}

sm_status sm_run_folder_open(const char *dir, sm_resume resume, sm_run_folder **folder, bool *is_new) {
    *folder = NULL;
    SM_OWN(sm_run_folder) *f = sm_calloc(1, sizeof *f);
    f->dir = dir;
    f->lock = -1;
    SM_TRY(sm_make_folder(dir));
    SM_TRY(take_lock(f));
    SM_TRY(look(f, resume));
    *is_new = f->is_new;
    *folder = sm_give(&f);
    return SM_OK;
}

void sm_run_folder_close(sm_run_folder *folder) {
    if (folder != NULL) {
        sm_close_at(&folder->lock);
        json_decref(folder->run);
        free(folder);
    }
}

const char *sm_run_folder_id(const sm_run_folder *folder) {
    return json_string_value(json_object_get(folder->run, "run_id"));
}

int64_t sm_run_folder_first_step(const sm_run_folder *folder) {
    const json_t *start = json_array_get(json_object_get(folder->run, "starts"), 0);
    return json_integer_value(json_object_get(start, "from_step"));
}

// ---- the configuration ----

// Facts of the machine or build that may differ between starts, with a note. Paths of files may differ silently.
static const struct {
    const char *name;
    bool is_noted;
} may_differ[] = {{"engine.build_commit", true}, {"engine.isa", true}, {"engine.tier", true},
                  {"n_threads", true},           {"data.path", false}, {"val_data.path", false}};

static void format_value(const json_t *value, char text[VALUE_BYTES]) {
    SM_FREED char *written = value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(text, VALUE_BYTES, "%s", written != NULL ? written : "not set");
}

typedef struct {
    const sm_run_folder *folder;
    char *note;
    size_t note_bytes;
} comparison;

static sm_status tell_difference(const comparison *c, const char *name, const json_t *before, const json_t *now) {
    char was[VALUE_BYTES];
    char is[VALUE_BYTES];
    format_value(before, was);
    format_value(now, is);
    for (size_t i = 0; i < SM_COUNT(may_differ); i++) {
        if (strcmp(name, may_differ[i].name) == 0) {
            snprintf(c->note, may_differ[i].is_noted ? c->note_bytes : 0,
                     "%s: %s was %s and is %s now: results may differ in their last bits", c->folder->dir, name, was,
                     is);
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_USAGE,
                   "--run: %s: %s was %s when the run began and is %s now; give the same value as at the start, or "
                   "choose another folder",
                   c->folder->dir, name, was, is);
}

static sm_status compare(const comparison *c, const char *prefix, const json_t *before, const json_t *now) {
    const char *key;
    json_t *value;
    json_auto_t *both = json_copy((json_t *)now);
    json_object_update_missing(both, (json_t *)before);
    json_object_foreach(both, key, value) {
        const json_t *was = json_object_get(before, key);
        const json_t *is = json_object_get(now, key);
        char name[128];
        snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", key);
        if (json_is_object(was) && json_is_object(is)) {
            SM_TRY(compare(c, name, was, is));
        } else if (was == NULL || is == NULL || !json_equal(was, is)) {
            SM_TRY(tell_difference(c, name, was, is));
        }
    }
    return SM_OK;
}

sm_status sm_run_folder_configure(sm_run_folder *folder, const json_t *configuration, char *note, size_t note_bytes) {
    note[0] = '\0';
    // As it is read back from a file: numbers are compared as they are written.
    SM_FREED char *text = json_dumps(configuration, JSON_COMPACT | JSON_REAL_PRECISION(REAL_DIGITS));
    json_auto_t *now = json_loads(text, 0, NULL);
    if (folder->is_new) {
        json_object_set(folder->run, "configuration", now);
        return SM_OK;
    }
    const comparison c = {.folder = folder, .note = note, .note_bytes = note_bytes};
    return compare(&c, "", json_object_get(folder->run, "configuration"), now);
}

// ---- run.json ----

static sm_status write_run(const sm_run_folder *folder) {
    char path[PATH_MAX];
    SM_TRY(sm_make_path(path, "%s/run.json", folder->dir));
    return sm_json_write(path, folder->run, JSON_INDENT(2) | JSON_REAL_PRECISION(REAL_DIGITS));
}

sm_status sm_run_folder_begin(sm_run_folder *folder, const char *command_line, int64_t from_step, double startup_ms,
                              json_t *facts) {
    char now[32];
    format_time("%Y-%m-%dT%H:%M:%SZ", now, sizeof now);
    json_t *start =
        json_pack("{s: s, s: I, s: f}", "time_utc", now, "from_step", (json_int_t)from_step, "startup_ms", startup_ms);
    json_object_update(start, facts);
    json_array_append_new(json_object_get(folder->run, "starts"), start);
    if (folder->is_new) {
        json_object_set_new(folder->run, "command_line", json_string(command_line));
    }
    return write_run(folder);
}

sm_status sm_run_folder_end(sm_run_folder *folder, int64_t step, const char *reason, double wall_ms, json_t *facts) {
    json_t *starts = json_object_get(folder->run, "starts");
    json_t *start = json_array_get(starts, json_array_size(starts) - 1);
    json_t *end = json_pack("{s: I, s: s, s: f}", "step", (json_int_t)step, "reason", reason, "wall_ms", wall_ms);
    json_object_update(end, facts);
    json_object_set_new(start, "end", end);
    return write_run(folder);
}
