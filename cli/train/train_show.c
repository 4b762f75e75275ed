// train_show.c: what a user sees of a training (train/train.h): a line for each step, or a live screen:
//
//   step 268 of 400  ████████████████████░░░░░░░░░░  67.0%, 0:00:41 to go
//   loss 4.2312, validation o 4.3100 (lowest 4.2800 at step 200)
//   6.51 ⠉⠢⡀
//            ⠈⠢⢄   o
//   4.23          ⠉⠒⠤o
//        1       step      268
//   lr 1.0e-3 | norm 0.4231 | 12,345 tokens/s | 34.5% of peak
#include "cli/train/train.h"

#include <errno.h>

#include "clock.h"
#include "bench/tables/screen.h"
#include "src/io/shell_word.h"

enum {
    LEAST_WIDTH = 60,
    MOST_WIDTH = 110,
    LEAST_HEIGHT = 16,
    MOST_ROWS = 12,
    LABEL_WIDTH = 8,
    DOTS_X = 2, // of a character
    DOTS_Y = 4,
    N_POINTS = (int)(sizeof(((cli_train_curve *)0)->points) / sizeof(((cli_train_curve *)0)->points[0])),
};

static const char validation_mark = 'o';

static void add_point(cli_train_curve *c, double step, double value) {
    if (!isfinite(value)) {
        return;
    }
    if (c->n == N_POINTS && c->n_last == c->n_each) {
        for (int i = 0; i < N_POINTS / 2; i++) {
            c->points[i].step = c->points[2 * i + 1].step;
            c->points[i].value = (c->points[2 * i].value + c->points[2 * i + 1].value) / 2;
        }
        c->n /= 2;
        c->n_each *= 2;
        c->n_last = c->n_each;
    }
    if (c->n_last == c->n_each) { // also at the begin
        c->n_each += c->n == 0;
        c->points[c->n++].value = 0;
        c->n_last = 0;
    }
    c->n_last++;
    c->points[c->n - 1].step = step;
    c->points[c->n - 1].value += (value - c->points[c->n - 1].value) / (double)c->n_last;
}

// Share of the peak in a step; NaN: unknown.
static double mfu_of(const cli_train_show *show, const sm_train_step *s) {
    return show->peak_flops > 0 ? show->step_flops / ((double)s->elapsed_ns / 1e9) / show->peak_flops : NAN;
}

// "0:01:30" until the last step; "": unknown.
static void text_time_left(const cli_train_show *show, const sm_train_progress *p, char *text, size_t size_bytes) {
    const int64_t n_done = p->step - p->first_step - 2; // since begin_ns
    text[0] = '\0';
    if (n_done > 0 && p->step < p->n_steps) {
        const double begun_s = (double)(sm_now_ns() - show->begin_ns) / 1e9;
        const long long left_s = llround(begun_s / (double)n_done * (double)(p->n_steps - p->step));
        snprintf(text, size_bytes, "%lld:%02lld:%02lld", left_s / 3600, left_s / 60 % 60, left_s % 60);
    }
}

bool cli_train_screen_fits(void) {
    return !cli_live_is_off() && sm_screen_width(stdout) >= LEAST_WIDTH && sm_screen_width(stderr) >= LEAST_WIDTH &&
           sm_screen_height(stderr) >= LEAST_HEIGHT;
}

// --- the plot ----------------------------------------------------------------------------------------

typedef struct {
    int n_columns, n_rows;                      // in characters
    double first, last;                         // steps
    double low, high;                           // losses
    unsigned char cells[MOST_ROWS][MOST_WIDTH]; // bits of a Braille character, or the mark
    bool is_mark[MOST_ROWS][MOST_WIDTH];
} plot;

// The place of a value within n.
static int place(double value, double from, double to, int n) {
    return to != from ? (int)lround((value - from) / (to - from) * (n - 1)) : 0;
}

static void draw(plot *p, const cli_train_curve *loss, const cli_train_curve *validation) {
    static const unsigned char bits[DOTS_Y][DOTS_X] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    int before_x = 0, before_y = 0;
    for (int i = 0; i < loss->n; i++) {
        const int x = place(loss->points[i].step, p->first, p->last, DOTS_X * p->n_columns);
        const int y = place(loss->points[i].value, p->high, p->low, DOTS_Y * p->n_rows);
        const int n_x = i > 0 ? abs(x - before_x) : 0, n_y = i > 0 ? abs(y - before_y) : 0;
        const int n = n_x > n_y ? n_x : n_y;
        for (int k = 0; k <= n; k++) { // a line from the point before, dot by dot
            const double back = n > 0 ? 1 - (double)k / n : 0;
            const int dot_x = (int)lround(x + back * (before_x - x));
            const int dot_y = (int)lround(y + back * (before_y - y));
            p->cells[dot_y / DOTS_Y][dot_x / DOTS_X] |= bits[dot_y % DOTS_Y][dot_x % DOTS_X];
        }
        before_x = x;
        before_y = y;
    }
    for (int i = 0; i < validation->n; i++) {
        p->is_mark[place(validation->points[i].value, p->high, p->low, p->n_rows)]
                  [place(validation->points[i].step, p->first, p->last, p->n_columns)] = true;
    }
}

static void put_plot(const plot *p, FILE *out) {
    for (int row = 0; row < p->n_rows; row++) {
        if (row == 0 || row == p->n_rows - 1) {
            fprintf(out, "%*.4f ", LABEL_WIDTH - 1, row == 0 ? p->high : p->low);
        } else {
            fprintf(out, "%*s", LABEL_WIDTH, "");
        }
        for (int column = 0; column < p->n_columns; column++) {
            const unsigned char bits = p->cells[row][column];
            if (p->is_mark[row][column] || bits == 0) {
                fputc(p->is_mark[row][column] ? validation_mark : ' ', out);
            } else {
                fprintf(out, "\xE2%c%c", 0xA0 | bits >> 6, 0x80 | (bits & 0x3F)); // U+2800 + bits
            }
        }
        fputc('\n', out);
    }
    const char *first = SM_TEXT_COUNT(p->first);
    const int gap = p->n_columns - (int)strlen(first);
    fprintf(out, "%*sstep %s%*s\n", LABEL_WIDTH, "", first, gap - (int)strlen("step "), SM_TEXT_COUNT(p->last));
}

// --- the lines around it -----------------------------------------------------------------------------

static void put_bar(const cli_train_show *show, const sm_train_progress *p, int width, FILE *out) {
    char head[96], tail[96], left[32];
    text_time_left(show, p, left, sizeof(left));
    const double share = p->n_steps > 0 ? (double)p->step / (double)p->n_steps : 0;
    snprintf(head, sizeof(head), "step %s of %s ", SM_TEXT_COUNT(p->step), SM_TEXT_COUNT(p->n_steps));
    snprintf(tail, sizeof(tail), " %.1f%%%s%s%s", 100 * share, left[0] != '\0' ? ", " : "", left,
             left[0] != '\0' ? " to go" : "");
    const int n = width - (int)strlen(head) - (int)strlen(tail);
    fputs(head, out);
    for (int i = 0; i < n; i++) {
        fputs(i < (int)(share * n) ? "█" : "░", out);
    }
    fprintf(out, "%s\n", tail);
}

// Shows where the training is, unless that was shown just now; `at_once`: in any case.
static void show_screen(const cli_train_show *show, const sm_train_progress *progress, bool at_once) {
    static plot p; // static because of its cells
    const sm_train_step *s = &show->last;
    SM_FREED char *text = NULL;
    size_t size_bytes;
    const int terminal_width = sm_screen_width(stderr) - 1; // the last column would wrap on some terminals
    const int width = terminal_width < MOST_WIDTH ? terminal_width : MOST_WIDTH;
    const int n_rows = sm_screen_height(stderr) / 3;
    if ((!at_once && !cli_live_is_due()) || !cli_train_screen_fits()) {
        return; // it may have become too small
    }
    FILE *out = sm_memstream(&text, &size_bytes);
    p = (plot){.n_columns = width - LABEL_WIDTH,
               .n_rows = n_rows < MOST_ROWS ? n_rows : MOST_ROWS,
               .first = (double)progress->first_step + 1,
               .last = (double)progress->step,
               .low = INFINITY,
               .high = -INFINITY};
    const cli_train_curve *const curves[] = {&show->loss, &show->validation};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < curves[k]->n; i++) {
            p.low = fmin(p.low, curves[k]->points[i].value);
            p.high = fmax(p.high, curves[k]->points[i].value);
        }
    }
    draw(&p, &show->loss, &show->validation);
    put_bar(show, progress, width, out);
    fprintf(out, "loss %.4f", s->loss);
    if (!isnan(progress->val_loss)) {
        fprintf(out, ", validation %c %.4f", validation_mark, progress->val_loss);
        if (progress->best_val_loss < progress->val_loss) {
            fprintf(out, " (lowest %.4f at step %lld)", progress->best_val_loss, (long long)progress->best_val_step);
        }
    }
    fputc('\n', out);
    put_plot(&p, out);
    fprintf(out, "lr %.1e | ", s->lr);
    if (s->is_skipped) {
        fprintf(out, "skipped, loss scale now %g", s->loss_scale);
    } else {
        fprintf(out, "norm %.4f", s->grad_norm);
    }
    fprintf(out, " | %s tokens/s%s", SM_TEXT_COUNT(round(show->rate)), show->is_unchecked ? " unchecked" : "");
    if (!isnan(mfu_of(show, s))) {
        fprintf(out, " | %.1f%% of peak", 100 * mfu_of(show, s));
    }
    fputc('\n', out);
    fflush(stdout); // keeps the order of both streams
    if (fclose(out) == 0) {
        cli_live_lines(text);
    }
}

// --- lines -------------------------------------------------------------------------------------------

static const int64_t progress_pause_ns = 10000000000;

// A step's line, or if it must be narrower, less of it: the log has everything. Once narrow, it stays narrow.
enum { WHOLE, BRIEF_PEAK, NO_RATE, NO_NORM, NO_PEAK, N_LINES };

static int format_step(const cli_train_show *show, int64_t n_steps, const sm_train_step *s, char *line,
                       size_t size_bytes) {
    const double seconds = (double)s->elapsed_ns / 1e9;
    char tokens_per_s[32];
    char mfu[32] = "- | ";
    char norm[48] = "norm - | "; // a skipped step's norm is not finite
    char lr[32] = "", skipped[64] = "";
    sm_text_count(round((double)s->n_tokens / seconds), tokens_per_s, sizeof(tokens_per_s));
    if (show->peak_flops > 0) {
        snprintf(mfu, sizeof(mfu), "%.1f%%%s peak | ", 100 * mfu_of(show, s), show->form < BRIEF_PEAK ? " of" : "");
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

sm_status cli_train_show_step(cli_train_show *show, const sm_train_progress *progress, const sm_train_step *step) {
    char warning[SM_WATCH_TEXT_SIZE];
    const bool is_edge = progress->step == progress->first_step + 1 || progress->step == progress->n_steps;
    static const double newest = 0.1; // its weight in the mean
    const double rate = (double)step->n_tokens / ((double)step->elapsed_ns / 1e9);
    show->rate += (show->rate == 0 ? 1 : newest) * (rate - show->rate);
    show->last = *step;
    add_point(&show->loss, (double)step->step, step->loss);
    if (show->is_live) {
        show_screen(show, progress, is_edge);
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
    // The first step is not typical; the work after it is not part of a step.
    if (progress->step == progress->first_step + 2) {
        show->begin_ns = sm_now_ns();
        show->told_ns = show->begin_ns;
    }
    char left[32];
    text_time_left(show, progress, left, sizeof(left));
    if (show->tells_progress && !show->is_live && left[0] != '\0' && sm_now_ns() - show->told_ns >= progress_pause_ns) {
        show->told_ns = sm_now_ns();
        cli_say("step %lld of %lld, %.1f%%; %s to go", (long long)progress->step, (long long)progress->n_steps,
                100 * (double)progress->step / (double)progress->n_steps, left);
    }
    return SM_OK;
}

sm_status cli_train_show_validation(cli_train_show *show, const sm_train_progress *p) {
    char best[64] = "", warning[SM_WATCH_TEXT_SIZE];
    if (!isnan(p->best_val_loss) && p->best_val_step != p->step) {
        snprintf(best, sizeof(best), " | best %.6f at step %lld", p->best_val_loss, (long long)p->best_val_step);
    }
    add_point(&show->validation, (double)p->step, p->val_loss);
    if (show->is_live) {
        show_screen(show, p, true);
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

void cli_train_show_begin(cli_train_show *show, const sm_train_settings *s, const sm_schedule *schedule) {
    char warmup[64] = "", rate[64] = "constant", settings[256];
    sm_step_settings optimizer = s->optimizer;
    snprintf(settings, sizeof(settings), "%s", s->session->plan->optimizer->name);
    if (schedule->warmup_steps > 0) {
        snprintf(warmup, sizeof(warmup), "warm-up until step %lld, then ", (long long)schedule->warmup_steps);
    }
    if (schedule->kind != SM_SCHEDULE_CONSTANT) {
        snprintf(rate, sizeof(rate), "%s to %.3g", sm_schedule_name(schedule->kind),
                 schedule->lr * schedule->final_fraction);
    }
    for (int i = 0; i < sm_setting_count(); i++) {
        const double value = *sm_setting_of(&optimizer, sm_setting_at(i));
        char words[CLI_TEXT_SIZE];
        if (!isnan(value) && value != optimizer.lr) {
            cli_setting_text(sm_setting_at(i), ' ', words);
            sm_append(settings, sizeof(settings), ", %s %.7g", words, value);
        }
    }
    show->first_ns = sm_now_ns();
    cli_say("%lld steps of %lld x %lld tokens, order %s; learning rate %.3g: %s%s; %s", (long long)schedule->n_steps,
            (long long)s->global_batch, (long long)s->session->plan->T, sm_order_name(s->order), schedule->lr, warmup,
            rate, settings);
}

void cli_train_show_leave(const cli_train_show *show, const sm_train_progress *p) {
    if (show->is_live && show->loss.n > 0) {
        show_screen(show, p, true);
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
