// execute.c: prepares a plan as an array of launches with their arguments set, and enqueues ranges.
//
// A step only enqueues launches: it sets no arguments, allocates nothing and waits for nothing.

#include "backends/opencl/opencl.h"

// Whether gradients of weights go to the queue aside: if they take long, of 16-bit data, or in tf32 on a card by itself.
static bool uses_aside(const opencl_device *device, const sm_plan *plan) {
    double flops = 0;
    int n = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const bool counts = plan->ops[i].kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
        flops += counts ? sm_op_flops(plan, &plan->ops[i]) : 0;
        n += counts;
    }
    return device->aside != NULL && n > 0 && flops / n >= device->least_aside_flops &&
           (sm_dtype_is_narrow(plan->dtype) || (plan->products == SM_PRODUCTS_TF32 && !opencl_has_peers(device)));
}

// Floats between the launches of an op, as many as any op of that course needs.
static size_t most_scratch(const opencl_device *device, const sm_plan *plan, bool in_any_way, opencl_course course) {
    enum { STEP = 64 }; // 256 bytes: for alignment
    const bool is_divided = uses_aside(device, plan);
    sm_op op;
    size_t most = 0;
    for (int i = 0; i < 2 * plan->n_ops; i++) {
        const bool counts = opencl_op_at(plan, i, &op) && opencl_course_of(plan, is_divided, &op) == course;
        const size_t n_elems = counts ? opencl_op_scratch_elems(device, plan, &op, in_any_way) : 0;
        most = n_elems > most ? n_elems : most;
    }
    return (most + STEP - 1) / STEP * STEP;
}

// Bytes of the scratch. Divides it by courses; the squares follow.
static size_t divide_scratch(const opencl_device *device, const sm_plan *plan, bool in_any_way,
                             size_t at[OPENCL_PARTS_OF_SCRATCH], size_t *norm_elems) {
    at[OPENCL_IN_QUEUE] = 0;
    at[OPENCL_ASIDE] = most_scratch(device, plan, in_any_way, OPENCL_IN_QUEUE);
    at[OPENCL_SUMS_ASIDE] = at[OPENCL_ASIDE] + most_scratch(device, plan, in_any_way, OPENCL_ASIDE);
    *norm_elems = most_scratch(device, plan, in_any_way, OPENCL_SUMS_ASIDE);
    at[OPENCL_SQUARES] = at[OPENCL_SUMS_ASIDE] + OPENCL_NORM_PLACES * *norm_elems;
    size_t squared_bytes = 0;
    for (int i = 0; i < plan->n_arenas && device->family->matmul_squares != NULL; i++) {
        squared_bytes += plan->arenas[i].role == SM_ROLE_GRADIENT ? plan->arenas[i].size_bytes : 0;
    }
    return at[OPENCL_SQUARES] * sizeof(float) + squared_bytes / OPENCL_SQUARE_ELEMS;
}

size_t opencl_working_bytes(const sm_device *device, const sm_plan *plan) {
    const opencl_device *d = (const opencl_device *)device;
    const size_t family_bytes = d->family->own_bytes != NULL ? d->family->own_bytes(&d->facts, plan) : 0;
    size_t at[OPENCL_PARTS_OF_SCRATCH];
    size_t norm_elems;
    return divide_scratch(d, plan, plan->tuned, at, &norm_elems) + family_bytes + // ways are not chosen yet
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

// --- two queues -----------------------------------------------------------------------------------------
//
// Gradients of weights wait for what was computed before them; only the optimizer waits for them, and ops that write
// where their operands are. So they go to a queue of their own, as do the sums of a norm's strips, which wait for its
// first launch. Its launches fill units that others leave idle, and an event orders the queues where one waits for the
// other. The terms of a sum, and their order, stay the same.

static bool have_common_bytes(const sm_plan *plan, const int *a, int n_a, const int *b, int n_b) {
    for (int i = 0; i < n_a * n_b; i++) {
        const int x = a[i / n_b];
        const int y = b[i % n_b];
        if (x != SM_NO_TENSOR && y != SM_NO_TENSOR && sm_tensors_overlap(&plan->tensors[x], &plan->tensors[y])) {
            return true;
        }
    }
    return false;
}

// `launch` waits for `after`, of the other queue, and so for all before that one.
static void order(opencl_executable *e, int launch, int after) {
    opencl_launch *l = &e->launches[launch];
    l->after = after >= l->after ? after + 1 : l->after;
    e->launches[after].is_awaited = true;
}

// Whether op waits for what `before` does aside: not for a norm's dx, its first output.
static bool waits_for(const opencl_executable *e, const sm_op *op, const sm_op *before) {
    const sm_plan *plan = e->base.plan;
    const opencl_course course = opencl_course_of(plan, e->uses_aside, before);
    const int first = course == OPENCL_SUMS_ASIDE;
    return have_common_bytes(plan, op->operands, SM_MAX_OPERANDS, before->out + first, SM_MAX_OUT - first) ||
           (course == OPENCL_ASIDE && have_common_bytes(plan, op->out, SM_MAX_OUT, before->in, SM_MAX_IN));
}

// Divides the launches of a step's first micro-batch between the queues.
static void order_queues(opencl_executable *e) {
    const sm_plan *plan = e->base.plan;
    int last = -1;       // launch of the queue
    int first_aside = 0; // op aside that the queue has not waited for
    int n_norms = 0;
    int readers[OPENCL_NORM_PLACES] = {0}; // of each place: the launch aside that read it last
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        const sm_range launches = e->launches_of[i];
        const int n = launches.end - launches.first;
        const opencl_course course = last >= 0 ? opencl_course_of(plan, e->uses_aside, op) : OPENCL_IN_QUEUE;
        const int n_ahead = course == OPENCL_ASIDE ? 0 : course == OPENCL_SUMS_ASIDE && n == 2 ? 1 : n; // in the queue
        for (int k = i - 1; k >= first_aside && n_ahead > 0; k--) {
            const int end = e->launches_of[k].end;
            if (end > 0 && e->launches[end - 1].is_aside && waits_for(e, op, &plan->ops[k])) {
                order(e, launches.first, end - 1);
                first_aside = k + 1;
            }
        }
        if (n_ahead < n && n_ahead > 0) {
            int *reader = &readers[n_norms++ % OPENCL_NORM_PLACES];
            if (*reader > 0) {
                order(e, launches.first, *reader);
            }
            *reader = launches.end - 1;
        }
        last = n_ahead > 0 ? launches.first + n_ahead - 1 : last;
        if (n_ahead < n) {
            order(e, launches.first + n_ahead, last);
        }
        for (int k = launches.first + n_ahead; k < launches.end; k++) {
            e->launches[k].is_aside = true;
        }
    }
}

sm_status opencl_prepare(sm_device *device, const sm_plan *plan, sm_executable **executable) {
    opencl_executable *e = sm_calloc(1, sizeof *e);
    SM_OWN(sm_executable) *owned = &e->base;
    e->base.device = device;
    e->base.plan = plan;
    e->device = (opencl_device *)device;
    e->n_arenas = plan->n_arenas;
    e->uses_aside = uses_aside(e->device, plan);
    SM_TRY(plan->tuned ? opencl_tune(e) : SM_OK); // before the scratch, which each way divides for itself
    const size_t scratch_bytes = divide_scratch(e->device, plan, false, e->scratch_at, &e->norm_elems);
    SM_TRY(opencl_build_ahead(e));
    SM_TRY(opencl_allocate(e, scratch_bytes));
    SM_TRY(opencl_reserve_exchange(e));
    SM_TRY(opencl_reserve_landing(e));
    SM_TRY(bind_all(e));
    order_queues(e);
    *executable = sm_give(&owned);
    return SM_OK;
}

static void release_events(opencl_executable *e) {
    for (int i = 0; i < e->n_launches && e->events != NULL; i++) {
        opencl_release_event(e->events[i]);
        e->events[i] = NULL;
    }
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
    release_events(e);
    free(e->launches);
    free(e->launches_of);
    free(e->events);
    free(e);
}

// The launches of an op in this micro-batch.
static sm_range launches_of(const opencl_executable *e, int op) {
    return e->launches_of[op + (e->base.is_later ? e->base.plan->n_ops : 0)];
}

// The queue waits for all launches aside.
static sm_status join_queues(const opencl_device *d) {
    cl_event over = NULL;
    SM_TRY(OPENCL_CALL(d, clEnqueueMarkerWithWaitList, d->aside, 0, NULL, &over));
    const cl_int code = opencl.clEnqueueMarkerWithWaitList(d->queue, 1, &over, NULL);
    opencl.clReleaseEvent(over);
    SM_TRY(opencl_check(id_of(d), "clEnqueueMarkerWithWaitList", code));
    return OPENCL_CALL(d, clFlush, d->aside);
}

// The launches of a range of ops, in both queues; or all in the profiled one, each with its event. A launch aside stays
// in the queue if the launch that it waits for is not of this range.
static sm_status enqueue_range(opencl_executable *e, sm_range range, bool is_profiled) {
    const opencl_device *d = e->device;
    bool is_aside = false;
    int last = -1; // launch aside that the queue has not waited for
    for (int op = range.first; op < range.end; op++) {
        const sm_range launches = launches_of(e, op);
        for (int i = launches.first; i < launches.end; i++) {
            const opencl_launch *l = &e->launches[i];
            const cl_event *after = l->after > 0 && !e->base.is_later && !is_profiled ? &e->events[l->after - 1] : NULL;
            const bool waits = after != NULL && *after != NULL;
            is_aside = l->is_aside && (l->after > 0 ? waits : is_aside);
            last = is_aside ? i : waits && l->after - 1 == last ? -1 : last;
            e->n_enqueued++;
            SM_TRY(OPENCL_CALL(d, clEnqueueNDRangeKernel,
                               is_profiled ? d->profile
                               : is_aside  ? d->aside
                                           : opencl_queue(e),
                               l->kernel, l->n_dims, NULL, l->global, l->local, waits, waits ? after : NULL,
                               is_profiled || l->is_awaited ? &e->events[i] : NULL));
        }
    }
    return last >= 0 ? join_queues(d) : SM_OK;
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
    sm_status status = enqueue_range(e, range, true);
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
    const sm_status status = enqueue_range(e, range, false);
    release_events(e);
    // Exchanges by links flush at their begins and before waits.
    return status != SM_OK || e->landing != NULL ? status : OPENCL_CALL(e->device, clFlush, e->device->queue);
}

sm_status opencl_synchronize(sm_executable *executable) {
    opencl_executable *e = (opencl_executable *)executable;
    sm_status status = opencl_wait(e, "clFinish", e->device->queue, NULL);
    e->is_idle = status == SM_OK;
    opencl_dismiss_helpers(e->device); // the first step has run
    return status;
}
