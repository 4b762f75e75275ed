// text_source.c: reads beyond the cut; the text after the cut is kept for the next block.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fnv1a.h"
#include "src/io/input_file.h"
#include "src/tokenizer/encoder.h"
#include "src/tokenizer/text_source.h"

enum { BLOCK_BYTES = 1 << 20, HASHED_BYTES = 1 << 16, LEAST_ROOM_BYTES = 2 * HASHED_BYTES };

struct sm_text_source {
    const sm_text_files *files;
    double val_percent;
    sm_text_position at; // of the next byte for a block
    size_t block_begin;  // that byte's offset in the block
    int fd;              // of file at.file; -1: not open
    bool at_end;         // the file has been read to its end
    uint8_t *ahead;      // text read for the next block
    size_t n_ahead, ahead_capacity;
};

// --- files ---------------------------------------------------------------------------------

static sm_status reserve_file(sm_text_files *files) {
    if ((files->n_files & (files->n_files - 1)) != 0) {
        return SM_OK; // not a power of two: the list has room
    }
    const size_t capacity = files->n_files > 0 ? 2 * (size_t)files->n_files : 1;
    char **paths = realloc(files->paths, capacity * sizeof(*paths));
    files->paths = paths != NULL ? paths : files->paths;
    int64_t *file_bytes = realloc(files->file_bytes, capacity * sizeof(*file_bytes));
    files->file_bytes = file_bytes != NULL ? file_bytes : files->file_bytes;
    return paths != NULL && file_bytes != NULL ? SM_OK
                                               : sm_fail(SM_ERR_OOM, "no memory for a list of %zu files", capacity);
}

static sm_status append_path(sm_text_files *files, const char *path, int64_t size_bytes) {
    SM_TRY(reserve_file(files));
    char *copy = path != NULL ? strdup(path) : NULL;
    if (path != NULL && copy == NULL) {
        return sm_fail(SM_ERR_OOM, "%s: no memory for its name", path);
    }
    files->file_bytes[files->n_files] = size_bytes;
    files->paths[files->n_files++] = copy;
    return SM_OK;
}

static sm_status append_file(sm_text_files *files, const char *path, const struct stat *info) {
    const int64_t facts[3] = {info->st_size, info->st_mtim.tv_sec, info->st_mtim.tv_nsec};
    files->hash = sm_fnv1a(files->hash, path, strlen(path) + 1);
    files->hash = sm_fnv1a(files->hash, facts, sizeof facts);
    files->size_bytes += info->st_size;
    return append_path(files, path, info->st_size);
}

static int is_listed(const struct dirent *entry) { return entry->d_name[0] != '.'; }

static int by_bytes(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static sm_status append_folder(sm_text_files *files, const char *folder);

// Adds an entry of a folder: a regular file or a folder, but no link to a folder, as those may form cycles.
static sm_status append_entry(sm_text_files *files, const char *folder, const char *name) {
    char path[PATH_MAX];
    struct stat info;
    struct stat target;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) {
        return sm_fail(SM_ERR_IO, "%s/%s: too long a path", folder, name);
    }
    if (lstat(path, &info) != 0 || stat(path, &target) != 0) {
        return sm_fail(SM_ERR_IO, "%s: cannot open: %s", path, strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) {
        return append_folder(files, path);
    }
    return S_ISREG(target.st_mode) ? append_file(files, path, &target) : SM_OK;
}

static sm_status append_folder(sm_text_files *files, const char *folder) {
    struct dirent **entries;
    sm_status status = SM_OK;
    const int n = scandir(folder, &entries, is_listed, by_bytes);
    if (n < 0) {
        return sm_fail(SM_ERR_IO, "%s: cannot read the folder: %s", folder, strerror(errno));
    }
    for (int i = 0; i < n; i++) {
        status = status == SM_OK ? append_entry(files, folder, entries[i]->d_name) : status;
        free(entries[i]);
    }
    free(entries);
    return status;
}

static sm_status append_input(sm_text_files *files, const char *input) {
    struct stat info;
    if (strcmp(input, "-") == 0 && files->has_stdin) {
        return sm_fail(SM_ERR_USAGE, "-: stdin is given twice");
    }
    if (strcmp(input, "-") == 0) {
        files->has_stdin = true;
        return append_path(files, NULL, -1);
    }
    if (stat(input, &info) != 0) {
        return sm_fail(SM_ERR_IO, "%s: cannot open: %s", input, strerror(errno));
    }
    if (S_ISDIR(info.st_mode)) {
        return append_folder(files, input);
    }
    return S_ISREG(info.st_mode) ? append_file(files, input, &info)
                                 : sm_fail(SM_ERR_IO, "%s: neither a regular file nor a folder; - is stdin", input);
}

sm_status sm_text_files_list(char *const *inputs, int n_inputs, sm_text_files *files) {
    sm_status status = SM_OK;
    *files = (sm_text_files){.hash = SM_FNV1A_START};
    for (int i = 0; i < n_inputs && status == SM_OK; i++) {
        status = append_input(files, inputs[i]);
    }
    if (status != SM_OK) {
        sm_text_files_free(files);
    }
    return status;
}

void sm_text_files_free(sm_text_files *files) {
    for (int64_t i = 0; i < files->n_files; i++) {
        free(files->paths[i]);
    }
    free(files->paths);
    free(files->file_bytes);
    *files = (sm_text_files){0};
}

// --- reading -------------------------------------------------------------------------------

static const char *name_of(const sm_text_source *s) {
    const char *path = s->files->paths[s->at.file];
    return path != NULL ? path : "stdin";
}

static sm_status open_file(sm_text_source *s) {
    int64_t size_bytes;
    const char *path = s->files->paths[s->at.file];
    s->at_end = false;
    s->n_ahead = 0;
    if (path == NULL) {
        s->fd = STDIN_FILENO;
        return SM_OK;
    }
    SM_TRY(sm_input_open(path, &s->fd, &size_bytes));
    if (size_bytes < s->at.offset_bytes || lseek(s->fd, s->at.offset_bytes, SEEK_SET) < 0) {
        return sm_fail(SM_ERR_IO, "%s: has become shorter than the %lld bytes that were read of it", path,
                       (long long)s->at.offset_bytes);
    }
    return SM_OK;
}

static void close_file(sm_text_source *s) {
    if (s->fd > STDIN_FILENO) {
        close(s->fd);
    }
    s->fd = -1;
}

static sm_status grow_block(sm_text_block *block, size_t capacity) {
    if (capacity <= block->capacity) {
        return SM_OK;
    }
    uint8_t *grown = realloc(block->text, capacity);
    if (grown == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for %zu bytes of text", capacity);
    }
    block->text = grown;
    block->capacity = capacity;
    return SM_OK;
}

// Reads until the block is full or the file ends.
static sm_status fill(sm_text_source *s, sm_text_block *block) {
    while (!s->at_end && block->n_bytes < block->capacity) {
        const ssize_t n = read(s->fd, block->text + block->n_bytes, block->capacity - block->n_bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return sm_fail(SM_ERR_IO, "%s: cannot read: %s", name_of(s), strerror(errno));
        }
        s->at_end = n == 0;
        block->n_bytes += (size_t)n;
    }
    return SM_OK;
}

// Keeps the text after the cut for the next block.
static sm_status put_ahead(sm_text_source *s, sm_text_block *block, size_t cut) {
    const size_t n = block->n_bytes - cut;
    if (n > s->ahead_capacity) {
        free(s->ahead);
        s->ahead_capacity = 0;
        s->ahead = malloc(n);
        if (s->ahead == NULL) {
            return sm_fail(SM_ERR_OOM, "no memory for %zu bytes of text", n);
        }
        s->ahead_capacity = n;
    }
    if (n > 0) {
        memcpy(s->ahead, block->text + cut, n);
    }
    s->n_ahead = n;
    block->n_bytes = cut;
    return SM_OK;
}

static sm_status take_ahead(sm_text_source *s, sm_text_block *block) {
    SM_TRY(grow_block(block, block->n_bytes + s->n_ahead));
    if (s->n_ahead > 0) {
        memcpy(block->text + block->n_bytes, s->ahead, s->n_ahead);
    }
    block->n_bytes += s->n_ahead;
    s->n_ahead = 0;
    return SM_OK;
}

// --- documents -----------------------------------------------------------------------------

static sm_status append_part(sm_text_block *block, sm_text_part part) {
    if (block->n_parts == block->parts_capacity) {
        const size_t capacity = block->parts_capacity > 0 ? 2 * block->parts_capacity : 16;
        sm_text_part *grown = realloc(block->parts, capacity * sizeof(*grown));
        if (grown == NULL) {
            return sm_fail(SM_ERR_OOM, "no memory for %zu documents", capacity);
        }
        block->parts = grown;
        block->parts_capacity = capacity;
    }
    block->parts[block->n_parts++] = part;
    return SM_OK;
}

// Of a document's first bytes, eight at a time.
static uint64_t hash_of(const uint8_t *text, size_t n) {
    uint64_t hash = n;
    for (size_t at = 0; at < n; at += 8) {
        uint64_t word = 0;
        memcpy(&word, text + at, n - at < 8 ? n - at : 8);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 32;
    }
    return hash * UINT64_C(0xD6E8FEB86659FD93);
}

// Only a document's content decides, so its copies are on the same side, in any order and number of files.
static bool is_for_validation(const sm_text_source *s, const uint8_t *text, size_t n) {
    return s->val_percent > 0 &&
           (double)(hash_of(text, n < HASHED_BYTES ? n : HASHED_BYTES) >> 11) * 0x1p-53 < s->val_percent / 100;
}

// Adds the block's n_bytes from `begin` to the current document; its first `n_known` bytes are in the block.
static sm_status add_text(sm_text_source *s, sm_text_block *block, size_t begin, size_t n_bytes, size_t n_known,
                          bool ends) {
    if (!s->at.in_document && n_bytes == 0) {
        return SM_OK;
    }
    if (!s->at.in_document) {
        s->at.is_validation = is_for_validation(s, block->text + begin, n_known);
    }
    s->at.in_document = !ends;
    return append_part(block, (sm_text_part){.offset = begin,
                                             .n_bytes = n_bytes,
                                             .file = s->at.file,
                                             .at_bytes = s->at.offset_bytes + (int64_t)(begin - s->block_begin),
                                             .is_validation = s->at.is_validation,
                                             .ends_document = ends});
}

// Adds documents that end with a separator; advances *begin past the last one.
static sm_status add_separated(sm_text_source *s, sm_text_block *block, size_t *begin) {
    const size_t n = strlen(SM_END_OF_TEXT);
    for (const uint8_t *separator;
         (separator = memmem(block->text + *begin, block->n_bytes - *begin, SM_END_OF_TEXT, n)) != NULL;) {
        const size_t n_bytes = (size_t)(separator - block->text) - *begin;
        SM_TRY(add_text(s, block, *begin, n_bytes, n_bytes, true));
        *begin += n_bytes + n;
    }
    return SM_OK;
}

// The last place to cut text, of which more will follow, without changing ids; 0: none. A document that begins here
// needs as many bytes as decide its side.
static size_t find_cut(const sm_text_source *s, const uint8_t *text, size_t n) {
    return s->at.in_document || n >= HASHED_BYTES ? sm_encoder_part(text, n, 1) : 0;
}

// Adds as much of the current file as fits; more if it cannot be cut earlier, or if the block would be empty.
static sm_status add_text_of_file(sm_text_source *s, sm_text_block *block, size_t *cut) {
    const size_t from = block->n_bytes;
    size_t begin = from;
    s->block_begin = from;
    SM_TRY(take_ahead(s, block));
    SM_TRY(fill(s, block));
    SM_TRY(add_separated(s, block, &begin));
    *cut = 0;
    while (!s->at_end && begin == from && (*cut = find_cut(s, block->text + begin, block->n_bytes - begin)) == 0) {
        SM_TRY(grow_block(block, 2 * block->capacity));
        SM_TRY(fill(s, block));
        SM_TRY(add_separated(s, block, &begin));
    }
    const size_t n_known = block->n_bytes - begin;
    if (!s->at_end && begin > from) {
        *cut = find_cut(s, block->text + begin, n_known);
    }
    const size_t n_bytes = s->at_end ? n_known : *cut;
    *cut = begin + n_bytes;
    return n_bytes > 0 || s->at_end ? add_text(s, block, begin, n_bytes, n_known, s->at_end) : SM_OK;
}

static sm_status add_file(sm_text_source *s, sm_text_block *block) {
    size_t cut;
    const size_t from = block->n_bytes;
    SM_TRY(add_text_of_file(s, block, &cut));
    SM_TRY(put_ahead(s, block, cut));
    s->at.offset_bytes += (int64_t)(cut - from);
    block->n_read_bytes += (int64_t)(cut - from);
    if (s->at_end) {
        close_file(s);
        s->at.file++;
        s->at.offset_bytes = 0;
    }
    return SM_OK;
}

sm_status sm_text_source_next(sm_text_source *s, sm_text_block *block) {
    block->n_bytes = 0;
    block->n_parts = 0;
    block->n_read_bytes = 0;
    SM_TRY(grow_block(block, BLOCK_BYTES));
    while (s->at.file < s->files->n_files) {
        if (s->fd < 0) {
            SM_TRY(open_file(s));
        }
        SM_TRY(add_file(s, block));
        if (block->n_parts == 0) {
            block->n_bytes = 0; // only separators so far
            continue;
        }
        if (s->fd >= 0 || block->n_bytes + LEAST_ROOM_BYTES > BLOCK_BYTES) {
            break; // the rest belongs to the next block
        }
    }
    block->after = s->at;
    return SM_OK;
}

// --- beginning and end ---------------------------------------------------------------------

sm_status sm_text_source_open(const sm_text_files *files, double val_percent, const sm_text_position *at,
                              sm_text_source **source) {
    sm_text_source *s = calloc(1, sizeof *s);
    *source = s;
    if (s == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory to read text");
    }
    s->files = files;
    s->val_percent = val_percent;
    s->fd = -1;
    if (at != NULL) {
        s->at = *at;
    }
    return SM_OK;
}

void sm_text_source_close(sm_text_source *s) {
    if (s != NULL) {
        close_file(s);
        free(s->ahead);
        free(s);
    }
}

void sm_text_block_free(sm_text_block *block) {
    free(block->text);
    free(block->parts);
    *block = (sm_text_block){0};
}
