// train_show.c: see train/train.h.
#include "cli/train/train.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "clock.h"
#include "bench/tables/screen.h"
#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"

static const int64_t progress_pause_ns = 10000000000;

// A step's line, or if it must be narrower, less of it: the log has everything. Once narrow, it stays narrow.
enum { WHOLE, BRIEF_PEAK, NO_RATE, NO_NORM, N_LINES };

static int format_step(const cli_train_show *show, int64_t n_steps, const sm_train_step *s, char *line,
                       size_t size_bytes) {
    const double seconds = (double)s->elapsed_ns / 1e9;
    char tokens_per_s[32];
    char mfu[32] = "-";
    char norm[48] = "norm - | "; // a skipped step's norm is not finite
    char lr[32] = "";
    char skipped[64] = "";
    sm_text_count(round((double)s->n_tokens / seconds), tokens_per_s, sizeof(tokens_per_s));
    if (show->peak_flops > 0) {
        snprintf(mfu, sizeof(mfu), "%.1f%%", 100 * show->step_flops / seconds / show->peak_flops);
    }
    if (!s->is_skipped) {
        snprintf(norm, sizeof(norm), "norm %.4f | ", s->grad_norm);
    } else {
        snprintf(skipped, sizeof(skipped), " | skipped, loss scale now %g", s->loss_scale);
    }
    snprintf(lr, sizeof(lr), "lr %.1e | ", s->lr);
    return snprintf(line, size_bytes, "step %lld/%lld | loss %.6f | %s%s%.1f ms | %s%s | %s tok/s%s",
                    (long long)s->step, (long long)n_steps, s->loss, show->form < NO_NORM ? norm : "",
                    show->form < NO_RATE ? lr : "", 1e3 * seconds, mfu, show->form < BRIEF_PEAK ? " of peak" : "",
                    tokens_per_s, skipped);
}

static sm_status print_step(cli_train_show *show, int64_t n_steps, const sm_train_step *s) {
    const int width = sm_screen_width(stdout);
    char line[512];
    int n = format_step(show, n_steps, s, line, sizeof(line));
    while (width > 0 && n > width && show->form + 1 < N_LINES) {
        show->form++;
        n = format_step(show, n_steps, s, line, sizeof(line));
    }
    const int written = printf("%s\n", line);
    return written > 0 && fflush(stdout) == 0 ? SM_OK
                                              : sm_fail(SM_ERR_IO, "stdout: cannot be written: %s", strerror(errno));
}

static void tell_progress(cli_train_show *show, const sm_train_progress *p) {
    const int64_t now_ns = sm_now_ns();
    const int64_t n_done = p->step - p->first_step - 2; // since begin_ns
    if (now_ns - show->told_ns < progress_pause_ns || n_done < 1) {
        return;
    }
    show->told_ns = now_ns;
    const double left_s = (double)(now_ns - show->begin_ns) / 1e9 / (double)n_done * (double)(p->n_steps - p->step);
    const long long whole_s = llround(left_s);
    char validation[64] = "";
    if (!isnan(p->val_loss)) {
        snprintf(validation, sizeof(validation), ", validation loss %.4f", p->val_loss);
    }
    cli_note("step %lld of %lld, %.1f%%%s; %lld:%02lld:%02lld to go", (long long)p->step, (long long)p->n_steps,
             100 * (double)p->step / (double)p->n_steps, validation, whole_s / 3600, whole_s / 60 % 60, whole_s % 60);
}

sm_status cli_train_show_step(cli_train_show *show, const sm_train_progress *progress, const sm_train_step *step) {
    SM_TRY(print_step(show, progress->n_steps, step));
    if (progress->step == progress->first_step + 2) { // the first step is not typical; the work after it is not part of
                                                      // a step
        show->begin_ns = sm_now_ns();
        show->told_ns = show->begin_ns;
    }
    if (show->tells_progress) {
        tell_progress(show, progress);
    }
    return SM_OK;
}
