// weights.c: files of parameters and of optimizer state are both lists of slots: tensors of the plan with their name
// and shape on disk. Loading matches a file's tensors with the slots, saving iterates over them: of any kind of file.
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

#include "philox.h"
#include "src/io/input_file.h"
#include "src/weights/weights.h"

enum { MAX_DISK_NAME = 2 * SM_NAME_SIZE, DIGEST_SIZE = 17 };

static const int64_t MAX_STEP = 1000000000000000; // so that sums and products with a run's steps do not overflow

typedef struct {
    int tensor; // of the plan
    int64_t n_elems;
    int n_dims;
    int64_t dims[SM_MAX_DIMS]; // on disk: without wte's padding rows
    char name[MAX_DISK_NAME];  // on disk
    bool is_bytes;             // U8, codes of an optimizer's state; others are floating
    bool may_be_missing;
    const sm_safetensors_entry *entry; // while loading: the file's tensor
} slot;

typedef struct {
    slot *slots;
    int n_slots;
    int64_t max_elems;                // of the largest slot
    bool is_model;                    // parameters, not an optimizer's state
    uint64_t digest;                  // of the parameters loaded or saved so far
    const sm_safetensors_entry *head; // while loading: of a tied head, a tensor of its own
} slot_list;

// ---- slots ----

static bool is_of_fp8(const char *name) { return strncmp(name, SM_FP8_PREFIX, strlen(SM_FP8_PREFIX)) == 0; }

static void add_slot(const sm_plan *plan, int tensor, const char *prefix, slot_list *list) {
    const sm_tensor *t = &plan->tensors[tensor];
    slot *s = &list->slots[list->n_slots++];
    s->tensor = tensor;
    s->n_elems = t->real_elems;
    s->n_dims = t->n_dims;
    memcpy(s->dims, t->dims, sizeof s->dims);
    s->dims[0] = s->n_elems / (sm_tensor_elems(t) / t->dims[0]); // padding is whole rows
    snprintf(s->name, sizeof s->name, "%s%s", prefix, t->name);
    s->is_bytes = t->dtype == SM_U8;
    s->may_be_missing = tensor == plan->scaler || is_of_fp8(t->name); // files of other precisions have no scales
    list->max_elems = s->n_elems > list->max_elems ? s->n_elems : list->max_elems;
}

// The saved tensors of a role, as `prefix` + their names; bytes last, so that floats are aligned.
static void slots_of(const sm_plan *plan, sm_role role, const char *prefix, slot_list *list) {
    *list = (slot_list){.slots = sm_calloc((size_t)plan->n_tensors + 1, sizeof(slot)),
                        .is_model = role == SM_ROLE_PARAMETER};
    for (int i = 0; i < 2 * plan->n_tensors; i++) {
        const int tensor = i % plan->n_tensors;
        const sm_tensor *t = &plan->tensors[tensor];
        if (t->role == role && t->is_saved && (t->dtype == SM_U8) == (i >= plan->n_tensors)) {
            add_slot(plan, tensor, prefix, list);
        }
    }
}

// A buffer for the largest slot; NULL with a message.
static float *allocate_values(const char *path, const slot_list *list) {
    float *values = malloc((size_t)list->max_elems * sizeof *values);
    if (values == NULL) {
        sm_keep_message("%s: no memory for its largest tensor, %lld elements", path, (long long)list->max_elems);
    }
    return values;
}

static void free_slots(slot_list *list) { free(list->slots); }

// Adds a tensor's values to the digest, which ties an optimizer state to its weights. It is a sum, so that the order of
// tensors does not matter. The multiplication carries each bit of a value to all higher bits, the shift to lower ones.
static void digest_add(slot_list *list, const slot *s, const float *values) {
    if (!list->is_model) {
        return;
    }
    uint64_t hash = sm_philox_key(0, s->name);
    for (int64_t i = 0; i < s->n_elems; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        hash = (hash ^ bits) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    list->digest += hash;
}

static void format_digest(const slot_list *list, char text[DIGEST_SIZE]) {
    snprintf(text, DIGEST_SIZE, "%016" PRIx64, list->digest);
}

// ---- loading ----

// The slot of a name on disk, with or without the prefix of the model without its head; NULL: none.
static slot *find_slot(const slot_list *list, const sm_model *model, const char *name) {
    const size_t n = strlen(model->base_prefix);
    for (slot *s = list->slots; s < list->slots + list->n_slots; s++) {
        if (strcmp(s->name, name) == 0 ||
            (strncmp(s->name, model->base_prefix, n) == 0 && strcmp(s->name + n, name) == 0)) {
            return s;
        }
    }
    return NULL;
}

// Writes "[2, 3]", truncated if `text` is full.
static void format_shape(int n_dims, const int64_t *dims, char *text, size_t size_bytes) {
    snprintf(text, size_bytes, "[");
    for (int i = 0; i < n_dims; i++) {
        sm_append(text, size_bytes, "%s%lld", i > 0 ? ", " : "", (long long)dims[i]);
    }
    sm_append(text, size_bytes, "]");
}

static bool is_ignored(const sm_model *model, const char *name) {
    for (int i = 0; model->ignored_endings[i] != NULL; i++) {
        if (sm_ends_with(name, model->ignored_endings[i])) {
            return true;
        }
    }
    return false;
}

static sm_status match_entry(const char *path, const sm_safetensors_entry *entry, const sm_model *model,
                             slot_list *list) {
    slot *s = find_slot(list, model, entry->name);
    const bool is_tied_head = s == NULL && strcmp(entry->name, "lm_head.weight") == 0;
    if (is_tied_head) {
        s = find_slot(list, model, model->tied_head);
    }
    if (s == NULL) {
        return is_ignored(model, entry->name) || strcmp(entry->name, SM_SCALER_NAME) == 0 || is_of_fp8(entry->name)
                   ? SM_OK
                   : sm_fail(SM_ERR_FORMAT, "%s: tensor '%s' is not part of the model", path, entry->name);
    }
    if (entry->n_dims != s->n_dims || memcmp(entry->dims, s->dims, (size_t)s->n_dims * sizeof s->dims[0]) != 0) {
        char has[96];
        char needs[96];
        format_shape(entry->n_dims, entry->dims, has, sizeof has);
        format_shape(s->n_dims, s->dims, needs, sizeof needs);
        return sm_fail(SM_ERR_FORMAT, "%s: tensor '%s' has shape %s; the model needs %s", path, entry->name, has,
                       needs);
    }
    SM_FAIL_IF(s->is_bytes ? entry->dtype != SM_ST_U8 : !sm_safetensors_is_float(entry->dtype), SM_ERR_UNSUPPORTED,
               "%s: tensor '%s' is %s, not %s", path, entry->name, sm_safetensors_dtype_name(entry->dtype),
               s->is_bytes ? "U8" : "a floating type");
    const sm_safetensors_entry **place = is_tied_head ? &list->head : &s->entry;
    SM_FAIL_IF(*place != NULL, SM_ERR_FORMAT, "%s: tensors '%s' and '%s' are the same parameter", path, (*place)->name,
               entry->name);
    *place = entry;
    return SM_OK;
}

// Elements first .. first + n - 1 of an entry.
static sm_safetensors_entry piece_of(const sm_safetensors_entry *entry, int64_t first, int64_t n) {
    const int64_t elem_bytes = (entry->end_bytes - entry->begin_bytes) / entry->n_elems;
    sm_safetensors_entry piece = *entry;
    piece.n_elems = n;
    piece.begin_bytes += first * elem_bytes;
    piece.end_bytes = piece.begin_bytes + n * elem_bytes;
    return piece;
}

// A tied head has no values of its own: different ones would be lost.
static sm_status check_tied_head(const char *path, const sm_safetensors *file, const sm_safetensors_entry *head,
                                 const slot *s) {
    enum { PIECE = 4096 };
    float mine[PIECE];
    float tied[PIECE];
    for (int64_t first = 0; first < head->n_elems; first += PIECE) {
        const int64_t n = head->n_elems - first < PIECE ? head->n_elems - first : PIECE;
        const sm_safetensors_entry here = piece_of(head, first, n);
        const sm_safetensors_entry there = piece_of(s->entry, first, n);
        SM_TRY(sm_safetensors_read(file, &here, mine));
        SM_TRY(sm_safetensors_read(file, &there, tied));
        SM_FAIL_IF(memcmp(mine, tied, (size_t)n * sizeof *mine) != 0, SM_ERR_FORMAT,
                   "%s: tensor '%s' is not '%s', to which config.json says it is tied", path, head->name, s->name);
    }
    return SM_OK;
}

static sm_status match_file(const char *path, const sm_safetensors *file, const sm_model *model, slot_list *list) {
    for (int i = 0; i < sm_safetensors_count(file); i++) {
        SM_TRY(match_entry(path, sm_safetensors_at(file, i), model, list));
    }
    slot *tied = list->head != NULL ? find_slot(list, model, model->tied_head) : NULL;
    const bool has_both = tied != NULL && tied->entry != NULL;
    if (tied != NULL && !has_both) {
        tied->entry = list->head;
    }
    for (int i = 0; i < list->n_slots; i++) {
        SM_FAIL_IF(list->slots[i].entry == NULL && !list->slots[i].may_be_missing, SM_ERR_FORMAT,
                   "%s: tensor '%s' is missing", path, list->slots[i].name);
    }
    return has_both ? check_tied_head(path, file, list->head, tied) : SM_OK;
}

static sm_status load_slots(const char *path, const sm_safetensors *file, const sm_model *model, slot_list *list,
                            sm_session *session) {
    SM_TRY(match_file(path, file, model, list));
    SM_FREED float *values = allocate_values(path, list);
    SM_TRY(values != NULL ? SM_OK : SM_ERR_OOM);
    for (const slot *s = list->slots; s < list->slots + list->n_slots; s++) {
        if (s->entry == NULL) {
            continue; // keeps its initial value
        }
        SM_TRY(sm_safetensors_read(file, s->entry, values));
        digest_add(list, s, values);
        SM_TRY(sm_session_write(session, s->tensor, s->n_elems, values));
    }
    return SM_OK;
}

sm_status sm_weights_read_config(const char *dir, sm_model_config *config) {
    char path[PATH_MAX];
    bool found;
    SM_TRY(sm_model_folder_find(dir, SM_FILE_CONFIG, path, &found));
    SM_FAIL_IF(!found, SM_ERR_IO,
               "%s: no such file; give a folder with config.json and model.safetensors (RUN/model of a run of train): "
               "nothing is downloaded",
               path);
    return sm_hf_config_read(path, config);
}

// Checks what tensor shapes do not show: the number of heads, epsilon.
static sm_status check_same_config(const char *dir, const sm_model_config *config) {
    sm_model_config on_disk;
    SM_TRY(sm_weights_read_config(dir, &on_disk));
    SM_FAIL_IF(on_disk.model != config->model, SM_ERR_INVALID,
               "%s/config.json: is of a %s, but the model is built as %s", dir, on_disk.model->title,
               config->model->title);
    on_disk = sm_model_told(&on_disk);
    const sm_model_config built = sm_model_told(config);
#define X(type, member, ...)                                                                                           \
    if (on_disk.member != built.member) {                                                                              \
        return sm_fail(SM_ERR_INVALID, "%s/config.json: %s is %.10g, but the model is built with %.10g", dir, #member, \
                       (double)on_disk.member, (double)built.member);                                                  \
    }
    SM_MODEL_FIELDS(X, X)
#undef X
    return SM_OK;
}

// Names the model's file that other programs read.
static sm_status fail_missing(const char *dir) {
    static const char *const others[] = {"pytorch_model.bin", "pytorch_model.bin.index.json", "tf_model.h5",
                                         "flax_model.msgpack"};
    char path[PATH_MAX];
    for (size_t i = 0; i < SM_COUNT(others); i++) {
        SM_FAIL_IF(sm_file_is_in(dir, others[i], path), SM_ERR_UNSUPPORTED,
                   "%s: is not read, and there is no model.safetensors; let transformers write one: "
                   "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(NEW_FOLDER)",
                   path);
    }
    return sm_fail(SM_ERR_IO, "%s: has no model.safetensors, and no model.safetensors.index.json with its parts", dir);
}

sm_status sm_weights_open(const char *dir, sm_safetensors **file) {
    char path[PATH_MAX];
    bool found;
    *file = NULL;
    SM_TRY(sm_model_folder_find(dir, SM_FILE_MODEL, path, &found));
    SM_TRY(found ? SM_OK : fail_missing(dir));
    return sm_ends_with(path, ".json") ? sm_safetensors_open_index(path, file) : sm_safetensors_open(path, file);
}

static sm_status read_step(const char *path, const sm_safetensors *file, int64_t *step) {
    const char *text = sm_safetensors_metadata(file, "step");
    char *end = NULL;
    errno = 0;
    *step = text != NULL ? strtoll(text, &end, 10) : 0;
    SM_FAIL_IF(text == NULL || text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || *step > MAX_STEP,
               SM_ERR_FORMAT, "%s: its metadata has no 'step', a whole number from 0 to %lld", path,
               (long long)MAX_STEP);
    return SM_OK;
}

static sm_status check_scaler(const char *path, sm_session *session, int64_t steps_taken) {
    float state[SM_SCALER_COUNT] = {[SM_SCALER_SCALE] = 1};
    if (session->plan->scaler != SM_NO_TENSOR) {
        SM_TRY(sm_session_read(session, session->plan->scaler, SM_SCALER_COUNT, state));
    }
    const float scale = state[SM_SCALER_SCALE];
    const float skipped = state[SM_SCALER_SKIPPED];
    SM_FAIL_IF(
        !(scale > 0 && isfinite(scale) && state[SM_SCALER_GOOD] >= 0 && skipped >= 0 && skipped <= (float)steps_taken),
        SM_ERR_FORMAT, "%s: tensor '" SM_SCALER_NAME "': a scale of %g, %g good steps and %g skipped cannot be", path,
        (double)scale, (double)state[SM_SCALER_GOOD], (double)skipped);
    return SM_OK;
}

// Scales of factors in 8 bits are powers of two, and amax in their history are not negative.
static sm_status check_scales(const char *path, sm_session *session) {
    const sm_plan *plan = session->plan;
    for (int i = 0; i < plan->n_tensors; i++) {
        const sm_tensor *t = &plan->tensors[i];
        const int64_t n = t->is_saved && is_of_fp8(t->name) ? sm_tensor_elems(t) : 0;
        SM_FREED float *values = sm_malloc((size_t)n * sizeof *values + 1);
        SM_TRY(n > 0 ? sm_session_read(session, i, n, values) : SM_OK);
        for (int64_t k = 0; k < n; k++) {
            int power;
            const bool is_scale = values[k] > 0 && frexpf(values[k], &power) == 0.5f && power >= -59 && power <= 61;
            SM_FAIL_IF(!(t->init_value > 0 ? is_scale : values[k] >= 0 && isfinite(values[k])), SM_ERR_FORMAT,
                       "%s: tensor '%s': %g cannot be", path, t->name, (double)values[k]);
        }
    }
    return SM_OK;
}

// Files without an optimizer's name are AdamW's.
static sm_status check_optimizer(const char *path, const sm_safetensors *file, const sm_plan *plan) {
    const char *saved = sm_safetensors_metadata(file, "optimizer");
    saved = saved == NULL ? "adamw" : sm_is_printable(saved) ? saved : "?";
    SM_FAIL_IF(strcmp(saved, plan->optimizer->name) != 0, SM_ERR_INVALID,
               "%s: is the state of %.64s, not of %s; resume with --optimizer %.64s, or remove the file to start with "
               "a new state",
               path, saved, plan->optimizer->name, saved);
    return SM_OK;
}

static sm_status load_optimizer(const char *dir, const sm_model *model, const char *model_digest, sm_session *session,
                                int64_t *step) {
    char path[PATH_MAX];
    bool found;
    int64_t steps_taken = 0;
    SM_OWN(sm_safetensors) *file = NULL;
    SM_TRY(sm_model_folder_find(dir, SM_FILE_OPTIMIZER, path, &found));
    if (!found) {
        return SM_OK;
    }
    SM_FAIL_IF(session->plan->optimizer == NULL, SM_ERR_INVALID,
               "%s: is an optimizer's state, but the plan has no optimizer", path);
    SM_TRY(sm_safetensors_open(path, &file));
    SM_TRY(read_step(path, file, &steps_taken));
    // Older files have no digest.
    const char *digest = sm_safetensors_metadata(file, "model");
    SM_FAIL_IF(digest != NULL && strcmp(digest, model_digest) != 0, SM_ERR_FORMAT,
               "%s: belongs to other weights than the model.safetensors next to it; take both from one save, or "
               "remove it to start with a new optimizer state",
               path);
    SM_TRY(check_optimizer(path, file, session->plan));
    SM_AT_END(free_slots) slot_list list;
    slots_of(session->plan, SM_ROLE_OPTIMIZER, "", &list);
    SM_TRY(load_slots(path, file, model, &list, session));
    SM_TRY(check_scaler(path, session, steps_taken));
    SM_TRY(check_scales(path, session));
    *step = steps_taken;
    return SM_OK;
}

sm_status sm_weights_load(const char *dir, const sm_model_config *config, sm_session *session, int64_t *step) {
    char digest[DIGEST_SIZE];
    if (step != NULL) {
        *step = 0;
    }
    SM_TRY(check_same_config(dir, config));
    SM_OWN(sm_safetensors) *file = NULL;
    SM_TRY(sm_weights_open(dir, &file));
    SM_AT_END(free_slots) slot_list list;
    slots_of(session->plan, SM_ROLE_PARAMETER, config->model->disk_prefix, &list);
    SM_TRY(load_slots(sm_safetensors_name(file), file, config->model, &list, session));
    format_digest(&list, digest);
    return step != NULL ? load_optimizer(dir, config->model, digest, session, step) : SM_OK;
}

// ---- copies ----

struct sm_weights_copy {
    const sm_plan *plan;
    float *values;
    int64_t *offsets; // in elements, for each of the plan's tensors; -1: not copied
    int64_t n_elems;
};

static bool is_copied(const sm_tensor *tensor) {
    return tensor->is_saved && (tensor->role == SM_ROLE_PARAMETER || tensor->role == SM_ROLE_OPTIMIZER);
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
    c->values = sm_malloc_large((size_t)c->n_elems * sizeof *c->values);
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
    for (int i = 0; i < session->plan->n_tensors; i++) {
        const sm_tensor *t = &session->plan->tensors[i];
        const int64_t n = is_copied(t) && t->is_sharded ? t->real_elems : 0;
        SM_FREED float *values = malloc((size_t)n * sizeof *values + 1);
        SM_FAIL_IF(values == NULL, SM_ERR_OOM, "checkpoints: no memory to send %lld elements", (long long)n);
        SM_TRY(n > 0 ? sm_session_read(session, i, n, values) : SM_OK);
    }
    return SM_OK;
}

// ---- saving ----

// The source of the slots' values: a session, a copy of one, or initialisation.
typedef struct {
    sm_session *session;         // NULL: the copy
    const sm_weights_copy *copy; // NULL: initialisation
    const sm_model_config *config;
    const sm_plan *plan;
    uint64_t seed;
} source;

// *values: in `room`, or in place.
static sm_status fetch(const source *from, const slot *s, float *room, const float **values) {
    *values = room;
    if (from->session != NULL) {
        return sm_session_read(from->session, s->tensor, s->n_elems, room);
    }
    if (from->copy != NULL) {
        *values = from->copy->values + from->copy->offsets[s->tensor];
        return SM_OK;
    }
    sm_param_init(from->plan, s->tensor, from->seed, 0, s->n_elems, room);
    return SM_OK;
}

// Appends the slot's values as they are stored. Bytes are made in `room`, which may hold the values.
static sm_status append(sm_safetensors_writer *writer, const slot *s, const float *values, float *room) {
    uint8_t *bytes = (uint8_t *)room; // no byte overtakes its float
    if (!s->is_bytes) {
        return sm_safetensors_append(writer, values, s->n_elems);
    }
    for (int64_t i = 0; i < s->n_elems; i++) {
        bytes[i] = (uint8_t)values[i];
    }
    return sm_safetensors_append_bytes(writer, bytes, s->n_elems);
}

// A tensor's part of the digest, computed while it is written: it takes as long as the disk.
typedef struct {
    slot_list *list;
    const slot *s;
    const float *values;
} digest_job;

static void *make_digest(void *ctx) {
    const digest_job *job = ctx;
    digest_add(job->list, job->s, job->values);
    return NULL;
}

// `room` is values' own, or free.
static sm_status append_and_digest(sm_safetensors_writer *writer, slot_list *list, const slot *s, const float *values,
                                   float *room) {
    pthread_t thread;
    digest_job job = {.list = list, .s = s, .values = values};
    const bool has_thread = list->is_model && pthread_create(&thread, NULL, make_digest, &job) == 0;
    if (!has_thread) {
        digest_add(list, s, values);
    }
    const sm_status status = append(writer, s, values, room);
    if (has_thread) {
        pthread_join(thread, NULL);
    }
    return status;
}

static sm_status save_slots(const char *path, slot_list *list, const source *from, const sm_safetensors_pair *metadata,
                            int n_metadata, char *digest) {
    SM_OWN(sm_safetensors_writer) *writer = NULL;
    SM_FREED float *room = allocate_values(path, list);
    SM_TRY(room != NULL ? SM_OK : SM_ERR_OOM);
    int n_floats = 0;
    SM_FREED sm_safetensors_spec *specs = sm_calloc((size_t)list->n_slots + 1, sizeof *specs);
    for (int i = 0; i < list->n_slots; i++) {
        const slot *s = &list->slots[i];
        specs[i] = (sm_safetensors_spec){.name = s->name, .n_dims = s->n_dims};
        memcpy(specs[i].dims, s->dims, sizeof s->dims);
        n_floats += !s->is_bytes; // which come first
    }
    SM_TRY(sm_safetensors_create(path, specs, list->n_slots, n_floats, metadata, n_metadata, digest, &writer));
    for (int i = 0; i < list->n_slots; i++) {
        const float *values;
        SM_TRY(fetch(from, &list->slots[i], room, &values));
        SM_TRY(append_and_digest(writer, list, &list->slots[i], values, room));
    }
    return sm_safetensors_finish(writer);
}

// file_digest: of model.safetensors; may be NULL.
static sm_status write_model(const char *dir, const source *from, char digest[DIGEST_SIZE], char *file_digest) {
    char path[PATH_MAX];
    double dropout_p = 0; // all dropout ops of a plan have the same
    for (const sm_op *op = from->plan->ops; op < from->plan->ops + from->plan->n_ops; op++) {
        dropout_p = op->kind == SM_OP_DROPOUT ? op->attr.dropout_p : dropout_p;
    }
    SM_AT_END(free_slots) slot_list list;
    slots_of(from->plan, SM_ROLE_PARAMETER, from->config->model->disk_prefix, &list);
    SM_TRY(sm_model_file_path(dir, SM_FILE_MODEL, path));
    SM_TRY(save_slots(path, &list, from, NULL, 0, file_digest));
    format_digest(&list, digest);
    SM_TRY(sm_model_file_path(dir, SM_FILE_CONFIG, path));
    return sm_hf_config_write(path, from->config, dropout_p);
}

static sm_status write_optimizer(const char *dir, const source *from, const char *digest, int64_t step,
                                 char *file_digest) {
    char path[PATH_MAX];
    char step_text[32];
    snprintf(step_text, sizeof step_text, "%lld", (long long)step);
    const sm_safetensors_pair metadata[] = {
        {"step", step_text}, {"model", digest}, {"optimizer", from->plan->optimizer->name}};
    SM_AT_END(free_slots) slot_list list;
    slots_of(from->plan, SM_ROLE_OPTIMIZER, "", &list);
    SM_TRY(sm_model_file_path(dir, SM_FILE_OPTIMIZER, path));
    return save_slots(path, &list, from, metadata, 3, file_digest);
}

static bool has_optimizer(const sm_plan *plan) {
    const sm_range optimizer = sm_plan_range(plan, SM_PHASE_OPTIMIZER);
    return optimizer.first < optimizer.end;
}

static sm_status save(const char *dir, const source *from, int64_t step) {
    char digest[DIGEST_SIZE];
    SM_OWN(sm_model_folder) *folder = NULL;
    SM_TRY(sm_model_folder_begin(dir, &folder));
    SM_TRY(write_model(sm_model_folder_new(folder), from, digest, NULL));
    SM_TRY(step != SM_NO_STATE && has_optimizer(from->plan)
               ? write_optimizer(sm_model_folder_new(folder), from, digest, step, NULL)
               : SM_OK);
    return sm_model_folder_commit(folder);
}

sm_status sm_weights_save(const char *dir, const sm_model_config *config, sm_session *session, int64_t step) {
    return save(dir, &(source){.session = session, .config = config, .plan = session->plan}, step);
}

sm_status sm_weights_save_copy(const char *dir, const sm_model_config *config, const sm_weights_copy *copy,
                               int64_t step) {
    return save(dir, &(source){.copy = copy, .config = config, .plan = copy->plan}, step);
}

sm_status sm_weights_write(const char *dir, const sm_model_config *config, const sm_weights_copy *copy, int64_t step,
                           char digests[SM_MODEL_FILE_COUNT][SM_FILE_DIGEST_SIZE]) {
    const source from = {.copy = copy, .config = config, .plan = copy->plan};
    char digest[DIGEST_SIZE];
    char path[PATH_MAX];
    int64_t size_bytes;
    digests[SM_FILE_OPTIMIZER][0] = '\0';
    SM_TRY(write_model(dir, &from, digest, digests[SM_FILE_MODEL]));
    SM_TRY(sm_model_file_path(dir, SM_FILE_CONFIG, path));
    SM_TRY(sm_file_digest(path, digests[SM_FILE_CONFIG], &size_bytes));
    return has_optimizer(from.plan) ? write_optimizer(dir, &from, digest, step, digests[SM_FILE_OPTIMIZER]) : SM_OK;
}

sm_status sm_weights_init(const char *dir, const sm_model_config *config, uint64_t seed) {
    // The smallest plan with all parameters.
    const sm_plan_options options = {.B = 1, .T = 1, .dtype = SM_F32};
    SM_OWN(sm_plan) *plan = NULL;
    SM_TRY(sm_model_build(config, &options, &plan));
    return save(dir, &(source){.config = config, .plan = plan, .seed = seed}, SM_NO_STATE);
}
