// background.h: threads of a training: one that reads ahead, one that writes checkpoints.
#ifndef STEPMARK_SRC_RUNS_BACKGROUND_H
#define STEPMARK_SRC_RUNS_BACKGROUND_H

#include <pthread.h>

#include "status.h"
#include "os/os.h"

// Where they may run. The thread that trains may be bound to one processor, and they would share it.
typedef struct {
    bool is_set;
    os_processors processors;
} sm_background;

// The processors that the calling thread may use now: to be called before it is bound.
sm_background sm_background_here(void);

// SM_ERR_OOM or SM_ERR_IO with the reason.
sm_status sm_background_start(const sm_background *background, void *(*work)(void *ctx), void *ctx, pthread_t *thread);

#endif
