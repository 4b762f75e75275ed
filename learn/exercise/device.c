// device.c: a case as a plan of one op on a device, with gaps between its operands that must not change.
#include "learn/exercise/judge.h"

enum { GAP_BYTES = 16384, UNTOUCHED = 0xCB }; // as a number: -13e6

// --- a case on it ----------------------------------------------------------------------------------

typedef struct {
    const sm_exercise_case *from;
    sm_device *device;
    sm_plan *plan;
    sm_executable *executable;
} device_case;

// Gives each place of memory an arena of its own, with a gap before and after it, and each arena a tensor that covers it.
static sm_status set_apart(sm_plan *plan) {
    const int n = plan->n_tensors;
    SM_FREED int *arena_of = sm_calloc((size_t)n, sizeof *arena_of);
    sm_arena *arenas = sm_calloc((size_t)n, sizeof *arenas);
    int n_arenas = 0;
    for (int i = 0; i < n; i++) {
        const sm_tensor *t = &plan->tensors[i];
        int same = 0; // the first operand at this address, which an output may have in common with an input
        while (plan->tensors[same].arena != t->arena || plan->tensors[same].offset_bytes != t->offset_bytes) {
            same++;
        }
        arena_of[i] = same < i ? arena_of[same] : n_arenas;
        arenas[arena_of[i]] = (sm_arena){.role = t->role, .size_bytes = sm_tensor_bytes(t) + (size_t)2 * GAP_BYTES};
        n_arenas += same == i;
    }
    free(plan->arenas);
    plan->arenas = arenas;
    plan->n_arenas = n_arenas;
    for (int i = 0; i < n; i++) {
        plan->tensors[i].arena = arena_of[i];
        plan->tensors[i].offset_bytes = GAP_BYTES;
    }
    for (int i = 0; i < n_arenas; i++) {
        const int64_t size_bytes = (int64_t)arenas[i].size_bytes;
        const int whole = sm_plan_add_tensor(plan, SM_ROLE_RESULT, SM_U8, 1, &size_bytes, "arena.%d", i);
        SM_TRY(whole == SM_NO_TENSOR ? SM_ERR_OOM : SM_OK);
        plan->tensors[whole].arena = i;
        plan->tensors[whole].offset_bytes = 0;
    }
    return SM_OK;
}

static sm_status open_case(device_case *c) {
    const sm_backend *backend = c->device->backend;
    SM_TRY(sm_op_case_plan(c->from->kind, c->from->index, (sm_precision){.dtype = SM_F32}, &c->plan));
    sm_plan *plan = c->plan;
    plan->ops[0] = plan->ops[plan->n_ops - 1]; // the op under test alone: results of its forward op are uploaded
    plan->n_ops = 1;
    SM_TRY(sm_plan_assign_memory(plan, 0));
    SM_TRY(set_apart(plan));
    SM_TRY(backend->supports(c->device, plan, &plan->ops[0]));
    return backend->prepare(c->device, plan, &c->executable);
}

// --- its data --------------------------------------------------------------------------------------

static int n_operands(const device_case *c) { return c->plan->n_tensors - c->plan->n_arenas; }

static sm_status upload(const device_case *c) {
    const sm_backend *backend = c->device->backend;
    for (int i = n_operands(c); i < c->plan->n_tensors; i++) {
        const size_t size_bytes = sm_tensor_bytes(&c->plan->tensors[i]);
        SM_FREED void *untouched = sm_malloc(size_bytes);
        memset(untouched, UNTOUCHED, size_bytes);
        SM_TRY(backend->upload(c->executable, i, 0, (int64_t)size_bytes, untouched));
    }
    for (int i = SM_CASE_OPERANDS - 1; i >= 0; i--) { // for an output in the place of an input, the input counts
        const sm_case_operand *o = &c->from->operands[i];
        if (o->info != NULL && !o->is_shared) {
            SM_TRY(backend->upload(c->executable, sm_case_tensor(c->from, o), 0, o->n_elems, o->before));
        }
    }
    return SM_OK;
}

// Restores inputs, downloads outputs for the comparison.
static sm_status download(const device_case *c) {
    const sm_backend *backend = c->device->backend;
    for (int i = 0; i < SM_CASE_OPERANDS; i++) {
        const sm_case_operand *o = &c->from->operands[i];
        if (o->info == NULL || (!o->is_output && sm_case_is_overwritten(c->from, o))) {
            continue;
        }
        SM_TRY(backend->download(c->executable, sm_case_tensor(c->from, o), 0, o->n_elems, o->data));
        SM_FAIL_IF(!o->is_output && memcmp(o->data, o->before, o->size_bytes) != 0, SM_ERR_MISMATCH,
                   "case %s: it writes to %s, which is an input", c->from->text, o->info->name);
    }
    return SM_OK;
}

// `whole`: the tensor that covers an arena.
static sm_status check_gaps(const device_case *c, int whole) {
    const size_t size_bytes = sm_tensor_bytes(&c->plan->tensors[whole]);
    SM_FREED unsigned char *bytes = sm_malloc(size_bytes);
    SM_TRY(c->device->backend->download(c->executable, whole, 0, (int64_t)size_bytes, bytes));
    for (size_t i = 0; i < size_bytes; i++) {
        i = i == GAP_BYTES ? size_bytes - GAP_BYTES : i; // past the data
        for (int k = 0; k < SM_CASE_OPERANDS && bytes[i] != UNTOUCHED; k++) {
            const sm_case_operand *o = &c->from->operands[k];
            const bool is_here =
                o->info != NULL && c->plan->tensors[sm_case_tensor(c->from, o)].arena == c->plan->tensors[whole].arena;
            SM_FAIL_IF(is_here, SM_ERR_MISMATCH, "case %s: it writes %s %s: indices run from 0 to %lld", c->from->text,
                       i < GAP_BYTES ? "before the beginning of" : "past the end of", o->info->name,
                       (long long)o->n_elems - 1);
        }
    }
    return SM_OK;
}

static sm_status run_case(device_case *c) {
    const sm_backend *backend = c->device->backend;
    SM_TRY(open_case(c));
    SM_TRY(upload(c));
    SM_TRY(backend->execute(c->executable, (sm_range){0, 1}, NULL));
    SM_TRY(backend->synchronize(c->executable));
    for (int i = n_operands(c); i < c->plan->n_tensors; i++) {
        SM_TRY(check_gaps(c, i));
    }
    return download(c);
}

sm_status sm_exercise_device_run(const sm_own_kernel *kernel, const char *device, const sm_exercise_cases *cases,
                                 volatile int *case_index) {
    sm_status status = SM_OK;
    SM_OWN(sm_device) *opened = NULL;
    SM_TRY(sm_kernel_device_open(kernel, device, &opened));
    for (int i = 0; status == SM_OK && i < cases->n; i++) {
        device_case c = {.from = &cases->list[i], .device = opened};
        *case_index = i;
        status = run_case(&c);
        opened->backend->release(c.executable);
        sm_plan_free(c.plan);
    }
    return status;
}
