// wait.c: waits that end at a deadline. OpenCL has none: clFinish of a kernel that hangs never returns. So a
// thread of the device calls it, and the caller waits for that thread, for as long as it may. Without a deadline there
// is no thread, and the caller waits by itself.
//
// A device whose wait was given up is lost: nothing more is asked of it, and nothing of it is freed, as the driver
// still works with it. It is kept in a list, and freed when it is opened again and has come back, as from long kernels.
#include "clock.h"
#include "backends/opencl/memory/memory.h"
#include "os/threads.h"

// A thread that waits for the device instead of the caller, whose wait could not be limited.
typedef struct opencl_waiter {
    pthread_t thread;
    pthread_mutex_t lock; // protects the members below
    pthread_cond_t changed;
    enum { DONE, ASKED, ENDS } state;
    cl_command_queue queue; // to wait for, unless there is an event
    cl_event event;
    cl_int code; // result of the wait
} opencl_waiter;

static opencl_device *lost_devices;

static const int64_t least_wait_ns = 100000000;   // even after the deadline: waits are short if nothing hangs
static const int64_t return_wait_ns = 1000000000; // for a lost device to recover

static cl_int wait_for(cl_command_queue queue, cl_event event) {
    return event != NULL ? opencl.clWaitForEvents(1, &event) : opencl.clFinish(queue);
}

static void *serve(void *argument) {
    opencl_waiter *w = argument;
    pthread_mutex_lock(&w->lock);
    while (w->state != ENDS) {
        if (w->state != ASKED) {
            pthread_cond_wait(&w->changed, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        cl_int code = wait_for(w->queue, w->event);
        pthread_mutex_lock(&w->lock);
        w->code = code;
        w->state = DONE;
        pthread_cond_broadcast(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static sm_status start_waiter(opencl_device *device) {
    if (device->waiter != NULL) {
        return SM_OK;
    }
    opencl_waiter *w = sm_calloc(1, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    os_init_condition(&w->changed);
    w->state = DONE;
    if (pthread_create(&w->thread, NULL, serve, w) != 0) {
        free(w);
        return sm_fail(SM_ERR_OOM, "%s: no thread to wait in", id_of(device));
    }
    device->waiter = w;
    return SM_OK;
}

void opencl_end_waiter(opencl_device *device) {
    opencl_waiter *w = device->waiter;
    if (w == NULL) {
        return;
    }
    pthread_mutex_lock(&w->lock);
    w->state = ENDS;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    free(w);
    device->waiter = NULL;
}

// Waits until the work is done, or until `until_ns`: then false.
static bool is_done_until(opencl_waiter *w, int64_t until_ns) {
    bool has_time = true;
    pthread_mutex_lock(&w->lock);
    while (w->state == ASKED && has_time) {
        has_time = os_wait_until(&w->changed, &w->lock, until_ns);
    }
    const bool done = w->state != ASKED;
    pthread_mutex_unlock(&w->lock);
    return done;
}

static sm_status fail_lost(const opencl_device *device) {
    return sm_fail(SM_ERR_TIMEOUT,
                   "%s: the device was still at work when the limit had run out: a kernel hangs, or "
                   "takes longer than --timeout allows",
                   id_of(device));
}

sm_status opencl_check_lost(const opencl_executable *e) { return e->device->is_lost ? fail_lost(e->device) : SM_OK; }

sm_status opencl_wait(opencl_executable *e, const char *doing, cl_command_queue queue, cl_event event) {
    opencl_device *device = e->device;
    SM_TRY(opencl_check_lost(e));
    if (e->base.deadline_ns == 0) {
        return opencl_check(id_of(device), doing, wait_for(queue, event));
    }
    SM_TRY(start_waiter(device));
    opencl_waiter *w = device->waiter;
    pthread_mutex_lock(&w->lock);
    w->queue = queue;
    w->event = event;
    w->state = ASKED;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    const int64_t least_ns = sm_now_ns() + least_wait_ns;
    if (!is_done_until(w, e->base.deadline_ns > least_ns ? e->base.deadline_ns : least_ns)) {
        device->is_lost = true;
        return fail_lost(device);
    }
    return opencl_check(id_of(device), doing, w->code);
}

sm_status opencl_event_ns(const opencl_device *device, cl_event event, int64_t *elapsed_ns) {
    cl_ulong start_ns = 0;
    cl_ulong end_ns = 0;
    cl_int code = opencl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start_ns, &start_ns, NULL);
    if (code == CL_SUCCESS) {
        code = opencl.clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end_ns, &end_ns, NULL);
    }
    *elapsed_ns = end_ns > start_ns ? (int64_t)(end_ns - start_ns) : 0;
    return opencl_check(id_of(device), "clGetEventProfilingInfo", code);
}

// --- lost devices -------------------------------------------------------------------------------------

void opencl_keep_executable(opencl_executable *e) {
    e->next_kept = e->device->kept;
    e->device->kept = e;
}

void opencl_keep_device(opencl_device *device) {
    device->next_lost = lost_devices;
    lost_devices = device;
}

// Frees a recovered device and all that was kept of it, through the backend's table. False: it is lost again meanwhile.
static bool free_kept(opencl_device *device) {
    opencl_executable *kept = device->kept;
    device->is_lost = false;
    device->kept = NULL;
    while (kept != NULL) {
        opencl_executable *e = kept;
        kept = e->next_kept;
        e->base.deadline_ns = sm_now_ns() + return_wait_ns;
        device->base.backend->release(&e->base);
    }
    const bool lost_again = device->is_lost;
    device->base.backend->close(&device->base);
    return !lost_again;
}

sm_status opencl_reclaim(const opencl_facts *facts, const char *device_id) {
    opencl_device **next = &lost_devices;
    while (*next != NULL) {
        opencl_device *device = *next;
        if (device->facts.id != facts->id) {
            next = &device->next_lost;
            continue;
        }
        bool came_back = is_done_until(device->waiter, sm_now_ns() + return_wait_ns);
        if (came_back) {
            *next = device->next_lost;
            came_back = free_kept(device);
        }
        SM_FAIL_IF(!came_back, SM_ERR_TIMEOUT,
                   "%s: still at work on something earlier that did not end within its limit", device_id);
    }
    return SM_OK;
}
