// backend_apart.c: the judge's half: a backend whose functions are calls of another process.
#include "learn/own_kernels/kernel_library.h"

#include <unistd.h>

#include "clock.h"
#include "learn/own_kernels/backend_call.h"
#include "os/library.h"
#include "src/optim/optimizer.h"
#include "src/processes/process.h"

typedef struct {
    sm_device base;
    void *there;
} apart_device;

typedef struct {
    sm_executable base;
    void *there;
    char *kept[2]; // weights of a backend that keeps none: those to be restored, and to be resumed
} apart_executable;

static struct {
    sm_backend backend;
    char name[BACKEND_WORD_SIZE];
    char summary[SM_TEXT_SIZE];
    int n_devices;
    char library[PATH_MAX];
    char folder[PATH_MAX]; // the only one that it may write to
    pid_t maker;           // of the folder
    sm_own_process *process;
    pid_t owner;               // of the process: a worker starts its own
    sm_own_process *of_parent; // which ends it
    double call_ns;            // 0: not measured yet
    sm_plan plan;              // the last that was sent
    bool knows_plan;
} apart;

const sm_own_process *sm_backend_apart_process(void) { return apart.process; }

// --- calls -------------------------------------------------------------------------------------------

static backend_call *the_call(void) { return sm_own_process_memory(apart.process, NULL); }

static void remove_folder(void) {
    if (apart.maker == getpid()) {
        sm_remove_tree(apart.folder);
    }
}

static sm_status start(void) {
    const char *const words[] = {SM_OWN_BACKEND_LIBRARY, apart.library, apart.folder};
    const sm_own_process_options how = {.n_threads = 1};
    sm_own_kernel unused = {.number = 0};
    if (apart.process != NULL && apart.owner == getpid()) {
        return SM_OK;
    }
    apart.of_parent = apart.process;
    apart.process = NULL;
    apart.knows_plan = false;
    if (apart.call_ns == 0) { // without the library, which could make it look slower
        SM_TRY(sm_own_process_start(NULL, &how, NULL, 0, &apart.process));
        apart.call_ns = sm_own_process_call_ns(apart.process);
        sm_own_process_end(apart.process);
        apart.process = NULL;
    }
    const sm_status status = sm_own_process_start(words, &how, &unused, 1, &apart.process);
    apart.owner = getpid();
    return status;
}

// Does the call that lies in the shared memory.
static sm_status ask(backend_call_kind kind, int64_t deadline_ns) {
    backend_call *call = the_call();
    call->kind = kind;
    SM_TRY(sm_own_process_ask(apart.process, deadline_ns));
    const sm_status status = call->status;
    char message[SM_OWN_MESSAGE_SIZE];
    memcpy(message, call->message, sizeof message);
    SM_FAIL_IF(status != SM_OK && (status < SM_OK || status > SM_ERR_INTERNAL), SM_ERR_DEVICE,
               "own code (--backend-library) gave an answer that is none");
    return status == SM_OK ? SM_OK : sm_fail(status, "%.*s", SM_OWN_MESSAGE_SIZE - 1, message);
}

static sm_status ask_for(backend_call_kind kind, const sm_executable *executable) {
    the_call()->executable = ((const apart_executable *)executable)->there;
    return ask(kind, executable->deadline_ns);
}

static void append(char **to, const void *from, size_t size_bytes) {
    memcpy(*to, size_bytes > 0 ? from : *to, size_bytes); // what is empty may be NULL
    *to += (size_bytes + 15) / 16 * 16;
}

// That an address here would be of no use there.
static bool has_memory(const sm_plan *plan) {
    bool has_any = false;
    for (int i = 0; i < plan->n_tensors; i++) {
        has_any |= plan->tensors[i].memory != NULL;
    }
    for (int i = 0; i < plan->n_arenas; i++) {
        has_any |= plan->arenas[i].memory != NULL;
    }
    return has_any;
}

static sm_status send_plan(const sm_plan *plan) {
    size_t room_bytes;
    backend_call *call = sm_own_process_memory(apart.process, &room_bytes);
    const size_t sizes[] = {sizeof(backend_plan), sizeof(sm_tensor) * (size_t)plan->n_tensors,
                            sizeof(sm_op) * (size_t)plan->n_ops, sizeof(sm_arena) * (size_t)plan->n_arenas,
                            sizeof(sm_bucket) * (size_t)plan->n_buckets};
    size_t size_bytes = sizeof *call + BACKEND_PART_BYTES;
    for (int i = 0; i < 5; i++) {
        size_bytes += sizes[i] + 16;
    }
    SM_FAIL_IF(size_bytes > room_bytes, SM_ERR_OOM, "%s: no shared memory for the plan: %zu bytes", apart.name,
               size_bytes);
    SM_FAIL_IF(plan->processes.n > 1 || has_memory(plan), SM_ERR_UNSUPPORTED,
               "%s: a backend of your own runs apart, and shares no tensors: it cannot be one of several processes",
               apart.name);
    char *to = call->data;
    backend_plan head = {.plan = *plan};
    snprintf(head.optimizer, sizeof head.optimizer, "%s", plan->optimizer != NULL ? plan->optimizer->name : "");
    append(&to, &head, sizes[0]);
    append(&to, plan->tensors, sizes[1]);
    append(&to, plan->ops, sizes[2]);
    append(&to, plan->arenas, sizes[3]);
    append(&to, plan->buckets, sizes[4]);
    call->brings_plan = true;
    apart.plan = *plan;
    apart.knows_plan = true;
    return SM_OK;
}

// For questions about each op of one plan.
static sm_status send_plan_once(const sm_plan *plan) {
    the_call()->brings_plan = false;
    const bool is_known = apart.knows_plan && apart.plan.ops == plan->ops && apart.plan.n_ops == plan->n_ops &&
                          apart.plan.tensors == plan->tensors && apart.plan.n_tensors == plan->n_tensors;
    return is_known ? SM_OK : send_plan(plan);
}

// --- devices -----------------------------------------------------------------------------------------

static void end_text(char *text, size_t size_bytes) {
    text[size_bytes - 1] = '\0';
    for (; *text != '\0'; text++) {
        *text = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
    }
}

// The texts and numbers that it gives for a device, whose name begins with the backend's.
static sm_device_info take_info(int index) {
    sm_device_info info = the_call()->info;
    char *const texts[] = {info.name,        info.driver,   info.isa,      info.blas_core, info.tier,    info.reason,
                           info.tier_reason, info.platform, info.features, info.binding,   info.products};
    const size_t sizes[] = {sizeof info.name,     sizeof info.driver,  sizeof info.isa,         sizeof info.blas_core,
                            sizeof info.tier,     sizeof info.reason,  sizeof info.tier_reason, sizeof info.platform,
                            sizeof info.features, sizeof info.binding, sizeof info.products};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        end_text(texts[i], sizes[i]);
    }
    info.n_warnings = info.n_warnings < 0 ? 0 : info.n_warnings > SM_MAX_WARNINGS ? SM_MAX_WARNINGS : info.n_warnings;
    for (int i = 0; i < info.n_warnings; i++) {
        end_text(info.warnings[i], sizeof info.warnings[i]);
    }
    info.n_threads = info.n_threads > 0 ? info.n_threads : 1;
    info.n_units = info.n_units > 0 ? info.n_units : 1;
    snprintf(info.id, sizeof info.id, apart.n_devices > 1 ? "%.24s:%d" : "%.24s", apart.name, index);
    info.own_kernels[0] = '\0';
    info.own_call_ns = apart.call_ns;
    return info;
}

static int device_count(void) { return apart.n_devices; }

static sm_status describe(int index, sm_device_info *info) {
    SM_TRY(start());
    the_call()->index = index;
    SM_TRY(ask(BACKEND_DESCRIBE, 0));
    *info = take_info(index);
    return SM_OK;
}

static sm_status open_device(int index, const sm_open_options *options, sm_device **device) {
    SM_TRY(start());
    backend_call *call = the_call();
    call->index = index;
    call->how.n_threads = options->n_threads;
    call->how.keep_env = options->keep_env;
    call->how.openblas = options->openblas;
    call->how.has_isa = options->isa != NULL;
    call->how.has_cpu_mask = options->cpu_mask != NULL;
    snprintf(call->how.isa, sizeof call->how.isa, "%s", options->isa != NULL ? options->isa : "");
    snprintf(call->how.cpu_mask, sizeof call->how.cpu_mask, "%s", options->cpu_mask != NULL ? options->cpu_mask : "");
    SM_TRY(ask(BACKEND_OPEN, 0));
    apart_device *made = sm_calloc(1, sizeof *made);
    *made = (apart_device){.base = {.backend = &apart.backend, .info = take_info(index)}, .there = call->device};
    *device = &made->base;
    return SM_OK;
}

static void *there(const sm_device *device) { return ((const apart_device *)device)->there; }

static void close_device(sm_device *device) {
    if (device != NULL) {
        the_call()->device = there(device);
        (void)ask(BACKEND_CLOSE, 0);
        free(device);
    }
}

static bool emulates(const sm_device *device, sm_precision precision) {
    the_call()->device = there(device);
    the_call()->precision = precision;
    return ask(BACKEND_EMULATES, 0) == SM_OK && the_call()->yes;
}

static sm_status measure_peaks(sm_device *device, SM_UNUSED sm_precision precision, SM_UNUSED double seconds,
                               sm_peaks *peaks) {
    *peaks = (sm_peaks){.flops = 0};
    return sm_fail(SM_ERR_UNSUPPORTED, "%s: the ceilings of a backend of your own would be its own word",
                   device->info.id);
}

// --- plans -------------------------------------------------------------------------------------------

static sm_status supports(const sm_device *device, const sm_plan *plan, const sm_op *op) {
    SM_TRY(send_plan_once(plan));
    the_call()->device = there(device);
    the_call()->op = *op;
    return ask(BACKEND_SUPPORTS, 0);
}

static size_t working_bytes(const sm_device *device, const sm_plan *plan) {
    if (send_plan_once(plan) != SM_OK) {
        return 0;
    }
    the_call()->device = there(device);
    return ask(BACKEND_WORKING_BYTES, 0) == SM_OK ? the_call()->size_bytes : 0;
}

static sm_status prepare(sm_device *device, const sm_plan *plan, sm_executable **executable) {
    backend_call *call = the_call();
    *executable = NULL;
    SM_TRY(send_plan(plan));
    apart.knows_plan = false; // what was asked about before may change afterwards
    call->device = there(device);
    SM_TRY(ask(BACKEND_PREPARE, 0));
    sm_executable said = call->made;
    end_text(said.tune_warning, sizeof said.tune_warning);
    end_text(said.note, sizeof said.note);
    apart_executable *e = sm_calloc(1, sizeof *e);
    *e = (apart_executable){.base = {.device = device, .plan = plan, .memory_bytes = sm_plan_memory(plan, NULL)},
                            .there = call->executable};
    memcpy(e->base.tune_warning, said.tune_warning, sizeof said.tune_warning);
    memcpy(e->base.note, said.note, sizeof said.note);
    e->base.tune_ns = said.tune_ns > 0 ? said.tune_ns : 0;
    *executable = &e->base;
    return SM_OK;
}

static void drop(apart_executable *e) {
    for (int i = 0; i < 2; i++) {
        free(e->kept[i]);
        e->kept[i] = NULL;
    }
}

static void release(sm_executable *executable) {
    if (executable != NULL) {
        (void)ask_for(BACKEND_RELEASE, executable);
        drop((apart_executable *)executable);
        free(executable);
    }
}

static sm_status synchronize(sm_executable *executable) { return ask_for(BACKEND_SYNCHRONIZE, executable); }

static sm_status ask_range(backend_call_kind kind, sm_executable *executable, sm_range range) {
    the_call()->range = range;
    the_call()->is_later = executable->is_later;
    return ask_for(kind, executable);
}

// The times of ops are taken here.
static sm_status execute(sm_executable *executable, sm_range range, int64_t *op_ns) {
    if (op_ns == NULL) {
        return ask_range(BACKEND_EXECUTE, executable, range);
    }
    for (int i = range.first; i < range.end; i++) {
        const int64_t begin_ns = sm_now_ns();
        SM_TRY(ask_range(BACKEND_EXECUTE_OP, executable, (sm_range){i, i + 1}));
        op_ns[i] += sm_now_ns() - begin_ns;
    }
    return SM_OK;
}

// --- copies ------------------------------------------------------------------------------------------

// An upload without data is of stale bytes.
static sm_status copy(backend_call_kind kind, sm_executable *executable, int tensor, int64_t offset_elems,
                      int64_t n_elems, char *data) {
    backend_call *call = the_call();
    const size_t elem_bytes = sm_dtype_size(executable->plan->tensors[tensor].dtype);
    const int64_t most = BACKEND_PART_BYTES / (int64_t)elem_bytes;
    apart.knows_plan = false; // its place has data now
    for (int64_t first = 0; first < n_elems; first += most) {
        const int64_t n = n_elems - first < most ? n_elems - first : most;
        char *part = data != NULL ? data + (size_t)first * elem_bytes : NULL;
        call->index = tensor;
        call->offset_elems = offset_elems + first;
        call->n_elems = n;
        if (kind == BACKEND_UPLOAD && data != NULL) {
            memcpy(call->data, part, (size_t)n * elem_bytes);
        } else if (kind == BACKEND_UPLOAD) {
            memset(call->data, SM_STALE_BYTE, (size_t)n * elem_bytes);
        }
        SM_TRY(ask_for(kind, executable));
        if (kind == BACKEND_DOWNLOAD) {
            memcpy(part, call->data, (size_t)n * elem_bytes);
        }
    }
    return SM_OK;
}

static sm_status upload(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems,
                        const void *data) {
    return copy(BACKEND_UPLOAD, executable, tensor, offset_elems, n_elems, (char *)(uintptr_t)data);
}

static sm_status download(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, void *data) {
    return copy(BACKEND_DOWNLOAD, executable, tensor, offset_elems, n_elems, data);
}

static sm_status keep_weights(sm_executable *executable, sm_weights_action action) {
    the_call()->action = action;
    return ask_for(BACKEND_KEEP_WEIGHTS, executable);
}

// All weights to or from `memory`, or stale bytes to all that a step makes.
static sm_status copy_all(backend_call_kind kind, sm_executable *executable, char *memory) {
    const sm_plan *plan = executable->plan;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        const int role = t->arena >= 0 ? (int)plan->arenas[t->arena].role : SM_ROLE_COUNT;
        const bool is_made =
            role == SM_ROLE_ACTIVATION || role == SM_ROLE_GRADIENT || role == SM_ROLE_RESULT || role == SM_ROLE_SCRATCH;
        if (memory != NULL ? role == SM_ROLE_PARAMETER : is_made) {
            SM_TRY(copy(kind, executable, i, 0, sm_tensor_elems(t), memory));
            memory += memory != NULL ? sm_tensor_bytes(t) : 0;
        }
    }
    return SM_OK;
}

// For a backend that keeps no weights: without a step that is made again, it could leave out whole steps.
static sm_status keep_weights_here(sm_executable *executable, sm_weights_action action) {
    apart_executable *e = (apart_executable *)executable;
    size_t size_bytes = 1;
    for (int i = 0; i < executable->plan->n_tensors; i++) {
        size_bytes += sm_tensor_bytes(&executable->plan->tensors[i]);
    }
    switch (action) {
    case SM_WEIGHTS_KEEP:
        for (int i = 0; i < 2; i++) {
            e->kept[i] = e->kept[i] != NULL ? e->kept[i] : sm_malloc(size_bytes); // pages exist once they are used
        }
        return copy_all(BACKEND_DOWNLOAD, executable, e->kept[0]);
    case SM_WEIGHTS_RESTORE:
        SM_TRY(copy_all(BACKEND_DOWNLOAD, executable, e->kept[1]));
        SM_TRY(copy_all(BACKEND_UPLOAD, executable, e->kept[0]));
        return copy_all(BACKEND_UPLOAD, executable, NULL);
    case SM_WEIGHTS_RESUME: return copy_all(BACKEND_UPLOAD, executable, e->kept[1]);
    case SM_WEIGHTS_DROP: drop(e); return SM_OK;
    }
    return SM_OK;
}

// --- the backend -------------------------------------------------------------------------------------

static sm_status take_facts(void) {
    SM_TRY(ask(BACKEND_FACTS, 0));
    const backend_call said = *the_call();
    memcpy(apart.name, said.name, sizeof apart.name);
    memcpy(apart.summary, said.summary, sizeof apart.summary);
    end_text(apart.name, sizeof apart.name);
    end_text(apart.summary, sizeof apart.summary);
    SM_FAIL_IF(apart.name[0] == '\0', SM_ERR_FORMAT, "%s: its backend has no name", apart.library);
    apart.n_devices = said.n_devices < 1                      ? 1
                      : said.n_devices > BACKEND_MOST_DEVICES ? BACKEND_MOST_DEVICES
                                                              : said.n_devices;
    apart.backend = (sm_backend){.name = apart.name,
                                 .summary = apart.summary,
                                 .tunes = said.tunes,
                                 .openblas = said.openblas,
                                 .device_count = device_count,
                                 .describe = describe,
                                 .open = open_device,
                                 .close = close_device,
                                 .supports = supports,
                                 .emulates = said.has_emulates ? emulates : NULL,
                                 .measure_peaks = measure_peaks,
                                 .working_bytes = working_bytes,
                                 .prepare = prepare,
                                 .release = release,
                                 .execute = execute,
                                 .synchronize = synchronize,
                                 .upload = upload,
                                 .download = download,
                                 .keep_weights = said.has_keep_weights ? keep_weights : keep_weights_here};
    return SM_OK;
}

sm_status sm_backend_apart_load(const char *path, const sm_backend **backend) {
    *backend = &apart.backend;
    SM_FAIL_IF(!os_lends_functions, SM_ERR_UNSUPPORTED,
               "--backend-library: %s: on Windows a library cannot call this program's functions; add your backend to "
               "the sources, or use WSL",
               path);
    SM_FAIL_IF(realpath(path, apart.library) == NULL, SM_ERR_IO, "--backend-library: %s: there is no such file", path);
    SM_TRY(sm_kernel_folder_make("backend", apart.folder));
    apart.maker = getpid();
    (void)atexit(remove_folder);
    SM_TRY(start());
    SM_TRY(take_facts());
    return sm_backend_add(&apart.backend);
}
