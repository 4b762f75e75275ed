#include "learn/live/live.h"

// --- a plan as numbers -----------------------------------------------------------------------------

void sm_live_numbers(const sm_model_config *config, const sm_plan_options *options, sm_mode mode, unsigned without,
                     double numbers[SM_LIVE_COUNT]) {
    int model = 0, optimizer = 0;
    while (sm_model_at(model) != config->model) {
        model++;
    }
    while (optimizer < sm_optimizer_count() && sm_optimizer_at(optimizer) != options->optimizer) {
        optimizer++;
    }
    const double others[] = {model, optimizer, mode, without};
    memcpy(&numbers[SM_LIVE_model], others, sizeof others);
#define OPTION(member)  numbers[SM_LIVE_##member] = (double)options->member;
#define SCALING(member) numbers[SM_LIVE_##member] = (double)options->scaling.member;
    SM_LIVE_PLAN(OPTION, SCALING)
#undef OPTION
#undef SCALING
#define X(type, member, ...) numbers[SM_LIVE_FIELD_##member] = (double)config->member;
    SM_MODEL_FIELDS(X, X)
#undef X
}

sm_status sm_live_plan(const double numbers[SM_LIVE_COUNT], sm_plan **plan) {
    SM_OWN(sm_plan) *built = NULL;
#define NUMBER(name) numbers[SM_LIVE_##name]
    SM_FAIL_IF(!(NUMBER(model) >= 0 && NUMBER(model) < sm_model_count() && NUMBER(optimizer) >= 0 &&
                 NUMBER(optimizer) < sm_optimizer_count()),
               SM_ERR_INVALID, "a plan of model %g and optimizer %g is unknown", NUMBER(model), NUMBER(optimizer));
    sm_model_config config = {.model = sm_model_at((int)NUMBER(model))};
#define X(type, member, ...) config.member = (SM_FIELD_##type)NUMBER(FIELD_##member);
    SM_MODEL_FIELDS(X, X)
#undef X
    sm_plan_options options = {
        .backward = true, .one_micro_batch = true, .optimizer = sm_optimizer_at((int)NUMBER(optimizer))};
#define OPTION(member)  options.member = (__typeof__(options.member))NUMBER(member);
#define SCALING(member) options.scaling.member = NUMBER(member);
    SM_LIVE_PLAN(OPTION, SCALING)
    SM_TRY(sm_model_build(&config, &options, &built));
    SM_TRY(sm_plan_rewrite(built, (sm_mode)NUMBER(mode), (unsigned)NUMBER(without)));
#undef NUMBER
    *plan = sm_give(&built);
    return SM_OK;
}

// --- a step ------------------------------------------------------------------------------------------

extern const sm_backend sm_backend_reference;

sm_status sm_live_open(sm_plan *plan, sm_live **live) {
    SM_OWN(sm_plan) *owned = plan;
    SM_OWN(sm_live) *made = sm_calloc(1, sizeof *made);
    int64_t largest = 1;
    for (int i = 0; i < plan->n_tensors; i++) {
        largest = sm_tensor_elems(&plan->tensors[i]) > largest ? sm_tensor_elems(&plan->tensors[i]) : largest;
    }
    made->values = malloc((size_t)largest * sizeof *made->values);
    made->narrow = malloc((size_t)largest * sizeof *made->narrow);
    SM_FAIL_IF(made->values == NULL || made->narrow == NULL, SM_ERR_OOM, "no memory to read a tensor of %lld elements",
               (long long)largest);
    SM_TRY(sm_backend_reference.open(0, &(sm_open_options){.n_threads = 0}, &made->device));
    SM_TRY(sm_session_open(made->device, sm_give(&owned), &made->session)); // owns it, even after a failure
    *live = sm_give(&made);
    return SM_OK;
}

void sm_live_close(sm_live *live) {
    if (live != NULL) {
        sm_session_close(live->session);
        sm_device_close(live->device);
        free(live->values);
        free(live->narrow);
        free(live->edits);
        free(live);
    }
}

bool sm_live_is_initial(const sm_tensor *t) {
    return t->role == SM_ROLE_PARAMETER || t->role == SM_ROLE_OPTIMIZER || t->role == SM_ROLE_BATCH;
}

sm_status sm_live_begin(sm_live *live, const int32_t *tokens, const int32_t *targets, const sm_step_settings *settings,
                        int64_t step) {
    const sm_plan *plan = live->session->plan;
    const sm_step_settings usual = sm_plan_settings(plan);
    SM_TRY(sm_session_set_batch(live->session, tokens, targets));
    SM_TRY(sm_session_set_hyper(live->session, settings != NULL ? settings : &usual, step, 1));
    for (int i = 0; i < plan->n_tensors; i++) {
        if (sm_live_is_initial(&plan->tensors[i])) {
            SM_TRY(sm_live_apply(live, i));
        }
    }
    return SM_OK;
}

int sm_live_stream(const sm_op *op) {
    return op->kind == SM_OP_RESIDUAL                  ? sm_op_tensor(op, "a")
           : sm_op_tensor(op, "dskip") != SM_NO_TENSOR ? sm_op_tensor(op, "dskip")
           : sm_op_tensor(op, "add") != SM_NO_TENSOR   ? sm_op_tensor(op, "x")
                                                       : SM_NO_TENSOR;
}

static sm_status execute(sm_live *live, int op) {
    const sm_backend *backend = live->device->backend;
    SM_TRY(backend->execute(live->session->executable, (sm_range){op, op + 1}, NULL));
    return backend->synchronize(live->session->executable);
}

// As if the stream that the op adds to were 0; afterwards it is as it was.
static sm_status execute_without(sm_live *live, int op, int stream) {
    const sm_plan *plan = live->session->plan;
    const int64_t n = sm_tensor_elems(&plan->tensors[stream]);
    float *zeros = (float *)live->values;
    memset(zeros, 0, (size_t)n * sizeof *zeros);
    SM_TRY(sm_session_read(live->session, stream, n, live->narrow));
    SM_TRY(sm_session_write(live->session, stream, n, zeros));
    SM_TRY(execute(live, op));
    const sm_tensor *in = &plan->tensors[sm_plan_root(plan, stream)];
    for (int i = 0; i < SM_MAX_OUT; i++) { // a result may lie where this input lay
        const int out = plan->ops[op].out[i];
        const sm_tensor *root = out == SM_NO_TENSOR ? NULL : &plan->tensors[sm_plan_root(plan, out)];
        if (root != NULL && root->arena == in->arena && root->offset_bytes == in->offset_bytes) {
            return SM_OK;
        }
    }
    return sm_session_write(live->session, stream, n, live->narrow);
}

sm_status sm_live_run(sm_live *live, int op) {
    const sm_op *o = &live->session->plan->ops[op];
    const int stream = o->attr.cut ? sm_live_stream(o) : SM_NO_TENSOR;
    SM_TRY(stream == SM_NO_TENSOR ? execute(live, op) : execute_without(live, op, stream));
    for (int i = 0; i < SM_MAX_OUT; i++) {
        if (o->out[i] != SM_NO_TENSOR) {
            SM_TRY(sm_live_apply(live, o->out[i]));
        }
    }
    return SM_OK;
}

sm_status sm_live_read(sm_live *live, int tensor) {
    const sm_tensor *t = &live->session->plan->tensors[tensor];
    const int64_t n = sm_tensor_elems(t);
    float *narrow = live->narrow;
    if (t->dtype == SM_I32 || t->dtype == SM_U32) {
        SM_TRY(live->device->backend->download(live->session->executable, tensor, 0, n, narrow));
        for (int64_t i = 0; i < n; i++) {
            int32_t id;
            memcpy(&id, narrow + i, sizeof id);
            live->values[i] = id;
        }
        return SM_OK;
    }
    SM_TRY(sm_session_read(live->session, tensor, n, narrow));
    for (int64_t i = 0; i < n; i++) {
        live->values[i] = (double)narrow[i];
    }
    return SM_OK;
}
