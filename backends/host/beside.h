// beside.h: work that begins early, in a thread, and is awaited by who needs it: who then does it, if there is no thread.
#pragma once

#include <pthread.h>
#include <stdbool.h>

typedef struct {
    pthread_t thread;
    bool is_begun;
} host_beside;

static inline void host_begin_beside(host_beside *b, void *(*work)(void *ctx), void *ctx) {
    b->is_begun = pthread_create(&b->thread, NULL, work, ctx) == 0;
}

// Whether it was begun.
static inline bool host_await_beside(host_beside *b) {
    const bool is_begun = b->is_begun;
    b->is_begun = false;
    return is_begun && pthread_join(b->thread, NULL) == 0;
}
