// curves.c: reads trainings, and writes them as CSV.
#include "bench/curves/curves.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/runs/metrics.h"
#include "bench/tables/json_values.h"
#include "bench/tables/record.h"
#include "src/io/input_file.h"
#include "src/io/json_text.h"
#include "src/runs/run_folder.h"

// --- what a path holds -----------------------------------------------------------------------

static bool join(const char *folder, const char *name, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s/%s", folder, name) < PATH_MAX;
}

static bool is_there(const char *folder, const char *name) {
    char path[PATH_MAX];
    return join(folder, name, path) && access(path, F_OK) == 0;
}

static bool begins_as_log(const char *path) {
    SM_OWN(FILE) *file = NULL;
    char line[32] = "";
    if (sm_input_file(path, &file) != SM_OK) {
        return false;
    }
    return fgets(line, sizeof line, file) != NULL && strncmp(line, "{\"step\": ", 9) == 0;
}

bool sm_curves_is_training(const char *path) {
    return is_there(path, SM_RUN_FILE) || is_there(path, SM_RUN_LOG_FILE) || begins_as_log(path);
}

// --- reading -----------------------------------------------------------------------------------

static double pauses_at(const sm_logged_pause *pauses, size_t n, size_t *next, int64_t step) {
    double sum_s = 0;
    for (; *next < n && pauses[*next].step <= step; (*next)++) {
        sum_s += pauses[*next].time_s;
    }
    return sum_s;
}

static void add_up(sm_curve *c) {
    const sm_training_log *log = &c->log;
    size_t validation = 0;
    size_t checkpoint = 0;
    double tokens = 0;
    double time_s = 0;
    c->tokens = sm_calloc(log->n_steps, sizeof *c->tokens);
    c->time_s = sm_calloc(log->n_steps, sizeof *c->time_s);
    for (size_t i = 0; i < log->n_steps; i++) {
        tokens += (double)log->steps[i].tokens;
        time_s += log->steps[i].time_s;
        c->tokens[i] = tokens;
        c->time_s[i] = time_s;
        time_s += pauses_at(log->validations, log->n_validations, &validation, log->steps[i].step);
        time_s += pauses_at(log->checkpoints, log->n_checkpoints, &checkpoint, log->steps[i].step);
    }
}

// The last part of the path, unless an earlier training has that name.
static void name_it(const sm_curves *all, const char *path, sm_curve *c) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') {
        length--;
    }
    size_t first = length;
    while (first > 0 && path[first - 1] != '/') {
        first--;
    }
    c->name = sm_strndup(path + first, length - first);
    for (size_t i = 0; i < all->n; i++) {
        if (strcmp(all->curves[i].name, c->name) == 0) {
            free(c->name);
            c->name = sm_strndup(path, length);
        }
    }
}

// The first step is 1, or follows on the weights that the run began with.
static sm_status read_curve(const char *path, const sm_curves *all, sm_curve *c) {
    char inner[PATH_MAX];
    name_it(all, path, c);
    if (is_there(path, SM_RUN_FILE) && join(path, SM_RUN_FILE, inner)) {
        SM_TRY(sm_json_read(inner, SM_RUN_MOST_BYTES, &c->run));
    }
    const json_t *from = json_object_get(json_array_get(json_object_get(c->run, "starts"), 0), "from_step");
    if (is_there(path, SM_RUN_LOG_FILE) && join(path, SM_RUN_LOG_FILE, inner)) {
        path = inner;
    }
    SM_TRY(sm_training_log_read(path, from != NULL ? json_integer_value(from) + 1 : 1, &c->log));
    add_up(c);
    return SM_OK;
}

sm_status sm_curves_read(char *const *paths, int n, sm_curves *curves) {
    sm_status status = SM_OK;
    *curves = (sm_curves){.curves = sm_calloc((size_t)n + 1, sizeof *curves->curves)};
    for (int i = 0; i < n && status == SM_OK; i++) {
        status = read_curve(paths[i], curves, &curves->curves[i]);
        curves->n++; // what a failure left is freed, too
    }
    if (status != SM_OK) {
        sm_curves_free(curves);
    }
    return status;
}

void sm_curves_free(sm_curves *curves) {
    for (size_t i = 0; i < curves->n; i++) {
        sm_curve *c = &curves->curves[i];
        free(c->name);
        json_decref(c->run);
        sm_training_log_free(&c->log);
        free(c->tokens);
        free(c->time_s);
    }
    free(curves->curves);
    *curves = (sm_curves){.n = 0};
}

// --- facts -------------------------------------------------------------------------------------

int64_t sm_curve_n_steps(const sm_curve *c) {
    return (int64_t)json_integer_value(sm_json_get(c->run, "configuration.steps"));
}

const char *sm_curve_state(const sm_curve *c) {
    const json_t *starts = json_object_get(c->run, "starts");
    const size_t n = json_array_size(starts);
    const char *reason = json_string_value(sm_json_get(json_array_get(starts, n > 0 ? n - 1 : 0), "end.reason"));
    if (c->run == NULL) {
        return "a log";
    }
    if (reason == NULL) {
        return "running, or killed";
    }
    return strcmp(reason, "signal") == 0 ? "interrupted" : reason;
}

const sm_logged_pause *sm_curve_best(const sm_curve *c) {
    const sm_logged_pause *best = NULL;
    for (size_t i = 0; i < c->log.n_validations; i++) {
        const sm_logged_pause *v = &c->log.validations[i];
        if (isfinite(v->loss) && (best == NULL || v->loss < best->loss)) {
            best = v;
        }
    }
    return best;
}

size_t sm_curve_at(const sm_curve *c, int64_t step) {
    const int64_t first = c->log.steps[0].step;
    const int64_t last = (int64_t)c->log.n_steps - 1;
    return (size_t)(step < first ? 0 : step - first > last ? last : step - first);
}

// --- CSV ---------------------------------------------------------------------------------------

static void put_number(double value, FILE *out) {
    if (isfinite(value)) {
        fprintf(out, ",%.9g", value);
    } else {
        fputc(',', out);
    }
}

sm_status sm_curves_csv(const sm_curves *curves, FILE *out) {
    fputs("run,step,tokens,time_s,loss,grad_norm,lr,tokens_per_s,validation_loss\n", out);
    for (size_t k = 0; k < curves->n; k++) {
        const sm_curve *c = &curves->curves[k];
        size_t next = 0;
        for (size_t i = 0; i < c->log.n_steps; i++) {
            const sm_logged_step *s = &c->log.steps[i];
            double validation = NAN;
            for (; next < c->log.n_validations && c->log.validations[next].step <= s->step; next++) {
                validation = c->log.validations[next].loss;
            }
            sm_csv_quoted(out, c->name);
            fprintf(out, ",%lld,%.0f", (long long)s->step, c->tokens[i]);
            put_number(c->time_s[i], out);
            put_number(s->loss, out);
            put_number(s->grad_norm, out);
            put_number(s->lr, out);
            put_number((double)s->tokens / s->time_s, out);
            put_number(validation, out);
            fputc('\n', out);
        }
    }
    return ferror(out) == 0 ? SM_OK : sm_fail(SM_ERR_IO, "cannot write the curves");
}
