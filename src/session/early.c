// early.c: weights of one of several processes, drawn while its device opens.
#include "os/beside.h"
#include "src/session/session.h"

static struct {
    os_beside thread;
    sm_plan *plan; // NULL: nothing is drawn
    uint64_t seed;
    float **values; // by tensor
} early;

static void *draw_all(SM_UNUSED void *ctx) {
    for (int i = 0; i < early.plan->n_tensors; i++) {
        const int64_t n_elems = sm_plan_is_param(early.plan, i) ? early.plan->tensors[i].real_elems : 0;
        early.values[i] = n_elems > 0 ? malloc((size_t)n_elems * sizeof(float)) : NULL;
        if (early.values[i] != NULL) {
            sm_param_init(early.plan, i, early.seed, 0, n_elems, early.values[i]);
        }
    }
    return NULL;
}

void sm_early_end(void) {
    (void)os_await_beside(&early.thread);
    for (int i = 0; early.plan != NULL && i < early.plan->n_tensors; i++) {
        free(early.values[i]);
    }
    free(early.values);
    sm_plan_free(early.plan);
    memset(&early, 0, sizeof early);
}

void sm_session_draw_early(sm_plan *plan, uint64_t seed) {
    early.plan = plan;
    early.seed = seed;
    early.values = sm_calloc((size_t)plan->n_tensors, sizeof *early.values);
    os_begin_beside(&early.thread, draw_all, NULL);
}

const float *sm_early_values(const sm_tensor *t, uint64_t seed) {
    (void)os_await_beside(&early.thread);
    const int i = early.plan != NULL && early.seed == seed ? sm_plan_find_tensor(early.plan, t->name) : SM_NO_TENSOR;
    return i != SM_NO_TENSOR && early.plan->tensors[i].real_elems == t->real_elems ? early.values[i] : NULL;
}
