#include "learn/page/step_page.h"

#include <math.h>

#include "bench/pages/page.h"

// --- a plan ----------------------------------------------------------------------------------------

static json_t *indices_json(const int *indices, int n) {
    json_t *array = json_array();
    for (int i = 0; i < n; i++) {
        if (indices[i] != SM_NO_TENSOR) {
            json_array_append_new(array, json_integer(indices[i]));
        }
    }
    return array;
}

json_t *sm_step_page_plan(const sm_plan *plan) {
    json_t *ops = json_array(), *tensors = json_array(), *arenas = json_array();
    SM_FREED sm_range *lives = sm_calloc((size_t)plan->n_tensors + 1, sizeof(*lives));
    sm_plan_lifetimes(plan, lives);
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        json_array_append_new(ops,
                              json_pack("{s:s, s:s, s:i, s:o, s:o}", "kind", sm_op_name(op->kind), "phase",
                                        sm_phase_name(op->phase), "layer", op->layer, "in",
                                        indices_json(op->in, SM_MAX_IN), "out", indices_json(op->out, SM_MAX_OUT)));
    }
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        json_array_append_new(tensors,
                              json_pack("{s:s, s:s, s:I, s:i, s:i, s:I, s:i, s:i}", "name", t->name, "role",
                                        sm_role_name(t->role), "bytes", (json_int_t)sm_tensor_bytes(t), "root",
                                        sm_plan_root(plan, i), "arena", t->arena, "offset", (json_int_t)t->offset_bytes,
                                        "first", lives[i].first, "end", lives[i].end));
    }
    for (int i = 0; i < plan->n_arenas; i++) {
        const sm_arena *a = &plan->arenas[i];
        json_array_append_new(
            arenas, json_pack("{s:s, s:I}", "role", sm_role_name(a->role), "bytes", (json_int_t)a->size_bytes));
    }
    return json_pack("{s:o, s:o, s:o}", "ops", ops, "tensors", tensors, "arenas", arenas);
}

// --- the changes of memory ---------------------------------------------------------------------------

typedef struct {
    int moment;
    int root;
    int64_t offset;
    int64_t n;
    int64_t place; // in `values`; -1: all n are `constant`
    float constant;
} change;

struct sm_film {
    const sm_plan *plan;
    int64_t slice_elems;
    int n_tensors;
    float **memory; // for each root its last known contents
    change *changes;
    size_t n_changes, cap_changes;
    float *values;
    size_t n_values, cap_values;
};

static bool is_apart(const sm_plan *plan, int tensor, int64_t slice_elems) {
    int64_t dims[SM_MAX_DIMS];
    return sm_page_slice(plan, tensor, slice_elems, dims);
}

double sm_film_elems(const sm_plan *plan, int64_t slice_elems) {
    double n = 0;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        const bool apart = is_apart(plan, i, slice_elems);
        if (t->role == SM_ROLE_PARAMETER && (apart || t->view_of == SM_NO_TENSOR)) {
            n += (double)sm_page_slice_elems(plan, i, slice_elems);
        }
    }
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op *op = &plan->ops[i];
        for (int k = 0; k < SM_MAX_OUT && op->kind != SM_OP_ZERO; k++) {
            n += op->out[k] != SM_NO_TENSOR ? (double)sm_page_slice_elems(plan, op->out[k], slice_elems) : 0;
        }
        for (int k = 0; k < SM_MAX_IN; k++) { // written under another name, it is kept once more
            const bool apart = op->in[k] != SM_NO_TENSOR && is_apart(plan, op->in[k], slice_elems) &&
                               plan->tensors[op->in[k]].role == SM_ROLE_GRADIENT;
            n += apart ? (double)sm_page_slice_elems(plan, op->in[k], slice_elems) : 0;
        }
    }
    return n;
}

sm_film *sm_film_new(const sm_plan *plan, int64_t slice_elems) {
    sm_film *film = sm_calloc(1, sizeof(*film));
    film->plan = plan;
    film->slice_elems = slice_elems;
    film->n_tensors = plan->n_tensors;
    film->memory = sm_calloc((size_t)plan->n_tensors + 1, sizeof(*film->memory));
    return film;
}

void sm_film_free(sm_film *film) {
    if (film == NULL) {
        return;
    }
    for (int i = 0; i < film->n_tensors; i++) {
        free(film->memory[i]);
    }
    free(film->memory);
    free(film->changes);
    free(film->values);
    free(film);
}

// --- seeing ----------------------------------------------------------------------------------------

// Unknown contents are a NaN that no kernel makes, so that every value differs from it.
static const uint32_t unseen = 0x7fcdef01;

static bool is_same(float held, double value) {
    const float seen = (float)value;
    return memcmp(&held, &seen, sizeof(seen)) == 0;
}

static sm_status keep(sm_film *film, change made, const float *values) {
    bool is_constant = isfinite(values[0]);
    for (int64_t i = 1; i < made.n && is_constant; i++) {
        is_constant = memcmp(&values[i], &values[0], sizeof(values[0])) == 0;
    }
    SM_GROW(film->changes, film->n_changes, film->cap_changes);
    if (film->n_values + (size_t)made.n > film->cap_values) { // more than it needs, as more will come
        const size_t wanted = 2 * film->cap_values + (size_t)made.n;
        float *grown = realloc(film->values, wanted * sizeof(*grown));
        SM_FAIL_IF(grown == NULL, SM_ERR_OOM, "page: no memory for %zu values", wanted);
        film->values = grown;
        film->cap_values = wanted;
    }
    if (is_constant) {
        made.place = -1;
        made.constant = values[0];
    } else {
        made.place = (int64_t)film->n_values;
        memcpy(film->values + film->n_values, values, (size_t)made.n * sizeof(*values));
        film->n_values += (size_t)made.n;
    }
    film->changes[film->n_changes++] = made;
    return SM_OK;
}

sm_status sm_film_see(sm_film *film, int moment, int tensor, const double *values) {
    const sm_tensor *t = &film->plan->tensors[tensor];
    const bool apart = is_apart(film->plan, tensor, film->slice_elems);
    int root = apart ? film->plan->n_tensors - 1 : sm_plan_root(film->plan, tensor);
    // Chunks of a loss head use one part of memory in turn, each through a view of its own with the same name.
    while (apart && root > tensor && strcmp(film->plan->tensors[root].name, t->name) != 0) {
        root--;
    }
    const int64_t offset = apart || t->view_of == SM_NO_TENSOR ? 0 : t->view_offset_elems;
    int64_t first = 0;
    int64_t end = sm_page_slice_elems(film->plan, tensor, film->slice_elems);
    float *memory = film->memory[root];
    if (memory == NULL) {
        const int64_t n = sm_page_slice_elems(film->plan, root, film->slice_elems);
        memory = film->memory[root] = malloc((size_t)n * sizeof(*memory));
        SM_FAIL_IF(memory == NULL, SM_ERR_OOM, "page: no memory for %lld values", (long long)n);
        for (int64_t i = 0; i < n; i++) {
            memcpy(&memory[i], &unseen, sizeof(unseen));
        }
    }
    memory += offset;
    while (first < end && is_same(memory[first], values[first])) {
        first++;
    }
    while (end > first && is_same(memory[end - 1], values[end - 1])) {
        end--;
    }
    for (int64_t i = first; i < end; i++) {
        memory[i] = (float)values[i];
    }
    const change made = {.moment = moment, .root = root, .offset = offset + first, .n = end - first};
    return made.n > 0 ? keep(film, made, memory + first) : SM_OK;
}

// --- writing ---------------------------------------------------------------------------------------

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

json_t *sm_base64_json(const char *given, size_t size_bytes) {
    const unsigned char *bytes = (const unsigned char *)given;
    const size_t n = size_bytes;
    SM_FREED char *text = sm_malloc((n + 2) / 3 * 4 + 1);
    char *out = text;
    for (size_t i = 0; i < n; i += 3) {
        const unsigned second = i + 1 < n ? bytes[i + 1] : 0;
        const unsigned third = i + 2 < n ? bytes[i + 2] : 0;
        const unsigned three = (unsigned)bytes[i] << 16 | second << 8 | third;
        *out++ = digits[three >> 18];
        *out++ = digits[three >> 12 & 63];
        *out++ = i + 1 < n ? digits[three >> 6 & 63] : '=';
        *out++ = i + 2 < n ? digits[three & 63] : '=';
    }
    *out = '\0';
    return json_string_nocheck(text);
}

json_t *sm_film_json(const sm_film *film) {
    json_t *changes = json_array();
    for (size_t i = 0; i < film->n_changes; i++) {
        const change *c = &film->changes[i];
        json_t *made = json_pack("[i, i, I, I, I]", c->moment, c->root, (json_int_t)c->offset, (json_int_t)c->n,
                                 (json_int_t)c->place);
        if (c->place < 0) {
            json_array_append_new(made, json_real((double)c->constant));
        }
        json_array_append_new(changes, made);
    }
    return json_pack("{s:o, s:o}", "changes", changes, "values",
                     sm_base64_json((const char *)film->values, film->n_values * sizeof(*film->values)));
}

// The part of a large tensor that a page shows.

enum { MOST_LOGITS = 600000 };

static int64_t count(const int64_t *dims, int n_dims) { return n_dims > 0 ? dims[0] * count(dims + 1, n_dims - 1) : 1; }

bool sm_page_slice(const sm_plan *plan, int tensor, int64_t most_elems, int64_t dims[SM_MAX_DIMS]) {
    const sm_tensor *t = &plan->tensors[tensor];
    int64_t n = sm_tensor_elems(t);
    if (most_elems == 0 || sm_tensor_elems(&plan->tensors[sm_plan_root(plan, tensor)]) <= most_elems) {
        return false;
    }
    memcpy(dims, t->dims, sizeof t->dims);
    const bool is_logits = strncmp(t->name, "logits", strlen("logits")) == 0; // or "logits.chunk[0:12]"
    while (n > most_elems && !(n <= MOST_LOGITS && is_logits)) {              // halves the longest side
        int longest = 0;
        for (int d = 1; d < t->n_dims; d++) {
            longest = dims[d] > dims[longest] ? d : longest;
        }
        dims[longest] = (dims[longest] + 1) / 2;
        n = count(dims, t->n_dims);
    }
    return true;
}

int64_t sm_page_slice_elems(const sm_plan *plan, int tensor, int64_t most_elems) {
    int64_t dims[SM_MAX_DIMS];
    const sm_tensor *t = &plan->tensors[tensor];
    return sm_page_slice(plan, tensor, most_elems, dims) ? count(dims, t->n_dims) : sm_tensor_elems(t);
}

int64_t sm_page_slice_place(const sm_tensor *tensor, const int64_t dims[SM_MAX_DIMS], int64_t i) {
    int64_t place = 0, step = 1;
    for (int d = tensor->n_dims - 1; d >= 0; d--) {
        place += i % dims[d] * step;
        i /= dims[d];
        step *= tensor->dims[d];
    }
    return place;
}

// --- the page --------------------------------------------------------------------------------------

sm_status sm_step_page_write(void *data, FILE *out) {
    static const char *const styles[] = {"step_page.css", NULL};
    static const char *const scripts[16 + 1] = {"step_values.js", "step_names.js",  "step_math.js",    "step_heat.js",
                                                "step_rules.js",  "step_trace.js",  "step_picture.js", "step_op.js",
                                                "step_text.js",   "step_layers.js", "step_memory.js",  "step_follow.js",
                                                "step_kernel.js", "step_live.js",   "step_lessons.js", "step_page.js"};
    sm_page_begin(out, json_string_value(json_object_get(data, "title")), styles);
    sm_page_json(out, "step-data", data);
    sm_page_end(out, scripts);
    return SM_OK;
}
