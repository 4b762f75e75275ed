// data_files.c: lists files, then looks at the beginning of each.
#include "src/data/data_files.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include "fnv1a.h"
#include "src/io/atomic_file.h"
#include "src/io/input_file.h"

// --- listing -------------------------------------------------------------------------------

// `info` NULL: stdin.
static void append_file(sm_data_files *files, const char *path, const struct stat *info) {
    const int64_t i = files->n_files++;
    if ((i & (i - 1)) == 0) { // the list is full
        const size_t capacity = i > 0 ? 2 * (size_t)i : 1;
        files->paths = sm_realloc(files->paths, capacity * sizeof(*files->paths));
        files->file_bytes = sm_realloc(files->file_bytes, capacity * sizeof(*files->file_bytes));
        files->jsonl = sm_realloc(files->jsonl, capacity * sizeof(sm_jsonl *));
    }
    files->paths[i] = info != NULL ? sm_strdup(path) : NULL;
    files->file_bytes[i] = info != NULL ? info->st_size : -1;
    files->jsonl[i] = NULL;
    if (info != NULL) {
        const int64_t changed_ns = os_changed_ns(info);
        const int64_t facts[3] = {info->st_size, changed_ns / 1000000000, changed_ns % 1000000000};
        files->hash = sm_fnv1a(files->hash, path, strlen(path) + 1);
        files->hash = sm_fnv1a(files->hash, facts, sizeof facts);
        files->size_bytes += info->st_size;
    }
}

static sm_status append_folder(sm_data_files *files, const char *folder);

// Adds an entry of a folder: a regular file or a folder, but no link to a folder, as those may form cycles.
static sm_status append_entry(sm_data_files *files, const char *folder, const char *name) {
    char path[PATH_MAX];
    struct stat info;
    struct stat target;
    SM_TRY(sm_make_path(path, "%s/%s", folder, name));
    SM_FAIL_IF(lstat(path, &info) != 0 || stat(path, &target) != 0, SM_ERR_IO, "%s: cannot open: %s", path,
               strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        return append_folder(files, path);
    }
    if (S_ISREG(target.st_mode)) {
        append_file(files, path, &target);
    }
    return SM_OK;
}

static sm_status append_folder(sm_data_files *files, const char *folder) {
    SM_AT_END(os_free_names) os_names names;
    SM_FAIL_IF(!os_list_folder(folder, &names), SM_ERR_IO, "%s: cannot read the folder: %s", folder, strerror(errno));
    for (int i = 0; i < names.n; i++) {
        SM_TRY(names.list[i][0] != '.' ? append_entry(files, folder, names.list[i]) : SM_OK);
    }
    return SM_OK;
}

static sm_status append_named(sm_data_files *files, const char *path) {
    struct stat info;
    SM_FAIL_IF(stat(path, &info) != 0, SM_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) {
        return append_folder(files, path);
    }
    SM_FAIL_IF(!S_ISREG(info.st_mode), SM_ERR_IO, "%s: not a regular file, nor a folder; - is stdin", path);
    append_file(files, path, &info);
    return SM_OK;
}

static sm_status append_input(sm_data_files *files, const char *input) {
    SM_FAIL_IF(strcmp(input, "-") == 0 && files->has_stdin, SM_ERR_USAGE, "-: stdin is given twice");
    if (strcmp(input, "-") == 0) {
        files->has_stdin = true;
        append_file(files, NULL, NULL);
        return SM_OK;
    }
    if (access(input, F_OK) == 0 || strpbrk(input, "*?[") == NULL) {
        return append_named(files, input);
    }
    SM_AT_END(os_free_names) os_names found;
    SM_FAIL_IF(!os_match_paths(input, &found), SM_ERR_IO, "%s: %s", input,
               errno == ENOENT ? "no file has such a name" : "cannot list these files");
    for (int i = 0; i < found.n; i++) {
        SM_TRY(append_named(files, found.list[i]));
    }
    return SM_OK;
}

sm_status sm_data_files_list(char *const *inputs, int n_inputs, sm_data_files *files) {
    *files = (sm_data_files){.hash = SM_FNV1A_START};
    for (int i = 0; i < n_inputs; i++) {
        SM_TRY(append_input(files, inputs[i]));
    }
    return SM_OK;
}

void sm_data_files_free(sm_data_files *files) {
    for (int64_t i = 0; i < files->n_files; i++) {
        free(files->paths[i]);
        sm_jsonl_close(files->jsonl[i]);
    }
    free(files->paths);
    free(files->file_bytes);
    free(files->jsonl);
    *files = (sm_data_files){0};
}

// --- formats -------------------------------------------------------------------------------

// Empty files tell nothing; stdin is looked at when it is read.
static sm_status find_format(sm_data_files *files, int64_t i, uint8_t *head) {
    SM_CLOSED int fd = -1;
    int64_t size_bytes;
    sm_tokens_format format;
    const char *path = files->paths[i];
    if (path == NULL) {
        return SM_OK;
    }
    SM_TRY(sm_input_open(path, &fd, &size_bytes));
    const size_t n = size_bytes < SM_DATA_HEAD_BYTES ? (size_t)size_bytes : SM_DATA_HEAD_BYTES;
    SM_TRY(sm_input_read(fd, path, 0, head, n));
    if (n == 0) {
        return SM_OK;
    }
    SM_TRY(sm_data_format_find(path, head, n, size_bytes, files->asked, &format));
    SM_FAIL_IF(files->format != SM_TOKENS_AUTO && files->format != format, SM_ERR_FORMAT,
               "%s: its format is %s, that of files before it %s; give files of one format", path,
               sm_tokens_format_name(format), sm_tokens_format_name(files->format));
    files->format = format;
    return format == SM_TOKENS_JSONL ? sm_jsonl_open(path, &files->jsonl[i]) : SM_OK;
}

sm_status sm_data_files_open(char *const *inputs, int n_inputs, sm_tokens_format asked, sm_data_files *files) {
    SM_TRY(sm_data_files_list(inputs, n_inputs, files));
    SM_FREED uint8_t *head = sm_malloc(SM_DATA_HEAD_BYTES);
    files->asked = asked;
    for (int64_t i = 0; i < files->n_files; i++) {
        SM_TRY(find_format(files, i, head));
    }
    if (files->format == SM_TOKENS_AUTO) {
        files->format = asked != SM_TOKENS_AUTO ? asked : SM_TOKENS_TEXT;
    }
    return SM_OK;
}

static sm_status refuse_ids(const char *name, const char *what) {
    return sm_fail(SM_ERR_USAGE, "%s: holds token ids (%s) already; give text, or train on the ids without --tokenizer",
                   name, what);
}

sm_status sm_data_files_open_text(char *const *inputs, int n_inputs, sm_tokens_format asked, sm_data_files *files) {
    char side[SM_DATA_PATH_BYTES];
    *files = (sm_data_files){0};
    for (int i = 0; i < n_inputs; i++) {
        if (sm_data_files_side(inputs[i], "train", side)) {
            return refuse_ids(inputs[i], strrchr(side, '/') + 1);
        }
    }
    SM_TRY(sm_data_files_open(inputs, n_inputs, asked, files));
    return sm_tokens_format_has_ids(files->format) ? refuse_ids(inputs[0], sm_tokens_format_name(files->format))
                                                   : SM_OK;
}

int64_t sm_data_files_bytes(const sm_data_files *files, int64_t file) {
    return files->jsonl[file] != NULL ? sm_jsonl_bytes(files->jsonl[file]) : files->file_bytes[file];
}

sm_status sm_data_files_read(const sm_data_files *files, int64_t file, int fd, int64_t at, void *data, size_t n) {
    return files->jsonl[file] != NULL ? sm_jsonl_read(files->jsonl[file], fd, files->paths[file], at, data, n)
                                      : sm_input_read(fd, files->paths[file], at, data, n);
}

bool sm_data_files_side(const char *folder, const char *side, char path[SM_DATA_PATH_BYTES]) {
    char escaped[SM_DATA_PATH_BYTES];
    struct stat info;
    size_t n = 0;
    if (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode)) {
        return false;
    }
    if (snprintf(path, SM_DATA_PATH_BYTES, "%s/%s.bin", folder, side) < SM_DATA_PATH_BYTES && access(path, F_OK) == 0) {
        return true;
    }
    for (const char *c = folder; *c != '\0' && n + 3 < sizeof escaped; c++) {
        if (strchr("*?[\\", *c) != NULL) {
            escaped[n++] = '\\';
        }
        escaped[n++] = *c;
    }
    escaped[n] = '\0';
    for (size_t i = 0; i < 2; i++) {
        SM_AT_END(os_free_names) os_names found = {0};
        const int length = snprintf(path, SM_DATA_PATH_BYTES, "%s/*%s*.%s", escaped, side, i == 0 ? "bin" : "npy");
        if (length < SM_DATA_PATH_BYTES && os_match_paths(path, &found)) {
            return true;
        }
    }
    return false;
}
