// edits.c: numbers of a live step that are held at other values.
#include "learn/live/live.h"

enum { MOST_EDITS = 64 };

struct sm_live_edit {
    int tensor;
    int n_sides;
    int64_t sides[SM_MAX_DIMS]; // of the tensor as the text has it: flat, rows by columns, or its own
    sm_range places[SM_MAX_DIMS];
    bool is_factor;
    float value;
};

// "*", "12" or "0:32", of a side of n; moves *text past it. False: it is none of these, or outside.
static bool read_places(const char **text, int64_t n, sm_range *places) {
    int first = 0, last = (int)n, length = 1;
    if (**text != '*') {
        const int n_read = sscanf(*text, "%9d%n:%9d%n", &first, &length, &last, &length);
        last = n_read == 1 ? first + 1 : n_read == 2 ? last : 0;
    }
    *text += length;
    *places = (sm_range){first, last};
    return first >= 0 && first < last && last <= n;
}

static sm_status refuse(const char *text) {
    return sm_fail(SM_ERR_USAGE,
                   "%s: give NAME[12]=0.5, NAME[3,5]=0.5, NAME[0:32]*2 or NAME[*,0:16]=0, with places "
                   "within the tensor NAME, one for all elements, two for rows and columns, or one a side",
                   text);
}

// The place of an op in mask[...], the block of an attention; or in line[...], of an op that adds to the stream or to
// its gradient: 2 k around attention of block k, 2 k + 1 its MLP. -1: none.
static int place_of(const sm_plan *plan, const sm_op *op, bool is_mask) {
    int block;
    char end;
    if (is_mask) {
        return sm_op_is_attention(op->kind) ? op->layer : -1;
    }
    for (int i = 0; i < SM_MAX_OUT && sm_live_stream(op) != SM_NO_TENSOR; i++) {
        const char *name = op->out[i] == SM_NO_TENSOR ? "" : plan->tensors[op->out[i]].name;
        if (sscanf(name, "h.%d.res%c", &block, &end) == 2) { // the stream after a sum
            return 2 * block + (end == '2');
        }
        if (sscanf(name, "h.%d.d.%c", &block, &end) == 2 && (end == 'r' || end == 'x')) { // d.res1, d.x: before it
            return 2 * block + (end == 'r');
        }
    }
    return -1;
}

// "mask[0:2]=0": attention in these blocks, forward and backward, without its mask; "line[0]=0": no residual line there.
static sm_status cut(sm_plan *plan, const char *text) {
    const char *at = text + strlen("mask[");
    const bool is_mask = text[0] == 'm';
    int n = 0;
    sm_range places;
    for (int i = 0; i < plan->n_ops; i++) {
        const int place = place_of(plan, &plan->ops[i], is_mask);
        n = place >= n ? place + 1 : n;
    }
    SM_FAIL_IF(!read_places(&at, n, &places) || strcmp(at, "]=0") != 0, SM_ERR_USAGE,
               "%s: give mask[*]=0 or mask[BLOCK]=0, line[*]=0 or line[2 BLOCK]=0; places are 0 to %d", text, n - 1);
    for (int i = 0; i < plan->n_ops; i++) {
        const int place = place_of(plan, &plan->ops[i], is_mask);
        plan->ops[i].attr.cut |= place >= places.first && place < places.end;
    }
    return SM_OK;
}

static sm_status hold(sm_live *live, const char *text) {
    const sm_plan *plan = live->session->plan;
    sm_live_edit edit = {.tensor = SM_NO_TENSOR};
    if (strncmp(text, "mask[", 5) == 0 || strncmp(text, "line[", 5) == 0) {
        return cut(live->session->plan, text);
    }
    const char *at = strchr(text, '[');
    const size_t length = at == NULL ? 0 : (size_t)(at - text);
    int n = 1;
    for (int i = 0; i < plan->n_tensors && length > 0; i++) {
        const char *name = plan->tensors[i].name;
        edit.tensor = strlen(name) == length && strncmp(name, text, length) == 0 ? i : edit.tensor;
    }
    SM_FAIL_IF(length > 0 && edit.tensor == SM_NO_TENSOR, SM_ERR_USAGE,
               "%.*s: no tensor of this step has this name; `walk -o json` lists them", (int)length, text);
    for (const char *c = at; c != NULL && *c != '\0' && *c != ']'; c++) {
        n += *c == ',';
    }
    const sm_tensor *t = length > 0 ? &plan->tensors[edit.tensor] : NULL;
    if (t == NULL || n > SM_MAX_DIMS || (n > 2 && n != t->n_dims)) {
        return refuse(text);
    }
    edit.n_sides = n;
    memcpy(edit.sides, t->dims, sizeof edit.sides);
    if (n <= 2) { // all elements in order, or rows by columns
        edit.sides[1] = n == 2 ? t->dims[t->n_dims - 1] : 1;
        edit.sides[0] = sm_tensor_elems(t) / edit.sides[1];
    }
    bool is_changed = sm_live_is_initial(t);
    for (int i = 0; i < plan->n_ops * SM_MAX_OUT; i++) {
        is_changed = is_changed || plan->ops[i / SM_MAX_OUT].out[i % SM_MAX_OUT] == edit.tensor;
    }
    SM_FAIL_IF(!is_changed, SM_ERR_USAGE,
               "%.*s: no op writes it under this name; give the name that an op of `walk` writes", (int)length, text);
    SM_FAIL_IF(t->dtype == SM_I32 || t->dtype == SM_U32, SM_ERR_USAGE,
               "%.*s: holds ids or counters, which stay as they are; give a tensor of floats", (int)length, text);
    for (int side = 0; side < n; side++) {
        at++; // past the bracket or the comma
        if (!read_places(&at, edit.sides[side], &edit.places[side]) || *at != (side + 1 < n ? ',' : ']')) {
            return refuse(text);
        }
    }
    at++;
    edit.is_factor = *at == '*';
    char *end = (char *)at;
    const double value = *at == '=' || *at == '*' ? strtod(at + 1, &end) : NAN;
    edit.value = (float)value;
    if (end <= at + 1 || *end != '\0' || !isfinite(value)) {
        return refuse(text);
    }
    SM_FAIL_IF(live->n_edits == MOST_EDITS, SM_ERR_USAGE, "%s: %d numbers are held already; take one of them back",
               text, MOST_EDITS);
    live->edits = sm_realloc(live->edits, (size_t)(live->n_edits + 1) * sizeof *live->edits);
    live->edits[live->n_edits++] = edit;
    return SM_OK;
}

sm_status sm_live_hold(sm_live *live, const char *texts) {
    char text[256];
    for (const char *at = texts; at != NULL; at = strchr(at, ';')) {
        at += at != texts;
        const size_t length = strcspn(at, ";");
        SM_FAIL_IF(length >= sizeof text, SM_ERR_USAGE, "%.40s...: is too long for a change of numbers", at);
        memcpy(text, at, length);
        text[length] = '\0';
        SM_TRY(hold(live, text));
    }
    return SM_OK;
}

void sm_live_release(sm_live *live) {
    const sm_plan *plan = live->session->plan;
    live->n_edits = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        plan->ops[i].attr.cut = false;
    }
}

// Changes the elements of these places in live->narrow, from side `side` on.
static void change(const sm_live_edit *edit, int side, int64_t at, float *values) {
    for (int64_t x = edit->places[side].first; x < edit->places[side].end; x++) {
        const int64_t place = at * edit->sides[side] + x;
        if (side + 1 < edit->n_sides) {
            change(edit, side + 1, place, values);
        } else {
            values[place] = edit->is_factor ? values[place] * edit->value : edit->value;
        }
    }
}

sm_status sm_live_apply(sm_live *live, int tensor) {
    const int64_t n = sm_tensor_elems(&live->session->plan->tensors[tensor]);
    bool is_held = false;
    for (int i = 0; i < live->n_edits; i++) {
        if (live->edits[i].tensor == tensor) {
            SM_TRY(is_held ? SM_OK : sm_session_read(live->session, tensor, n, live->narrow));
            change(&live->edits[i], 0, 0, live->narrow);
            is_held = true;
        }
    }
    return is_held ? sm_session_write(live->session, tensor, n, live->narrow) : SM_OK;
}
