// process.c: confines all of its threads, and then loads the libraries: what happens from there on is in the hands of
// their code. Of a backend from a library it does what the judge asks for (backend_call.h).
#include "learn/own_kernels/kernel_library.h"

#include <pthread.h>
#include <unistd.h>

#include "learn/own_kernels/backend_call.h"
#include "os/library.h"
#include "os/memory.h"
#include "os/os.h"
#include "src/optim/optimizer.h"
#include "src/processes/process.h"
#include "src/verify/op_cases.h"

static struct {
    sm_own_shared *shared;
    size_t operands_at;
    char *libraries[SM_OP_KIND_COUNT];
    sm_own_kernel kernels[SM_OP_KIND_COUNT];
    int n;
    bool spins;
    _Atomic int n_confined; // threads
    const char *folder;     // of a driver, the only one that it may write to; NULL: these are kernels in C

    sm_device *device; // of a backend's kernel, which is then the only one; NULL: none
    sm_executable *executable;
    bool has_own_memory;                // the device: operands are copied
    size_t operand_at[SM_MAX_OPERANDS]; // in the shared memory
} own;

enum { MOST_FILE_BYTES = 1 << 26 }; // of a driver's cache

// --- a backend's kernel ------------------------------------------------------------------------------

// The case's op alone.
static sm_status plan_case(char *const *words, sm_plan **plan) {
    SM_TRY(sm_op_text_plan(sm_op_kind_find(words[0]), words[2], (sm_precision){.dtype = SM_F32}, plan));
    SM_TRY(sm_plan_assign_memory(*plan, 0));
    (*plan)->ops[0] = (*plan)->ops[(*plan)->n_ops - 1];
    (*plan)->n_ops = 1;
    return SM_OK;
}

// words: op, SM_OWN_DEVICE, the case; the device, a folder, FILE.cl or "".
static sm_status open_on_device(char *const *words, const sm_plan *placed) {
    sm_kernel_file file = {.language = SM_OWN_OPENCL};
    sm_own_kernel kernel;
    sm_plan *plan = NULL;
    const bool is_own = words[5][0] != '\0';
    for (int k = 0; k < SM_MAX_OPERANDS; k++) {
        const int tensor = placed->ops[0].operands[k];
        own.operand_at[k] = tensor != SM_NO_TENSOR ? placed->tensors[tensor].offset_bytes : 0;
    }
    if (is_own) {
        SM_TRY(sm_kernel_file_open(words[5], NULL, &file));
        SM_TRY(sm_kernel_load(words[5], &file, sm_op_kind_find(words[0]), &kernel));
    }
    SM_TRY(sm_kernel_device_open(is_own ? &kernel : NULL, words[3], &own.device));
    own.has_own_memory = true;
    SM_TRY(plan_case(words, &plan));
    SM_TRY(own.device->backend->supports(own.device, plan, &plan->ops[0]));
    return own.device->backend->prepare(own.device, plan, &own.executable);
}

// words: op, "backend:NAME" or "backend:NAME:ISA", the case.
static sm_status open_backend(char *const *words) {
    char *name = words[1] + strlen(SM_OWN_BACKEND);
    char *isa = strchr(name, ':');
    sm_plan *plan = NULL;
    SM_TRY(plan_case(words, &plan));
    sm_own_process_place(plan, own.shared->base + own.shared->operands_at);
    if (own.n == SM_OWN_STEPS) {
        return open_on_device(words, plan);
    }
    if (isa != NULL) {
        *isa++ = '\0';
    }
    const sm_backend *backend = sm_backend_find(name);
    const sm_open_options how = {.n_threads = 1, .isa = isa};
    SM_TRY(backend != NULL ? SM_OK : sm_fail(SM_ERR_UNSUPPORTED, "there is no backend %s", name));
    SM_TRY(backend->open(0, &how, &own.device));
    return backend->prepare(own.device, plan, &own.executable);
}

// Inputs come last: they count where an output lies in the place of one.
static sm_status copy_operands(bool gives) {
    const sm_plan *plan = own.executable->plan;
    const sm_backend *backend = own.device->backend;
    for (int k = SM_MAX_OPERANDS - 1; k >= (gives ? 0 : SM_MAX_IN); k--) {
        const int tensor = plan->ops[0].operands[k];
        const int64_t n = tensor != SM_NO_TENSOR ? sm_tensor_elems(&plan->tensors[tensor]) : 0;
        char *data = (char *)own.shared + own.operands_at + own.operand_at[k];
        if (n > 0) {
            SM_TRY(gives ? backend->upload(own.executable, tensor, 0, n, data)
                         : backend->download(own.executable, tensor, 0, n, data));
        }
    }
    return backend->synchronize(own.executable);
}

// On a device it is over when a part of its result is there.
static sm_status run_backend(int step) {
    const sm_backend *backend = own.device->backend;
    double element;
    if (own.has_own_memory && step != SM_OWN_RUNS) {
        return copy_operands(step == SM_OWN_GIVES);
    }
    SM_TRY(backend->execute(own.executable, (sm_range){0, 1}, NULL));
    SM_TRY(backend->synchronize(own.executable));
    return own.has_own_memory ? backend->download(own.executable, own.executable->plan->ops[0].out[0], 0, 1, &element)
                              : SM_OK;
}

// --- a library's backend -------------------------------------------------------------------------------

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

static sm_status load_backend(const char *path) {
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

static void answer(backend_call *call) {
    take_plan(call);
    call->brings_plan = false;
    call->status = do_call(call);
    snprintf(call->message, sizeof call->message, "%s", call->status != SM_OK ? sm_error_message() : "");
}

// --- calls -------------------------------------------------------------------------------------------

static void run(const sm_own_box *box) {
    if (box->kernel >= 0 && own.device != NULL) {
        if (run_backend(box->kernel) != SM_OK) {
            abort();
        }
    } else if (box->kernel >= 0 && own.folder != NULL) {
        answer((backend_call *)((char *)own.shared + own.operands_at));
    } else if (box->kernel >= 0 && box->kernel < own.n) {
        const sm_own_kernel *kernel = &own.kernels[box->kernel];
        sm_own_args args = own.shared->args;
        sm_own_args_bind(kernel->kind, &args);
        sm_own_args_set_thread(&args, box->thread, box->n_threads);
        kernel->run(args.members);
    }
}

static _Noreturn void serve(sm_own_box *box) {
    for (uint32_t n = 0;;) {
        const uint32_t asked = sm_own_await(&box->asked, n, own.spins, false, NULL);
        if (asked != n) {
            n = asked;
            run(box);
            sm_own_tell(&box->answered, n);
        }
    }
}

// --- its life ----------------------------------------------------------------------------------------

static bool confine(void) {
    const bool is_confined =
        own.folder != NULL ? sm_confine_driver(own.folder) : sm_confine_kernel(own.libraries, own.n);
    atomic_fetch_add(&own.n_confined, 1);
    return is_confined;
}

static void *run_thread(void *box) {
    (void)confine();
    serve(box);
    return NULL;
}

static sm_status confine_and_load(char *const *words) {
    for (int i = 1; i < own.shared->n_threads; i++) {
        pthread_t thread;
        SM_FAIL_IF(pthread_create(&thread, NULL, run_thread, &own.shared->boxes[i]) != 0, SM_ERR_OOM,
                   "--kernel: no memory for %d threads of your own code", own.shared->n_threads);
    }
    const bool is_backends = own.n > 0 && strncmp(own.libraries[0], SM_OWN_BACKEND, strlen(SM_OWN_BACKEND)) == 0;
    const bool is_ours = is_backends && own.folder == NULL;
    const bool is_confined = is_ours || confine();
    own.n_confined += is_ours;
    while (atomic_load(&own.n_confined) < own.shared->n_threads) {
        sched_yield();
    }
    sm_own_tell(&own.shared->stage, is_confined ? SM_OWN_CONFINED : SM_OWN_UNCONFINED);
    while (sm_own_await(&own.shared->may_load, 0, false, false, NULL) == 0) {
    }
    if (is_backends || own.folder != NULL) {
        return is_backends ? open_backend(words) : load_backend(own.libraries[0]);
    }
    for (int i = 0; i < own.n; i++) {
        sm_kernel_file file = {.language = SM_OWN_C};
        snprintf(file.library, sizeof file.library, "%s", own.libraries[i]);
        SM_TRY(sm_kernel_load(words[3 * i + 2], &file, sm_op_kind_find(words[3 * i]), &own.kernels[i]));
        own.shared->has_threads[i] = own.kernels[i].has_threads;
    }
    return SM_OK;
}

sm_status sm_own_process_serve(int n_words, char *const *words) {
    size_t size_bytes = 0;
    own.shared = os_map_input(&size_bytes);
    SM_FAIL_IF(own.shared == NULL || size_bytes <= sizeof *own.shared || own.shared->size_bytes != size_bytes,
               SM_ERR_USAGE, "no memory is shared");
    (void)!freopen("/dev/null", "r", stdin);
    os_close_from(STDERR_FILENO + 1);
    signal(SIGINT, SIG_IGN); // its parent handles them
    signal(SIGTERM, SIG_IGN);
    os_limit_this(&(os_limit){OS_LIMIT_CORE_BYTES, 0, false});
    os_die_first();
    own.n = n_words / 3;
    own.spins = own.shared->spins;
    if (own.shared->most_bytes > 0) {
        os_limit_this(&(os_limit){OS_LIMIT_MEMORY, own.shared->most_bytes, true});
        os_limit_this(&(os_limit){OS_LIMIT_FILE_BYTES, MOST_FILE_BYTES, false});
    }
    own.shared->base = (char *)own.shared;
    own.operands_at = own.shared->operands_at;
    if (own.n == 1 && strcmp(words[0], SM_OWN_BACKEND_LIBRARY) == 0) {
        own.folder = words[2];
    } else if (own.n == SM_OWN_STEPS && strcmp(words[1], SM_OWN_DEVICE) == 0) {
        own.folder = words[4];
    }
    for (int i = 0; i < own.n && i < SM_OP_KIND_COUNT; i++) {
        own.libraries[i] = words[3 * i + 1];
    }
    if (confine_and_load(words) != SM_OK) {
        snprintf(own.shared->message, sizeof own.shared->message, "%s", sm_error_message());
        sm_own_tell(&own.shared->stage, SM_OWN_REFUSED);
        _exit(1);
    }
    sm_own_tell(&own.shared->stage, SM_OWN_READY);
    serve(&own.shared->boxes[0]);
}
