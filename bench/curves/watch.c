// watch.c: see curves.h.
#include "bench/curves/curves.h"

#include <math.h>

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
