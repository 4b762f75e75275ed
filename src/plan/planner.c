// planner.c: gives every tensor of a plan its place in memory.
//
// Parameters, gradients, optimizer state, batch and results live as long as the plan: each role is packed end to end.
// Activations and scratch live from the op that writes them to the last op that reads them; those whose lifetimes do
// not overlap may share addresses. Placing them is the dynamic storage allocation problem, solved greedily by size: the
// largest first, each at the lowest offset that is free during its lifetime (Pisarchyk and Lee 2020, "Efficient memory
// management for deep neural net inference").
#include "plan.h"

enum { ALIGNMENT_BYTES = 256 }; // a multiple of a cache line, a SIMD register and OpenCL's 1024 bits

typedef struct {
    int tensor; // root that owns the place; others may share it
    size_t size_bytes;
    sm_range life; // while it holds data
    int arena;     // counted among the activation arenas
    size_t offset_bytes;
} place;

static size_t align_up(size_t size_bytes) {
    return (size_bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

static bool is_transient(sm_role role) { return role == SM_ROLE_ACTIVATION || role == SM_ROLE_SCRATCH; }

static void extend(sm_range *life, int op) {
    life->first = op < life->first ? op : life->first;
    life->end = op >= life->end ? op + 1 : life->end;
}

// Gradients of weights from 16-bit data may run next to later ops (backends/opencl/execute.c): their operands stay for
// as many of these as a block's backward has, about, so that those need not wait.
static int count_lag(const sm_plan *plan, int op) {
    enum { LAG = 8 };
    const bool may_lag = sm_dtype_is_narrow(plan->dtype) && plan->ops[op].kind == SM_OP_MATMUL_BACKWARD_WEIGHT;
    return !may_lag ? 0 : op + LAG < plan->n_ops ? LAG : plan->n_ops - 1 - op;
}

// For each root tensor the ops during which it holds data; a tensor that is never used gets an empty range.
static void find_lifetimes(const sm_plan *plan, sm_range *lives) {
    for (int i = 0; i < plan->n_tensors; i++) {
        lives[i] = (sm_range){plan->n_ops, 0};
    }
    for (int i = 0; i < plan->n_ops; i++) {
        for (int k = 0; k < SM_MAX_OPERANDS; k++) {
            const int tensor = plan->ops[i].operands[k];
            if (tensor != SM_NO_TENSOR) {
                extend(&lives[sm_plan_root(plan, tensor)], i);
                extend(&lives[sm_plan_root(plan, tensor)], i + count_lag(plan, i));
            }
        }
    }
}

// If an op may overwrite an input that no later op reads, its output t takes its place, that of owner[t].
static void share_in_place(const sm_plan *plan, sm_range *lives, int *owner) {
    for (int i = 0; i < plan->n_tensors; i++) {
        owner[i] = i;
    }
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        const int k = sm_op_get_info(op->kind)->inplace_in;
        const int result = op->out[sm_op_inplace_out(sm_op_get_info(op->kind))];
        if (k < 0 || op->in[k] == SM_NO_TENSOR || result == SM_NO_TENSOR) {
            continue;
        }
        const sm_tensor *in = &plan->tensors[op->in[k]];
        const sm_tensor *out = &plan->tensors[result];
        bool whole =
            in->view_of == SM_NO_TENSOR && out->view_of == SM_NO_TENSOR && sm_tensor_bytes(in) == sm_tensor_bytes(out);
        int from = owner[op->in[k]];
        bool read_again = false; // as another operand of this op
        for (int other = 0; other < SM_MAX_IN; other++) {
            read_again |= other != k && op->in[other] == op->in[k];
        }
        if (whole && !read_again && is_transient(in->role) && in->role == out->role && op->in[k] != result &&
            lives[from].end == i + 1 && lives[result].first == i) {
            owner[result] = from;
            extend(&lives[from], lives[result].end - 1);
        }
    }
}

static int larger_first(const void *a, const void *b) {
    const place *x = a;
    const place *y = b;
    if (x->size_bytes != y->size_bytes) {
        return x->size_bytes < y->size_bytes ? 1 : -1;
    }
    return x->tensor < y->tensor ? -1 : 1; // a total order, so that the result does not depend on qsort
}

static int lower_first(const void *a, const void *b) {
    const place *x = *(const place *const *)a;
    const place *y = *(const place *const *)b;
    return x->offset_bytes < y->offset_bytes ? -1 : x->offset_bytes > y->offset_bytes;
}

// Lowest offset in `arena` where p fits among the first n places.
static size_t lowest_gap(const place *places, int n, const place *p, int arena, const place **alive) {
    int n_alive = 0;
    for (const place *q = places; q < places + n; q++) {
        if (q->arena == arena && q->life.first < p->life.end && p->life.first < q->life.end) {
            alive[n_alive++] = q;
        }
    }
    qsort(alive, (size_t)n_alive, sizeof *alive, lower_first);
    size_t offset_bytes = 0;
    for (int i = 0; i < n_alive; i++) {
        if (offset_bytes + p->size_bytes <= alive[i]->offset_bytes) {
            break;
        }
        size_t end = alive[i]->offset_bytes + alive[i]->size_bytes;
        offset_bytes = end > offset_bytes ? end : offset_bytes;
    }
    return offset_bytes;
}

static void add_arena(sm_plan *plan, sm_role role, int *arena) {
    plan->arenas = sm_realloc(plan->arenas, (size_t)(plan->n_arenas + 1) * sizeof *plan->arenas);
    plan->arenas[plan->n_arenas] = (sm_arena){.role = role};
    *arena = plan->n_arenas++;
}

static sm_status check_largest(const sm_tensor *t, size_t max_arena_bytes) {
    SM_FAIL_IF(align_up(sm_tensor_bytes(t)) > max_arena_bytes, SM_ERR_OOM,
               "tensor %s needs %.2f GiB in one piece and the device allocates at most %.2f GiB; use a smaller "
               "batch or model",
               t->name, (double)sm_tensor_bytes(t) / (1 << 30), (double)max_arena_bytes / (1 << 30));
    return SM_OK;
}

// Packs the roots of one lasting role end to end; a full arena is followed by a new one. A tensor that is larger than
// the arenas of its role has one of its own.
static sm_status pack_lasting(sm_plan *plan, sm_role role, size_t max_arena_bytes) {
    const size_t full_bytes =
        sm_plan_is_exchanged(plan, role) ? sm_plan_exchanged_bytes(plan, max_arena_bytes) : max_arena_bytes;
    int arena = -1;
    for (sm_tensor *t = plan->tensors; t < plan->tensors + plan->n_tensors; t++) {
        if (t->role != role || t->view_of != SM_NO_TENSOR || t->is_sharded) {
            continue;
        }
        SM_TRY(check_largest(t, max_arena_bytes));
        size_t size_bytes = align_up(sm_tensor_bytes(t));
        if (arena < 0 || size_bytes > full_bytes || plan->arenas[arena].size_bytes > full_bytes - size_bytes) {
            add_arena(plan, role, &arena);
        }
        t->arena = arena;
        t->offset_bytes = plan->arenas[arena].size_bytes;
        plan->arenas[arena].size_bytes += size_bytes;
    }
    return SM_OK;
}

static sm_status place_one(sm_plan *plan, place *places, int n, size_t max_arena_bytes, int first_arena,
                           const place **alive) {
    const sm_role role = plan->tensors[places[n].tensor].role;
    place *p = &places[n];
    SM_TRY(check_largest(&plan->tensors[p->tensor], max_arena_bytes));
    for (p->arena = first_arena; p->arena < plan->n_arenas; p->arena++) {
        p->offset_bytes = lowest_gap(places, n, p, p->arena, alive);
        if (p->offset_bytes <= max_arena_bytes - p->size_bytes) {
            break;
        }
    }
    if (p->arena == plan->n_arenas) {
        add_arena(plan, role, &p->arena);
        p->offset_bytes = 0;
    }
    size_t end = p->offset_bytes + p->size_bytes;
    if (end > plan->arenas[p->arena].size_bytes) {
        plan->arenas[p->arena].size_bytes = end;
    }
    return SM_OK;
}

// Packs the roots of one transient role by lifetime.
static sm_status pack_transient(sm_plan *plan, sm_role role, size_t max_arena_bytes) {
    size_t n_tensors = (size_t)plan->n_tensors + 1; // never zero bytes
    SM_FREED sm_range *lives = sm_malloc(n_tensors * sizeof *lives);
    SM_FREED int *owner = sm_malloc(n_tensors * sizeof *owner);
    SM_FREED place *places = sm_malloc(n_tensors * sizeof *places);
    SM_FREED const place **alive = sm_malloc(n_tensors * sizeof *alive);
    find_lifetimes(plan, lives);
    share_in_place(plan, lives, owner);
    int n = 0;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        if (t->role == role && t->view_of == SM_NO_TENSOR && owner[i] == i && lives[i].first < lives[i].end) {
            places[n++] = (place){.tensor = i, .size_bytes = align_up(sm_tensor_bytes(t)), .life = lives[i]};
        }
    }
    qsort(places, (size_t)n, sizeof *places, larger_first);
    int first_arena = plan->n_arenas;
    for (int i = 0; i < n; i++) {
        SM_TRY(place_one(plan, places, i, max_arena_bytes, first_arena, alive));
        plan->tensors[places[i].tensor].arena = places[i].arena;
        plan->tensors[places[i].tensor].offset_bytes = places[i].offset_bytes;
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        if (owner[i] != i && plan->tensors[i].role == role) {
            plan->tensors[i].arena = plan->tensors[owner[i]].arena;
            plan->tensors[i].offset_bytes = plan->tensors[owner[i]].offset_bytes;
        }
    }
    return SM_OK;
}

sm_status sm_plan_assign_memory(sm_plan *plan, size_t max_arena_bytes) {
    if (max_arena_bytes == 0) {
        max_arena_bytes = SIZE_MAX;
    }
    free(plan->arenas);
    plan->arenas = NULL;
    plan->n_arenas = 0;
    for (int i = 0; i < plan->n_tensors; i++) {
        plan->tensors[i].arena = -1;
    }
    for (int role = 0; role < SM_ROLE_COUNT; role++) {
        SM_TRY((is_transient((sm_role)role) ? pack_transient : pack_lasting)(plan, (sm_role)role, max_arena_bytes));
    }
    for (sm_tensor *t = plan->tensors; t < plan->tensors + plan->n_tensors; t++) {
        if (t->view_of != SM_NO_TENSOR) {
            t->arena = plan->tensors[t->view_of].arena;
            t->offset_bytes =
                plan->tensors[t->view_of].offset_bytes + (size_t)t->view_offset_elems * sm_dtype_size(t->dtype);
        }
    }
    return SM_OK;
}

size_t sm_plan_memory(const sm_plan *plan, size_t by_role[SM_ROLE_COUNT]) {
    size_t total_bytes = 0;
    if (by_role != NULL) {
        memset(by_role, 0, SM_ROLE_COUNT * sizeof *by_role);
    }
    for (int i = 0; i < plan->n_arenas; i++) {
        total_bytes += plan->arenas[i].size_bytes;
        if (by_role != NULL) {
            by_role[plan->arenas[i].role] += plan->arenas[i].size_bytes;
        }
    }
    return total_bytes;
}

void sm_plan_lifetimes(const sm_plan *plan, sm_range *lives) {
    find_lifetimes(plan, lives);
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_range life = lives[sm_plan_root(plan, i)];
        lives[i] = !is_transient(plan->tensors[i].role) ? (sm_range){0, plan->n_ops}
                   : life.first < life.end              ? life
                                                        : (sm_range){0, 0};
    }
}

void sm_plan_alive_bytes(const sm_plan *plan, sm_role role, size_t *alive_bytes) {
    size_t n_tensors = (size_t)plan->n_tensors + 1; // never zero bytes
    SM_FREED sm_range *lives = sm_malloc(n_tensors * sizeof *lives);
    SM_FREED int *owner = sm_malloc(n_tensors * sizeof *owner);
    find_lifetimes(plan, lives);
    share_in_place(plan, lives, owner);
    memset(alive_bytes, 0, (size_t)plan->n_ops * sizeof *alive_bytes);
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        const sm_range life = is_transient(t->role) ? lives[i] : (sm_range){0, plan->n_ops};
        for (int op = life.first; op < life.end && t->role == role && t->view_of == SM_NO_TENSOR && owner[i] == i;
             op++) {
            alive_bytes[op] += align_up(sm_tensor_bytes(t));
        }
    }
}
