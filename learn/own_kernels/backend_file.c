// backend_file.c: loads a library, compares the headers that it was compiled with, and checks that its backend is
// complete; then does what the judge asks for (backend_call.h).
#include "learn/own_kernels/backend_call.h"

#include <limits.h>

#include "os/library.h"
#include "src/optim/optimizer.h"

static struct {
    const sm_backend *backend;
    sm_plan *plan; // the last that came; of an executable once it is prepared
} brought;

static sm_status check_contract(const char *path, const sm_backend_library *library) {
    const sm_backend_library ours = SM_BACKEND_LIBRARY(NULL);
    SM_FAIL_IF(library->version != ours.version, SM_ERR_FORMAT,
               "%s: was made for version %d of the contract of backends, and this is version %d", path,
               library->version, ours.version);
    SM_FAIL_IF(library->backend_bytes != ours.backend_bytes || library->plan_bytes != ours.plan_bytes ||
                   library->op_bytes != ours.op_bytes || library->tensor_bytes != ours.tensor_bytes,
               SM_ERR_FORMAT,
               "%s: was compiled against other headers: sizes of backend, plan, op and tensor are %zu, %zu, %zu "
               "and %zu bytes, here %zu, %zu, %zu and %zu; compile it against this stepmark's include/",
               path, library->backend_bytes, library->plan_bytes, library->op_bytes, library->tensor_bytes,
               ours.backend_bytes, ours.plan_bytes, ours.op_bytes, ours.tensor_bytes);
    return SM_OK;
}

sm_status sm_backend_file_load(const char *path) {
    char resolved[PATH_MAX];
    if (realpath(path, resolved) == NULL) { // systems search for a name without a slash
        return sm_fail(SM_ERR_IO, "--backend-library: %s: there is no such file", path);
    }
    void *handle = os_library_open(resolved);
    SM_FAIL_IF(handle == NULL, SM_ERR_FORMAT, "--backend-library: cannot be loaded: %s", os_library_error());
    const sm_backend_library *library = os_library_find(handle, SM_BACKEND_SYMBOL);
    SM_FAIL_IF(library == NULL, SM_ERR_FORMAT, "%s: has no %s: see docs/adding.md", path, SM_BACKEND_SYMBOL);
    SM_TRY(check_contract(path, library));
    const sm_backend *b = brought.backend = library->get();
    SM_FAIL_IF(b == NULL || b->name == NULL || b->name[0] == '\0' || b->summary == NULL || b->device_count == NULL ||
                   b->describe == NULL || b->open == NULL || b->close == NULL || b->supports == NULL ||
                   b->measure_peaks == NULL || b->working_bytes == NULL || b->prepare == NULL || b->release == NULL ||
                   b->execute == NULL || b->synchronize == NULL || b->upload == NULL || b->download == NULL,
               SM_ERR_FORMAT, "%s: its backend lacks a name or a required function: see include/backend.h", path);
    return sm_backend_add(b);
}

// --- calls -------------------------------------------------------------------------------------------

static void *take(const char **from, size_t size_bytes) {
    void *copy = sm_malloc(size_bytes);
    memcpy(copy, *from, size_bytes);
    *from += (size_bytes + 15) / 16 * 16;
    return copy;
}

static void take_plan(const backend_call *call) {
    const char *from = call->data;
    if (!call->brings_plan) {
        return;
    }
    sm_plan_free(brought.plan);
    backend_plan *head = take(&from, sizeof *head);
    sm_plan *p = brought.plan = sm_plan_new(head->plan.dtype);
    *p = head->plan;
    p->tensors = take(&from, sizeof *p->tensors * (size_t)p->n_tensors);
    p->ops = take(&from, sizeof *p->ops * (size_t)p->n_ops);
    p->arenas = take(&from, sizeof *p->arenas * (size_t)p->n_arenas);
    p->buckets = take(&from, sizeof *p->buckets * (size_t)p->n_buckets);
    p->optimizer = sm_optimizer_find(head->optimizer);
    free(head);
}

static sm_status tell_facts(backend_call *call) {
    const sm_backend *b = brought.backend;
    snprintf(call->name, sizeof call->name, "%s", b->name);
    snprintf(call->summary, sizeof call->summary, "%s", b->summary);
    call->tunes = b->tunes;
    call->openblas = b->openblas;
    call->has_emulates = b->emulates != NULL;
    call->has_keep_weights = b->keep_weights != NULL;
    call->n_devices = b->device_count();
    return SM_OK;
}

static sm_status open_device(backend_call *call) {
    sm_device *device = NULL;
    const sm_open_options how = {.n_threads = call->how.n_threads,
                                 .isa = call->how.has_isa ? call->how.isa : NULL,
                                 .cpu_mask = call->how.has_cpu_mask ? call->how.cpu_mask : NULL,
                                 .keep_env = call->how.keep_env,
                                 .openblas = call->how.openblas};
    SM_TRY(brought.backend->open(call->index, &how, &device));
    call->device = device;
    call->info = device->info;
    return SM_OK;
}

static sm_status prepare(backend_call *call) {
    sm_executable *made = NULL;
    SM_TRY(brought.backend->prepare(call->device, brought.plan, &made));
    brought.plan = NULL;
    call->executable = made;
    call->made = *made;
    return SM_OK;
}

static void release(sm_executable *executable) {
    sm_plan *plan = (sm_plan *)(uintptr_t)executable->plan;
    brought.backend->release(executable);
    sm_plan_free(plan);
}

static sm_status execute(backend_call *call) {
    sm_executable *e = call->executable;
    e->is_later = call->is_later;
    return brought.backend->execute(e, call->range, NULL);
}

// It is over when a part of its result is there, whatever synchronize() says.
static sm_status execute_op(backend_call *call) {
    sm_executable *e = call->executable;
    const int out = e->plan->ops[call->range.first].out[0];
    SM_TRY(execute(call));
    SM_TRY(brought.backend->synchronize(e));
    return out != SM_NO_TENSOR ? brought.backend->download(e, out, 0, 1, call->data) : SM_OK;
}

static sm_status do_call(backend_call *call) {
    const sm_backend *b = brought.backend;
    sm_executable *e = call->executable;
    switch (call->kind) {
    case BACKEND_FACTS: return tell_facts(call);
    case BACKEND_DESCRIBE: return b->describe(call->index, &call->info);
    case BACKEND_OPEN: return open_device(call);
    case BACKEND_CLOSE: b->close(call->device); return SM_OK;
    case BACKEND_SUPPORTS: return b->supports(call->device, brought.plan, &call->op);
    case BACKEND_EMULATES: call->yes = b->emulates(call->device, call->precision); return SM_OK;
    case BACKEND_WORKING_BYTES: call->size_bytes = b->working_bytes(call->device, brought.plan); return SM_OK;
    case BACKEND_PREPARE: return prepare(call);
    case BACKEND_RELEASE: release(e); return SM_OK;
    case BACKEND_EXECUTE: return execute(call);
    case BACKEND_EXECUTE_OP: return execute_op(call);
    case BACKEND_SYNCHRONIZE: return b->synchronize(e);
    case BACKEND_UPLOAD: return b->upload(e, call->index, call->offset_elems, call->n_elems, call->data);
    case BACKEND_DOWNLOAD: return b->download(e, call->index, call->offset_elems, call->n_elems, call->data);
    case BACKEND_KEEP_WEIGHTS: return b->keep_weights(e, call->action);
    }
    return sm_fail(SM_ERR_INTERNAL, "no such call");
}

void sm_backend_answer(backend_call *call) {
    take_plan(call);
    call->brings_plan = false;
    call->status = do_call(call);
    snprintf(call->message, sizeof call->message, "%s", call->status != SM_OK ? sm_error_message() : "");
}
