// exchange.c: exchanges of a plan among processes, by the host or by the devices themselves (session.h).
//
// Two processes on one host whose devices have their own memory need no processor to sum: each copies its part to the
// host's memory, and its device adds the other's part. For more processes the host sums (comm_reduce.h). Devices that
// reach each other by their own links need neither: the host only watches that all processes live (collectives.h).
#include "src/session/session.h"

#include <unistd.h>

#include "clock.h"
#include "collectives.h"
#include "shard.h"
#include "src/comm/comm_reduce.h"
#include "src/plan/host_threads.h"

// A start in progress: one for each op. A device's copies have their own tickets.
typedef struct {
    sm_exchange *exchange;
    sm_executable *executable;
    int tensor;
    int line_elems; // of the job's slices
    sm_comm_pattern pattern;
    bool is_bf16;
    char *host;   // the tensor's address in host memory
    char *theirs; // and in the other process's memory, for a pair
    void *copy_out;
    void *copy_in;
    int64_t ticket;  // 0: not started
    int64_t brought; // ticket of the previous exchange, which the other may still be reading; 0: none
    void *carried;   // the library's ticket; NULL: never begun
} transfer;

struct sm_exchange {
    sm_comm *comm;
    const sm_plan *plan;
    const sm_backend *backend;
    int *segments; // by arena; -1: not shared
    char **memory; // this process's part of the segment
    bool is_pair;  // two devices that add by themselves
    sm_device *device;
    const sm_collectives *library; // that exchanges; NULL: the host does
    void **begun;                  // its tickets that are not handed over
    int n_begun;
    int64_t handing;           // ticket of the job that hands these over; 0: none
    sm_executable *executable; // of these
    char transport[SM_COLLECTIVES_TEXT_SIZE];
    char advice[SM_COLLECTIVES_TEXT_SIZE * 2]; // what would be faster; "": nothing
    char devices[SM_DEVICES_SIZE];
    int n_threads;       // threads of this process that sum
    transfer *transfers; // two for each op
    int n_under_way;     // transfers in progress
    int64_t last_ticket; // last one started
    bool is_apart;       // of some weights, only the own slices are those of the last step
};

// --- shared memory -------------------------------------------------------------------------------------

static sm_status share_arenas(sm_exchange *x, sm_plan *plan) {
    for (int i = 0; i < plan->n_arenas; i++) {
        x->segments[i] = -1;
        if (x->library == NULL && sm_plan_is_exchanged(plan, plan->arenas[i].role)) {
            void *mine = NULL;
            SM_TRY(sm_comm_share(x->comm, plan->arenas[i].size_bytes, &x->segments[i], &mine));
            x->memory[i] = mine;
            plan->arenas[i].memory = x->backend->begin_copy == NULL ? mine : NULL;
        }
    }
    return SM_OK;
}

// Processes send messages if a host's shared memory has no room for the gradients.
static sm_status make_room(sm_exchange *x) {
    char lack[SM_COMM_LACK_SIZE];
    size_t size_bytes = 0;
    for (int i = 0; i < x->plan->n_arenas; i++) {
        size_bytes += sm_plan_is_exchanged(x->plan, x->plan->arenas[i].role) ? x->plan->arenas[i].size_bytes : 0;
    }
    SM_TRY(sm_comm_make_room(x->comm, size_bytes, lack));
    snprintf(x->transport, sizeof x->transport, "%s", sm_comm_shares_memory(x->comm) ? "shared memory" : "messages");
    if (lack[0] != '\0') {
        snprintf(x->advice, sizeof x->advice, "shared memory would be faster: %s", lack);
    }
    return SM_OK;
}

// Summing threads of a process with a device: half its processors are nearly as fast as all.
static int threads_beside_device(void) {
    enum { MOST = 8 };
    const int n = sm_host_threads();
    return n > 2 * MOST ? MOST : n > 2 ? n / 2 : 1;
}

// --- the devices' own links ----------------------------------------------------------------------------

static sm_status find_library(const sm_exchange *x, const sm_collectives *library, const sm_comm_options *options) {
    SM_FAIL_IF(library == NULL, SM_ERR_UNSUPPORTED, "%s is not a card of NVIDIA's OpenCL", x->device->info.id);
    for (int i = 0; i < x->plan->n_arenas; i++) {
        const sm_arena *a = &x->plan->arenas[i];
        SM_FAIL_IF(sm_plan_is_exchanged(x->plan, a->role) && a->size_bytes > SM_EXCHANGED_BYTES, SM_ERR_UNSUPPORTED,
                   "a tensor of %.2f GiB is larger than the %.2f GiB that it can reach",
                   (double)a->size_bytes / (1 << 30), (double)SM_EXCHANGED_BYTES / (1 << 30));
    }
    SM_FAIL_IF(library->is_of_host && sm_comm_local_size(x->comm) < sm_comm_size(x->comm), SM_ERR_UNSUPPORTED,
               "the processes are on several hosts");
    return library->find(x->device, options->nccl);
}

typedef struct {
    sm_device *device;
    const sm_collectives *library;
    unsigned char id[SM_COLLECTIVES_ID_BYTES];
    bool has_id;
    int rank, n_processes;
} joining;

static sm_status join(void *ctx) {
    const joining *j = ctx;
    return j->library->join(j->device, j->id, j->rank, j->n_processes);
}

static sm_status join_library(sm_exchange *x, const sm_collectives *library) {
    joining j = {.device = x->device, .library = library, .n_processes = sm_comm_size(x->comm)};
    const sm_status made = sm_comm_rank(x->comm) == 0 ? library->make_id(x->device, j.id) : SM_OK;
    j.has_id = made == SM_OK;
    SM_TRY(sm_comm_broadcast(x->comm, 0, &j.id, sizeof j.id));
    SM_TRY(sm_comm_broadcast(x->comm, 0, &j.has_id, sizeof j.has_id));
    SM_TRY(made);
    SM_FAIL_IF(!j.has_id, SM_ERR_DEVICE, "rank 0 could not begin");
    j.rank = sm_comm_rank(x->comm);
    return sm_comm_wait_beside(x->comm, join, &j, sizeof j);
}

static sm_status use_library(sm_exchange *x, const sm_collectives *library) {
    x->library = library;
    library->describe(x->device, x->transport);
    return sm_comm_serve(x->comm);
}

// Whether it failed in none of the processes; keeps the message.
static sm_status worked_everywhere(sm_exchange *x, const sm_collectives *library, sm_status status, bool *worked) {
    double n_failed = status == SM_OK ? 0 : 1;
    if (status != SM_OK) {
        snprintf(x->advice, sizeof x->advice, "%s would be faster: %s", library->title, sm_error_message());
    }
    SM_TRY(status == SM_ERR_TIMEOUT ? status : SM_OK);
    SM_TRY(sm_comm_sum(x->comm, &n_failed, 1));
    *worked = n_failed == 0;
    return SM_OK;
}

// The fastest way that all processes can use, else the host.
static sm_status choose_automatically(sm_exchange *x, const sm_comm_options *options) {
    const sm_collectives *library;
    bool suits = false;
    double n_with = sm_collectives_of(x->device->backend, 0) != NULL;
    SM_TRY(sm_comm_sum(x->comm, &n_with, 1));
    for (int i = 0; n_with == sm_comm_size(x->comm) && (library = sm_collectives_of(x->device->backend, i)) != NULL;
         i++) {
        bool works = false;
        suits = library->suits(x->device);
        SM_TRY(worked_everywhere(x, library, find_library(x, library, options), &works));
        if (works) {
            SM_TRY(worked_everywhere(x, library, join_library(x, library), &works));
            if (works) {
                return use_library(x, library);
            }
            library->abort(x->device);
        }
    }
    x->advice[0] = suits ? x->advice[0] : '\0';
    return SM_OK;
}

static sm_status as_asked(const char *name, sm_status status) {
    return status == SM_OK ? SM_OK : sm_fail(status, "--transport %s: %s", name, sm_error_message());
}

// All processes use the same.
static sm_status choose_transport(sm_exchange *x) {
    static const char *const names[] = {SM_TRANSPORT_LIST(SM_WORD)};
    const sm_comm_options *options = sm_comm_options_of(x->comm);
    const sm_collectives *library = NULL;
    const char *name = names[options->transport];
    if (options->transport == SM_TRANSPORT_AUTO) {
        return choose_automatically(x, options);
    }
    if (options->transport == SM_TRANSPORT_MEMORY || options->transport == SM_TRANSPORT_MESSAGES) {
        return SM_OK;
    }
    int i = 0;
    while ((library = sm_collectives_of(x->device->backend, i)) != NULL && strcmp(library->name, name) != 0) {
        i++;
    }
    SM_TRY(sm_comm_agree(x->comm, as_asked(name, find_library(x, library, options))));
    SM_TRY(sm_comm_agree(x->comm, as_asked(name, join_library(x, library))));
    return use_library(x, library);
}

const char *sm_exchange_transport(const sm_exchange *x) { return x != NULL ? x->transport : ""; }
const char *sm_exchange_advice(const sm_exchange *x) { return x != NULL && x->library == NULL ? x->advice : ""; }

const char *sm_exchange_devices(const sm_exchange *x) { return x != NULL ? x->devices : ""; }

// Processes on a host's processor have their own cores. A name is told where it changes.
void sm_list_places(const sm_place *all, int n, char text[SM_DEVICES_SIZE]) {
    enum { MORE_SIZE = sizeof ", and 2147483647 more" };
    bool is_usual = true;
    text[0] = '\0';
    for (int i = 0; i < n * n; i++) {
        const sm_place *a = &all[i / n], *b = &all[i % n];
        const bool is_one = a > b && strcmp(a->uuid, b->uuid) == 0 && strcmp(a->host, b->host) == 0;
        const bool are_alike = strncmp(a->id, b->id, strcspn(a->id, ":") + 1) == 0 && strcmp(a->name, b->name) == 0;
        is_usual = is_usual && are_alike && (!is_one || a->is_host_processor);
    }
    for (int i = 0, end = 0; i < n && !is_usual; i++) {
        const bool is_new = i == 0 || strcmp(all[i].name, all[i - 1].name) != 0;
        SM_FREED char *one =
            sm_text_of("%s%s%s%s", i > 0 ? ", " : "", all[i].id, is_new ? " " : "", is_new ? all[i].name : "");
        const bool has_room = end + (int)strlen(one) + MORE_SIZE <= SM_DEVICES_SIZE;
        end += has_room ? sprintf(text + end, "%s", one) : sprintf(text + end, ", and %d more", n - i);
        n = has_room ? n : i;
    }
}

static sm_status compare_devices(sm_exchange *x) {
    const sm_device_info *info = &x->device->info;
    const int n = sm_comm_size(x->comm);
    SM_FREED sm_place *all = sm_calloc((size_t)n, sizeof *all);
    sm_place mine = {.is_host_processor = info->is_host_processor};
    (void)gethostname(mine.host, sizeof mine.host - 1);
    snprintf(mine.id, sizeof mine.id, "%s", info->id);
    snprintf(mine.uuid, sizeof mine.uuid, "%s", info->uuid[0] != '\0' ? info->uuid : info->id);
    snprintf(mine.name, sizeof mine.name, "%s", info->name);
    SM_TRY(sm_comm_gather(x->comm, &mine, sizeof mine, all));
    sm_list_places(all, n, x->devices);
    return SM_OK;
}

// Whether there are two processes whose devices both copy to memory that both see.
static sm_status find_pair(sm_exchange *x) {
    const bool copies = x->backend->begin_copy != NULL;
    bool all[2] = {false, false};
    if (sm_comm_size(x->comm) != 2 || !sm_comm_shares_memory(x->comm)) {
        return SM_OK;
    }
    SM_TRY(sm_comm_gather(x->comm, &copies, sizeof copies, all));
    x->is_pair = all[0] && all[1];
    return SM_OK;
}

sm_status sm_exchange_open(sm_comm *comm, sm_device *device, sm_plan *plan, sm_exchange **exchange) {
    *exchange = NULL;
    if (comm == NULL || sm_comm_size(comm) == 1 || plan->processes.n <= 1) {
        return SM_OK;
    }
    SM_FAIL_IF(plan->processes.n != sm_comm_size(comm) || plan->processes.rank != sm_comm_rank(comm), SM_ERR_INTERNAL,
               "a plan for process %d of %d, run by process %d of %d", plan->processes.rank, plan->processes.n,
               sm_comm_rank(comm), sm_comm_size(comm));
    SM_OWN(sm_exchange) *x = sm_calloc(1, sizeof *x);
    *x = (sm_exchange){
        .comm = comm,
        .plan = plan,
        .backend = device->backend,
        .device = device,
        .n_threads = device->backend->begin_copy == NULL ? device->info.n_threads : threads_beside_device(),
        .segments = sm_calloc((size_t)plan->n_arenas + 1, sizeof *x->segments),
        .memory = sm_calloc((size_t)plan->n_arenas + 1, sizeof *x->memory),
        .transfers = sm_calloc(2 * (size_t)plan->n_ops + 1, sizeof *x->transfers),
        .begun = sm_calloc(2 * (size_t)plan->n_ops + 1, sizeof *x->begun),
    };
    SM_TRY(compare_devices(x));
    SM_TRY(choose_transport(x));
    SM_TRY(x->library == NULL ? make_room(x) : SM_OK);
    SM_TRY(x->library == NULL ? find_pair(x) : SM_OK);
    SM_TRY(share_arenas(x, plan));
    *exchange = sm_give(&x);
    return SM_OK;
}

void sm_exchange_close(sm_exchange *exchange) {
    if (exchange != NULL) {
        for (int i = 0; i < exchange->plan->n_arenas; i++) {
            if (exchange->memory[i] != NULL) {
                sm_comm_unshare(exchange->comm, exchange->segments[i]);
            }
        }
        free(exchange->segments);
        free(exchange->memory);
        free(exchange->transfers);
        free(exchange->begun);
        free(exchange);
    }
}

sm_status sm_exchange_broadcast(sm_exchange *exchange, void *data, size_t size_bytes) {
    return exchange == NULL ? SM_OK : sm_comm_broadcast(exchange->comm, 0, data, size_bytes);
}

sm_status sm_exchange_is_same(sm_exchange *exchange, const void *data, size_t size_bytes, bool *is_same) {
    *is_same = true;
    if (exchange == NULL) {
        return SM_OK;
    }
    const int n = sm_comm_size(exchange->comm);
    SM_FREED char *all = sm_malloc((size_t)n * size_bytes);
    SM_TRY(sm_comm_gather(exchange->comm, data, size_bytes, all));
    for (int i = 0; i < n; i++) {
        *is_same &= memcmp(all, all + (size_t)i * size_bytes, size_bytes) == 0;
    }
    return SM_OK;
}

static char *their_memory(const sm_exchange *x, int arena) {
    return x->is_pair ? sm_comm_part(x->comm, x->segments[arena], 1 - sm_comm_rank(x->comm)) : NULL;
}

sm_status sm_exchange_pin(sm_exchange *x, sm_executable *executable) {
    for (int i = 0; x != NULL && x->backend->pin != NULL && i < x->plan->n_arenas; i++) {
        if (x->segments[i] < 0) {
            continue;
        }
        SM_TRY(x->backend->pin(executable, x->memory[i], x->plan->arenas[i].size_bytes));
        SM_TRY(x->is_pair ? x->backend->pin(executable, their_memory(x, i), x->plan->arenas[i].size_bytes) : SM_OK);
    }
    return SM_OK;
}

// --- ops -------------------------------------------------------------------------------------------------

// In the communicating thread: waits until the device's part is copied. It polls rarely, because waiting in an OpenCL
// driver delays threads that launch kernels (H100, driver 580: 6.3 us a launch instead of 5.0).
static sm_status wait_for_copy_out(void *ctx) {
    static const struct timespec look = {.tv_nsec = 20000};
    const transfer *t = ctx;
    const sm_backend *backend = t->exchange->backend;
    while (t->copy_out != NULL && !backend->is_copied(t->executable, t->copy_out)) {
        nanosleep(&look, NULL);
    }
    return t->copy_out == NULL ? SM_OK : backend->wait_copy(t->executable, t->copy_out);
}

// The part that goes out of this process's device, or in: of a gather its own slice goes out and of a scatter in, and
// the other way, in a pair, the other's slice, else all.
static sm_slice part_of(const transfer *t, bool is_out) {
    const sm_processes *p = &t->exchange->plan->processes;
    const int64_t n_elems = sm_tensor_elems(&t->exchange->plan->tensors[t->tensor]);
    const bool is_own = (t->pattern == SM_COMM_ALL_GATHER) == is_out;
    return t->pattern == SM_COMM_ALL_REDUCE || (!is_own && t->theirs == NULL)
               ? (sm_slice){0, n_elems}
               : sm_slice_of(n_elems, t->line_elems, is_own ? p->rank : 1 - p->rank, p->n);
}

// Starts to copy a part between the device and `host`, which holds the whole tensor.
static sm_status begin_copy(const transfer *t, sm_copy_kind kind, sm_slice part, char *host, void **ticket) {
    const sm_tensor *of = &t->exchange->plan->tensors[t->tensor];
    const bool is_bf16 = t->is_bf16 && t->theirs != NULL; // a host that sums also rounds
    const sm_copy copy = {.kind = kind,
                          .tensor = t->tensor,
                          .offset_elems = part.first,
                          .n_elems = part.end - part.first,
                          .is_bf16 = is_bf16,
                          .host = host + (size_t)part.first * sm_dtype_size(of->dtype)};
    *ticket = NULL;
    return copy.n_elems == 0 ? SM_OK : t->exchange->backend->begin_copy(t->executable, &copy, ticket);
}

static sm_status begin_copy_out(transfer *t) {
    SM_TRY(t->theirs != NULL && t->brought > 0 ? sm_comm_wait_released(t->exchange->comm, t->brought) : SM_OK);
    return begin_copy(t, SM_COPY_OUT, part_of(t, true), t->host, &t->copy_out);
}

// Starts to copy the device's part in; the finish waits for it.
static sm_status begin_copy_in(void *ctx) {
    transfer *t = ctx;
    const bool adds = t->theirs != NULL && t->pattern != SM_COMM_ALL_GATHER;
    return begin_copy(t, adds ? SM_COPY_ADD : SM_COPY_IN, part_of(t, false), t->theirs != NULL ? t->theirs : t->host,
                      &t->copy_in);
}

// --- by the library: the communicating thread hands over what all have begun, and watches ---

static sm_status hand_over(void *ctx) {
    const sm_exchange *x = ctx;
    return x->library->hand_over(x->executable, x->begun, x->n_begun);
}

static sm_status is_carried(void *ctx, bool *is_done) {
    const transfer *t = ctx;
    return t->exchange->library->is_done(t->executable, t->carried, is_done);
}

static void abort_library(void *ctx) {
    const sm_exchange *x = ctx;
    x->library->abort(x->device);
}

static void abort_library_of(void *ctx) {
    const transfer *t = ctx;
    abort_library(t->exchange);
}

// Hands over everything that was begun: when no more is begun in this part of the step, or the first of it is needed.
// These are ops of the plan, to which all processes come.
static sm_status hand_over_begun(sm_exchange *x) {
    const sm_comm_job job = {.pattern = SM_COMM_MEET, .after = hand_over, .fail = abort_library, .ctx = x};
    return x->n_begun == 0 || x->handing > 0 ? SM_OK : sm_comm_start(x->comm, &job, &x->handing);
}

static sm_status finish_handing(sm_exchange *x) {
    if (x->handing > 0) {
        SM_TRY(sm_comm_finish(x->comm, x->handing));
        x->handing = 0;
        x->n_begun = 0;
    }
    return SM_OK;
}

static bool is_start(const sm_op *op) {
    return op->kind == SM_OP_ALL_REDUCE_START || op->kind == SM_OP_REDUCE_SCATTER_START ||
           op->kind == SM_OP_ALL_GATHER_START;
}

// Of weights that have copies, updates alone read the values.
static bool gathers_copies(const sm_op *op) {
    return op->kind == SM_OP_ALL_GATHER_START && op->out[SM_OUT(all_gather_start, w)] != SM_NO_TENSOR;
}

static bool is_last_start(const sm_plan *plan, int at) {
    bool is_last = plan->ops[at].range >= SM_PHASE_BACKWARD;
    for (int i = at + 1; i < plan->n_ops && is_last; i++) {
        is_last = !is_start(&plan->ops[i]) || plan->ops[i].range != plan->ops[at].range;
    }
    return is_last;
}

// The communicating thread asks until `is_done`, and whether all processes live.
static sm_status watch(sm_exchange *x, sm_status (*is_done)(void *ctx, bool *is_done), transfer *t) {
    const sm_comm_job job = {.pattern = SM_COMM_WATCH, .is_done = is_done, .fail = abort_library_of, .ctx = t};
    int64_t ticket = 0;
    SM_TRY(sm_comm_start(x->comm, &job, &ticket));
    return sm_comm_finish(x->comm, ticket);
}

// Looks for a short time by itself, which is faster than to wait for the communicating thread, that watches.
static sm_status wait_for_library(sm_exchange *x, sm_status (*is_done)(void *ctx, bool *is_done), transfer *t) {
    enum { SHORT_NS = 1000000 };
    const int64_t until_ns = sm_now_ns() + SHORT_NS;
    bool done = false;
    while (!done && sm_now_ns() < until_ns) {
        SM_TRY(is_done(t, &done));
    }
    return done ? SM_OK : watch(x, is_done, t);
}

static sm_status is_settled(void *ctx, bool *is_settled) {
    const transfer *t = ctx;
    return t->exchange->library->is_settled(t->executable, is_settled);
}

static sm_status begin_by_library(sm_exchange *x, transfer *t, const sm_op *op) {
    static const sm_collective_kind kinds[] = {[SM_COMM_ALL_REDUCE] = SM_COLLECTIVE_ALL_REDUCE,
                                               [SM_COMM_REDUCE_SCATTER] = SM_COLLECTIVE_REDUCE_SCATTER,
                                               [SM_COMM_ALL_GATHER] = SM_COLLECTIVE_ALL_GATHER};
    const sm_collective what = {
        .kind = kinds[t->pattern], .tensor = t->tensor, .line_elems = t->line_elems, .is_bf16 = op->attr.is_bf16};
    SM_TRY(finish_handing(x));
    SM_TRY(x->library->begin(t->executable, &what, &t->carried));
    t->ticket = 1; // any number
    x->n_under_way++;
    if (x->library->hand_over != NULL) {
        x->executable = t->executable;
        x->begun[x->n_begun++] = t->carried;
    }
    return SM_OK;
}

static sm_status finish(sm_exchange *x, transfer *t) {
    if (t->ticket == 0) {
        return SM_OK;
    }
    if (x->library != NULL) {
        SM_TRY(hand_over_begun(x));
        SM_TRY(finish_handing(x));
        SM_TRY(wait_for_library(x, is_carried, t));
        sm_comm_add_busy(x->comm, x->library->elapsed_ns(t->executable, t->carried));
    } else {
        SM_TRY(sm_comm_finish(x->comm, t->ticket));
        SM_TRY(t->copy_in == NULL ? SM_OK : x->backend->wait_copy(t->executable, t->copy_in));
    }
    t->ticket = 0;
    x->n_under_way--;
    if (x->library != NULL) {
        return x->library->finish(t->executable, t->carried);
    }
    if (x->is_pair && x->n_under_way == 0) { // finishes come in another order than starts
        sm_comm_release(x->comm, x->last_ticket);
    }
    return SM_OK;
}

static sm_status begin(sm_exchange *x, sm_executable *executable, transfer *t, const sm_op *op, int tensor,
                       sm_comm_pattern pattern) {
    const sm_tensor *of = &x->plan->tensors[tensor];
    const bool is_copied = x->backend->begin_copy != NULL && x->library == NULL;
    SM_TRY(finish(x, t)); // of the step before, if nothing waited for it
    *t = (transfer){.exchange = x,
                    .executable = executable,
                    .tensor = tensor,
                    .line_elems = op->kind == SM_OP_GATHER_ROWS ? SM_SLICE_LINE
                                  : op->attr.from_last          ? (int)sm_tensor_elems(of)
                                                                : SM_SLICE_BLOCK,
                    .pattern = pattern,
                    .is_bf16 = op->attr.is_bf16,
                    .host = x->library == NULL ? x->memory[of->arena] + of->offset_bytes : NULL,
                    .theirs = x->is_pair ? their_memory(x, of->arena) + of->offset_bytes : NULL,
                    .brought = t->brought,
                    .carried = t->carried};
    if (x->library != NULL) {
        return begin_by_library(x, t, op);
    }
    SM_TRY(is_copied ? begin_copy_out(t) : SM_OK);
    const sm_comm_job job = {
        .pattern = x->is_pair ? SM_COMM_MEET : pattern,
        .segment = x->segments[of->arena],
        .offset_bytes = of->offset_bytes,
        .n_elems = sm_tensor_elems(of),
        .line_elems = t->line_elems,
        .elem_bytes = sm_dtype_size(of->dtype),
        .n_threads = x->n_threads,
        .n_threads_beside = is_copied ? x->n_threads : 1, // a device leaves the processors idle
        .is_bf16 = op->attr.is_bf16,
        .before = is_copied ? wait_for_copy_out : NULL,
        .after = is_copied ? begin_copy_in : NULL,
        .ctx = t,
    };
    SM_TRY(sm_comm_start(x->comm, &job, &t->ticket));
    t->brought = t->ticket;
    x->last_ticket = t->ticket;
    x->n_under_way++;
    return SM_OK;
}

// Whether it is in progress and a finish would wait.
static bool is_waiting(transfer *t) {
    if (t->ticket == 0) {
        return false;
    }
    bool is_done = false;
    if (t->exchange->library != NULL) {
        return is_carried(t, &is_done) != SM_OK || !is_done;
    }
    return !sm_comm_is_finished(t->exchange->comm, t->ticket) ||
           (t->copy_in != NULL && !t->exchange->backend->is_copied(t->executable, t->copy_in));
}

// Time that the device still computes does not count as waiting for others.
static sm_status finish_two(sm_exchange *x, sm_executable *executable, transfer *t, int64_t *waited_ns) {
    SM_TRY(hand_over_begun(x));
    const bool continues = x->library != NULL && x->library->synchronize != NULL;
    for (int i = 0; i < 2; i++, t++) {
        SM_TRY(!is_waiting(t) ? SM_OK
               : continues    ? x->library->synchronize(executable, t->carried)
                              : x->backend->synchronize(executable));
        const int64_t start_ns = sm_now_ns();
        SM_TRY(finish(x, t));
        *waited_ns += sm_now_ns() - start_ns;
    }
    return SM_OK;
}

// The start that the finish of `tensor` waits for: of this step or of the one before.
static sm_status finish_of(sm_exchange *x, sm_executable *executable, int tensor, int64_t *waited_ns) {
    for (int i = 0; i < x->plan->n_ops; i++) {
        const sm_op *op = &x->plan->ops[i];
        if (sm_op_is_communication(op->kind) && op->kind != SM_OP_COMMUNICATION_FINISH && op->out[0] == tensor) {
            return finish_two(x, executable, &x->transfers[2 * i], waited_ns);
        }
    }
    return SM_OK;
}

// Gathers the rows and tokens of all processes.
static sm_status gather_now(sm_exchange *x, sm_executable *executable, transfer *t, const sm_op *op,
                            int64_t *waited_ns) {
    SM_TRY(begin(x, executable, t, op, op->out[SM_OUT(gather_rows, x)], SM_COMM_ALL_GATHER));
    SM_TRY(begin(x, executable, t + 1, op, op->out[SM_OUT(gather_rows, token)], SM_COMM_ALL_GATHER));
    return finish_two(x, executable, t, waited_ns);
}

// Sums a few numbers, or finds the largest of each, through the host.
static sm_status combine_now(sm_exchange *x, sm_executable *executable, const sm_op *op, int64_t *waited_ns) {
    const int tensor = op->out[0];
    const int n = (int)sm_tensor_elems(&x->plan->tensors[tensor]);
    SM_FREED float *values = sm_malloc((size_t)n * sizeof *values);
    SM_FREED double *combined = sm_malloc((size_t)n * sizeof *combined);
    SM_TRY(x->backend->synchronize(executable));
    SM_TRY(x->backend->download(executable, tensor, 0, n, values));
    for (int i = 0; i < n; i++) {
        combined[i] = values[i];
    }
    const int64_t start_ns = sm_now_ns();
    SM_TRY((op->kind == SM_OP_PROCESS_MAX ? sm_comm_max : sm_comm_sum)(x->comm, combined, n));
    *waited_ns += sm_now_ns() - start_ns;
    for (int i = 0; i < n; i++) {
        values[i] = (float)combined[i];
    }
    return x->backend->upload(executable, tensor, 0, n, values);
}

// A start takes only its own time. Where devices exchange by themselves, it may also wait for its own device.
static sm_status start(sm_exchange *x, sm_executable *executable, transfer *t, const sm_op *op, int64_t *waited_ns) {
    const int64_t start_ns = sm_now_ns();
    const int moved = op->out[gathers_copies(op) ? SM_OUT(all_gather_start, w) : 0];
    const sm_comm_pattern pattern = op->kind == SM_OP_ALL_REDUCE_START       ? SM_COMM_ALL_REDUCE
                                    : op->kind == SM_OP_REDUCE_SCATTER_START ? SM_COMM_REDUCE_SCATTER
                                                                             : SM_COMM_ALL_GATHER;
    x->is_apart |= gathers_copies(op);
    SM_TRY(begin(x, executable, t, op, moved, pattern));
    *waited_ns += x->library == NULL ? sm_now_ns() - start_ns : 0;
    return SM_OK;
}

sm_status sm_exchange_run(sm_exchange *x, sm_executable *executable, int at, int64_t *waited_ns) {
    const sm_op *op = &x->plan->ops[at];
    transfer *t = &x->transfers[2 * at];
    if (is_start(op)) {
        SM_TRY(start(x, executable, t, op, waited_ns));
        SM_TRY(is_last_start(x->plan, at) ? hand_over_begun(x) : SM_OK);
        // A process may wait for others next, as when it saves, before it finishes a gather.
        const bool settles = op->kind == SM_OP_ALL_GATHER_START && x->library != NULL && x->library->is_settled != NULL;
        return settles && is_last_start(x->plan, at) ? wait_for_library(x, is_settled, t) : SM_OK;
    }
    return op->kind == SM_OP_GATHER_ROWS            ? gather_now(x, executable, t, op, waited_ns)
           : op->kind == SM_OP_COMMUNICATION_FINISH ? finish_of(x, executable, op->out[0], waited_ns)
           : op->kind == SM_OP_PROCESS_SUM || op->kind == SM_OP_PROCESS_MAX
               ? combine_now(x, executable, op, waited_ns)
               : sm_fail(SM_ERR_INTERNAL, "%s: the session has no way to do it", sm_op_name(op->kind));
}

sm_status sm_exchange_complete(sm_exchange *x, sm_executable *executable, bool with_gradients) {
    SM_TRY(sm_exchange_finish(x, SM_NO_TENSOR)); // sums that no optimizer has waited for: a gather does not follow them
    for (int i = 0; x != NULL && i < x->plan->n_ops; i++) {
        sm_op op = x->plan->ops[i];
        const bool is_gradient = op.kind == SM_OP_REDUCE_SCATTER_START;
        op.attr.is_bf16 = false; // sums were rounded on their way
        SM_TRY((is_gradient ? with_gradients : gathers_copies(&op) && x->is_apart)
                   ? begin(x, executable, &x->transfers[2 * i + 1], &op, op.out[0], SM_COMM_ALL_GATHER)
                   : SM_OK);
    }
    if (x != NULL) {
        x->is_apart = false;
    }
    return sm_exchange_finish(x, SM_NO_TENSOR);
}

// Fails if others have updated a part of a parameter, or of a group, and this process does not have it.
static sm_status check_whole(const sm_exchange *x, int tensor) {
    const sm_tensor *t = &x->plan->tensors[tensor];
    for (int i = 0; x->is_apart && (t->is_saved || t->view_of == SM_NO_TENSOR) && i < x->plan->n_ops; i++) {
        const sm_op *op = &x->plan->ops[i];
        SM_FAIL_IF(gathers_copies(op) && sm_tensors_overlap(&x->plan->tensors[op->out[0]], t), SM_ERR_INTERNAL,
                   "%s: other processes have parts of it, which were not gathered", t->name);
    }
    return SM_OK;
}

sm_status sm_exchange_finish(sm_exchange *x, int tensor) {
    SM_TRY(x != NULL && tensor != SM_NO_TENSOR ? check_whole(x, tensor) : SM_OK);
    for (int i = 0; x != NULL && i < 2 * x->plan->n_ops; i++) {
        transfer *t = &x->transfers[i];
        const sm_tensor *tensors = x->plan->tensors;
        if (t->ticket != 0 && (tensor == SM_NO_TENSOR || sm_tensors_overlap(&tensors[t->tensor], &tensors[tensor]))) {
            SM_TRY(finish(x, t));
        }
    }
    return SM_OK;
}

// --- sharded state -----------------------------------------------------------------------------------------

// The part of a range of a sharded tensor that is in one slice.
typedef struct {
    int64_t at;     // in the range
    int64_t within; // in the slice
    int64_t n;      // 0: none
} share;

// Elements first .. end - 1 of the group's state, each for block_elems of the group's parameters.
static share share_of(const sm_plan *plan, const sm_tensor *t, const sm_bucket *b, int rank, int64_t first,
                      int64_t end) {
    const sm_slice slice = sm_slice_of(b->n_elems, SM_SLICE_BLOCK, rank, plan->processes.n);
    const int64_t begin = (b->first_elem + slice.first) / t->shard_block;
    const int64_t from = begin > first ? begin : first;
    const int64_t behind = (b->first_elem + slice.end + t->shard_block - 1) / t->shard_block;
    const int64_t to = behind < end ? behind : end;
    return (share){.at = from - first, .within = from - begin, .n = to > from ? to - from : 0};
}

sm_status sm_exchange_read(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems, float *values) {
    const sm_exchange *x = session->exchange;
    const sm_tensor *t = &x->plan->tensors[tensor];
    const int64_t first = t->shard_offset + offset_elems;
    for (int k = 0; k < x->plan->n_buckets; k++) {
        const sm_bucket *b = &x->plan->buckets[k];
        for (int rank = 0; rank < x->plan->processes.n && b->group == t->shard_group; rank++) {
            const share s = share_of(x->plan, t, b, rank, first, first + n_elems);
            if (s.n == 0) {
                continue;
            }
            if (rank == x->plan->processes.rank) {
                SM_TRY(sm_session_download(session, b->states[t->shard_state], s.within, s.n, values + s.at));
            }
            SM_TRY(sm_comm_broadcast(x->comm, rank, values + s.at, (size_t)s.n * sizeof *values));
        }
    }
    return SM_OK;
}

sm_status sm_exchange_write(sm_session *session, int tensor, int64_t offset_elems, int64_t n_elems,
                            const float *values) {
    const sm_exchange *x = session->exchange;
    const sm_tensor *t = &x->plan->tensors[tensor];
    const int64_t first = t->shard_offset + offset_elems;
    for (int k = 0; k < x->plan->n_buckets; k++) {
        const sm_bucket *b = &x->plan->buckets[k];
        const share s = share_of(x->plan, t, b, x->plan->processes.rank, first, first + n_elems);
        if (b->group == t->shard_group && s.n > 0) {
            SM_TRY(sm_session_upload(session, b->states[t->shard_state], s.within, s.n, values + s.at));
        }
    }
    return SM_OK;
}
