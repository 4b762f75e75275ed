// when_killed.c: see output/notes.h.
#include "cli/output/notes.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/flags/options.h"

// Polls rarely, so that a measurement is not disturbed; then waits for a normal end. Both together take less than a
// second.
enum { LOOK_MS = 200, IN_ORDER_MS = 600, EXIT_INTERRUPTED = 130 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static pthread_t thread;
static bool has_thread;
static bool has_ended;
static sm_status (*print_rest)(void *ctx);
static void *print_ctx;

// Waits with the lock released; returns whether the end came.
static bool wait_for_end(int ms) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += ms * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    while (!has_ended && pthread_cond_timedwait(&ended, &lock, &until) == 0) {
    }
    return has_ended;
}

static void *watch(void *unused) {
    (void)unused;
    pthread_mutex_lock(&lock);
    while (!wait_for_end(LOOK_MS)) {
        if (cli_interrupted && !wait_for_end(IN_ORDER_MS)) {
            (void)print_rest(print_ctx);
            fflush(stdout);
            cli_note("interrupted");
            _exit(EXIT_INTERRUPTED); // no waiting for other threads, which may hang
        }
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void cli_last_words_begin(sm_status (*print)(void *ctx), void *ctx) {
    print_rest = print;
    print_ctx = ctx;
    has_ended = false;
    has_thread = pthread_create(&thread, NULL, watch, NULL) == 0;
}

void cli_last_words_end(void) {
    if (has_thread) {
        pthread_mutex_lock(&lock);
        has_ended = true;
        pthread_cond_signal(&ended);
        pthread_mutex_unlock(&lock);
        pthread_join(thread, NULL);
        has_thread = false;
    }
}

void cli_last_words_lock(void) { pthread_mutex_lock(&lock); }
void cli_last_words_unlock(void) { pthread_mutex_unlock(&lock); }
