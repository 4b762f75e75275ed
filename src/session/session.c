// session.c: feeds and runs a prepared plan.
#include "src/io/file_digest.h"
#include "src/plan/host_threads.h"
#include "src/session/session.h"

sm_status sm_session_supports(const sm_device *device, const sm_plan *plan) {
    const sm_backend *backend = device->backend;
    SM_FAIL_IF(plan->tuned && !backend->tunes, SM_ERR_UNSUPPORTED,
               "mode tuned: backend %s has no kernels to choose among; use fused", backend->name);
    for (int i = 0; i < plan->n_ops; i++) {
        SM_TRY(!sm_op_is_communication(plan->ops[i].kind) ? backend->supports(device, plan, &plan->ops[i]) : SM_OK);
    }
    return SM_OK;
}

sm_status sm_session_open(sm_device *device, sm_plan *plan, sm_session **session) {
    return sm_session_open_among(NULL, device, plan, session);
}

sm_status sm_session_open_among(sm_comm *comm, sm_device *device, sm_plan *plan, sm_session **session) {
    const sm_backend *backend = device->backend;
    SM_OWN(sm_session) *s = sm_calloc(1, sizeof *s);
    *session = NULL;
    s->device = device;
    s->plan = plan;
    SM_TRY(sm_session_supports(device, plan));
    SM_TRY(sm_plan_assign_memory(plan, device->info.max_alloc_bytes));
    SM_TRY(sm_exchange_open(comm, device, plan, &s->exchange));
    SM_TRY(backend->prepare(device, plan, &s->executable));
    SM_TRY(sm_exchange_pin(s->exchange, s->executable));
    if (plan->scaler != SM_NO_TENSOR) {
        SM_TRY(sm_session_write_part(s, plan->scaler, SM_SCALER_SCALE, 1, &(float){(float)plan->scaling.scale}));
    }
    for (int i = 0; i < plan->n_tensors; i++) { // scales of factors in 8 bits, and of gradients that are never clipped
        const sm_tensor *t = &plan->tensors[i];
        const bool is_scale = t->role == SM_ROLE_OPTIMIZER || t->role == SM_ROLE_RESULT;
        const float value = (float)t->init_value;
        for (int64_t k = 0; k < sm_tensor_elems(t) && is_scale && value > 0; k++) {
            SM_TRY(sm_session_write_part(s, i, k, 1, &value));
        }
    }
    *session = sm_give(&s);
    return SM_OK;
}

size_t sm_session_memory(const sm_device *device, const sm_plan *plan) {
    return sm_plan_memory(plan, NULL) + device->backend->working_bytes(device, plan);
}

void sm_session_close(sm_session *session) {
    if (session != NULL) {
        (void)sm_exchange_finish(session->exchange, SM_NO_TENSOR); // copies into freed memory must not happen
        if (session->executable != NULL) {
            session->device->backend->release(session->executable);
        }
        sm_exchange_close(session->exchange);
        sm_plan_free(session->plan);
        free(session->staging);
        free(session);
    }
}

// Room for a converted copy, reused by the next call.
static sm_status reserve_staging(sm_session *session, int64_t n_elems, sm_dtype dtype) {
    size_t size_bytes = (size_t)n_elems * sm_dtype_size(dtype);
    if (size_bytes > session->staging_bytes) {
        void *grown = realloc(session->staging, size_bytes);
        SM_FAIL_IF(grown == NULL, SM_ERR_OOM, "no memory to convert %lld elements", (long long)n_elems);
        session->staging = grown;
        session->staging_bytes = size_bytes;
    }
    return SM_OK;
}

static sm_status check_transfer(const sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems) {
    const sm_tensor *t = &session->plan->tensors[tensor];
    const int64_t total = sm_tensor_elems(t);
    SM_FAIL_IF(n_elems < 0 || offset_elems < 0 || offset_elems > total || n_elems > total - offset_elems,
               SM_ERR_INTERNAL, "%s: %lld elements from %lld on asked for, it has %lld", t->name, (long long)n_elems,
               (long long)offset_elems, (long long)total);
    SM_FAIL_IF(sm_dtype_format(t->dtype)->widen == NULL, SM_ERR_UNSUPPORTED, "%s: no conversion between f32 and %s",
               t->name, sm_dtype_name(t->dtype));
    return SM_OK;
}

// Sums of gradients, or gathers of a sharded optimizer's weights, may be in progress.
static sm_status finish_exchange_of(sm_session *session, int tensor) {
    const sm_role role = session->plan->tensors[tensor].role;
    return role == SM_ROLE_GRADIENT || role == SM_ROLE_PARAMETER ? sm_exchange_finish(session->exchange, tensor)
                                                                 : SM_OK;
}

// Between f32 and a narrower format. Threads, because there are hundreds of millions of weights; but a team of threads,
// even of one, takes longer to make than a few elements to convert.
static void convert(const sm_number_format *format, bool widens, int64_t n_elems, const void *from, void *to) {
    enum { PIECE = 65536 };
    const size_t from_bytes = widens ? format->size_bytes : sizeof(float);
    const size_t to_bytes = widens ? sizeof(float) : format->size_bytes;
    if (n_elems <= PIECE) {
        if (widens) {
            format->widen(n_elems, from, to);
        } else {
            format->round(n_elems, from, to);
        }
        return;
    }
#pragma omp parallel for schedule(static) num_threads(sm_host_threads())
    for (int64_t first = 0; first < n_elems; first += PIECE) {
        convert(format, widens, n_elems - first < PIECE ? n_elems - first : PIECE,
                (const char *)from + (size_t)first * from_bytes, (char *)to + (size_t)first * to_bytes);
    }
}

sm_status sm_session_upload(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems,
                            const float *values) {
    const sm_dtype dtype = session->plan->tensors[tensor].dtype;
    if (dtype != SM_F32) {
        SM_TRY(reserve_staging(session, n_elems, dtype));
        convert(sm_dtype_format(dtype), false, n_elems, values, session->staging);
    }
    return session->device->backend->upload(session->executable, tensor, offset_elems, n_elems,
                                            dtype != SM_F32 ? session->staging : values);
}

sm_status sm_session_download(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems, float *values) {
    const sm_dtype dtype = session->plan->tensors[tensor].dtype;
    SM_TRY(dtype != SM_F32 ? reserve_staging(session, n_elems, dtype) : SM_OK);
    SM_TRY(session->device->backend->download(session->executable, tensor, offset_elems, n_elems,
                                              dtype != SM_F32 ? session->staging : values));
    if (dtype != SM_F32) {
        convert(sm_dtype_format(dtype), true, n_elems, session->staging, values);
    }
    return SM_OK;
}

sm_status sm_session_write(sm_session *session, int tensor, int64_t n_elems, const float *values) {
    return sm_session_write_part(session, tensor, 0, n_elems, values);
}

sm_status sm_session_write_part(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems,
                                const float *values) {
    const sm_tensor *t = &session->plan->tensors[tensor];
    SM_TRY(check_transfer(session, tensor, offset_elems, n_elems));
    SM_TRY(finish_exchange_of(session, tensor));
    if (t->is_sharded) {
        return sm_exchange_write(session, tensor, offset_elems, n_elems, values);
    }
    SM_TRY(sm_session_upload(session, tensor, offset_elems, n_elems, values));
    return t->working_copy == SM_NO_TENSOR
               ? SM_OK
               : sm_session_write_part(session, t->working_copy, offset_elems, n_elems, values);
}

sm_status sm_session_read(sm_session *session, int tensor, int64_t n_elems, float *values) {
    return sm_session_read_part(session, tensor, 0, n_elems, values);
}

sm_status sm_session_read_part(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems, float *values) {
    SM_TRY(check_transfer(session, tensor, offset_elems, n_elems));
    SM_TRY(finish_exchange_of(session, tensor));
    return (session->plan->tensors[tensor].is_sharded ? sm_exchange_read : sm_session_download)(
        session, tensor, offset_elems, n_elems, values);
}

sm_status sm_session_find(sm_session *session, int tensor, const float **values) {
    const sm_backend *backend = session->device->backend;
    const sm_tensor *t = &session->plan->tensors[tensor];
    SM_TRY(finish_exchange_of(session, tensor));
    *values = backend->address == NULL || t->dtype != SM_F32 || t->is_sharded
                  ? NULL
                  : backend->address(session->executable, tensor);
    return SM_OK;
}

sm_status sm_session_copy_params(sm_session *from, sm_session *to) {
    enum { PART_ELEMS = 1 << 22 };
    const sm_plan *plan = to->plan;
    SM_FREED float *part = sm_malloc(PART_ELEMS * sizeof *part);
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        const int source = sm_plan_is_param(plan, i) ? sm_plan_find_tensor(from->plan, t->name) : SM_NO_TENSOR;
        const int written = t->memory == NULL ? i : t->working_copy;
        const int64_t n_elems = source != SM_NO_TENSOR && written != SM_NO_TENSOR ? t->real_elems : 0;
        for (int64_t first = 0; first < n_elems; first += PART_ELEMS) {
            const int64_t n = n_elems - first < PART_ELEMS ? n_elems - first : PART_ELEMS;
            SM_TRY(sm_session_read_part(from, source, first, n, part));
            SM_TRY(sm_session_write_part(to, written, first, n, part));
        }
    }
    return SM_OK;
}

sm_status sm_session_set_documents(sm_session *session, const int32_t *starts) {
    const sm_plan *plan = session->plan;
    SM_FAIL_IF(plan->starts == SM_NO_TENSOR, SM_ERR_INTERNAL, "a plan without documents was given where they begin");
    return session->device->backend->upload(session->executable, plan->starts, 0, plan->B * plan->T, starts);
}

// Draws all parameters, or with `is_sent` takes process 0's. Adds them to a digest, unless that is NULL.
static sm_status draw_params(sm_session *session, uint64_t seed, bool is_sent, sm_digester *digester) {
    enum { PART_ELEMS = 1 << 22 }; // of less, threads that wait for each other would take longer than they draw
    const sm_plan *plan = session->plan;
    SM_FREED float *values = sm_malloc(PART_ELEMS * sizeof(*values));
    for (int i = 0; i < plan->n_tensors; i++) {
        const int64_t n_elems = sm_plan_is_param(plan, i) ? plan->tensors[i].real_elems : 0;
        const float *drawn = n_elems > 0 && digester != NULL ? sm_early_values(&plan->tensors[i], seed) : NULL;
        for (int64_t first = 0; first < n_elems; first += PART_ELEMS) {
            const int64_t n = n_elems - first < PART_ELEMS ? n_elems - first : PART_ELEMS;
            const float *part = drawn != NULL ? drawn + first : values;
            if (drawn == NULL && (!is_sent || plan->processes.rank == 0)) {
                sm_param_init(plan, i, seed, first, n, values);
            }
            SM_TRY(is_sent ? sm_exchange_broadcast(session->exchange, values, (size_t)n * sizeof(*values)) : SM_OK);
            if (digester != NULL) {
                sm_digester_add(digester, part, (size_t)n * sizeof(*part));
            }
            SM_TRY(sm_session_write_part(session, i, first, n, part));
        }
    }
    return SM_OK;
}

// All processes draw the same numbers, unless their math libraries differ in a last digit: then they take process 0's.
sm_status sm_session_draw(sm_session *session, uint64_t seed) {
    if (session->exchange == NULL) {
        return draw_params(session, seed, false, NULL);
    }
    char drawn[SM_FILE_DIGEST_SIZE] = "";
    bool is_same = true;
    SM_OWN(sm_digester) *digester = sm_digester_open();
    SM_TRY(draw_params(session, seed, false, digester));
    sm_early_end();
    sm_digester_text(digester, drawn);
    SM_TRY(sm_exchange_is_same(session->exchange, drawn, sizeof drawn, &is_same));
    return is_same ? SM_OK : draw_params(session, seed, true, NULL);
}

sm_status sm_session_set_batch(sm_session *session, const int32_t *tokens, const int32_t *targets) {
    const sm_backend *backend = session->device->backend;
    const int64_t n = session->plan->B * session->plan->T;
    const int gathered = session->plan->gathered_tokens;
    SM_TRY(backend->upload(session->executable, session->plan->tokens, 0, n, tokens));
    if (gathered != SM_NO_TENSOR) {
        SM_TRY(backend->upload(session->executable, gathered, session->plan->processes.rank * n, n, tokens));
    }
    return backend->upload(session->executable, session->plan->targets, 0, n, targets);
}

// `value` is unchanged if the plan has no scaler.
static sm_status read_scaler(sm_session *session, int place, float *value) {
    if (session->plan->scaler == SM_NO_TENSOR) {
        return SM_OK;
    }
    SM_TRY(sm_session_synchronize(session));
    return sm_session_read_part(session, session->plan->scaler, place, 1, value);
}

sm_status sm_session_skipped(sm_session *session, int64_t *n_skipped) {
    float count = 0;
    SM_TRY(read_scaler(session, SM_SCALER_SKIPPED, &count));
    *n_skipped = (int64_t)count;
    return SM_OK;
}

sm_status sm_session_loss_scale(sm_session *session, double *scale) {
    float value = 1;
    SM_TRY(read_scaler(session, SM_SCALER_SCALE, &value));
    *scale = value;
    return SM_OK;
}

sm_status sm_session_set_hyper(sm_session *session, const sm_step_settings *settings, int64_t step, int64_t n_accum) {
    double hyper[SM_HYPER_COUNT];
    int64_t n_skipped = 0;
    SM_FAIL_IF(session->plan->processes.never_clips && settings->grad_clip > 0, SM_ERR_INTERNAL,
               "a plan that never clips was asked to");
    SM_TRY(sm_session_skipped(session, &n_skipped));
    sm_fill_hyper(session->plan, settings, step - n_skipped, n_accum, hyper);
    const sm_backend *backend = session->device->backend;
    if (session->plan->real == SM_F64) {
        return backend->upload(session->executable, session->plan->hyper, 0, SM_HYPER_COUNT, hyper);
    }
    float narrow[SM_HYPER_COUNT];
    for (int i = 0; i < SM_HYPER_COUNT; i++) {
        narrow[i] = (float)hyper[i];
    }
    return backend->upload(session->executable, session->plan->hyper, 0, SM_HYPER_COUNT, narrow);
}

sm_status sm_session_set_share(sm_session *session, double share) {
    const sm_plan *plan = session->plan;
    const float narrow = (float)share;
    return session->device->backend->upload(session->executable, plan->hyper, SM_HYPER_LOSS_SCALE, 1,
                                            plan->real == SM_F64 ? (const void *)&share : &narrow);
}

// Dropout masks differ from one micro-step to the next.
static sm_status advance_rng(sm_session *session) {
    const uint64_t step = session->n_micro_steps++;
    if (session->plan->rng_step == SM_NO_TENSOR) {
        return SM_OK;
    }
    const uint32_t words[2] = {(uint32_t)step, (uint32_t)(step >> 32)};
    return session->device->backend->upload(session->executable, session->plan->rng_step, 0, 2, words);
}

// Distinguishes a step's first micro-batch from later ones, and refuses later ones if the plan has only one.
static sm_status check_gradients(sm_session *session, unsigned phases) {
    session->zeroed |= (phases & SM_RUN_ZERO_GRAD) != 0;
    session->executable->is_later = !session->zeroed && !session->plan->one_micro_batch;
    if (phases & SM_RUN_BACKWARD) {
        SM_FAIL_IF(session->plan->one_micro_batch && !session->zeroed, SM_ERR_INTERNAL,
                   "a plan of one micro-batch a step was asked to add up gradients");
        session->zeroed = false;
    }
    return SM_OK;
}

// Gradients are summed once a step, and never in validation, although the head's part of them is in the forward's
// range. Every sum that began is waited for.
static bool is_begun(const sm_plan *plan, const sm_op *op, unsigned phases) {
    const bool is_once = (phases & SM_RUN_MORE) == 0 && (phases & SM_RUN_BACKWARD) != 0;
    return op->kind == SM_OP_COMMUNICATION_FINISH || op->range == SM_PHASE_OPTIMIZER || is_once ||
           !sm_plan_is_step(plan);
}

// Runs an op of communication, and times how long the host waits.
static sm_status communicate(sm_session *session, int op, unsigned phases, int64_t *op_ns) {
    if (session->exchange == NULL || !is_begun(session->plan, &session->plan->ops[op], phases)) {
        return SM_OK;
    }
    int64_t elapsed_ns = 0;
    SM_TRY(sm_exchange_run(session->exchange, session->executable, op, &elapsed_ns));
    session->comm_ns += elapsed_ns;
    if (op_ns != NULL) {
        op_ns[op] += elapsed_ns;
    }
    return SM_OK;
}

static bool is_left_out(const sm_plan *plan, const sm_op *op, unsigned phases) {
    return op->attr.when == ((phases & SM_RUN_MORE) != 0 ? SM_WHEN_LAST : SM_WHEN_MORE) ||
           ((phases & SM_RUN_NO_GRADIENTS) != 0 && op->phase == SM_PHASE_BACKWARD) ||
           ((phases & SM_RUN_NO_UPDATES) != 0 && sm_op_is_update(plan, op));
}

// Runs one op by itself, with a watcher.
static sm_status run_watched(sm_session *session, int op, int64_t *op_ns, const sm_watcher *watcher) {
    SM_TRY(sm_session_synchronize(session));
    SM_TRY(watcher->before(watcher->ctx, session, op));
    SM_TRY(session->device->backend->execute(session->executable, (sm_range){op, op + 1}, op_ns));
    SM_TRY(sm_session_synchronize(session));
    return watcher->after(watcher->ctx, session, op);
}

// Options of a run of phases.
typedef struct {
    unsigned phases;
    int64_t *op_ns;            // NULL: no timing
    const sm_watcher *watcher; // NULL: no watcher
} manner;

// Gives ops to the backend, except those of communication and those left out.
static sm_status run_range(sm_session *session, sm_range range, const manner *how) {
    const sm_backend *backend = session->device->backend;
    int first = range.first;
    for (int i = range.first; i < range.end; i++) {
        const sm_op *op = &session->plan->ops[i];
        const bool is_communication = sm_op_is_communication(op->kind);
        const bool leaves_out = is_left_out(session->plan, op, how->phases);
        const bool is_watched = how->watcher != NULL && how->watcher->wants(how->watcher->ctx, i);
        if (!is_communication && !leaves_out && !is_watched) {
            continue;
        }
        SM_TRY(first < i ? backend->execute(session->executable, (sm_range){first, i}, how->op_ns) : SM_OK);
        if (is_communication) {
            SM_TRY(communicate(session, i, how->phases, how->op_ns));
        } else if (!leaves_out) {
            SM_TRY(run_watched(session, i, how->op_ns, how->watcher));
        }
        first = i + 1;
    }
    return first < range.end ? backend->execute(session->executable, (sm_range){first, range.end}, how->op_ns) : SM_OK;
}

static sm_status run_phases(sm_session *session, const manner *how) {
    SM_TRY(check_gradients(session, how->phases));
    SM_TRY(how->phases & SM_RUN_FORWARD ? advance_rng(session) : SM_OK);
    for (int phase = 0; phase < SM_PHASE_COUNT; phase++) {
        if (!(how->phases & (1u << phase))) {
            continue;
        }
        sm_range range = sm_plan_range(session->plan, (sm_phase)phase);
        // Own code would know a check by ops that end before the update.
        const bool joins = session->device->info.own_kernels[0] == '\0';
        while (joins && phase + 1 < SM_PHASE_COUNT && (how->phases & (1u << (phase + 1)))) {
            sm_range next = sm_plan_range(session->plan, (sm_phase)++phase);
            range.end = next.end > range.end ? next.end : range.end;
        }
        SM_TRY(range.first < range.end ? run_range(session, range, how) : SM_OK);
    }
    return SM_OK;
}

sm_status sm_session_run(sm_session *session, unsigned phases, int64_t *op_ns) {
    return run_phases(session, &(manner){.phases = phases, .op_ns = op_ns});
}

sm_status sm_session_run_watched(sm_session *session, unsigned phases, int64_t *op_ns, const sm_watcher *watcher) {
    return run_phases(session, &(manner){.phases = phases, .op_ns = op_ns, .watcher = watcher});
}

sm_status sm_session_synchronize(sm_session *session) {
    return session->device->backend->synchronize(session->executable);
}

static sm_status read_scalar(sm_session *session, int tensor, double *value) {
    float narrow = 0;
    SM_TRY(sm_session_synchronize(session));
    SM_TRY(sm_session_read(session, tensor, 1, &narrow));
    *value = narrow;
    return SM_OK;
}

sm_status sm_session_loss(sm_session *session, double *loss) { return read_scalar(session, session->plan->loss, loss); }

sm_status sm_session_grad_norm(sm_session *session, double *norm) {
    return read_scalar(session, session->plan->grad_norm, norm);
}
