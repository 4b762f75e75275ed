// tokens.c: map, find out the format, check all ids once; batches are then plain copies.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "input_file.h"
#include "tokens.h"

enum { LLMC_MAGIC = 20240520, LLMC_VERSION = 1, LLMC_HEADER_BYTES = 256 * 4 };

struct sm_tokens {
    char *path; // for messages
    void *map;  // NULL: `data` is the caller's
    size_t map_bytes;
    const uint8_t *data; // the first id
    int64_t count;
    sm_tokens_format format;
};

static const char *const format_names[] = {
#define X(code, name) [code] = name,
    SM_TOKENS_FORMAT_LIST(X)
#undef X
};

enum { N_FORMATS = sizeof format_names / sizeof format_names[0] };

const char *sm_tokens_format_name(sm_tokens_format format) { return format_names[format]; }

bool sm_tokens_format_parse(const char *name, sm_tokens_format *format) {
    for (int i = 0; i < N_FORMATS; i++) {
        if (strcmp(name, format_names[i]) == 0) {
            *format = (sm_tokens_format)i;
            return true;
        }
    }
    return false;
}

static int32_t word_at(const uint8_t *bytes, int index) {
    const uint8_t *b = bytes + 4 * index;
    return (int32_t)((uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24);
}

static int32_t uint16_at(const uint8_t *bytes, int64_t index) { return bytes[2 * index] | bytes[2 * index + 1] << 8; }

static int32_t id_at(const sm_tokens *tokens, int64_t index) {
    return tokens->format == SM_TOKENS_BYTES ? tokens->data[index] : uint16_at(tokens->data, index);
}

static sm_tokens_format detect(const char *path, const uint8_t *bytes, size_t size_bytes) {
    size_t length = strlen(path);
    if (size_bytes >= 4 && word_at(bytes, 0) == LLMC_MAGIC) {
        return SM_TOKENS_LLMC;
    }
    return length >= 4 && strcmp(path + length - 4, ".bin") == 0 ? SM_TOKENS_UINT16 : SM_TOKENS_BYTES;
}

static sm_status parse_uint16(sm_tokens *tokens, const uint8_t *bytes, size_t size_bytes) {
    if (size_bytes % 2 != 0) {
        return sm_fail(SM_ERR_FORMAT, "%s: %zu bytes, an odd number, cannot be 16-bit tokens", tokens->path,
                       size_bytes);
    }
    tokens->data = bytes;
    tokens->count = (int64_t)(size_bytes / 2);
    return SM_OK;
}

static sm_status parse_llmc(sm_tokens *tokens, const uint8_t *bytes, size_t size_bytes) {
    if (size_bytes < LLMC_HEADER_BYTES || word_at(bytes, 0) != LLMC_MAGIC) {
        return sm_fail(SM_ERR_FORMAT, "%s: does not begin with llm.c's header of %d bytes, magic number %d",
                       tokens->path, LLMC_HEADER_BYTES, LLMC_MAGIC);
    }
    if (word_at(bytes, 1) != LLMC_VERSION) {
        return sm_fail(SM_ERR_UNSUPPORTED, "%s: version %d of llm.c's format; only %d, 16-bit ids, is supported",
                       tokens->path, word_at(bytes, 1), LLMC_VERSION);
    }
    int64_t told = word_at(bytes, 2);
    if (told < 0 || (size_t)told * 2 != size_bytes - LLMC_HEADER_BYTES) {
        return sm_fail(SM_ERR_FORMAT, "%s: its header tells of %lld tokens, but %zu bytes follow it", tokens->path,
                       (long long)told, size_bytes - LLMC_HEADER_BYTES);
    }
    return parse_uint16(tokens, bytes + LLMC_HEADER_BYTES, size_bytes - LLMC_HEADER_BYTES);
}

// Sets data and count from the whole of a file, whose format is known.
static sm_status parse(sm_tokens *tokens, const uint8_t *bytes, size_t size_bytes) {
    tokens->data = bytes;
    tokens->count = (int64_t)size_bytes;
    if (tokens->format == SM_TOKENS_LLMC) {
        SM_TRY(parse_llmc(tokens, bytes, size_bytes));
    } else if (tokens->format == SM_TOKENS_UINT16) {
        SM_TRY(parse_uint16(tokens, bytes, size_bytes));
    }
    if (tokens->count == 0) {
        return sm_fail(SM_ERR_FORMAT, "%s: empty, no tokens", tokens->path);
    }
    return SM_OK;
}

static sm_status check_ids(const sm_tokens *tokens, int64_t vocab) {
    int64_t most = tokens->format == SM_TOKENS_BYTES ? UINT8_MAX : UINT16_MAX;
    if (most < vocab) {
        return SM_OK; // no id can be too large
    }
    for (int64_t i = 0; i < tokens->count; i++) {
        if (id_at(tokens, i) >= vocab) {
            return sm_fail(SM_ERR_INVALID, "%s: token %lld (%s) is %d, outside the vocabulary of %lld", tokens->path,
                           (long long)i, format_names[tokens->format], id_at(tokens, i), (long long)vocab);
        }
    }
    return SM_OK;
}

static sm_tokens *tokens_new(const char *path, sm_tokens_format format) {
    sm_tokens *tokens = calloc(1, sizeof *tokens);
    if (tokens == NULL || (tokens->path = strdup(path)) == NULL) {
        free(tokens);
        sm_fail(SM_ERR_OOM, "%s: no memory to open it", path);
        return NULL;
    }
    tokens->format = format;
    return tokens;
}

static sm_status map_file(sm_tokens *tokens) {
    int fd;
    int64_t size_bytes;
    SM_TRY(sm_input_open(tokens->path, &fd, &size_bytes));
    if (size_bytes == 0) {
        close(fd);
        return sm_fail(SM_ERR_FORMAT, "%s: empty, no tokens", tokens->path);
    }
    void *map = mmap(NULL, (size_t)size_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    close(fd);
    if (map == MAP_FAILED) {
        return sm_fail(SM_ERR_IO, "%s: cannot map its %lld bytes: %s", tokens->path, (long long)size_bytes,
                       strerror(error));
    }
    tokens->map = map;
    tokens->map_bytes = (size_t)size_bytes;
    return SM_OK;
}

sm_status sm_tokens_open(const char *path, sm_tokens_format format, int64_t vocab, sm_tokens **tokens) {
    sm_status status;
    *tokens = NULL;
    sm_tokens *t = tokens_new(path, format);
    if (t == NULL) {
        return SM_ERR_OOM;
    }
    SM_TRY_GOTO(map_file(t));
    if (format == SM_TOKENS_AUTO) {
        t->format = detect(path, t->map, t->map_bytes);
    }
    SM_TRY_GOTO(parse(t, t->map, t->map_bytes));
    SM_TRY_GOTO(check_ids(t, vocab));
    *tokens = t;
    return SM_OK;

cleanup:
    sm_tokens_close(t);
    return status;
}

sm_status sm_tokens_from_bytes(const uint8_t *data, size_t size_bytes, int64_t vocab, sm_tokens **tokens) {
    sm_status status;
    *tokens = NULL;
    sm_tokens *t = tokens_new("built-in text", SM_TOKENS_BYTES);
    if (t == NULL) {
        return SM_ERR_OOM;
    }
    SM_TRY_GOTO(parse(t, data, size_bytes));
    SM_TRY_GOTO(check_ids(t, vocab));
    *tokens = t;
    return SM_OK;

cleanup:
    sm_tokens_close(t);
    return status;
}

void sm_tokens_close(sm_tokens *tokens) {
    if (tokens == NULL) {
        return;
    }
    if (tokens->map != NULL) {
        munmap(tokens->map, tokens->map_bytes);
    }
    free(tokens->path);
    free(tokens);
}

int64_t sm_tokens_count(const sm_tokens *tokens) { return tokens->count; }

sm_tokens_format sm_tokens_format_of(const sm_tokens *tokens) { return tokens->format; }

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
    for (int64_t k = 0; k < n; k++) {
        inputs[k] = id_at(tokens, start + k);
        targets[k] = id_at(tokens, start + k + 1);
    }
    return SM_OK;
}
