// beside.h: work that begins early, in a thread, and is awaited by its user, who does it if there is no thread.
#pragma once

#include <pthread.h>
#include <stdbool.h>

typedef struct {
    pthread_t thread;
    bool is_begun;
} os_beside;

static inline void os_begin_beside(os_beside *b, void *(*work)(void *ctx), void *ctx) {
    b->is_begun = pthread_create(&b->thread, NULL, work, ctx) == 0;
}

// Whether it was begun.
static inline bool os_await_beside(os_beside *b) {
    const bool is_begun = b->is_begun;
    b->is_begun = false;
    return is_begun && pthread_join(b->thread, NULL) == 0;
}
