// token_ids.h: a growing list of ids.
#ifndef STEPMARK_SRC_TOKENIZER_TOKEN_IDS_H
#define STEPMARK_SRC_TOKENIZER_TOKEN_IDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "status.h"

typedef struct {
    int32_t *ids;
    size_t n;
    size_t capacity;
} sm_ids;

// Room for n more.
static inline sm_status sm_ids_reserve(sm_ids *list, size_t n) {
    if (n <= list->capacity - list->n) {
        return SM_OK;
    }
    const size_t capacity = 2 * list->capacity > list->n + n ? 2 * list->capacity : list->n + n;
    int32_t *grown = realloc(list->ids, capacity * sizeof(*grown));
    if (grown == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for %zu token ids", capacity);
    }
    list->ids = grown;
    list->capacity = capacity;
    return SM_OK;
}

static inline sm_status sm_ids_append(sm_ids *list, int32_t id) {
    SM_TRY(sm_ids_reserve(list, 1));
    list->ids[list->n++] = id;
    return SM_OK;
}

#endif
