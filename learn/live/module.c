// module.c: live.c as a page's module: one live step, whose numbers the page's scripts read and write in this memory.
// Functions return 0, or 1 after a failure that live_message tells.
#include "learn/live/live.h"
#include "src/io/pattern.h"
#include "src/tokenizer/encoder.h"

#define EXPORT(name) __attribute__((export_name(#name))) name

static sm_live *live;
static double numbers[SM_LIVE_COUNT];
static sm_step_settings settings;
static int32_t *batch; // B*T tokens, then as many targets
static sm_tokenizer *tokenizer;
static sm_encoder *encoder;
static sm_ids ids;

double *EXPORT(live_numbers)(void) { return numbers; }

const char *EXPORT(live_message)(void) { return sm_error_message(); }

int EXPORT(live_open)(void) {
    sm_plan *plan;
    if (sm_live_plan(numbers, &plan) != SM_OK || sm_live_open(plan, &live) != SM_OK) {
        return 1;
    }
    plan = live->session->plan;
    settings = sm_plan_settings(plan);
    batch = sm_calloc((size_t)(plan->B * plan->T), 2 * sizeof *batch);
    return 0;
}

int EXPORT(live_n_tensors)(void) { return live->session->plan->n_tensors; }
int EXPORT(live_n_ops)(void) { return live->session->plan->n_ops; }
const char *EXPORT(live_tensor_name)(int tensor) { return live->session->plan->tensors[tensor].name; }
int EXPORT(live_elems)(int tensor) { return (int)sm_tensor_elems(&live->session->plan->tensors[tensor]); }
int32_t *EXPORT(live_batch)(void) { return batch; }

// The optimizer's settings, in the order of SM_SETTING_LIST.
double *EXPORT(live_settings)(void) { return (double *)&settings; }

int EXPORT(live_begin)(int step) {
    const sm_plan *plan = live->session->plan;
    return sm_live_begin(live, batch, batch + plan->B * plan->T, &settings, step) != SM_OK;
}

int EXPORT(live_run)(int first, int end) {
    for (int op = first; op < end; op++) {
        if (sm_live_run(live, op) != SM_OK) {
            return 1;
        }
    }
    return 0;
}

// The square root of the sum of squares, as walk has it.
double EXPORT(live_norm)(int tensor) {
    double sum = 0;
    if (sm_live_read(live, tensor) != SM_OK) {
        return NAN;
    }
    for (int i = 0; i < live_elems(tensor); i++) {
        sum += live->values[i] * live->values[i];
    }
    return sqrt(sum);
}

double *EXPORT(live_read)(int tensor) { return sm_live_read(live, tensor) == SM_OK ? live->values : NULL; }

int EXPORT(live_hold)(const char *text) { return sm_live_hold(live, text) != SM_OK; }
void EXPORT(live_release)(void) { sm_live_release(live); }
int EXPORT(live_is_cut)(int op) { return live->session->plan->ops[op].attr.cut; }

int EXPORT(live_write)(int tensor, int first, int n, const float *values) {
    return sm_session_write_part(live->session, tensor, first, n, values) != SM_OK;
}

// The tokenizer (live.h), then a text's ids.
int EXPORT(live_tokenizer)(const uint8_t *bytes, int n) {
    return sm_live_read_tokenizer(bytes, (size_t)n, &tokenizer) != SM_OK ||
           sm_encoder_new(tokenizer, &encoder) != SM_OK;
}

int EXPORT(live_encode)(const uint8_t *text, int n) {
    ids.n = 0;
    return sm_encoder_encode(encoder, text, (size_t)n, &ids) != SM_OK;
}

int32_t *EXPORT(live_ids)(void) { return ids.ids; }
int EXPORT(live_n_ids)(void) { return (int)ids.n; }

// Room for n floats, until the next call.
float *EXPORT(live_room)(int n) {
    static float *room;
    free(room);
    return room = sm_calloc((size_t)n, sizeof *room);
}

// --- regular expressions: the browser's --------------------------------------------------------------

// The page makes one, and gives its number; and finds its next place, 1, or does not, 0.
int page_pattern(const char *text, sm_pattern_kind kind);
int page_match(int pattern, const uint8_t *subject, size_t n, size_t begin, size_t place[2]);

struct sm_pattern {
    int number;
    size_t place[2];
};

sm_status sm_pattern_compile(const char *text, sm_pattern_kind kind, sm_pattern **pattern) {
    *pattern = sm_malloc(sizeof **pattern);
    (*pattern)->number = page_pattern(text, kind);
    return SM_OK;
}

void sm_pattern_free(sm_pattern *pattern) { free(pattern); }

const size_t *sm_pattern_find(const sm_pattern *pattern, const uint8_t *subject, size_t n, size_t begin) {
    return page_match(pattern->number, subject, n, begin, (size_t *)pattern->place) != 0 ? pattern->place : NULL;
}
