#include "src/runs/background.h"

#include <errno.h>
#include <signal.h>

sm_background sm_background_here(void) {
    sm_background here = {0};
    here.is_set = os_processors_allowed(&here.processors);
    return here;
}

// Blocks all signals: they must interrupt the system calls of the training thread.
static int create(const pthread_attr_t *attributes, void *(*work)(void *ctx), void *ctx, pthread_t *thread) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(thread, attributes, work, ctx);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

sm_status sm_background_start(const sm_background *background, void *(*work)(void *ctx), void *ctx, pthread_t *thread) {
    pthread_attr_t attributes;
    int error = pthread_attr_init(&attributes);
    if (error == 0) {
        if (background->is_set) {
            os_bind_thread(&attributes, &background->processors);
        }
        error = create(&attributes, work, ctx, thread);
        pthread_attr_destroy(&attributes);
    }
    if (error == EINVAL) { // the process may no longer use these processors
        error = create(NULL, work, ctx, thread);
    }
    return error == 0 ? SM_OK : sm_fail(SM_ERR_OOM, "train: a thread cannot be started: %s", strerror(error));
}
