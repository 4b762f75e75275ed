// tokens.c: finds the ids' place in each file and checks them all once, and each batch again: files may have changed.
#include "clock.h"
#include "embedded.h"
#include "src/data/data_files.h"
#include "src/io/input_file.h"
#include "src/data/tokens.h"

enum { PIECE_IDS = 8192, MAX_ID_BYTES = 8, EMBEDDED_TOKENS = 1 << 23, MOST_OPEN = 64 };

// A file, or a memory.
typedef struct {
    int64_t first; // token of the stream
    int fd;        // -1: opened for each read
    sm_id_layout layout;
} shard;

struct sm_tokens {
    char *path; // for messages
    sm_data_files files;
    shard *shards;
    int64_t n_shards;
    const uint8_t *memory; // owned by the caller; NULL: files
    int64_t memory_bytes;  // the ids start again after it, if `count` is larger
    sm_tokens_maker maker; // makes ids on request; read NULL: files or memory have them
    int64_t count;
    int64_t vocab;
    sm_tokens_format format;
};

// ---- reading ----

static int64_t id_at(const uint8_t *bytes, const sm_id_layout *layout) {
    const int n = (int)layout->id_bytes;
    uint64_t id = 0;
    for (int i = 0; i < n; i++) {
        id |= (uint64_t)bytes[i] << 8 * (layout->is_big_endian ? n - 1 - i : i);
    }
    const bool is_negative = layout->is_signed && id >> (8 * n - 1) != 0;
    return (int64_t)(is_negative && n < 8 ? id - (UINT64_C(1) << 8 * n) : id);
}

// n bytes of a memory that starts again at its end.
static void copy_memory(const sm_tokens *tokens, int64_t offset, int64_t n, uint8_t *bytes) {
    for (int64_t done = 0, part; done < n; done += part) {
        const int64_t at = (offset + done) % tokens->memory_bytes;
        const int64_t left = tokens->memory_bytes - at;
        part = n - done < left ? n - done : left;
        memcpy(bytes + done, tokens->memory + at, (size_t)part);
    }
}

// An id outside of the vocabulary. A text's vocabulary is that of all bytes.
static sm_status refuse_id(const sm_tokens *tokens, int64_t number, int64_t at, int64_t id, int64_t largest) {
    char advice[64] = "";
    const int64_t last = sm_tokens_format_has_ids(tokens->format) ? largest : UINT8_MAX;
    if (last < INT32_MAX) {
        snprintf(advice, sizeof advice, "; --vocab %lld would fit", (long long)last + 1);
    }
    return sm_fail(SM_ERR_INVALID, "%s: token %lld (%s) is %lld, outside the vocabulary of %lld%s",
                   tokens->memory == NULL ? tokens->files.paths[number] : tokens->path, (long long)at,
                   sm_tokens_format_name(tokens->format), (long long)id, (long long)tokens->vocab,
                   id >= 0 ? advice : "");
}

// The result of reading all ids once.
typedef struct {
    int64_t n_outside, largest;
    int64_t number, at, id; // the first one outside of the vocabulary
} survey;

// The ids [first, first + n) of a shard, n at most PIECE_IDS. One outside the vocabulary is refused, or surveyed.
static sm_status read_shard(const sm_tokens *tokens, int64_t number, int64_t first, int64_t n, int32_t *ids,
                            survey *s) {
    uint8_t bytes[MAX_ID_BYTES * PIECE_IDS];
    const sm_id_layout *layout = &tokens->shards[number].layout;
    const int64_t offset = layout->offset_bytes + first * layout->id_bytes;
    if (tokens->memory != NULL) {
        copy_memory(tokens, offset, n * layout->id_bytes, bytes);
    } else {
        SM_CLOSED int opened = -1;
        int64_t size_bytes;
        const int fd = tokens->shards[number].fd;
        SM_TRY(fd < 0 ? sm_input_open(tokens->files.paths[number], &opened, &size_bytes) : SM_OK);
        SM_TRY(sm_data_files_read(&tokens->files, number, fd < 0 ? opened : fd, offset, bytes,
                                  (size_t)(n * layout->id_bytes)));
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = id_at(bytes + i * layout->id_bytes, layout);
        const bool is_outside = id < 0 || id >= tokens->vocab || id > INT32_MAX;
        if (is_outside && s == NULL) {
            return refuse_id(tokens, number, first + i, id, id);
        }
        if (is_outside && s->n_outside++ == 0) {
            s->number = number;
            s->at = first + i;
            s->id = id;
        }
        if (s != NULL) {
            s->largest = id > s->largest ? id : s->largest;
        } else {
            ids[i] = (int32_t)id;
        }
    }
    return SM_OK;
}

// The ids [first, first + n) of the stream, n at most PIECE_IDS.
static sm_status read_stored(const sm_tokens *tokens, int64_t first, int64_t n, int32_t *ids) {
    int64_t number = sm_find_last(tokens->shards, sizeof *tokens->shards, tokens->n_shards, first);
    for (int64_t part; n > 0; number++, first += part, ids += part, n -= part) {
        const int64_t end = number + 1 < tokens->n_shards ? tokens->shards[number + 1].first : tokens->count;
        part = end - first < n ? end - first : n;
        SM_TRY(read_shard(tokens, number, first - tokens->shards[number].first, part, ids, NULL));
    }
    return SM_OK;
}

// `cost` may be NULL.
static sm_status read_ids(const sm_tokens *tokens, int64_t first, int64_t n, int32_t *ids, sm_tokens_cost *cost) {
    sm_tokens_cost unasked = {0};
    cost = cost != NULL ? cost : &unasked;
    if (tokens->maker.read != NULL) {
        return tokens->maker.read(tokens->maker.ctx, first, n, ids, cost);
    }
    const int64_t start_ns = sm_now_ns();
    const sm_status status = read_stored(tokens, first, n, ids);
    cost->read_ns += sm_now_ns() - start_ns;
    return status;
}

// ---- opening ----

static sm_status set_raw(const char *path, int64_t size_bytes, int64_t id_bytes, sm_id_layout *layout) {
    *layout = (sm_id_layout){.count = size_bytes / id_bytes, .id_bytes = id_bytes, .is_signed = id_bytes == 8};
    SM_FAIL_IF(size_bytes % id_bytes != 0, SM_ERR_FORMAT, "%s: %lld bytes%s cannot be %lld-bit tokens", path,
               (long long)size_bytes, id_bytes == 2 ? ", an odd number," : "", (long long)(8 * id_bytes));
    return SM_OK;
}

// Finds the ids' place and count.
static sm_status parse(const sm_tokens *tokens, int64_t number, int fd, int64_t size_bytes, sm_id_layout *layout) {
    uint8_t head[SM_DATA_HEAD_BYTES];
    const char *path = tokens->files.paths[number];
    const size_t n = size_bytes < SM_DATA_HEAD_BYTES ? (size_t)size_bytes : SM_DATA_HEAD_BYTES;
    switch (tokens->format) {
    case SM_TOKENS_UINT16: return set_raw(path, size_bytes, 2, layout);
    case SM_TOKENS_UINT32: return set_raw(path, size_bytes, 4, layout);
    case SM_TOKENS_INT64: return set_raw(path, size_bytes, 8, layout);
    case SM_TOKENS_LLMC:
    case SM_TOKENS_NPY:
        SM_TRY(sm_input_read(fd, path, 0, head, n));
        return (tokens->format == SM_TOKENS_NPY ? sm_npy_parse : sm_llmc_parse)(path, head, n, size_bytes, layout);
    default: return set_raw(path, sm_data_files_bytes(&tokens->files, number), 1, layout);
    }
}

static sm_status open_shard(sm_tokens *tokens, int64_t number) {
    shard *s = &tokens->shards[tokens->n_shards++];
    int64_t size_bytes;
    s->fd = -1;
    s->first = tokens->count;
    SM_FAIL_IF(tokens->files.paths[number] == NULL, SM_ERR_USAGE,
               "-: data are read repeatedly, which stdin does not allow; give a file");
    SM_TRY(sm_input_open(tokens->files.paths[number], &s->fd, &size_bytes));
    SM_TRY(size_bytes > 0 ? parse(tokens, number, s->fd, size_bytes, &s->layout) : SM_OK);
    tokens->count += s->layout.count;
    if (number >= MOST_OPEN) {
        sm_close_at(&s->fd);
    }
    return SM_OK;
}

// Reads all ids, unless their width keeps them within the vocabulary.
static sm_status check_ids(const sm_tokens *tokens) {
    survey s = {0};
    SM_FAIL_IF(tokens->count == 0, SM_ERR_FORMAT, "%s: empty, no tokens", tokens->path);
    for (int64_t number = 0; number < tokens->n_shards; number++) {
        const sm_id_layout *layout = &tokens->shards[number].layout;
        const bool may_differ =
            layout->is_signed || layout->id_bytes > 2 || (int64_t)1 << (8 * layout->id_bytes) > tokens->vocab;
        for (int64_t first = 0; first < layout->count && may_differ; first += PIECE_IDS) {
            const int64_t left = layout->count - first;
            SM_TRY(read_shard(tokens, number, first, left < PIECE_IDS ? left : PIECE_IDS, NULL, &s));
        }
    }
    return s.n_outside == 0 ? SM_OK : refuse_id(tokens, s.number, s.at, s.id, s.largest);
}

static sm_tokens *tokens_new(const char *path, sm_tokens_format format, int64_t vocab) {
    sm_tokens *t = sm_calloc(1, sizeof *t);
    t->path = sm_strdup(path);
    t->format = format;
    t->vocab = vocab;
    return t;
}

sm_status sm_tokens_open(const char *path, sm_tokens_format format, int64_t vocab, sm_tokens **tokens) {
    SM_OWN(sm_tokens) *t = tokens_new(path, format, vocab);
    *tokens = NULL;
    SM_TRY(sm_data_files_open((char *const *)&path, 1, format, &t->files));
    t->format = t->files.format;
    SM_FAIL_IF(t->files.n_files == 0, SM_ERR_IO, "%s: no file is in it; give one with text, or with tokens (train.bin)",
               path);
    t->shards = sm_calloc((size_t)t->files.n_files, sizeof *t->shards);
    for (int64_t i = 0; i < t->files.n_files; i++) {
        SM_TRY(open_shard(t, i));
    }
    SM_TRY(check_ids(t));
    *tokens = sm_give(&t);
    return SM_OK;
}

sm_status sm_tokens_from_bytes(const uint8_t *data, size_t size_bytes, int64_t vocab, sm_tokens **tokens) {
    SM_OWN(sm_tokens) *t = tokens_new("built-in text", SM_TOKENS_BYTES, vocab);
    *tokens = NULL;
    t->memory = data;
    t->memory_bytes = t->count = (int64_t)size_bytes;
    t->shards = sm_calloc(1, sizeof *t->shards);
    t->shards[t->n_shards++] = (shard){.fd = -1, .layout = {.count = t->count, .id_bytes = 1}};
    SM_TRY(check_ids(t));
    *tokens = sm_give(&t);
    return SM_OK;
}

sm_status sm_tokens_embedded(int64_t vocab, sm_tokens **tokens) {
    const sm_embedded *text = sm_embedded_find(SM_EMBEDDED_TEXT);
    SM_TRY(sm_tokens_from_bytes((const uint8_t *)text->text, text->size_bytes, vocab, tokens));
    (*tokens)->count = EMBEDDED_TOKENS;
    return SM_OK;
}

void sm_tokens_made(const char *name, int64_t count, const sm_tokens_maker *maker, sm_tokens **tokens) {
    *tokens = tokens_new(name, SM_TOKENS_BYTES, INT32_MAX);
    (*tokens)->maker = *maker;
    (*tokens)->count = count;
}

void sm_tokens_close(sm_tokens *tokens) {
    if (tokens == NULL) {
        return;
    }
    if (tokens->maker.close != NULL) {
        tokens->maker.close(tokens->maker.ctx);
    }
    for (int64_t i = 0; i < tokens->n_shards; i++) {
        sm_close_at(&tokens->shards[i].fd);
    }
    free(tokens->shards);
    sm_data_files_free(&tokens->files);
    free(tokens->path);
    free(tokens);
}

int64_t sm_tokens_count(const sm_tokens *tokens) { return tokens->count; }

sm_tokens_format sm_tokens_format_of(const sm_tokens *tokens) { return tokens->format; }

sm_status sm_tokens_read(const sm_tokens *tokens, int64_t first, int64_t n, int32_t *ids) {
    return sm_tokens_read_timed(tokens, first, n, ids, NULL);
}

sm_status sm_tokens_read_timed(const sm_tokens *tokens, int64_t first, int64_t n, int32_t *ids, sm_tokens_cost *cost) {
    SM_FAIL_IF(first < 0 || n < 0 || first > tokens->count || n > tokens->count - first, SM_ERR_INVALID,
               "%s: %lld tokens from %lld on: it has %lld", tokens->path, (long long)n, (long long)first,
               (long long)tokens->count);
    for (int64_t done = 0; done < n; done += PIECE_IDS) {
        SM_TRY(read_ids(tokens, first + done, n - done < PIECE_IDS ? n - done : PIECE_IDS, ids + done, cost));
    }
    return SM_OK;
}

sm_status sm_tokens_batch(const sm_tokens *tokens, int64_t i, int64_t B, int64_t T, int32_t *inputs, int32_t *targets) {
    int64_t n;
    SM_FAIL_IF(i < 0 || B < 1 || T < 1 || __builtin_mul_overflow(B, T, &n), SM_ERR_INVALID,
               "batch %lld of %lld x %lld tokens: out of range", (long long)i, (long long)B, (long long)T);
    int64_t n_batches = (tokens->count - 1) / n;
    SM_FAIL_IF(n_batches == 0, SM_ERR_INVALID,
               "%s: %lld tokens are too few for one batch of %lld x %lld, which needs %lld + 1", tokens->path,
               (long long)tokens->count, (long long)B, (long long)T, (long long)n);
    SM_FREED int32_t *ids = sm_malloc((size_t)(n + 1) * sizeof *ids);
    SM_TRY(sm_tokens_read(tokens, i % n_batches * n, n + 1, ids));
    memcpy(inputs, ids, (size_t)n * sizeof *ids);
    memcpy(targets, ids + 1, (size_t)n * sizeof *ids);
    return SM_OK;
}
