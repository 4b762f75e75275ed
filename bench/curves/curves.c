// curves.c: reads trainings, writes them as CSV and in sentences, and gives the page's script (curves.js) the points of
// each curve: a few hundred, means of equally many steps.
#include "bench/curves/curves.h"

#include "bench/pages/page.h"
#include "bench/tables/show.h"
#include "src/io/input_file.h"
#include "src/io/json_text.h"
#include "src/runs/run_folder.h"

#include <limits.h>
#include <math.h>

enum { MOST_POINTS = 240 };

bool sm_curves_is_training(const char *path) {
    SM_OWN(FILE) *file = NULL;
    char line[32], inner[PATH_MAX];
    return sm_file_is_in(path, SM_RUN_FILE, inner) || sm_file_is_in(path, SM_RUN_LOG_FILE, inner) ||
           (sm_input_file(path, &file) == SM_OK && fgets(line, sizeof line, file) != NULL &&
            strncmp(line, "{\"step\": ", 9) == 0);
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
    size_t validation = 0, checkpoint = 0;
    double tokens = 0, time_s = 0;
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
    SM_TRY(sm_file_is_in(path, SM_RUN_FILE, inner) ? sm_json_read(inner, SM_RUN_MOST_BYTES, &c->run) : SM_OK);
    const json_t *from = json_object_get(json_array_get(json_object_get(c->run, "starts"), 0), "from_step");
    path = sm_file_is_in(path, SM_RUN_LOG_FILE, inner) ? inner : path;
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

static const char *state_of(const sm_curve *c) {
    const json_t *starts = json_object_get(c->run, "starts");
    const size_t n = json_array_size(starts);
    const char *reason = json_string_value(sm_json_get(json_array_get(starts, n > 0 ? n - 1 : 0), "end.reason"));
    return c->run == NULL                  ? "a log"
           : reason == NULL                ? "running, or killed"
           : strcmp(reason, "signal") == 0 ? "interrupted"
                                           : reason;
}

static const sm_logged_pause *best_of(const sm_curve *c) {
    const sm_logged_pause *best = NULL;
    for (size_t i = 0; i < c->log.n_validations; i++) {
        const sm_logged_pause *v = &c->log.validations[i];
        best = isfinite(v->loss) && (best == NULL || v->loss < best->loss) ? v : best;
    }
    return best;
}

static void put_number(double value, FILE *out) { fprintf(out, isfinite(value) ? ",%.9g" : ",", value); }

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

// --- the answer --------------------------------------------------------------------------------

static json_t *text_alone(const sm_curve *c) {
    const sm_training_log *log = &c->log;
    const sm_logged_pause *best = best_of(c);
    const sm_logged_pause *last = log->n_validations > 0 ? &log->validations[log->n_validations - 1] : NULL;
    const long long n_done = (long long)log->steps[log->n_steps - 1].step;
    const long long n_steps = json_integer_value(sm_json_get(c->run, "configuration.steps"));
    const char *progress =
        n_steps > 0 ? SM_TEXT_IN(64, "%lld of %lld steps", n_done, n_steps) : SM_TEXT_IN(64, "%lld steps", n_done);
    if (best == NULL) {
        return json_sprintf("%s, %s: the loss went from %.4f to %.4f in %s. There is no validation: whether the model "
                            "knows new text better is not said.",
                            c->name, state_of(c), log->steps[0].loss, log->steps[log->n_steps - 1].loss, progress);
    }
    if (best != last && last->loss > best->loss) {
        return json_sprintf("%s, %s: the validation loss fell to %.4f at step %lld, and stands at %.4f after %s.",
                            c->name, state_of(c), best->loss, (long long)best->step, last->loss, progress);
    }
    return json_sprintf(
        "%s, %s: the validation loss has fallen to %.4f after %s, a perplexity of %.4g; it is the lowest so far.",
        c->name, state_of(c), best->loss, progress, exp(best->loss));
}

// The training with the lowest validation loss, but for `except`; NULL: none has a validation.
static const sm_curve *find_lowest(const sm_curves *curves, const sm_curve *except) {
    const sm_curve *lowest = NULL;
    for (size_t k = 0; k < curves->n; k++) {
        const sm_logged_pause *best = best_of(&curves->curves[k]);
        if (best != NULL && &curves->curves[k] != except && (lowest == NULL || best->loss < best_of(lowest)->loss)) {
            lowest = &curves->curves[k];
        }
    }
    return lowest;
}

static json_t *text_winner(const sm_curves *curves) {
    const sm_curve *first = find_lowest(curves, NULL);
    const sm_curve *second = find_lowest(curves, first);
    if (second == NULL) {
        return json_sprintf("%zu trainings, of which %s has a validation: nothing tells which is best.", curves->n,
                            first != NULL ? "one" : "none");
    }
    return json_sprintf("%s has the lowest validation loss: %.4f at step %lld, %.1f%% below that of %s (%.4f). One run "
                        "of each: another --seed may well move a loss by a percent.",
                        first->name, best_of(first)->loss, (long long)best_of(first)->step,
                        100 * (1 - best_of(first)->loss / best_of(second)->loss), second->name, best_of(second)->loss);
}

// A text with bytes that are not UTF-8 has no JSON form.
json_t *sm_curves_answer(const sm_curves *curves) {
    json_t *text = curves->n == 1 ? text_alone(&curves->curves[0]) : text_winner(curves);
    return text != NULL ? text : json_string("");
}

// --- warnings ----------------------------------------------------------------------------------

static void add_warning(json_t *warnings, const sm_curve *c, const char *text) {
    json_array_append_new(warnings, sm_json_bytes(SM_TEXT_IN(SM_WATCH_TEXT_SIZE + 256, "%.240s: %s.", c->name, text)));
}

json_t *sm_curves_warnings(const sm_curves *curves) {
    json_t *warnings = json_array();
    for (size_t k = 0; k < curves->n; k++) {
        const sm_curve *c = &curves->curves[k];
        sm_run_watch watch = {.n_steps = 0};
        char text[SM_WATCH_TEXT_SIZE];
        size_t next = 0;
        for (size_t i = 0; i < c->log.n_steps; i++) {
            const sm_logged_step *s = &c->log.steps[i];
            if (sm_run_watch_step(&watch, s->step, s->loss, s->grad_norm, text)) {
                add_warning(warnings, c, text);
            }
            for (; next < c->log.n_validations && c->log.validations[next].step <= s->step; next++) {
                if (sm_run_watch_validation(&watch, s->step, c->log.validations[next].loss, text)) {
                    add_warning(warnings, c, text);
                }
            }
        }
    }
    return warnings;
}

// --- the table ---------------------------------------------------------------------------------

static void show_checked(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double n = sm_json_number(record, column->name);
    snprintf(text, size_bytes, n > 0 ? "%.0f" : "unchecked", n);
}

#define COLUMN_LIST(X)                                                                                                \
    X("run", JSON, "", "folder or log of the training", sm_json_bytes(c->name), .heading = "run")                     \
    X("state", TEXT, "", "complete, interrupted, or running", state_of(c), .heading = "state")                        \
    X("steps", INTEGER, "", "so far", log->steps[last].step, .heading = "steps", .show = sm_show_count)               \
    X("tokens", INTEGER, "", "of this run", (int64_t)c->tokens[last], .heading = "tokens", .show = sm_show_count)     \
    X("best_validation_loss", REAL, "", "the lowest", best != NULL ? best->loss : NAN, .heading = "best validation",  \
      .show = sm_show_real)                                                                                           \
    X("best_step", INTEGER, "", "after which it was measured", best != NULL ? best->step : SM_ABSENT,                 \
      .heading = "at step", .show = sm_show_count)                                                                    \
    X("last_validation_loss", REAL, "", "the last", all.val_loss, .heading = "last validation", .show = sm_show_real) \
    X("last_loss", REAL, "", "of the training's own batches", log->steps[last].loss, .heading = "last loss",          \
      .show = sm_show_real)                                                                                           \
    X("time_s", REAL, "s", "steps, validations and checkpoints", c->time_s[last], .heading = "seconds",               \
      .show = sm_show_real)                                                                                           \
    X("tokens_per_s", REAL, "1/s", "of this time", round(c->tokens[last] / c->time_s[last]), .heading = "tokens/s",   \
      .show = sm_show_count)                                                                                          \
    X("checked_ops", INTEGER, "", "operations that were computed again", all.checked_ops,                             \
      .heading = "operations checked", .show = show_checked)                                                          \
    X("n_checkpoints", INTEGER, "", "that were written", (int64_t)log->n_checkpoints, .heading = "checkpoints",       \
      .show = sm_show_count)

const sm_table sm_curves_table = SM_LISTED_TABLE("trainings", COLUMN_LIST);

static json_t *record_of(const sm_curve *c) {
    const sm_training_log *log = &c->log;
    const sm_logged_pause *best = best_of(c);
    const size_t last = log->n_steps - 1;
    const sm_log_part all = sm_training_log_sum(log, 0, log->n_steps);
    json_t *record = json_object();
    COLUMN_LIST(SM_LISTED_VALUE)
    return record;
}

json_t *sm_curves_records(const sm_curves *curves) {
    json_t *records = json_array();
    for (size_t k = 0; k < curves->n; k++) {
        json_array_append_new(records, record_of(&curves->curves[k]));
    }
    return records;
}

// --- the page ----------------------------------------------------------------------------------

// [step, tokens, seconds, loss, norm, learning rate, tokens/s]
static json_t *points_of(const sm_curve *c) {
    enum { N_VALUES = 4 };
    json_t *points = json_array();
    const size_t n = c->log.n_steps;
    const size_t width = (n + MOST_POINTS - 1) / MOST_POINTS;
    for (size_t first = 0; first < n; first += width) {
        const size_t end = first + width < n ? first + width : n;
        double sums[N_VALUES] = {0};
        int n_found[N_VALUES] = {0};
        for (size_t i = first; i < end; i++) {
            const sm_logged_step *s = &c->log.steps[i];
            const double values[N_VALUES] = {s->loss, s->grad_norm, s->lr,
                                             s->time_s > 0 ? (double)s->tokens / s->time_s : NAN};
            for (int k = 0; k < N_VALUES; k++) {
                sums[k] += isfinite(values[k]) ? values[k] : 0;
                n_found[k] += isfinite(values[k]);
            }
        }
        json_t *point =
            json_pack("[I, f, f]", (json_int_t)c->log.steps[end - 1].step, c->tokens[end - 1], c->time_s[end - 1]);
        for (int k = 0; k < N_VALUES; k++) {
            json_array_append_new(point, sm_json_real(sums[k] / n_found[k]));
        }
        json_array_append_new(points, point);
    }
    return points;
}

static json_t *validations_of(const sm_curve *c) {
    json_t *points = json_array();
    for (size_t i = 0; i < c->log.n_validations; i++) {
        const sm_logged_pause *v = &c->log.validations[i];
        const int64_t last = (int64_t)c->log.n_steps - 1;
        const int64_t from_first = v->step - c->log.steps[0].step;
        const size_t at = (size_t)(from_first < 0 ? 0 : from_first > last ? last : from_first);
        json_array_append_new(points, json_pack("[I, f, f, o]", (json_int_t)c->log.steps[at].step, c->tokens[at],
                                                c->time_s[at], sm_json_real(v->loss)));
    }
    return points;
}

static json_t *curve_json(const sm_curve *c) {
    const sm_log_part all = sm_training_log_sum(&c->log, 0, c->log.n_steps);
    const double phases_s[] = {all.timed_s - all.data_s - all.comm_s, all.data_s, all.comm_s, all.validation_s,
                               all.checkpoint_s};
    json_t *samples = json_array();
    for (size_t i = 0; i < c->log.n_samples; i++) {
        json_array_append_new(
            samples, json_pack("[I, o]", (json_int_t)c->log.samples[i].step, sm_json_bytes(c->log.samples[i].text)));
    }
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:O?}", "name", sm_json_bytes(c->name), "points", points_of(c),
                     "validations", validations_of(c), "phases_s", sm_json_reals(phases_s, SM_COUNT(phases_s)),
                     "samples", samples, "configuration", json_object_get(c->run, "configuration"));
}

sm_status sm_curves_page(const sm_curves *curves, unsigned how, FILE *out) {
    json_t *all = json_array();
    SM_OWN(json_t) *records = sm_curves_records(curves);
    for (size_t k = 0; k < curves->n; k++) {
        json_array_append_new(all, curve_json(&curves->curves[k]));
    }
    json_t *page =
        json_pack("{s:o, s:o, s:o, s:o}", "answer", sm_curves_answer(curves), "warnings", sm_curves_warnings(curves),
                  "curves", all, "table", sm_page_table(&sm_curves_table, records));
    sm_page_write(out, curves->n == 1 ? "A training" : "Trainings", (const char *const[2]){"curves.js"}, how, page);
    return SM_OK;
}

// --- while it trains -----------------------------------------------------------------------------

enum { STEPS_BEFORE_JUMP = 10, STEPS_BETWEEN_JUMPS = 100, STEPS_BEFORE_FLAT = 100 };

static const double norm_memory = 0.05; // weight of the newest norm
static const double norm_jump = 8;      // times the usual norm
static const double flat_share = 0.99;  // of the first losses
static const double rise_share = 1.005; // of the best validation

static bool jumps(sm_run_watch *w, int64_t step, double norm, char *text) {
    if (!(norm > 0) || !isfinite(norm)) {
        return false;
    }
    const double usual = exp(w->log_norm);
    const bool is_jump = w->n_steps > STEPS_BEFORE_JUMP && norm > norm_jump * usual &&
                         (w->jump_step == 0 || step - w->jump_step >= STEPS_BETWEEN_JUMPS);
    w->log_norm = w->n_steps == 1 ? log(norm) : w->log_norm + norm_memory * (log(norm) - w->log_norm);
    if (is_jump) {
        w->jump_step = step;
        snprintf(text, SM_WATCH_TEXT_SIZE,
                 "step %lld: the gradient's norm jumped to %.3g, %.0f times the usual; a lower --lr, or --grad-clip 1, "
                 "helps if this continues",
                 (long long)step, norm, norm / usual);
    }
    return is_jump;
}

static bool stays(sm_run_watch *w, int64_t step, char *text) {
    const double first = w->first_loss_sum / SM_WATCH_WINDOW;
    double last_sum = 0;
    for (int i = 0; i < SM_WATCH_WINDOW; i++) {
        last_sum += w->losses[i];
    }
    const double last = last_sum / SM_WATCH_WINDOW;
    if (w->is_flat_told || w->n_steps != STEPS_BEFORE_FLAT || !(last > flat_share * first)) {
        return false;
    }
    w->is_flat_told = true;
    snprintf(text, SM_WATCH_TEXT_SIZE,
             "step %lld: the loss is flat: %.4f over the last %d steps, %.4f over the first; try another --lr, "
             "--warmup-steps, and --order shuffled",
             (long long)step, last, SM_WATCH_WINDOW, first);
    return true;
}

bool sm_run_watch_step(sm_run_watch *w, int64_t step, double loss, double norm, char text[SM_WATCH_TEXT_SIZE]) {
    w->losses[w->n_steps % SM_WATCH_WINDOW] = loss;
    w->first_loss_sum += w->n_steps < SM_WATCH_WINDOW ? loss : 0;
    w->n_steps++;
    return jumps(w, step, norm, text) || stays(w, step, text);
}

bool sm_run_watch_validation(sm_run_watch *w, int64_t step, double loss, char text[SM_WATCH_TEXT_SIZE]) {
    if (w->n_validations++ == 0 || loss < w->best_loss) {
        w->best_loss = loss;
        w->best_step = step;
        w->is_rise_told = false;
        return false;
    }
    if (w->is_rise_told || !(loss > rise_share * w->best_loss)) {
        return false;
    }
    w->is_rise_told = true;
    snprintf(text, SM_WATCH_TEXT_SIZE,
             "step %lld: the validation loss rises: %.4f, after %.4f at step %lld; more steps may make the model worse "
             "on new text (--keep-best keeps the best one)",
             (long long)step, loss, w->best_loss, (long long)w->best_step);
    return true;
}
