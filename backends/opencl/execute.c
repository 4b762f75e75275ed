// execute.c: prepares a plan as an array of launches with their arguments set, and enqueues ranges.
//
// A step only enqueues launches: it sets no arguments, allocates nothing and waits for nothing.
#include <stdio.h>
#include <stdlib.h>

#include "backends/opencl/opencl.h"

// The size of the buffer for data between the launches of an op, as large as any op needs.
static size_t scratch_bytes(const sm_device *device, const sm_plan *plan) {
    sm_op op;
    size_t most = 0;
    for (int i = 0; i < 2 * plan->n_ops; i++) {
        const size_t n_elems =
            opencl_op_at(plan, i, &op) ? opencl_op_scratch_elems((const opencl_device *)device, plan, &op) : 0;
        most = n_elems > most ? n_elems : most;
    }
    return most * sizeof(float);
}

size_t opencl_working_bytes(const sm_device *device, const sm_plan *plan) {
    const opencl_device *d = (const opencl_device *)device;
    const size_t family_bytes = d->family->own_bytes != NULL ? d->family->own_bytes(&d->facts, plan) : 0;
    return scratch_bytes(device, plan) + family_bytes +
           (opencl_has_peers(d) ? opencl_exchange_bytes(plan) + opencl_landing_bytes(d, plan)
                                : opencl_copy_bytes(plan));
}

static sm_status bind_all(opencl_executable *e) {
    const sm_plan *plan = e->base.plan;
    e->launches_of = sm_calloc(2 * (size_t)plan->n_ops + 1, sizeof *e->launches_of);
    for (int i = 0; i < 2 * plan->n_ops; i++) {
        sm_op op;
        const int first = e->n_launches;
        if (i == plan->n_ops && e->n_beside_units > 0) {
            snprintf(e->base.note, sizeof e->base.note,
                     "family %s: %d of %d products and attentions run as in family local: rows that do not begin at "
                     "multiples of 16 bytes, attention that stores its weights or has heads of other sizes",
                     e->device->family->name, e->n_beside_units, e->n_beside_units + e->n_on_units);
        }
        if (opencl_op_at(plan, i, &op)) {
            SM_TRY(opencl_bind_op(e, &op));
            e->launches_of[i] = (sm_range){first, e->n_launches};
        } else {
            e->launches_of[i] = e->launches_of[i - plan->n_ops];
        }
    }
    e->events = sm_calloc((size_t)e->n_launches + 1, sizeof *e->events);
    return SM_OK;
}

sm_status opencl_prepare(sm_device *device, const sm_plan *plan, sm_executable **executable) {
    sm_status status = SM_OK;
    opencl_executable *e = sm_calloc(1, sizeof *e);
    e->base.device = device;
    e->base.plan = plan;
    e->device = (opencl_device *)device;
    e->n_arenas = plan->n_arenas;
    SM_TRY_GOTO(plan->tuned ? opencl_tune(e) : SM_OK);
    SM_TRY_GOTO(opencl_build_ahead(e));
    SM_TRY_GOTO(opencl_allocate(e, scratch_bytes(device, plan)));
    SM_TRY_GOTO(opencl_reserve_exchange(e));
    SM_TRY_GOTO(opencl_reserve_landing(e));
    SM_TRY_GOTO(bind_all(e));
    *executable = &e->base;
    return SM_OK;
cleanup:
    opencl_release(&e->base);
    return status;
}

void opencl_release(sm_executable *executable) {
    if (executable == NULL) {
        return;
    }
    opencl_executable *e = (opencl_executable *)executable;
    if (e->device->is_lost || opencl_synchronize(executable) == SM_ERR_TIMEOUT) { // buffers may still be in use
        opencl_keep_executable(e);
        return;
    }
    if (!opencl_free_collectives(e)) {
        return;
    }
    for (int i = 0; i < e->n_launches; i++) {
        opencl.clReleaseKernel(e->launches[i].kernel);
    }
    if (e->device->family->release != NULL) {
        e->device->family->release(e);
    }
    opencl_free_landing(e);
    opencl_free_copies(e);
    opencl_free_memory(e);
    for (int i = 0; e->events != NULL && i < e->n_launches; i++) {
        if (e->events[i] != NULL) {
            opencl.clReleaseEvent(e->events[i]);
        }
    }
    free(e->launches);
    free(e->launches_of);
    free(e->events);
    free(e);
}

// The launches of an op in this micro-batch.
static sm_range launches_of(const opencl_executable *e, int op) {
    return e->launches_of[op + (e->base.is_later ? e->base.plan->n_ops : 0)];
}

// The launches of a range of ops.
static sm_status enqueue_range(opencl_executable *e, cl_command_queue queue, sm_range range, bool keeps_events) {
    for (int op = range.first; op < range.end; op++) {
        const sm_range launches = launches_of(e, op);
        for (int i = launches.first; i < launches.end; i++) {
            const opencl_launch *l = &e->launches[i];
            e->n_enqueued++;
            SM_TRY(OPENCL_CALL(e->device, clEnqueueNDRangeKernel, queue, l->kernel, l->n_dims, NULL, l->global,
                               l->local, 0, NULL, keeps_events ? &e->events[i] : NULL));
        }
    }
    return SM_OK;
}

// Adds each op's time to op_ns, from the events of its launches; releases the events.
static sm_status collect_times(opencl_executable *e, sm_range range, int64_t *op_ns) {
    sm_status status = SM_OK;
    for (int op = range.first; op < range.end; op++) {
        const sm_range launches = launches_of(e, op);
        for (int i = launches.first; i < launches.end; i++) {
            int64_t elapsed_ns = 0;
            if (e->events[i] == NULL) {
                continue;
            }
            const sm_status known = opencl_event_ns(e->device, e->events[i], &elapsed_ns);
            status = status != SM_OK ? status : known;
            op_ns[op] += elapsed_ns;
            opencl.clReleaseEvent(e->events[i]);
            e->events[i] = NULL;
        }
    }
    return status;
}

static sm_status execute_profiled(opencl_executable *e, sm_range range, int64_t *op_ns) {
    cl_command_queue queue = e->device->profile;
    SM_TRY(opencl_synchronize(&e->base)); // the two queues are not ordered
    sm_status status = enqueue_range(e, queue, range, true);
    sm_status finished = opencl_wait(e, "clFinish", queue, NULL);
    if (e->device->is_lost) {
        return finished;
    }
    sm_status collected = collect_times(e, range, op_ns);
    return status != SM_OK ? status : finished != SM_OK ? finished : collected;
}

sm_status opencl_execute(sm_executable *executable, sm_range range, int64_t *op_ns) {
    opencl_executable *e = (opencl_executable *)executable;
    SM_TRY(opencl_check_lost(e));
    opencl_end_dismissed(e->device);
    if (op_ns != NULL) {
        return execute_profiled(e, range, op_ns);
    }
    SM_TRY(enqueue_range(e, e->device->queue, range, false));
    // Exchanges by links flush at their begins and before waits.
    return e->landing != NULL ? SM_OK : OPENCL_CALL(e->device, clFlush, e->device->queue);
}

sm_status opencl_synchronize(sm_executable *executable) {
    opencl_executable *e = (opencl_executable *)executable;
    sm_status status = opencl_wait(e, "clFinish", e->device->queue, NULL);
    opencl_dismiss_helpers(e->device); // the first step has run
    return status;
}
