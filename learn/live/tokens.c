// tokens.c: numbers of seven bits a byte, the lowest first: how many tokens; for each its length, kind and bytes; how
// many merges; for each its two tokens and its result.
#include "learn/live/live.h"

enum { IS_LEARNED = 1, IS_ADDED = 2, IS_SPECIAL = 4, IS_NORMALIZED = 8 };

static void put(FILE *out, uint32_t number) {
    for (; number >= 0x80; number >>= 7) {
        fputc((int)(number & 0x7f) | 0x80, out);
    }
    fputc((int)number, out);
}

void sm_live_write_tokenizer(const sm_tokenizer *t, FILE *out) {
    put(out, (uint32_t)t->n_tokens);
    for (int32_t id = 0; id < t->n_tokens; id++) {
        const sm_token *token = &t->tokens[id];
        put(out, token->n_bytes);
        put(out, token->is_learned * IS_LEARNED + token->is_added * IS_ADDED + token->is_special * IS_SPECIAL +
                     token->is_normalized * IS_NORMALIZED);
        fwrite(sm_token_bytes(t, id), 1, token->n_bytes, out);
    }
    put(out, (uint32_t)t->n_merges);
    for (int32_t i = 0; i < t->n_merges; i++) {
        put(out, (uint32_t)t->merges[i].left);
        put(out, (uint32_t)t->merges[i].right);
        put(out, (uint32_t)t->merges[i].result);
    }
}

typedef struct {
    const uint8_t *at, *end;
    bool is_over; // they ended too early
} reader;

static uint32_t take(reader *r) {
    uint32_t number = 0;
    for (int shift = 0; shift < 32; shift += 7) {
        r->is_over = r->is_over || r->at == r->end;
        const uint8_t byte = r->is_over ? 0 : *r->at++;
        number |= (uint32_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            break;
        }
    }
    return number;
}

sm_status sm_live_read_tokenizer(const uint8_t *bytes, size_t n_bytes, sm_tokenizer **tokenizer) {
    reader r = {.at = bytes, .end = bytes + n_bytes};
    SM_OWN(sm_tokenizer) *t = NULL;
    SM_TRY(sm_tokenizer_new(take(&r), &t));
    for (int32_t id = 0; id < t->n_tokens; id++) {
        const uint32_t token_bytes = take(&r), kind = take(&r);
        const uint8_t *token = r.at;
        SM_FAIL_IF(r.is_over || token_bytes > (size_t)(r.end - r.at), SM_ERR_FORMAT, "a tokenizer ends within token %d",
                   id);
        r.at += token_bytes;
        SM_TRY(kind & IS_ADDED ? sm_tokenizer_set_added(t, id, token, token_bytes, (kind & IS_SPECIAL) != 0,
                                                        (kind & IS_NORMALIZED) != 0)
                               : SM_OK);
        SM_TRY(kind & IS_LEARNED ? sm_tokenizer_set(t, id, token, token_bytes) : SM_OK);
    }
    const uint32_t n_merges = take(&r);
    for (uint32_t i = 0; i < n_merges && !r.is_over; i++) {
        const uint32_t left = take(&r), right = take(&r), result = take(&r);
        SM_TRY(sm_tokenizer_add_merge(t, (int32_t)left, (int32_t)right, (int32_t)result));
    }
    SM_FAIL_IF(r.is_over, SM_ERR_FORMAT, "a tokenizer ends within its merges");
    SM_TRY(sm_tokenizer_finish(t));
    *tokenizer = sm_give(&t);
    return SM_OK;
}
