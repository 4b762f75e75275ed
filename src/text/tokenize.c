// tokenize.c: each thread reads the next block of text, encodes it, and stores the ids. The thread that completes the
// next block in order writes it, and all that wait after it.
//
//     read (one at a time, in order) -> encode (all at once) -> write (one at a time, in order)
#include <inttypes.h>
#include <pthread.h>

#include "src/io/json_text.h"
#include "src/text/token_output.h"
#include "src/text/tokenize.h"
#include "src/tokenizer/encoder.h"

enum { BLOCKS_PER_THREAD = 4, MAX_THREADS = 1024, NARROW_IDS = 65536 };

static const int64_t save_bytes_by_default = INT64_C(1) << 28;

// A block of text and its ids.
typedef struct {
    sm_text_block text;
    sm_ids ids[SM_N_SIDES]; // narrowed in place if ids are 16 bits wide
    sm_side_counts counts[SM_N_SIDES];
} work_block;

typedef struct {
    const sm_tokenize_job *job;
    const sm_tokenizer *tokenizer;
    int id_bytes;
    sm_text_split split;
    sm_text_source *source;
    sm_token_output *out;

    pthread_mutex_t mutex; // protects the members below
    pthread_cond_t moved;
    work_block *blocks;
    work_block **encoded; // by number, modulo n_blocks; NULL: not yet encoded
    work_block **idle;
    int n_blocks, n_idle;
    int64_t n_read, n_written;
    bool is_reading, is_writing, is_over;
    sm_outcome outcome; // the first failure

    // For the writing thread.
    sm_text_position written; // the end of the written text
    int64_t n_bytes, all_bytes;
    int64_t n_unsaved_bytes;
} pipeline;

// --- a block -------------------------------------------------------------------------------

static sm_status encode_block(const pipeline *p, sm_encoder *encoder, work_block *block) {
    for (int side = 0; side < SM_N_SIDES; side++) {
        block->ids[side].n = 0;
        block->counts[side] = (sm_side_counts){0};
    }
    for (size_t i = 0; i < block->text.n_parts; i++) {
        const sm_text_part *part = &block->text.parts[i];
        const int side = part->is_validation ? SM_VAL_SIDE : SM_TRAIN_SIDE;
        sm_ids *ids = &block->ids[side];
        SM_TRY(sm_encoder_encode(encoder, block->text.text + part->offset, part->n_bytes, ids));
        if (part->ends_document && p->tokenizer->end_of_text != SM_NO_ID) {
            sm_ids_append(ids, p->tokenizer->end_of_text);
        }
        block->counts[side].n_documents += part->ends_document;
        block->counts[side].text_bytes += (int64_t)part->n_bytes;
    }
    for (int side = 0; side < SM_N_SIDES; side++) {
        sm_ids *ids = &block->ids[side];
        uint16_t *narrow = (uint16_t *)ids->ids;
        block->counts[side].n_tokens = (int64_t)ids->n;
        for (size_t i = 0; i < ids->n && p->id_bytes == 2; i++) {
            const uint16_t id = (uint16_t)ids->ids[i];
            memcpy(&narrow[i], &id, sizeof id); // the write position never passes the read position
        }
    }
    return SM_OK;
}

static sm_status write_block(pipeline *p, const work_block *block) {
    const sm_tokenize_job *job = p->job;
    for (int side = 0; side < SM_N_SIDES; side++) {
        SM_TRY(sm_token_output_append(p->out, side, block->ids[side].ids, &block->counts[side]));
    }
    p->n_bytes += block->text.n_read_bytes;
    p->n_unsaved_bytes += block->text.n_read_bytes;
    p->written = block->text.after;
    if (p->n_unsaved_bytes >= (job->save_bytes > 0 ? job->save_bytes : save_bytes_by_default)) {
        SM_TRY(sm_token_output_save(p->out, &p->written));
        p->n_unsaved_bytes = 0;
    }
    return SM_OK;
}

// --- threads -------------------------------------------------------------------------------
//
// The functions below hold the mutex, except during the three steps.

static void fail_all(pipeline *p, sm_status status) {
    p->outcome = p->outcome.status == SM_OK ? sm_outcome_of(status) : p->outcome;
    p->is_over = true;
    pthread_cond_broadcast(&p->moved);
}

// The next block of text and its number; NULL: no text is left, or the work has ended.
static work_block *read_block(pipeline *p, int64_t *number) {
    while (!p->is_over && (p->is_reading || p->n_idle == 0)) {
        pthread_cond_wait(&p->moved, &p->mutex);
    }
    if (p->is_over) {
        return NULL;
    }
    work_block *block = p->idle[--p->n_idle];
    p->is_reading = true;
    pthread_mutex_unlock(&p->mutex);
    const bool is_stopped = p->job->stop != NULL && p->job->stop(p->job->ctx);
    sm_status status = is_stopped ? SM_ERR_INTERRUPTED : sm_text_source_next(p->source, &block->text);
    pthread_mutex_lock(&p->mutex);
    p->is_reading = false;
    *number = p->n_read;
    if (status != SM_OK) {
        fail_all(p, status);
    } else if (block->text.n_parts == 0) {
        p->is_over = true;
    } else {
        p->n_read++;
    }
    pthread_cond_broadcast(&p->moved);
    return p->is_over ? NULL : block;
}

// Writes the encoded blocks that are next, unless another thread is writing.
static void write_blocks(pipeline *p) {
    work_block **next;
    if (p->is_writing) {
        return;
    }
    p->is_writing = true;
    while ((p->outcome.status == SM_OK || p->outcome.status == SM_ERR_INTERRUPTED) &&
           *(next = &p->encoded[p->n_written % p->n_blocks]) != NULL) {
        work_block *block = *next;
        pthread_mutex_unlock(&p->mutex);
        sm_status status = write_block(p, block);
        pthread_mutex_lock(&p->mutex);
        if (status != SM_OK) {
            fail_all(p, status);
            break;
        }
        *next = NULL;
        p->n_written++;
        p->idle[p->n_idle++] = block;
        pthread_cond_broadcast(&p->moved);
        if (p->job->progress != NULL) {
            p->job->progress(p->job->ctx, p->n_bytes, p->all_bytes);
        }
    }
    p->is_writing = false;
}

static void work(pipeline *p) {
    SM_OWN(sm_encoder) *encoder = NULL;
    int64_t number;
    work_block *block;
    sm_status status = sm_encoder_new(p->tokenizer, &encoder);
    pthread_mutex_lock(&p->mutex);
    if (status != SM_OK) {
        fail_all(p, status);
    }
    while ((block = read_block(p, &number)) != NULL) {
        pthread_mutex_unlock(&p->mutex);
        status = encode_block(p, encoder, block);
        pthread_mutex_lock(&p->mutex);
        if (status != SM_OK) {
            fail_all(p, status);
            break;
        }
        p->encoded[number % p->n_blocks] = block;
        write_blocks(p);
    }
    pthread_mutex_unlock(&p->mutex);
}

static sm_status run_threads(pipeline *p) {
    const int wanted = p->job->n_threads < 1 ? 1 : p->job->n_threads;
    const int n_threads = wanted < MAX_THREADS ? wanted : MAX_THREADS;
    p->n_blocks = p->n_idle = BLOCKS_PER_THREAD * n_threads;
    p->blocks = sm_calloc((size_t)p->n_blocks, sizeof(*p->blocks));
    p->encoded = sm_calloc((size_t)p->n_blocks, sizeof(*p->encoded));
    p->idle = sm_calloc((size_t)p->n_blocks, sizeof(*p->idle));
    for (int i = 0; i < p->n_blocks; i++) {
        p->idle[i] = &p->blocks[i];
    }
#pragma omp parallel num_threads(n_threads)
    work(p);
    return sm_outcome_tell(&p->outcome);
}

// --- the whole -----------------------------------------------------------------------------

// The facts that make two works the same; tokens.json and progress.json begin with them. NULL: out of memory.
static json_t *describe_work(const sm_tokenize_job *job, const sm_tokenizer *t, const sm_data_files *files,
                             int id_bytes) {
    char digest[SM_TOKENIZER_DIGEST_SIZE];
    char hash[32];
    sm_tokenizer_digest(t, digest);
    snprintf(hash, sizeof hash, "fnv1a64:%016" PRIx64, files->hash);
    json_t *inputs = json_array();
    for (int i = 0; i < job->n_inputs; i++) {
        json_array_append_new(inputs, sm_json_name(job->inputs[i]));
    }
    json_t *separator = t->end_of_text != SM_NO_ID ? json_integer(t->end_of_text) : json_null();
    return json_pack("{s:i, s:s, s:i, s:i, s:o, s:f, s:o, s:I, s:I, s:s}", "schema_version", 1, "tokenizer", digest,
                     "vocabulary", (int)t->n_tokens, "id_bytes", id_bytes, "separator", separator, "val_percent",
                     job->val_percent, "inputs", inputs, "files", (json_int_t)files->n_files, "bytes",
                     (json_int_t)files->size_bytes, "files_digest", hash);
}

static sm_status check_result(const pipeline *p, const sm_data_files *files) {
    const sm_side_counts *train = sm_token_output_counts(p->out, SM_TRAIN_SIDE);
    const sm_side_counts *val = sm_token_output_counts(p->out, SM_VAL_SIDE);
    const double share = (double)val->text_bytes / (double)(train->text_bytes + val->text_bytes);
    SM_FAIL_IF(train->n_tokens == 0 && val->n_tokens == 0, SM_ERR_INVALID, "%s%s: no text in it; give files with text",
               p->job->inputs[0], p->job->n_inputs > 1 ? " ..." : "");
    SM_FAIL_IF(train->n_tokens == 0, SM_ERR_INVALID,
               "no document is left for training: %lld fell to validation; give more documents, or a smaller "
               "--val-percent",
               (long long)val->n_documents);
    if (p->job->val_percent > 0 && !sm_text_split_fits(p->job->val_percent, share)) {
        sm_show_line(p->job->note, p->job->ctx,
                     sm_text_of("%.3g%% of the text are for validation, not %g%%: %s", 100 * share, p->job->val_percent,
                                files->has_stdin ? "stdin is read once, so only whole documents are chosen; give files"
                                : p->split.ends == NULL ? "a few of its many documents are most of it"
                                                        : "it is too short"));
    }
    return SM_OK;
}

static sm_status encode_all(pipeline *p, const sm_data_files *files) {
    const sm_text_position *begin = sm_token_output_position(p->out);
    p->written = *begin;
    p->all_bytes = files->size_bytes;
    if (sm_token_output_is_resumed(p->out)) {
        sm_show_line(p->job->note, p->job->ctx,
                     sm_text_of("resumes in file %lld of %lld, byte %lld", (long long)begin->file + 1,
                                (long long)files->n_files, (long long)begin->offset_bytes));
    }
    for (int side = 0; side < SM_N_SIDES; side++) {
        p->n_bytes += sm_token_output_counts(p->out, side)->text_bytes;
    }
    SM_TRY(sm_text_split_find(files, p->job->val_percent, &p->split));
    if (p->split.ends != NULL) {
        sm_show_line(p->job->note, p->job->ctx,
                     sm_text_of("%lld document%s: the last %g%% of each are for validation", (long long)p->split.n_ends,
                                p->split.n_ends == 1 ? "" : "s", p->job->val_percent));
    }
    p->source = sm_text_source_open(files, p->tokenizer, p->job->val_percent > 0 ? &p->split : NULL, begin);
    sm_status status = run_threads(p);
    SM_TRY(status == SM_ERR_INTERRUPTED ? sm_token_output_save(p->out, &p->written) : SM_OK);
    SM_TRY(status);
    status = check_result(p, files);
    if (status != SM_OK) {
        sm_token_output_abandon(p->out);
        return status;
    }
    return sm_token_output_finish(p->out, p->tokenizer, files);
}

static void free_pipeline(pipeline *p) {
    for (int i = 0; p->blocks != NULL && i < p->n_blocks; i++) {
        sm_text_block_free(&p->blocks[i].text);
        free(p->blocks[i].ids[SM_TRAIN_SIDE].ids);
        free(p->blocks[i].ids[SM_VAL_SIDE].ids);
    }
    free(p->blocks);
    free(p->encoded);
    free(p->idle);
    sm_text_source_close(p->source);
    sm_text_split_free(&p->split);
    sm_token_output_close(p->out);
}

sm_status sm_tokenize(const sm_tokenize_job *job, sm_tokenize_result *result) {
    SM_OWN(sm_tokenizer) *tokenizer = NULL;
    SM_AT_END(sm_data_files_free) sm_data_files files = {0};
    SM_AT_END(free_pipeline)
    pipeline p = {.job = job, .mutex = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};
    SM_TRY(job->learned != NULL ? SM_OK : sm_tokenizer_read(job->tokenizer, &tokenizer));
    SM_TRY(sm_data_files_open_text(job->inputs, job->n_inputs, job->format, &files));
    p.tokenizer = job->learned != NULL ? job->learned : tokenizer;
    p.id_bytes = p.tokenizer->n_tokens <= NARROW_IDS ? 2 : 4;
    json_auto_t *description = describe_work(job, p.tokenizer, &files, p.id_bytes);
    SM_TRY(sm_token_output_open(job->output, description, p.id_bytes, !files.has_stdin, &p.out));
    SM_TRY(!sm_token_output_is_complete(p.out) ? encode_all(&p, &files) : SM_OK);
    *result = (sm_tokenize_result){
        .n_files = files.n_files, .vocab = p.tokenizer->n_tokens, .was_complete = sm_token_output_is_complete(p.out)};
    for (int side = 0; side < SM_N_SIDES; side++) {
        const sm_side_counts *counts = sm_token_output_counts(p.out, side);
        result->n_tokens[side] = counts->n_tokens;
        result->n_documents[side] = counts->n_documents;
        result->text_bytes[side] = counts->text_bytes;
    }
    return SM_OK;
}
