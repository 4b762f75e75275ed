// text_source.c: reads beyond the cut; the text after the cut is kept for the next block.
#include <errno.h>
#include <unistd.h>

#include "src/io/input_file.h"
#include "src/tokenizer/encoder.h"
#include "src/tokenizer/text_source.h"

enum { BLOCK_BYTES = 1 << 20, HASHED_BYTES = 1 << 16, LEAST_ROOM_BYTES = 2 * HASHED_BYTES };

struct sm_text_source {
    const sm_data_files *files;
    const sm_tokenizer *tokenizer;
    const sm_text_split *split; // NULL: all is for training
    sm_text_position at;        // of the next byte for a block
    size_t block_begin;         // that byte's offset in the block
    int fd;                     // of file at.file; -1: not open
    int64_t file_bytes;         // of its text
    int64_t read_bytes;         // of these
    bool at_end;                // the file has been read to its end
    uint8_t *ahead;             // text read for the next block
    size_t n_ahead, ahead_capacity;
};

// --- reading -------------------------------------------------------------------------------

static sm_status open_file(sm_text_source *s) {
    int64_t size_bytes;
    const char *path = s->files->paths[s->at.file];
    s->at_end = false;
    s->n_ahead = 0;
    s->read_bytes = s->at.offset_bytes;
    if (path == NULL) {
        s->fd = STDIN_FILENO;
        return SM_OK;
    }
    SM_TRY(sm_input_open(path, &s->fd, &size_bytes));
    s->file_bytes = s->files->jsonl[s->at.file] != NULL ? sm_data_files_bytes(s->files, s->at.file) : size_bytes;
    SM_FAIL_IF(s->file_bytes < s->at.offset_bytes, SM_ERR_IO,
               "%s: has become shorter than the %lld bytes that were read of it", path, (long long)s->at.offset_bytes);
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
    SM_FAIL_IF(grown == NULL, SM_ERR_OOM, "no memory for %zu bytes of text", capacity);
    block->text = grown;
    block->capacity = capacity;
    return SM_OK;
}

// The format of stdin is known only here.
static sm_status check_stdin(const sm_text_source *s, const sm_text_block *block) {
    sm_tokens_format format;
    const size_t n = block->n_bytes < SM_DATA_HEAD_BYTES ? block->n_bytes : SM_DATA_HEAD_BYTES;
    SM_TRY(sm_data_format_find("stdin", block->text, n, s->at_end ? (int64_t)block->n_bytes : INT64_MAX,
                               s->files->asked, &format));
    SM_FAIL_IF(format != SM_TOKENS_TEXT && format != SM_TOKENS_BYTES, SM_ERR_UNSUPPORTED,
               "stdin: its format is %s, which is read from files only; give the file", sm_tokens_format_name(format));
    return SM_OK;
}

static sm_status fill_from_stdin(sm_text_source *s, sm_text_block *block) {
    const bool is_begin = s->read_bytes == 0;
    const size_t from = block->n_bytes;
    while (!s->at_end && block->n_bytes < block->capacity) {
        const ssize_t n = read(s->fd, block->text + block->n_bytes, block->capacity - block->n_bytes);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        SM_FAIL_IF(n < 0, SM_ERR_IO, "stdin: cannot read: %s", strerror(errno));
        s->at_end = n == 0;
        block->n_bytes += (size_t)n;
    }
    s->read_bytes += (int64_t)(block->n_bytes - from);
    return is_begin ? check_stdin(s, block) : SM_OK;
}

// Reads until the block is full or the file ends.
static sm_status fill(sm_text_source *s, sm_text_block *block) {
    if (s->files->paths[s->at.file] == NULL) {
        return fill_from_stdin(s, block);
    }
    const size_t room = block->capacity - block->n_bytes;
    const int64_t left = s->file_bytes - s->read_bytes;
    const size_t n = left < (int64_t)room ? (size_t)left : room;
    SM_TRY(sm_data_files_read(s->files, s->at.file, s->fd, s->read_bytes, block->text + block->n_bytes, n));
    s->read_bytes += (int64_t)n;
    block->n_bytes += n;
    s->at_end = s->read_bytes == s->file_bytes;
    return SM_OK;
}

// Keeps the text after the cut for the next block.
static void put_ahead(sm_text_source *s, sm_text_block *block, size_t cut) {
    s->n_ahead = block->n_bytes - cut;
    if (s->n_ahead > s->ahead_capacity) {
        s->ahead_capacity = s->n_ahead;
        s->ahead = sm_realloc(s->ahead, s->n_ahead);
    }
    if (s->n_ahead > 0) {
        memcpy(s->ahead, block->text + cut, s->n_ahead);
    }
    block->n_bytes = cut;
}

// --- documents -----------------------------------------------------------------------------

static void append_part(sm_text_block *block, sm_text_part part) {
    SM_GROW(block->parts, block->n_parts, block->parts_capacity);
    block->parts[block->n_parts++] = part;
}

// Decided by a hash of the document's first bytes.
static bool is_for_validation(const sm_text_source *s, const uint8_t *text, size_t n) {
    if (s->split == NULL) {
        return false;
    }
    const uint64_t hash = sm_bytes_hash(text, n < HASHED_BYTES ? n : HASHED_BYTES) * UINT64_C(0xD6E8FEB86659FD93);
    return (double)(hash >> 11) * 0x1p-53 < s->split->val_percent / 100;
}

// ---- documents whose ends are for validation ----

// The document that reaches to `end` of the current file, or beyond.
static const sm_text_end *find_end(const sm_text_source *s, int64_t end) {
    int64_t low = 0;
    int64_t high = s->split->n_ends;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        const sm_text_end *e = &s->split->ends[middle];
        if (e->file < s->at.file || (e->file == s->at.file && e->end < end)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < s->split->n_ends && s->split->ends[low].file == s->at.file ? &s->split->ends[low] : NULL;
}

// The last place up to `at` where a text may be cut without changing ids, or else between two characters.
static size_t cut_near(const sm_tokenizer *tokenizer, const uint8_t *text, size_t at) {
    const size_t place = sm_encoder_part(tokenizer, text, at + 1, 1);
    while (place == 0 && at > 0 && (text[at] & 0xc0) == 0x80) {
        at--;
    }
    return place > 0 ? place : at;
}

static void add_divided(sm_text_source *s, sm_text_block *block, sm_text_part part) {
    const int64_t at = part.at_bytes;
    const int64_t end = at + (int64_t)part.n_bytes;
    const sm_text_end *e = find_end(s, end);
    const int64_t from = e != NULL ? e->from : end;
    const size_t n_train = from >= end  ? part.n_bytes
                           : from <= at ? 0
                                        : cut_near(s->tokenizer, block->text + part.offset, (size_t)(from - at));
    if (n_train > 0) {
        append_part(block, (sm_text_part){.offset = part.offset,
                                          .n_bytes = n_train,
                                          .file = part.file,
                                          .at_bytes = at,
                                          .ends_document = from <= end});
    }
    s->at.is_validation = from < end;
    part.offset += n_train;
    part.at_bytes += (int64_t)n_train;
    part.n_bytes -= n_train;
    part.is_validation = true;
    if (from < end) {
        append_part(block, part);
    }
}

// Adds the block's n_bytes from `begin` to the current document; its first `n_known` bytes are in the block.
static void add_text(sm_text_source *s, sm_text_block *block, size_t begin, size_t n_bytes, size_t n_known, bool ends) {
    if (!s->at.in_document && n_bytes == 0) {
        return;
    }
    if (!s->at.in_document) {
        s->at.is_validation = is_for_validation(s, block->text + begin, n_known);
    }
    s->at.in_document = !ends;
    const sm_text_part part = {.offset = begin,
                               .n_bytes = n_bytes,
                               .file = s->at.file,
                               .at_bytes = s->at.offset_bytes + (int64_t)(begin - s->block_begin),
                               .is_validation = s->at.is_validation,
                               .ends_document = ends};
    if (s->split != NULL && s->split->ends != NULL) {
        add_divided(s, block, part);
    } else {
        append_part(block, part);
    }
}

// Adds documents that end with a separator; advances *begin past the last one.
static void add_separated(sm_text_source *s, sm_text_block *block, size_t *begin) {
    const size_t n = strlen(SM_END_OF_TEXT);
    for (const uint8_t *separator;
         (separator = memmem(block->text + *begin, block->n_bytes - *begin, SM_END_OF_TEXT, n)) != NULL;) {
        const size_t n_bytes = (size_t)(separator - block->text) - *begin;
        add_text(s, block, *begin, n_bytes, n_bytes, true);
        *begin += n_bytes + n;
    }
}

// The last place to cut text, of which more follows, without changing ids; 0: none. A document needs its side's bytes.
static size_t find_cut(const sm_text_source *s, const uint8_t *text, size_t n) {
    return s->at.in_document || n >= HASHED_BYTES ? sm_encoder_part(s->tokenizer, text, n, 1) : 0;
}

// Adds as much of the current file as fits; more if it cannot be cut earlier, or if the block would be empty.
static sm_status add_file(sm_text_source *s, sm_text_block *block) {
    const size_t from = block->n_bytes;
    size_t begin = from;
    size_t cut = 0;
    s->block_begin = from;
    SM_TRY(grow_block(block, block->n_bytes + s->n_ahead));
    if (s->n_ahead > 0) {
        memcpy(block->text + block->n_bytes, s->ahead, s->n_ahead);
    }
    block->n_bytes += s->n_ahead;
    s->n_ahead = 0;
    SM_TRY(fill(s, block));
    add_separated(s, block, &begin);
    while (!s->at_end && begin == from && (cut = find_cut(s, block->text + begin, block->n_bytes - begin)) == 0) {
        SM_TRY(grow_block(block, 2 * block->capacity));
        SM_TRY(fill(s, block));
        add_separated(s, block, &begin);
    }
    const size_t n_known = block->n_bytes - begin;
    if (!s->at_end && begin > from) {
        cut = find_cut(s, block->text + begin, n_known);
    }
    const size_t n_bytes = s->at_end ? n_known : cut;
    if (n_bytes > 0 || s->at_end) {
        add_text(s, block, begin, n_bytes, n_known, s->at_end);
    }
    put_ahead(s, block, begin + n_bytes);
    s->at.offset_bytes += (int64_t)(block->n_bytes - from);
    block->n_read_bytes += (int64_t)(block->n_bytes - from);
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
        SM_TRY(s->fd < 0 ? open_file(s) : SM_OK);
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

sm_text_source *sm_text_source_open(const sm_data_files *files, const sm_tokenizer *tokenizer,
                                    const sm_text_split *split, const sm_text_position *at) {
    static const sm_text_position begin = {0};
    sm_text_source *s = sm_calloc(1, sizeof *s);
    *s = (sm_text_source){
        .files = files, .tokenizer = tokenizer, .split = split, .at = at != NULL ? *at : begin, .fd = -1};
    return s;
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

// --- validation ----------------------------------------------------------------------------

enum { MOST_ENDS = 1 << 16 };

// Notes all documents, and the share of the text that the hash chooses.
static sm_status survey(sm_text_source *source, double val_percent, sm_text_block *block, sm_text_split *split,
                        double *share) {
    sm_text_end document = {.end = -1}; // the current one; end -1: none
    double n_bytes[2] = {0};
    do {
        SM_TRY(sm_text_source_next(source, block));
        for (size_t i = 0; i < block->n_parts; i++) {
            const sm_text_part *part = &block->parts[i];
            const int64_t begin = document.end < 0 ? part->at_bytes : document.from;
            const int64_t end = part->at_bytes + (int64_t)part->n_bytes;
            n_bytes[part->is_validation] += (double)part->n_bytes;
            document = (sm_text_end){.file = part->file, .from = begin, .end = end};
            if (part->ends_document) {
                document.from = end - (int64_t)((double)(end - begin) * val_percent / 100);
                SM_PUSH(split->ends, split->n_ends, document);
                document.end = -1;
            }
        }
    } while (block->n_parts > 0 && split->n_ends <= MOST_ENDS);
    *share = n_bytes[0] + n_bytes[1] > 0 ? n_bytes[1] / (n_bytes[0] + n_bytes[1]) : 0;
    return SM_OK;
}

sm_status sm_text_split_find(const sm_data_files *files, double val_percent, sm_text_split *split) {
    const sm_text_split whole = {.val_percent = val_percent};
    SM_AT_END(sm_text_split_free) sm_text_split ends = whole;
    SM_AT_END(sm_text_block_free) sm_text_block block = {0};
    double share = 0;
    *split = whole;
    if (val_percent <= 0 || files->has_stdin) {
        return SM_OK;
    }
    SM_OWN(sm_text_source) *source = sm_text_source_open(files, NULL, &whole, NULL);
    SM_TRY(survey(source, val_percent, &block, &ends, &share));
    if (!sm_text_split_fits(val_percent, share) && ends.n_ends <= MOST_ENDS) {
        *split = ends;
        ends.ends = NULL;
    }
    return SM_OK;
}

bool sm_text_split_fits(double val_percent, double share) {
    return 100 * share >= val_percent / 2 && 100 * share <= 1.5 * val_percent;
}

void sm_text_split_free(sm_text_split *split) { free(split->ends); }
