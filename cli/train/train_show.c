// train_show.c: see train/train.h.
#include "cli/train/train.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "clock.h"
#include "bench/tables/screen.h"
#include "bench/tables/show.h"
#include "src/io/shell_word.h"

static const int64_t progress_pause_ns = 10000000000;

// A step's line, or if it must be narrower, less of it: the log has everything. Once narrow, it stays narrow.
enum { WHOLE, BRIEF_PEAK, NO_RATE, NO_NORM, NO_PEAK, N_LINES };

static int format_step(const cli_train_show *show, int64_t n_steps, const sm_train_step *s, char *line,
                       size_t size_bytes) {
    const double seconds = (double)s->elapsed_ns / 1e9;
    char tokens_per_s[32];
    char mfu[32] = "- | ";
    char norm[48] = "norm - | "; // a skipped step's norm is not finite
    char lr[32] = "";
    char skipped[64] = "";
    sm_text_count(round((double)s->n_tokens / seconds), tokens_per_s, sizeof(tokens_per_s));
    if (show->peak_flops > 0) {
        snprintf(mfu, sizeof(mfu), "%.1f%%%s peak | ", 100 * cli_train_mfu(show, s),
                 show->form < BRIEF_PEAK ? " of" : "");
    }
    if (!s->is_skipped) {
        snprintf(norm, sizeof(norm), "norm %.4f | ", s->grad_norm);
    } else {
        snprintf(skipped, sizeof(skipped), " | skipped, loss scale now %g", s->loss_scale);
    }
    snprintf(lr, sizeof(lr), "lr %.1e | ", s->lr);
    return snprintf(line, size_bytes, "step %lld/%lld | loss %.6f | %s%s%.1f ms | %s%s tok/s%s%s", (long long)s->step,
                    (long long)n_steps, s->loss, show->form < NO_NORM ? norm : "", show->form < NO_RATE ? lr : "",
                    1e3 * seconds, show->form < NO_PEAK ? mfu : "", tokens_per_s,
                    show->is_unchecked ? " unchecked" : "", skipped);
}

static void tell_progress(cli_train_show *show, const sm_train_progress *p) {
    char left[32];
    cli_train_time_left(show, p, left, sizeof(left));
    if (sm_now_ns() - show->told_ns < progress_pause_ns || left[0] == '\0') {
        return;
    }
    show->told_ns = sm_now_ns();
    cli_say("step %lld of %lld, %.1f%%; %s to go", (long long)p->step, (long long)p->n_steps,
            100 * (double)p->step / (double)p->n_steps, left);
}

sm_status cli_train_show_step(cli_train_show *show, const sm_train_progress *progress, const sm_train_step *step) {
    char warning[SM_WATCH_TEXT_SIZE];
    const bool is_edge = progress->step == progress->first_step + 1 || progress->step == progress->n_steps;
    static const double newest = 0.1; // its weight in the mean
    const double rate = (double)step->n_tokens / ((double)step->elapsed_ns / 1e9);
    show->screen.rate += (show->screen.rate == 0 ? 1 : newest) * (rate - show->screen.rate);
    show->last = *step;
    cli_train_curve_add(&show->screen.loss, (double)step->step, step->loss);
    if (show->is_live) {
        cli_train_screen_show(show, progress, is_edge);
    } else if (is_edge || show->every == 0 || progress->step % show->every == 0) {
        const int width = sm_screen_width(stdout);
        char line[512];
        int n = format_step(show, progress->n_steps, step, line, sizeof(line));
        while (width > 0 && n > width && show->form + 1 < N_LINES) {
            show->form++;
            n = format_step(show, progress->n_steps, step, line, sizeof(line));
        }
        const int written = printf("%s\n", line);
        SM_TRY(written > 0 && fflush(stdout) == 0
                   ? SM_OK
                   : sm_fail(SM_ERR_IO, "stdout: cannot be written: %s", strerror(errno)));
    }
    show->n_tokens += (double)step->n_tokens;
    show->checked_ops += step->checked_ops;
    show->n_checked += step->checked_ops > 0;
    if (sm_run_watch_step(&show->watch, step->step, step->loss, step->is_skipped ? NAN : step->grad_norm, warning)) {
        cli_note("warning: %s", warning);
    }
    if (progress->step == progress->first_step + 2) { // the first step is not typical; the work after it is not part of
                                                      // a step
        show->begin_ns = sm_now_ns();
        show->told_ns = show->begin_ns;
    }
    if (show->tells_progress && !show->is_live) {
        tell_progress(show, progress);
    }
    return SM_OK;
}

sm_status cli_train_show_validation(cli_train_show *show, const sm_train_progress *p) {
    char best[64] = "";
    char warning[SM_WATCH_TEXT_SIZE];
    if (p->best_val_step != p->step) {
        snprintf(best, sizeof(best), " | best %.6f at step %lld", p->best_val_loss, (long long)p->best_val_step);
    }
    cli_train_curve_add(&show->screen.validation, (double)p->step, p->val_loss);
    if (show->is_live) {
        cli_train_screen_show(show, p, true);
    }
    const int written = show->is_live ? 1
                                      : printf("validation after step %lld | loss %.6f | perplexity %.4g%s\n",
                                               (long long)p->step, p->val_loss, exp(p->val_loss), best);
    if (sm_run_watch_validation(&show->watch, p->step, p->val_loss, warning)) {
        cli_note("warning: %s", warning);
    }
    return written > 0 && fflush(stdout) == 0 ? SM_OK
                                              : sm_fail(SM_ERR_IO, "stdout: cannot be written: %s", strerror(errno));
}

// --- the run ---------------------------------------------------------------------------------

static void text_schedule(const sm_schedule *schedule, char *text, size_t size_bytes) {
    int used = 0;
    if (schedule->warmup_steps > 0) {
        used = snprintf(text, size_bytes, "%lld steps of warm-up, then ", (long long)schedule->warmup_steps);
    }
    if (schedule->kind == SM_SCHEDULE_CONSTANT) {
        snprintf(text + used, size_bytes - (size_t)used, "constant");
    } else {
        snprintf(text + used, size_bytes - (size_t)used, "%s to %.3g", sm_schedule_name(schedule->kind),
                 schedule->lr * schedule->final_fraction);
    }
}

static void text_settings(const sm_train_settings *s, char *text, size_t size_bytes) {
    sm_step_settings settings = s->optimizer;
    size_t used = (size_t)snprintf(text, size_bytes, "%s", s->session->plan->optimizer->name);
    for (int i = 0; i < sm_setting_count() && used < size_bytes; i++) {
        const sm_setting *setting = sm_setting_at(i);
        const double value = *sm_setting_of(&settings, setting);
        char words[CLI_TEXT_SIZE];
        if (!isnan(value) && value != settings.lr) {
            cli_setting_words(setting, words);
            used += (size_t)snprintf(text + used, size_bytes - used, ", %s %.7g", words, value);
        }
    }
}

void cli_train_show_begin(cli_train_show *show, const sm_train_settings *s, const sm_schedule *schedule) {
    char rate[128], settings[256];
    text_schedule(schedule, rate, sizeof(rate));
    text_settings(s, settings, sizeof(settings));
    show->first_ns = sm_now_ns();
    cli_say("%lld steps of %lld x %lld tokens, order %s; learning rate %.3g: %s; %s", (long long)schedule->n_steps,
            (long long)s->global_batch, (long long)s->session->plan->T, sm_order_name(s->order), schedule->lr, rate,
            settings);
}

void cli_train_show_leave(const cli_train_show *show, const sm_train_progress *p) {
    if (show->is_live && show->screen.loss.n > 0) {
        cli_train_screen_show(show, p, true);
        cli_live_keep();
    }
}

void cli_train_show_end(const cli_train_show *show, const sm_train_settings *s, const sm_train_progress *p) {
    const double seconds = (double)(sm_now_ns() - show->first_ns) / 1e9;
    char validation[128] = "";
    char checks[96] = "unchecked";
    if (!isnan(p->best_val_loss)) {
        snprintf(validation, sizeof(validation), "best validation loss %.4f (step %lld), last %.4f; ", p->best_val_loss,
                 (long long)p->best_val_step, p->val_loss);
    }
    if (show->checked_ops > 0) {
        snprintf(checks, sizeof(checks), "%lld operations of %lld step%s computed again, and right",
                 (long long)show->checked_ops, (long long)show->n_checked, show->n_checked > 1 ? "s" : "");
    }
    cli_say("%s%s tokens in %s, %s a second with all pauses; %s", validation, SM_TEXT_COUNT(show->n_tokens),
            CLI_DURATION(seconds), SM_TEXT_COUNT(round(show->n_tokens / seconds)), checks);
    char run[SM_SHELL_PATH_SIZE];
    cli_say("next: stepmark generate --weights %s --prompt TEXT; stepmark report %s --output run.html",
            sm_shell_path(s->run_dir, run), run);
}
