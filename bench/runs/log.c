// log.c: reads and checks one line at a time.
#include "bench/runs/runs.h"

#include "bench/tables/show.h"
#include "src/io/input_file.h"

#include <errno.h>
#include <math.h>

enum { MOST_LINE_BYTES = 1 << 20 };
static const int64_t most_log_bytes = (int64_t)1 << 32;

typedef struct {
    const char *path;
    int64_t first_step;
    sm_training_log *log;
} reader;

static sm_status malformed(const reader *r, const char *what) {
    return sm_fail(SM_ERR_FORMAT, "%s: line %zu: %s", r->path, r->log->n_lines, what);
}

// --- lines -----------------------------------------------------------------------------------

static bool whole(const json_t *line, const char *name, int64_t least, int64_t *value) {
    const json_t *field = json_object_get(line, name);
    *value = json_integer_value(field);
    return json_is_integer(field) && *value >= least;
}

// A time in ms; `absent` if the line has none.
static bool time_of(const json_t *line, const char *name, double absent, double *seconds) {
    const json_t *field = json_object_get(line, name);
    *seconds = field != NULL && !json_is_null(field) ? json_number_value(field) / 1e3 : absent;
    return field == NULL || json_is_null(field) ? !isnan(absent) : json_is_number(field) && *seconds >= 0;
}

static sm_status take_step(reader *r, const json_t *line) {
    sm_training_log *log = r->log;
    sm_logged_step step = {.loss = sm_json_number(line, "loss"),
                           .grad_norm = sm_json_number(line, "grad_norm"),
                           .lr = sm_json_number(line, "lr")};
    if (!whole(line, "step", 1, &step.step) || !whole(line, "tokens", 1, &step.tokens) ||
        !time_of(line, "ms", NAN, &step.time_s)) {
        return malformed(r, "no line of a step: \"step\", \"tokens\" and \"ms\" belong there");
    }
    if (!time_of(line, "data_ms", 0, &step.data_s) || !time_of(line, "comm_ms", 0, &step.comm_s)) {
        return malformed(r, "\"data_ms\" and \"comm_ms\" are times");
    }
    step.comm_bytes = sm_json_number(line, "comm_bytes");
    step.hidden_s = sm_json_number(line, "comm_hidden_ms") / 1e3;
    if (json_object_get(line, "epoch") != NULL && !whole(line, "epoch", 0, &step.epoch)) {
        return malformed(r, "\"epoch\" is a whole number, from 0");
    }
    if (log->n_steps > 0 && step.epoch < log->steps[log->n_steps - 1].epoch) {
        return malformed(r, "an earlier epoch follows a later one");
    }
    const int64_t expected = log->n_steps > 0 ? log->steps[log->n_steps - 1].step + 1 : r->first_step;
    SM_FAIL_IF(step.step != expected, SM_ERR_FORMAT, "%s: line %zu: step %lld stands where step %lld belongs: %s",
               r->path, log->n_lines, (long long)step.step, (long long)expected,
               step.step < expected ? "it is repeated" : "steps are missing");
    (void)whole(line, "checked_ops", 0, &step.checked_ops);
    step.skipped = json_is_true(json_object_get(line, "skipped"));
    SM_PUSH(log->steps, log->n_steps, step);
    return SM_OK;
}

static sm_status take_pause(const reader *r, const json_t *line, sm_logged_pause **pauses, size_t *n) {
    sm_logged_pause pause = {.loss = sm_json_number(line, "loss")};
    if (!whole(line, "step", 0, &pause.step) || !time_of(line, "ms", NAN, &pause.time_s)) {
        return malformed(r, "\"step\" and \"ms\" belong there");
    }
    SM_PUSH(*pauses, *n, pause);
    return SM_OK;
}

// Lines of unknown kinds are ignored.
static sm_status take_line(reader *r, const json_t *line) {
    sm_training_log *log = r->log;
    const char *kind = json_string_value(json_object_get(line, "kind"));
    if (kind == NULL) {
        return take_step(r, line);
    }
    const bool is_validation = strcmp(kind, "validation") == 0;
    if (is_validation || strcmp(kind, "checkpoint") == 0) {
        return take_pause(r, line, is_validation ? &log->validations : &log->checkpoints,
                          is_validation ? &log->n_validations : &log->n_checkpoints);
    }
    if (strcmp(kind, "sample") == 0) {
        const char *text = json_string_value(json_object_get(line, "text"));
        sm_logged_sample sample;
        if (!whole(line, "step", 0, &sample.step) || text == NULL) {
            return malformed(r, "\"step\" and \"text\" belong there");
        }
        sample.text = sm_strdup(text);
        SM_PUSH(log->samples, log->n_samples, sample);
    }
    return SM_OK;
}

static sm_status parse_line(reader *r, const char *text, size_t size_bytes) {
    json_error_t error;
    r->log->n_lines++;
    if (size_bytes == 0 || text[size_bytes - 1] != '\n') {
        return malformed(r, size_bytes + 1 == MOST_LINE_BYTES ? "it is too long" : "it is cut short");
    }
    SM_OWN(json_t) *line = json_loadb(text, size_bytes, JSON_REJECT_DUPLICATES, &error);
    return json_is_object(line) ? take_line(r, line) : malformed(r, "no JSON object");
}

// --- the file --------------------------------------------------------------------------------

void sm_training_log_free(sm_training_log *log) {
    free(log->steps);
    free(log->validations);
    free(log->checkpoints);
    for (size_t i = 0; i < log->n_samples; i++) {
        free(log->samples[i].text);
    }
    free(log->samples);
    *log = (sm_training_log){.steps = NULL};
}

// The file may be a stranger's, so a line or a log longer than any training writes is refused, not read.
static sm_status read_lines(reader *r, FILE *file) {
    int64_t size_bytes = 0;
    SM_FREED char *text = sm_malloc(MOST_LINE_BYTES);
    sm_status status = SM_OK;
    while (status == SM_OK && fgets(text, MOST_LINE_BYTES, file) != NULL) {
        size_bytes += (int64_t)strlen(text);
        status = size_bytes <= most_log_bytes ? parse_line(r, text, strlen(text)) : malformed(r, "the log is too long");
    }
    if (status == SM_OK && ferror(file)) {
        status = sm_fail(SM_ERR_IO, "%s: cannot read: %s", r->path, strerror(errno));
    }
    status = status == SM_OK && r->log->n_steps == 0 ? sm_fail(SM_ERR_FORMAT, "%s: has no step", r->path) : status;
    return status;
}

sm_status sm_training_log_read(const char *path, int64_t first_step, sm_training_log *log) {
    *log = (sm_training_log){.steps = NULL};
    reader r = {path, first_step, log};
    SM_OWN(FILE) *file = NULL;
    SM_TRY(sm_input_file(path, &file));
    const sm_status status = read_lines(&r, file);
    if (status != SM_OK) {
        sm_training_log_free(log);
    }
    return status;
}

// --- sums --------------------------------------------------------------------------------------

static bool is_in(const sm_training_log *log, const sm_log_part *p, const sm_logged_pause *pause) {
    return (pause->step >= log->steps[p->begin].step || p->begin == 0) && pause->step <= log->steps[p->end - 1].step;
}

sm_log_part sm_training_log_sum(const sm_training_log *log, size_t begin, size_t end) {
    sm_log_part p = {.begin = begin, .end = end, .val_loss = NAN, .best_val_loss = NAN};
    for (size_t i = begin; i < end; i++) {
        const sm_logged_step *s = &log->steps[i];
        p.n_skipped += s->skipped;
        p.checked_ops += s->checked_ops;
        p.checked_steps += s->checked_ops > 0;
        p.tokens += s->tokens;
        p.timed_s += s->time_s;
        p.data_s += s->data_s;
        p.comm_s += s->comm_s;
        p.hidden_s += s->hidden_s;
        p.comm_bytes += s->comm_bytes;
        p.loss += s->loss * (double)s->tokens;
    }
    p.loss /= (double)p.tokens;
    for (size_t i = 0; i < log->n_validations; i++) {
        const sm_logged_pause *v = &log->validations[i];
        if (is_in(log, &p, v)) {
            p.validation_s += v->time_s;
            p.val_loss = v->loss;
            p.best_val_loss = fmin(p.best_val_loss, v->loss); // fmin ignores NaN
        }
    }
    for (size_t i = 0; i < log->n_checkpoints; i++) {
        p.checkpoint_s += is_in(log, &p, &log->checkpoints[i]) ? log->checkpoints[i].time_s : 0;
    }
    return p;
}
