// train_screen.c: the live screen of a training, see train/train.h.
//
//   step 268 of 400  ████████████████████░░░░░░░░░░  67.0%, 0:00:41 to go
//   loss 4.2312, validation o 4.3100 (lowest 4.2800 at step 200)
//   6.51 ⠉⠢⡀
//            ⠈⠢⢄   o
//   4.23          ⠉⠒⠤o
//        1       step      268
//   lr 1.0e-3 | norm 0.4231 | 12,345 tokens/s | 34.5% of peak
#include "cli/train/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "bench/tables/screen.h"
#include "bench/tables/show.h"

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

void cli_train_curve_add(cli_train_curve *c, double step, double value) {
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

double cli_train_mfu(const cli_train_show *show, const sm_train_step *s) {
    return show->peak_flops > 0 ? show->step_flops / ((double)s->elapsed_ns / 1e9) / show->peak_flops : NAN;
}

void cli_train_time_left(const cli_train_show *show, const sm_train_progress *p, char *text, size_t size_bytes) {
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

static void widen(plot *p, const cli_train_curve *c) {
    for (int i = 0; i < c->n; i++) {
        p->low = fmin(p->low, c->points[i].value);
        p->high = fmax(p->high, c->points[i].value);
    }
}

// The place of a value within n.
static int place(double value, double from, double to, int n) {
    return to != from ? (int)lround((value - from) / (to - from) * (n - 1)) : 0;
}

// A line from dot to dot.
static void join(plot *p, int x0, int y0, int x1, int y1) {
    const int n = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= n; i++) {
        const double share = n > 0 ? (double)i / n : 0;
        const int x = (int)lround(x0 + share * (x1 - x0));
        const int y = (int)lround(y0 + share * (y1 - y0));
        static const unsigned char bits[DOTS_Y][DOTS_X] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
        p->cells[y / DOTS_Y][x / DOTS_X] |= bits[y % DOTS_Y][x % DOTS_X];
    }
}

static void draw(plot *p, const cli_train_curve *loss, const cli_train_curve *validation) {
    int before_x = -1;
    int before_y = 0;
    for (int i = 0; i < loss->n; i++) {
        const int x = place(loss->points[i].step, p->first, p->last, DOTS_X * p->n_columns);
        const int y = place(loss->points[i].value, p->high, p->low, DOTS_Y * p->n_rows);
        join(p, before_x < 0 ? x : before_x, before_x < 0 ? y : before_y, x, y);
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
    cli_train_time_left(show, p, left, sizeof(left));
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

static void put_figures(const cli_train_show *show, FILE *out) {
    const sm_train_step *s = &show->last;
    fprintf(out, "lr %.1e | ", s->lr);
    if (s->is_skipped) {
        fprintf(out, "skipped, loss scale now %g", s->loss_scale);
    } else {
        fprintf(out, "norm %.4f", s->grad_norm);
    }
    fprintf(out, " | %s tokens/s%s", SM_TEXT_COUNT(round(show->screen.rate)), show->is_unchecked ? " unchecked" : "");
    if (!isnan(cli_train_mfu(show, s))) {
        fprintf(out, " | %.1f%% of peak", 100 * cli_train_mfu(show, s));
    }
    fputc('\n', out);
}

void cli_train_screen_show(const cli_train_show *show, const sm_train_progress *progress, bool at_once) {
    static plot p; // static because of its cells
    char *text = NULL;
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
    widen(&p, &show->screen.loss);
    widen(&p, &show->screen.validation);
    draw(&p, &show->screen.loss, &show->screen.validation);
    put_bar(show, progress, width, out);
    fprintf(out, "loss %.4f", show->last.loss);
    if (!isnan(progress->val_loss)) {
        fprintf(out, ", validation %c %.4f", validation_mark, progress->val_loss);
        if (progress->best_val_loss < progress->val_loss) {
            fprintf(out, " (lowest %.4f at step %lld)", progress->best_val_loss, (long long)progress->best_val_step);
        }
    }
    fputc('\n', out);
    put_plot(&p, out);
    put_figures(show, out);
    fflush(stdout); // keeps the order of both streams
    if (fclose(out) == 0) {
        cli_live_lines(text);
    }
    free(text);
}
