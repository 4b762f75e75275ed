// text_tokens.c: an index of pieces, and readers that encode them, and keep the last: consecutive rows share one.
#include "src/text/tokenize.h"

#include <pthread.h>

#include "clock.h"
#include "src/io/input_file.h"
#include "src/tokenizer/encoder.h"
#include "src/tokenizer/text_source.h"

enum { PIECE_BYTES = 4096 };

typedef struct {
    int64_t first_token; // in the stream
    int64_t file;        // its file
    int64_t at_bytes;    // and its offset there
    int64_t n_bytes;
    bool ends_document; // a separator follows it
} piece;

typedef struct reader {
    sm_encoder *encoder;
    int fd;       // the file that was read last; -1: none
    int64_t file; // its index
    uint8_t *text;
    size_t capacity;
    sm_ids ids; // of the last piece
    int64_t piece;
    struct reader *next;
} reader;

typedef struct {
    char *path; // of the file or folder
    sm_data_files files;
    sm_tokenizer *tokenizer;
    piece *pieces; // and one end marker
    int64_t n;
    int64_t capacity;
    pthread_mutex_t lock; // protects the members below
    reader *idle;
} text_tokens;

// --- readers -------------------------------------------------------------------------------

static void free_reader(reader *r) {
    sm_close_at(&r->fd);
    sm_encoder_free(r->encoder);
    free(r->text);
    free(r->ids.ids);
    free(r);
}

static sm_status take_reader(text_tokens *t, reader **taken) {
    pthread_mutex_lock(&t->lock);
    reader *r = t->idle;
    t->idle = r != NULL ? r->next : NULL;
    pthread_mutex_unlock(&t->lock);
    if (r == NULL) {
        sm_encoder *encoder;
        SM_TRY(sm_encoder_new(t->tokenizer, &encoder));
        r = sm_calloc(1, sizeof *r);
        *r = (reader){.encoder = encoder, .piece = -1, .fd = -1};
    }
    *taken = r;
    return SM_OK;
}

static void give_back(text_tokens *t, reader *r) {
    pthread_mutex_lock(&t->lock);
    r->next = t->idle;
    t->idle = r;
    pthread_mutex_unlock(&t->lock);
}

// --- a piece -------------------------------------------------------------------------------

static sm_status encode(const text_tokens *t, reader *r, const uint8_t *text, const piece *p) {
    r->ids.n = 0;
    SM_TRY(sm_encoder_encode(r->encoder, text, (size_t)p->n_bytes, &r->ids));
    if (p->ends_document && t->tokenizer->end_of_text != SM_NO_ID) {
        sm_ids_append(&r->ids, t->tokenizer->end_of_text);
    }
    return SM_OK;
}

static sm_status read_piece(const text_tokens *t, reader *r, int64_t number, sm_tokens_cost *cost) {
    const piece *p = &t->pieces[number];
    const size_t n_bytes = (size_t)p->n_bytes;
    if (r->piece == number) {
        return SM_OK;
    }
    r->piece = -1;
    const int64_t start_ns = sm_now_ns();
    if (n_bytes > r->capacity) {
        r->text = sm_realloc(r->text, n_bytes);
        r->capacity = n_bytes;
    }
    if (r->fd < 0 || r->file != p->file) {
        int64_t size_bytes;
        sm_close_at(&r->fd);
        SM_TRY(sm_input_open(t->files.paths[p->file], &r->fd, &size_bytes));
        r->file = p->file;
    }
    SM_TRY(sm_data_files_read(&t->files, p->file, r->fd, p->at_bytes, r->text, n_bytes));
    const int64_t read_ns = sm_now_ns();
    SM_TRY(encode(t, r, r->text, p));
    cost->read_ns += read_ns - start_ns;
    cost->tokenise_ns += sm_now_ns() - read_ns;
    SM_FAIL_IF((int64_t)r->ids.n != p[1].first_token - p->first_token, SM_ERR_INVALID,
               "%s: the text at byte %lld has changed since it was opened; do not change files during training",
               t->files.paths[p->file], (long long)p->at_bytes);
    r->piece = number;
    return SM_OK;
}

static sm_status read_pieces(const text_tokens *t, reader *r, int64_t first, int64_t n, int32_t *ids,
                             sm_tokens_cost *cost) {
    // Pieces without tokens are not in the index.
    for (int64_t number = sm_find_last(t->pieces, sizeof *t->pieces, t->n, first); n > 0; number++) {
        SM_TRY(read_piece(t, r, number, cost));
        const int64_t skipped = first - t->pieces[number].first_token;
        const int64_t left = (int64_t)r->ids.n - skipped;
        const int64_t taken = left < n ? left : n;
        memcpy(ids, r->ids.ids + skipped, (size_t)taken * sizeof *ids);
        ids += taken;
        first += taken;
        n -= taken;
    }
    return SM_OK;
}

static sm_status read_tokens(void *ctx, int64_t first, int64_t n, int32_t *ids, sm_tokens_cost *cost) {
    text_tokens *t = ctx;
    reader *r;
    SM_TRY(take_reader(t, &r));
    const sm_status status = read_pieces(t, r, first, n, ids, cost);
    give_back(t, r);
    return status;
}

// --- the index -----------------------------------------------------------------------------

// The length of the first piece of a text: up to the last place to cut within PIECE_BYTES, or twice that, and so on.
static size_t cut(const sm_tokenizer *tokenizer, const uint8_t *text, size_t n) {
    size_t at = n > PIECE_BYTES ? sm_encoder_part(tokenizer, text, PIECE_BYTES, 1) : 0;
    for (size_t end = 2 * PIECE_BYTES; at == 0 && end < n; end *= 2) {
        at = sm_encoder_part(tokenizer, text, end, end / 2);
    }
    return at > 0 ? at : n;
}

// Counts the tokens of a part, piece by piece.
static sm_status index_part(text_tokens *t, reader *r, const uint8_t *text, const sm_text_part *part,
                            int64_t *n_tokens) {
    size_t done = 0;
    do { // a part without bytes may end a document
        const size_t n = cut(t->tokenizer, text + done, part->n_bytes - done);
        const piece p = {.first_token = *n_tokens,
                         .file = part->file,
                         .at_bytes = part->at_bytes + (int64_t)done,
                         .n_bytes = (int64_t)n,
                         .ends_document = part->ends_document && done + n == part->n_bytes};
        SM_TRY(encode(t, r, text + done, &p));
        *n_tokens += (int64_t)r->ids.n;
        if (r->ids.n > 0) {
            SM_GROW(t->pieces, t->n, t->capacity);
            t->pieces[t->n++] = p;
        }
        done += n;
    } while (done < part->n_bytes);
    return SM_OK;
}

static sm_status index_blocks(text_tokens *t, reader *r, int64_t *n_tokens) {
    SM_OWN(sm_text_source) *source = sm_text_source_open(&t->files, t->tokenizer, NULL, NULL);
    SM_AT_END(sm_text_block_free) sm_text_block block = {0};
    for (;;) {
        SM_TRY(sm_text_source_next(source, &block));
        if (block.n_parts == 0) {
            return SM_OK;
        }
        for (size_t i = 0; i < block.n_parts; i++) {
            SM_TRY(index_part(t, r, block.text + block.parts[i].offset, &block.parts[i], n_tokens));
        }
    }
}

static sm_status make_index(text_tokens *t, int64_t *n_tokens) {
    reader *r;
    SM_TRY(take_reader(t, &r));
    const sm_status status = index_blocks(t, r, n_tokens);
    give_back(t, r);
    SM_TRY(status);
    SM_FAIL_IF(*n_tokens == 0, SM_ERR_INVALID, "%s: has no text", t->path);
    SM_GROW(t->pieces, t->n, t->capacity);
    t->pieces[t->n].first_token = *n_tokens;
    return SM_OK;
}

// --- beginning and end ---------------------------------------------------------------------

static void close_text(void *ctx) {
    text_tokens *t = ctx;
    while (t->idle != NULL) {
        reader *r = t->idle;
        t->idle = r->next;
        free_reader(r);
    }
    pthread_mutex_destroy(&t->lock);
    sm_tokenizer_free(t->tokenizer);
    sm_data_files_free(&t->files);
    free(t->pieces);
    free(t->path);
    free(t);
}

SM_OWNABLE(text_tokens, close_text)

sm_status sm_text_tokens_open(const char *path, sm_tokens_format format, const char *tokenizer, int64_t vocab,
                              char digest[SM_TOKENIZER_DIGEST_SIZE], sm_tokens **tokens) {
    int64_t n_tokens = 0;
    *tokens = NULL;
    SM_OWN(text_tokens) *t = sm_calloc(1, sizeof *t);
    t->path = sm_strdup(path);
    pthread_mutex_init(&t->lock, NULL);
    SM_TRY(sm_tokenizer_read(tokenizer, &t->tokenizer));
    SM_FAIL_IF(t->tokenizer->n_tokens > vocab, SM_ERR_INVALID,
               "%s: the tokenizer has %d tokens, but the model's vocabulary has %lld; give the model's tokenizer, or "
               "--vocab %d",
               tokenizer, t->tokenizer->n_tokens, (long long)vocab, t->tokenizer->n_tokens);
    sm_tokenizer_digest(t->tokenizer, digest);
    SM_TRY(sm_data_files_open_text((char *const *)&t->path, 1, format, &t->files));
    SM_FAIL_IF(t->files.has_stdin, SM_ERR_USAGE,
               "-: training reads text repeatedly, which stdin does not allow; give a file or a folder");
    SM_TRY(make_index(t, &n_tokens));
    sm_tokens_made(path, n_tokens, &(sm_tokens_maker){.ctx = t, .read = read_tokens, .close = close_text}, tokens);
    t = NULL;
    return SM_OK;
}
