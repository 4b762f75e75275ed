// worker.c: messages through a pipe, and two numbers in memory that both processes share.
#include "src/processes/process.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "os/memory.h"
#include "os/files.h"

// After a deadline, the time for the current work to end by itself.
static const int64_t late_grace_ns = 1500000000;

// What a worker says of itself, in shared memory.
typedef struct {
    _Atomic int64_t step_ns;
    _Atomic bool saving;
} shared_state;

static int send_to = -1; // in a worker: its end of the pipe
static shared_state *shared;

typedef struct worker {
    const sm_worker_job *job;
    int64_t deadline_ns;
} worker;

// --- in the worker ---------------------------------------------------------------------------------

sm_status sm_worker_send(json_t *message) {
    // All digits: the printing process decides how many to show.
    SM_FREED char *line = send_to >= 0 ? json_dumps(message, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(message);
    if (send_to < 0) {
        return SM_OK;
    }
    SM_FAIL_IF(!os_write_all(send_to, line, strlen(line)) || !os_write_all(send_to, "\n", 1), SM_ERR_IO,
               "cannot tell the parent process: %s", strerror(errno));
    return SM_OK;
}

void sm_worker_set_step_ns(int64_t longest_step_ns) {
    if (shared != NULL) {
        atomic_store_explicit(&shared->step_ns, longest_step_ns, memory_order_relaxed);
    }
}

void sm_worker_set_saving(bool saving) {
    if (shared != NULL) {
        atomic_store(&shared->saving, saving);
    }
}

// --- the whole -----------------------------------------------------------------------------------------

static int work(void *ctx) {
    const worker *w = ctx;
    return w->job->work(w->job->ctx);
}

static sm_status receive(void *ctx, const char *line, size_t length) {
    enum { SHOWN_BYTES = 40 };
    worker *w = ctx;
    json_auto_t *message = json_loadb(line, length, 0, NULL);
    SM_FAIL_IF(!json_is_object(message), SM_ERR_FORMAT,
               "the worker process sent %zu bytes that are no message of stepmark, \"%.*s\"; code in it (a kernel, a "
               "driver) writes where it must not",
               length, length < SHOWN_BYTES ? (int)length : SHOWN_BYTES, line);
    return w->job->receive != NULL ? w->job->receive(w->job->ctx, message, &w->deadline_ns) : SM_OK;
}

static int64_t end_ns(void *ctx, int64_t asked_ns) {
    const worker *w = ctx;
    const int64_t step_ns = atomic_load(&shared->step_ns);
    if (asked_ns > 0) {
        return atomic_load(&shared->saving) ? INT64_MAX : asked_ns + (int64_t)(w->job->stop_s * 1e9);
    }
    return w->deadline_ns == INT64_MAX ? INT64_MAX : w->deadline_ns + late_grace_ns + step_ns + step_ns / 2;
}

sm_status sm_worker_run(const sm_worker_job *job, sm_process_result *end) {
    worker w = {.job = job, .deadline_ns = job->deadline_ns};
    const sm_process_job process = {.work = work,
                                    .ctx = &w,
                                    .told = job->told,
                                    .shared = {{(void **)&shared, sizeof(*shared)}, job->shared},
                                    .messages = &send_to,
                                    .receive = receive,
                                    .limits = &job->memory,
                                    .n_limits = job->memory.most > 0,
                                    .dies_first = job->memory.most > 0,
                                    .interrupted = job->interrupted,
                                    .interrupted_grace_s = job->stop_s,
                                    .end_ns = end_ns,
                                    .may_hang = true};
    shared_state *outer = shared;
    shared_state *made = os_map_shared(sizeof(*made));
    SM_FAIL_IF(made == NULL, SM_ERR_OOM, "no memory to share with a worker");
    shared = made;
    sm_status status = sm_process_run(&process, end);
    os_unmap(made, sizeof(*made));
    shared = outer;
    return status;
}
