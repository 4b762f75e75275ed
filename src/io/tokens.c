// tokens.c: finds the format and checks all ids once; each batch is read and checked again, since the file may have
// changed.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "embedded.h"
#include "src/io/input_file.h"
#include "src/io/tokens.h"

enum { HEAD_WORDS = 4, PIECE_IDS = 8192, MAX_ID_BYTES = 4, EMBEDDED_TOKENS = 1 << 23 };

struct sm_tokens {
    char *path;            // for messages
    int fd;                // -1: the ids are in `memory`
    const uint8_t *memory; // owned by the caller
    int64_t memory_bytes;  // the ids start again after it, if `count` is larger
    sm_tokens_maker maker; // makes ids on request; read NULL: file or memory has them
    int64_t offset_bytes;  // offset of the first id in the file or memory
    int64_t count;
    int64_t vocab;
    int64_t id_bytes; // 1, 2 or 4
    sm_tokens_format format;
};

// llm.c's header: magic number, version, count (low and high word), zeros. The magic number implies the width of ids.
static const struct {
    int32_t magic;
    int32_t version;
    int64_t id_bytes;
} llmc_variants[] = {{20240520, 1, 2}, {20240801, 7, 4}};

enum { N_LLMC_VARIANTS = sizeof llmc_variants / sizeof llmc_variants[0] };

static const char *const format_names[] = {
#define X(code, name) [code] = name,
    SM_TOKENS_FORMAT_LIST(X)
#undef X
};

const char *sm_tokens_format_name(sm_tokens_format format) { return format_names[format]; }

static int32_t word_at(const uint8_t *bytes, int index) {
    const uint8_t *b = bytes + 4 * index;
    return (int32_t)((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
}

// Index of the variant of llm.c's format with these first bytes, or -1.
static int llmc_variant(const uint8_t *head) {
    for (int i = 0; i < N_LLMC_VARIANTS; i++) {
        if (word_at(head, 0) == llmc_variants[i].magic) {
            return i;
        }
    }
    return -1;
}

static sm_tokens_format detect(const char *path, const uint8_t *head, int64_t size_bytes) {
    size_t length = strlen(path);
    if (size_bytes >= 4 && llmc_variant(head) >= 0) {
        return SM_TOKENS_LLMC;
    }
    return length >= 4 && strcmp(path + length - 4, ".bin") == 0 ? SM_TOKENS_UINT16 : SM_TOKENS_BYTES;
}

// ---- reading ----

static uint32_t id_at(const uint8_t *bytes, int64_t id_bytes) {
    switch (id_bytes) {
    case 1: return bytes[0];
    case 2: return (uint32_t)(bytes[0] | bytes[1] << 8);
    default: return (uint32_t)word_at(bytes, 0);
    }
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

// The ids [first, first + n), n at most PIECE_IDS, as the file has them now.
static sm_status read_stored(const sm_tokens *tokens, int64_t first, int64_t n, int32_t *ids) {
    uint8_t bytes[MAX_ID_BYTES * PIECE_IDS];
    const int64_t id_bytes = tokens->id_bytes;
    int64_t offset = tokens->offset_bytes + first * id_bytes;
    if (tokens->fd < 0) {
        copy_memory(tokens, offset, n * id_bytes, bytes);
    } else {
        SM_TRY(sm_input_read(tokens->fd, tokens->path, offset, bytes, (size_t)(n * id_bytes)));
    }
    for (int64_t i = 0; i < n; i++) {
        const uint32_t id = id_at(bytes + i * id_bytes, id_bytes);
        if (id >= tokens->vocab || id > INT32_MAX) {
            return sm_fail(SM_ERR_INVALID, "%s: token %lld (%s) is %u, outside the vocabulary of %lld", tokens->path,
                           (long long)(first + i), format_names[tokens->format], id, (long long)tokens->vocab);
        }
        ids[i] = (int32_t)id;
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

static sm_status set_ids(sm_tokens *tokens, int64_t offset_bytes, int64_t size_bytes, int64_t id_bytes) {
    if (size_bytes % id_bytes != 0) {
        return sm_fail(SM_ERR_FORMAT, "%s: %lld bytes%s cannot be %lld-bit tokens", tokens->path, (long long)size_bytes,
                       id_bytes == 2 ? ", an odd number," : "", (long long)(8 * id_bytes));
    }
    tokens->offset_bytes = offset_bytes;
    tokens->id_bytes = id_bytes;
    tokens->count = size_bytes / id_bytes;
    return SM_OK;
}

static sm_status parse_llmc(sm_tokens *tokens, const uint8_t *head, int64_t size_bytes) {
    const int variant = llmc_variant(head);
    if (size_bytes < SM_LLMC_HEADER_BYTES || variant < 0) {
        return sm_fail(SM_ERR_FORMAT, "%s: does not begin with llm.c's header of %d bytes, magic number %d or %d",
                       tokens->path, SM_LLMC_HEADER_BYTES, llmc_variants[0].magic, llmc_variants[1].magic);
    }
    if (word_at(head, 1) != llmc_variants[variant].version) {
        return sm_fail(SM_ERR_UNSUPPORTED,
                       "%s: version %d of llm.c's format; with magic number %d only %d is supported", tokens->path,
                       word_at(head, 1), llmc_variants[variant].magic, llmc_variants[variant].version);
    }
    const int64_t told = (int64_t)((uint64_t)(uint32_t)word_at(head, 3) << 32 | (uint32_t)word_at(head, 2));
    const int64_t found_bytes = size_bytes - SM_LLMC_HEADER_BYTES;
    const int64_t id_bytes = llmc_variants[variant].id_bytes;
    if (told != found_bytes / id_bytes || found_bytes % id_bytes != 0) {
        return sm_fail(SM_ERR_FORMAT, "%s: its header tells of %lld tokens, but %lld bytes follow it", tokens->path,
                       (long long)told, (long long)found_bytes);
    }
    return set_ids(tokens, SM_LLMC_HEADER_BYTES, found_bytes, id_bytes);
}

// Sets the ids' place and count, from the format, the first bytes and the total size.
static sm_status parse(sm_tokens *tokens, const uint8_t *head, int64_t size_bytes) {
    if (tokens->format == SM_TOKENS_LLMC) {
        SM_TRY(parse_llmc(tokens, head, size_bytes));
    } else {
        SM_TRY(set_ids(tokens, 0, size_bytes, tokens->format == SM_TOKENS_UINT16 ? 2 : 1));
    }
    if (tokens->count == 0) {
        return sm_fail(SM_ERR_FORMAT, "%s: empty, no tokens", tokens->path);
    }
    return SM_OK;
}

static sm_status check_ids(const sm_tokens *tokens) {
    int32_t ids[PIECE_IDS];
    if (tokens->id_bytes < MAX_ID_BYTES && (int64_t)1 << (8 * tokens->id_bytes) <= tokens->vocab) {
        return SM_OK; // all ids are below the vocabulary
    }
    for (int64_t first = 0; first < tokens->count; first += PIECE_IDS) {
        int64_t left = tokens->count - first;
        SM_TRY(read_ids(tokens, first, left < PIECE_IDS ? left : PIECE_IDS, ids, NULL));
    }
    return SM_OK;
}

static sm_status tokens_new(const char *path, sm_tokens_format format, int64_t vocab, sm_tokens **tokens) {
    sm_tokens *t = calloc(1, sizeof *t);
    if (t == NULL || (t->path = strdup(path)) == NULL) {
        free(t);
        return sm_fail(SM_ERR_OOM, "%s: no memory to open it", path);
    }
    t->fd = -1;
    t->format = format;
    t->vocab = vocab;
    *tokens = t;
    return SM_OK;
}

sm_status sm_tokens_open(const char *path, sm_tokens_format format, int64_t vocab, sm_tokens **tokens) {
    sm_status status;
    sm_tokens *t;
    int64_t size_bytes;
    uint8_t head[4 * HEAD_WORDS] = {0};
    *tokens = NULL;
    SM_TRY(tokens_new(path, format, vocab, &t));
    SM_TRY_GOTO(sm_input_open(path, &t->fd, &size_bytes));
    size_t head_bytes = size_bytes < (int64_t)sizeof head ? (size_t)size_bytes : sizeof head;
    SM_TRY_GOTO(sm_input_read(t->fd, path, 0, head, head_bytes));
    if (format == SM_TOKENS_AUTO) {
        t->format = detect(path, head, size_bytes);
    }
    SM_TRY_GOTO(size_bytes > 0 ? parse(t, head, size_bytes) : sm_fail(SM_ERR_FORMAT, "%s: empty, no tokens", path));
    SM_TRY_GOTO(check_ids(t));
    *tokens = t;
    return SM_OK;

cleanup:
    sm_tokens_close(t);
    return status;
}

sm_status sm_tokens_from_bytes(const uint8_t *data, size_t size_bytes, int64_t vocab, sm_tokens **tokens) {
    sm_status status;
    sm_tokens *t;
    *tokens = NULL;
    SM_TRY(tokens_new("built-in text", SM_TOKENS_BYTES, vocab, &t));
    t->memory = data;
    t->memory_bytes = (int64_t)size_bytes;
    SM_TRY_GOTO(parse(t, data, (int64_t)size_bytes));
    SM_TRY_GOTO(check_ids(t));
    *tokens = t;
    return SM_OK;

cleanup:
    sm_tokens_close(t);
    return status;
}

sm_status sm_tokens_embedded(int64_t vocab, sm_tokens **tokens) {
    const sm_embedded *text = sm_embedded_find(SM_EMBEDDED_TEXT);
    SM_TRY(sm_tokens_from_bytes((const uint8_t *)text->text, text->size_bytes, vocab, tokens));
    (*tokens)->count = EMBEDDED_TOKENS;
    return SM_OK;
}

sm_status sm_tokens_made(const char *name, int64_t count, const sm_tokens_maker *maker, sm_tokens **tokens) {
    sm_status status = tokens_new(name, SM_TOKENS_BYTES, INT32_MAX, tokens);
    if (status != SM_OK) {
        maker->close(maker->ctx);
        *tokens = NULL;
        return status;
    }
    (*tokens)->maker = *maker;
    (*tokens)->count = count;
    return SM_OK;
}

void sm_tokens_close(sm_tokens *tokens) {
    if (tokens == NULL) {
        return;
    }
    if (tokens->maker.close != NULL) {
        tokens->maker.close(tokens->maker.ctx);
    }
    if (tokens->fd >= 0) {
        close(tokens->fd);
    }
    free(tokens->path);
    free(tokens);
}

void sm_llmc_header(int64_t id_bytes, int64_t count, uint8_t header[SM_LLMC_HEADER_BYTES]) {
    const int variant = id_bytes == 2 ? 0 : 1;
    const uint64_t n = (uint64_t)count;
    const uint32_t words[HEAD_WORDS] = {(uint32_t)llmc_variants[variant].magic,
                                        (uint32_t)llmc_variants[variant].version, (uint32_t)n, (uint32_t)(n >> 32)};
    memset(header, 0, SM_LLMC_HEADER_BYTES);
    for (int i = 0; i < 4 * HEAD_WORDS; i++) {
        header[i] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
    }
}

int64_t sm_tokens_count(const sm_tokens *tokens) { return tokens->count; }

sm_tokens_format sm_tokens_format_of(const sm_tokens *tokens) { return tokens->format; }

sm_status sm_tokens_read(const sm_tokens *tokens, int64_t first, int64_t n, int32_t *ids) {
    return sm_tokens_read_timed(tokens, first, n, ids, NULL);
}

sm_status sm_tokens_read_timed(const sm_tokens *tokens, int64_t first, int64_t n, int32_t *ids, sm_tokens_cost *cost) {
    if (first < 0 || n < 0 || first > tokens->count || n > tokens->count - first) {
        return sm_fail(SM_ERR_INVALID, "%s: %lld tokens from %lld on: it has %lld", tokens->path, (long long)n,
                       (long long)first, (long long)tokens->count);
    }
    for (int64_t done = 0; done < n; done += PIECE_IDS) {
        SM_TRY(read_ids(tokens, first + done, n - done < PIECE_IDS ? n - done : PIECE_IDS, ids + done, cost));
    }
    return SM_OK;
}

sm_status sm_tokens_batch(const sm_tokens *tokens, int64_t i, int64_t B, int64_t T, int32_t *inputs, int32_t *targets) {
    int64_t n;
    if (i < 0 || B < 1 || T < 1 || __builtin_mul_overflow(B, T, &n)) {
        return sm_fail(SM_ERR_INVALID, "batch %lld of %lld x %lld tokens: out of range", (long long)i, (long long)B,
                       (long long)T);
    }
    int64_t n_batches = (tokens->count - 1) / n;
    if (n_batches == 0) {
        return sm_fail(SM_ERR_INVALID, "%s: %lld tokens are too few for one batch of %lld x %lld, which needs %lld + 1",
                       tokens->path, (long long)tokens->count, (long long)B, (long long)T, (long long)n);
    }
    int64_t start = i % n_batches * n;
    for (int64_t first = 0; first <= n; first += PIECE_IDS) {
        int32_t ids[PIECE_IDS];
        int64_t n_ids = n + 1 - first < PIECE_IDS ? n + 1 - first : PIECE_IDS;
        SM_TRY(read_ids(tokens, start + first, n_ids, ids, NULL));
        for (int64_t k = 0; k < n_ids; k++) { // token first + k is an input, and the target of the input before it
            if (first + k < n) {
                inputs[first + k] = ids[k];
            }
            if (first + k > 0) {
                targets[first + k - 1] = ids[k];
            }
        }
    }
    return SM_OK;
}
