// background.h: a training's background threads: one reads ahead, one writes checkpoints.
#pragma once

#include "status.h"
#include "os/threads.h"

// The processors of background threads. The training thread may be bound to one processor, which they should not share.
typedef struct {
    bool is_set;
    os_processors processors;
} sm_background;

// The processors that the calling thread may use; call it before the thread is bound.
sm_background sm_background_here(void);

// SM_ERR_OOM or SM_ERR_IO with the reason.
sm_status sm_background_start(const sm_background *background, void *(*work)(void *ctx), void *ctx, pthread_t *thread);
