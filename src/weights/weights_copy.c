// weights_copy.c: see weights.h.
#include "src/weights/weights.h"

#include <stdlib.h>

#include "os/os.h"

struct sm_weights_copy {
    const sm_plan *plan;
    float *values;
    int64_t *offsets; // in elements, for each of the plan's tensors; -1: not copied
    int64_t n_elems;
};

static bool is_copied(const sm_tensor *tensor) {
    return tensor->is_saved && (tensor->role == SM_ROLE_PARAMETER || tensor->role == SM_ROLE_OPTIMIZER);
}

// In huge pages if available: training waits for the first touch.
static float *allocate(size_t size_bytes) {
    enum { LARGE_PAGE_BYTES = 1 << 21 };
    void *values = aligned_alloc(LARGE_PAGE_BYTES, (size_bytes / LARGE_PAGE_BYTES + 1) * LARGE_PAGE_BYTES);
    if (values != NULL) {
        os_use_large_pages(values, size_bytes);
    }
    return values;
}

sm_status sm_weights_copy_open(const sm_plan *plan, sm_weights_copy **copy) {
    *copy = NULL;
    SM_OWN(sm_weights_copy) *c = sm_calloc(1, sizeof *c);
    c->offsets = sm_malloc(((size_t)plan->n_tensors + 1) * sizeof *c->offsets);
    c->plan = plan;
    for (int i = 0; i < plan->n_tensors; i++) {
        c->offsets[i] = is_copied(&plan->tensors[i]) ? c->n_elems : -1;
        c->n_elems += is_copied(&plan->tensors[i]) ? plan->tensors[i].real_elems : 0;
    }
    c->values = allocate((size_t)c->n_elems * sizeof *c->values);
    SM_FAIL_IF(c->values == NULL, SM_ERR_OOM,
               "checkpoints: no memory for a copy of weights and optimizer state, %.1f MiB",
               (double)c->n_elems * sizeof *c->values / 1048576);
    *copy = sm_give(&c);
    return SM_OK;
}

void sm_weights_copy_close(sm_weights_copy *copy) {
    if (copy != NULL) {
        free(copy->values);
        free(copy->offsets);
        free(copy);
    }
}

sm_status sm_weights_copy_take(sm_weights_copy *copy, sm_session *session) {
    SM_TRY(sm_session_synchronize(session));
    for (int i = 0; i < copy->plan->n_tensors; i++) {
        if (copy->offsets[i] >= 0) {
            SM_TRY(sm_session_read(session, i, copy->plan->tensors[i].real_elems, copy->values + copy->offsets[i]));
        }
    }
    return SM_OK;
}

sm_status sm_weights_copy_help(sm_session *session) {
    const sm_plan *plan = session->plan;
    int64_t most_elems = 0;
    for (int i = 0; i < plan->n_tensors; i++) {
        const int64_t n_elems = is_copied(&plan->tensors[i]) ? plan->tensors[i].real_elems : 0;
        most_elems = n_elems > most_elems ? n_elems : most_elems;
    }
    SM_FREED float *values = malloc((size_t)most_elems * sizeof *values + 1);
    SM_FAIL_IF(values == NULL, SM_ERR_OOM, "checkpoints: no memory to send %lld elements", (long long)most_elems);
    for (int i = 0; i < plan->n_tensors; i++) {
        if (is_copied(&plan->tensors[i]) && plan->tensors[i].is_sharded) {
            SM_TRY(sm_session_read(session, i, plan->tensors[i].real_elems, values));
        }
    }
    return SM_OK;
}

const sm_plan *sm_weights_copy_plan(const sm_weights_copy *copy) { return copy->plan; }

const float *sm_weights_copy_values(const sm_weights_copy *copy, int tensor) {
    return copy->values + copy->offsets[tensor];
}
