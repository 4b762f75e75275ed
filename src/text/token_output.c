// token_output.c: writes DIR.partial, locked by its process, and renames it to DIR when it is complete.
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "src/io/atomic_file.h"
#include "src/io/json_text.h"
#include "src/text/token_output.h"
#include "os/os.h"

enum { MAX_RECORD_BYTES = 1 << 28 };

static const char *const bin_names[SM_N_SIDES] = {"train.bin", "val.bin"};
static const char *const side_names[SM_N_SIDES] = {"train", "val"};

struct sm_token_output {
    char folder[PATH_MAX];
    char partial[PATH_MAX];
    json_t *work;
    int id_bytes;
    int lock; // on the unfinished folder
    int fds[SM_N_SIDES];
    sm_side_counts counts[SM_N_SIDES];
    sm_text_position position;
    bool is_complete, is_resumed;
};

static sm_status fail_errno(const char *path, const char *name, const char *action) {
    return sm_fail(SM_ERR_IO, "%s%s%s: cannot %s: %s", path, name[0] != '\0' ? "/" : "", name, action, strerror(errno));
}

// --- records -------------------------------------------------------------------------------

static int64_t number(const json_t *object, const char *key) {
    const json_int_t value = json_integer_value(json_object_get(object, key));
    return value < 0 ? 0 : value;
}

static sm_side_counts counts_of(const json_t *record, int side) {
    const json_t *object = json_object_get(record, side_names[side]);
    return (sm_side_counts){number(object, "tokens"), number(object, "documents"), number(object, "bytes")};
}

// The work and the counts so far; val is null if there is none.
static json_t *make_record(const sm_token_output *out) {
    json_t *record = json_deep_copy(out->work);
    for (int side = 0; side < SM_N_SIDES; side++) {
        const sm_side_counts *c = &out->counts[side];
        const bool is_none = side == SM_VAL_SIDE && c->n_tokens == 0;
        json_object_set_new(record, side_names[side],
                            is_none ? json_null()
                                    : json_pack("{s:s, s:I, s:I, s:I}", "file", bin_names[side], "tokens",
                                                (json_int_t)c->n_tokens, "documents", (json_int_t)c->n_documents,
                                                "bytes", (json_int_t)c->text_bytes));
    }
    return record;
}

// Whether a record has all facts of that work.
static bool is_of(const json_t *record, const json_t *work) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)work, key, value) {
        if (!json_equal(json_object_get(record, key), value)) {
            return false;
        }
    }
    return true;
}

// Takes `record`.
static sm_status write_record(const sm_token_output *out, const char *name, json_t *record) {
    char path[PATH_MAX];
    json_auto_t *owned = record;
    SM_TRY(sm_make_path(path, "%s/%s", out->partial, name));
    return sm_json_write(path, owned, JSON_INDENT(2));
}

// --- what is there -------------------------------------------------------------------------

// Finds an earlier result of the same work; anything else in the folder is an error.
static sm_status look_at_folder(sm_token_output *out, bool may_resume) {
    char path[PATH_MAX];
    struct stat info;
    json_auto_t *record = NULL;
    SM_AT_END(os_free_names) os_names names;
    if ((os_list_folder(out->folder, &names) && names.n == 0) || lstat(out->folder, &info) != 0) {
        return SM_OK;
    }
    SM_TRY(sm_make_path(path, "%s/tokens.json", out->folder));
    if (may_resume && sm_json_read(path, MAX_RECORD_BYTES, &record) == SM_OK) {
        out->is_complete = is_of(record, out->work);
        for (int side = 0; side < SM_N_SIDES; side++) {
            out->counts[side] = counts_of(record, side);
        }
    }
    SM_FAIL_IF(!out->is_complete, SM_ERR_IO, "%s: exists and is not from this work; remove it or choose another name",
               out->folder);
    return SM_OK;
}

static int64_t size_for(const sm_token_output *out, int side) {
    return SM_LLMC_HEADER_BYTES + out->counts[side].n_tokens * out->id_bytes;
}

// Resumes from the recorded progress, if it is of this work and the files are long enough.
static sm_status take_up(sm_token_output *out) {
    char path[PATH_MAX];
    json_auto_t *record = NULL;
    struct stat info;
    SM_TRY(sm_make_path(path, "%s/progress.json", out->partial));
    if (access(path, F_OK) != 0 || sm_json_read(path, MAX_RECORD_BYTES, &record) != SM_OK) {
        return SM_OK;
    }
    out->is_resumed = is_of(record, out->work);
    for (int side = 0; side < SM_N_SIDES && out->is_resumed; side++) {
        out->counts[side] = counts_of(record, side);
        SM_TRY(sm_make_path(path, "%s/%s", out->partial, bin_names[side]));
        out->is_resumed = stat(path, &info) == 0 && info.st_size >= size_for(out, side);
    }
    if (!out->is_resumed) {
        memset(out->counts, 0, sizeof out->counts);
        return SM_OK;
    }
    const json_t *position = json_object_get(record, "position");
    out->position = (sm_text_position){number(position, "file"), number(position, "offset"),
                                       json_is_true(json_object_get(position, "in_document")),
                                       json_is_true(json_object_get(position, "is_validation"))};
    return SM_OK;
}

sm_status sm_token_output_open(const char *output, const json_t *work, int id_bytes, bool may_resume,
                               sm_token_output **opened) {
    size_t length = strlen(output);
    SM_OWN(sm_token_output) *out = sm_calloc(1, sizeof *out);
    *opened = NULL;
    out->work = json_deep_copy(work);
    out->id_bytes = id_bytes;
    out->lock = out->fds[SM_TRAIN_SIDE] = out->fds[SM_VAL_SIDE] = -1;
    while (length > 1 && output[length - 1] == '/') {
        length--;
    }
    SM_TRY(sm_make_path(out->folder, "%.*s", (int)length, output));
    SM_TRY(sm_make_path(out->partial, "%.*s.partial", (int)length, output));
    SM_TRY(look_at_folder(out, may_resume));
    if (!out->is_complete) {
        SM_TRY(sm_make_folder(out->partial));
        out->lock = open(out->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (out->lock < 0) {
            return fail_errno(out->partial, "", "open");
        }
        SM_FAIL_IF(os_lock_soon(out->lock) == EWOULDBLOCK, SM_ERR_IO,
                   "%s: another process is writing it; wait for it or choose another name", out->partial);
        SM_TRY(may_resume ? take_up(out) : SM_OK);
        // Cuts off everything after the recorded progress.
        for (int side = 0; side < SM_N_SIDES; side++) {
            char path[PATH_MAX];
            SM_TRY(sm_make_path(path, "%s/%s", out->partial, bin_names[side]));
            out->fds[side] = open(path, O_RDWR | O_CREAT | O_CLOEXEC | (out->is_resumed ? 0 : O_TRUNC), 0666);
            if (out->fds[side] < 0 || ftruncate(out->fds[side], size_for(out, side)) != 0 ||
                lseek(out->fds[side], 0, SEEK_END) < 0) {
                return fail_errno(out->partial, bin_names[side], "write");
            }
        }
    }
    *opened = sm_give(&out);
    return SM_OK;
}

void sm_token_output_close(sm_token_output *out) {
    if (out != NULL) {
        sm_close_at(&out->fds[SM_TRAIN_SIDE]);
        sm_close_at(&out->fds[SM_VAL_SIDE]);
        sm_close_at(&out->lock);
        json_decref(out->work);
        free(out);
    }
}

bool sm_token_output_is_complete(const sm_token_output *out) { return out->is_complete; }

bool sm_token_output_is_resumed(const sm_token_output *out) { return out->is_resumed; }

const sm_text_position *sm_token_output_position(const sm_token_output *out) { return &out->position; }

const sm_side_counts *sm_token_output_counts(const sm_token_output *out, int side) { return &out->counts[side]; }

// --- writing -------------------------------------------------------------------------------

sm_status sm_token_output_append(sm_token_output *out, int side, const void *ids, const sm_side_counts *more) {
    if (!os_write_all(out->fds[side], ids, (size_t)(more->n_tokens * out->id_bytes))) {
        return fail_errno(out->partial, bin_names[side], "write");
    }
    out->counts[side].n_tokens += more->n_tokens;
    out->counts[side].n_documents += more->n_documents;
    out->counts[side].text_bytes += more->text_bytes;
    return SM_OK;
}

sm_status sm_token_output_save(sm_token_output *out, const sm_text_position *at) {
    for (int side = 0; side < SM_N_SIDES; side++) {
        if (os_sync_data(out->fds[side]) != 0) {
            return fail_errno(out->partial, bin_names[side], "write");
        }
    }
    json_t *record = make_record(out);
    json_object_set_new(record, "position",
                        json_pack("{s:I, s:I, s:b, s:b}", "file", (json_int_t)at->file, "offset",
                                  (json_int_t)at->offset_bytes, "in_document", (int)at->in_document, "is_validation",
                                  (int)at->is_validation));
    return write_record(out, "progress.json", record);
}

static sm_status write_headers(const sm_token_output *out) {
    for (int side = 0; side < SM_N_SIDES; side++) {
        uint8_t header[SM_LLMC_HEADER_BYTES];
        sm_llmc_header(out->id_bytes, out->counts[side].n_tokens, header);
        if (pwrite(out->fds[side], header, sizeof header, 0) != (ssize_t)sizeof header ||
            os_sync_data(out->fds[side]) != 0) {
            return fail_errno(out->partial, bin_names[side], "write");
        }
    }
    return SM_OK;
}

sm_status sm_token_output_finish(sm_token_output *out, const sm_tokenizer *tokenizer, const sm_data_files *files) {
    char unused[PATH_MAX];
    SM_TRY(sm_make_path(unused, "%s/%s", out->partial, bin_names[SM_VAL_SIDE]));
    SM_TRY(write_headers(out));
    if (out->counts[SM_VAL_SIDE].n_tokens == 0 && unlink(unused) != 0) {
        return fail_errno(out->partial, bin_names[SM_VAL_SIDE], "remove");
    }
    SM_TRY(sm_tokenizer_write(tokenizer, out->partial));
    json_t *list = json_array();
    for (int64_t i = 0; i < files->n_files; i++) {
        json_t *name = sm_json_name(files->paths[i] != NULL ? files->paths[i] : "-");
        json_t *bytes = files->file_bytes[i] >= 0 ? json_integer(files->file_bytes[i]) : json_null();
        json_array_append_new(list, json_pack("{s:o, s:o}", "name", name, "bytes", bytes));
    }
    json_t *record = make_record(out);
    json_object_set_new(record, "file_list", list);
    SM_TRY(write_record(out, "tokens.json", record));
    if (rename(out->partial, out->folder) != 0) {
        return fail_errno(out->partial, "", "rename");
    }
    SM_TRY(sm_make_path(unused, "%s/progress.json", out->folder));
    (void)unlink(unused); // an extra record does no harm
    return sm_sync_folder_of(out->folder);
}

void sm_token_output_abandon(sm_token_output *out) { (void)sm_temporary_remove(out->partial); }
