// report_plot.c: see report_plot.h. Colours in the scripts are codes: #0a0001 is the first series.
// The SVG names them as "rgb( 10,   0,   1)", which rewrite() turns into "var(--s1)".
#include "report_plot.h"

#include "json_values.h"
#include "subprocess.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WIDTH = 520, PATH_SIZE = 256, SERIES_CODE = 10, INK_CODE = 1, GRID_CODE = 2, BAD_CODE = 3, N_COLOURS = 8 };

sm_status sm_plots_open(sm_plots *plots) {
    memset(plots, 0, sizeof(*plots));
    plots->script = open_memstream(&plots->script_text, &plots->script_bytes);
    return plots->script != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for charts");
}

void sm_plots_free(sm_plots *plots) {
    if (plots->script != NULL) {
        fclose(plots->script);
    }
    free(plots->script_text);
    for (int i = 0; i < plots->n; i++) {
        free(plots->plots[i].svg);
    }
    memset(plots, 0, sizeof(*plots));
}

// --- scripts -------------------------------------------------------------------------------

void sm_plot_text(FILE *script, const char *text) {
    fputc('\'', script);
    while (*text != '\0') {
        int length = sm_utf8_length(text);
        unsigned char first = (unsigned char)*text;
        if (length > 1) {
            fwrite(text, 1, (size_t)length, script);
        } else if (length == 0 || first < 0x20 || first == 0x7F || first == '`') {
            fputc(' ', script);
        } else {
            fputs(first == '\'' ? "''" : (const char[]){*text, '\0'}, script);
        }
        text += length > 0 ? length : 1;
    }
    fputc('\'', script);
}

void sm_plot_style(FILE *script, int series) {
    static const int points[N_COLOURS] = {7, 5, 9, 11, 13, 6, 4, 8};
    static const char *const dashes[N_COLOURS] = {"1", "(12,4)", "(4,4)", "(12,4,3,4)",
                                                  "1", "(12,4)", "(4,4)", "(12,4,3,4)"};
    int i = series % N_COLOURS;
    fprintf(script, " lc rgb '#0a00%02x' pt %d ps 0.8 dt %s", i + 1, points[i], dashes[i]);
}

sm_plot *sm_plots_begin(sm_plots *plots, int kind, int height, const char *title) {
    if (plots->n == SM_MAX_PLOTS) {
        return NULL;
    }
    sm_plot *plot = &plots->plots[plots->n];
    plot->kind = kind;
    snprintf(plot->title, sizeof(plot->title), "%s", title);
    fprintf(plots->script,
            "reset\n"
            "set terminal svg size %d,%d dynamic noenhanced font 'sans-serif,14' linewidth 1.3\n"
            "set output '%d.svg'\n"
            "set border 3 lc rgb '#010101'\n"
            "set tics nomirror textcolor rgb '#010101'\n"
            "set grid lc rgb '#020202' dt (2,3)\n"
            "set xlabel offset 0,0.8 textcolor rgb '#010101'\n"
            "set ylabel textcolor rgb '#010101'\n"
            "set x2label textcolor rgb '#010101'\n"
            "set key bmargin left vertical maxcols 1 Left reverse samplen 3 width 1 textcolor rgb '#010101'\n"
            "set style fill solid 0.75 noborder\n"
            "set bars 0.6\n"
            "set title textcolor rgb '#010101' ",
            WIDTH, height, plots->n++);
    sm_plot_text(plots->script, title);
    fputc('\n', plots->script);
    return plot;
}

// --- from gnuplot's SVG to the page's ----------------------------------------------------------

static void put_colour(FILE *out, int red, int green, int blue) {
    if (red == INK_CODE && green == INK_CODE) {
        fputs("var(--ink)", out);
    } else if (red == GRID_CODE && green == GRID_CODE) {
        fputs("var(--grid)", out);
    } else if (red == BAD_CODE && green == BAD_CODE) {
        fputs("var(--bad)", out);
    } else if (red == SERIES_CODE && green == 0 && blue >= 1 && blue <= N_COLOURS) {
        fprintf(out, "var(--s%d)", blue);
    } else {
        fprintf(out, "rgb(%d,%d,%d)", red, green, blue);
    }
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

// Copies what follows the opening <svg ...> tag. Each id, and each reference to one, gets the
// chart's number; gnuplot's titles, which would show as hints, are dropped.
static void rewrite(const char *from, int number, FILE *out) {
    while (*from != '\0') {
        int colour[3];
        int length = 0;
        if (begins(from, "rgb(") && sscanf(from, "rgb(%d,%d,%d)%n", &colour[0], &colour[1], &colour[2], &length) == 3 &&
            length > 0) {
            put_colour(out, colour[0], colour[1], colour[2]);
            from += length;
        } else if (begins(from, "<title>") && strstr(from, "</title>") != NULL) {
            from = strstr(from, "</title>") + strlen("</title>");
        } else if (begins(from, "id='") || begins(from, "id=\"")) {
            fprintf(out, "%.4sc%d-", from, number);
            from += 4;
        } else if (begins(from, "href='#")) {
            fprintf(out, "href='#c%d-", number);
            from += 7;
        } else {
            fputc(*from++, out);
        }
    }
}

static void put_attribute(FILE *out, const char *text) {
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (strchr("&<>\"", *text) != NULL || c < 0x20) {
            fprintf(out, "&#%d;", c < 0x20 ? ' ' : c);
        } else {
            fputc(*text, out);
        }
    }
}

static sm_status page_svg(const char *text, int number, const char *title, char **svg) {
    int width = 0;
    int height = 0;
    size_t size_bytes = 0;
    const char *box = strstr(text, "viewBox=\"");
    const char *body = box != NULL ? strchr(box, '>') : NULL;
    if (body == NULL || sscanf(box, "viewBox=\"0 0 %d %d\"", &width, &height) != 2 || strstr(body, "</svg>") == NULL) {
        return sm_fail(SM_ERR_FORMAT, "gnuplot: chart %d is no SVG", number);
    }
    FILE *out = open_memstream(svg, &size_bytes);
    if (out == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a chart");
    }
    fprintf(out,
            "<svg viewBox=\"0 0 %d %d\" role=\"img\" xmlns=\"http://www.w3.org/2000/svg\" "
            "xmlns:xlink=\"http://www.w3.org/1999/xlink\" aria-label=\"",
            width, height);
    put_attribute(out, title);
    fputc('"', out);
    rewrite(body, number, out);
    bool failed = ferror(out) != 0; // a stream into memory is short of it only while it is written to
    return fclose(out) == 0 && !failed ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for a chart");
}

// --- drawing -------------------------------------------------------------------------------

static sm_status read_text(const char *path, char **text) {
    size_t n = 0;
    size_t capacity = 0;
    FILE *file = fopen(path, "re");
    *text = NULL;
    errno = 0;
    ssize_t got = file != NULL ? getdelim(text, &capacity, '\0', file) : -1;
    bool no_memory = errno == ENOMEM;
    n = got > 0 ? (size_t)got : 0;
    if (file != NULL) {
        fclose(file);
    }
    if (no_memory) {
        return sm_fail(SM_ERR_OOM, "no memory for a chart");
    }
    return n > 0 ? SM_OK : sm_fail(SM_ERR_IO, "gnuplot: drew nothing into %s", path);
}

static sm_status write_script(const sm_plots *plots, const char *path) {
    FILE *file = fopen(path, "we");
    bool written = file != NULL && fwrite(plots->script_text, 1, plots->script_bytes, file) == plots->script_bytes;
    bool closed = file != NULL && fclose(file) == 0;
    return written && closed ? SM_OK : sm_fail(SM_ERR_IO, "%s: cannot write the charts' script", path);
}

static sm_status run_gnuplot(const char *folder) {
    static char program[] = "gnuplot";
    static char no_settings[] = "-d";
    static char script[] = "charts.gp";
    char *argv[] = {program, no_settings, script, NULL};
    sm_subprocess process;
    sm_status status = sm_subprocess_run(argv, folder, NULL, &process);
    if (status == SM_ERR_UNSUPPORTED) {
        return sm_fail(status, "no pictures: gnuplot draws them, and is not installed; `apt-get install gnuplot-nox`");
    }
    SM_TRY(status);
    if (process.exit_code != 0) {
        const char *line = sm_subprocess_last_line(&process);
        status = sm_fail(SM_ERR_INTERNAL, "gnuplot: exit %d: %.300s", process.exit_code, line);
    }
    sm_subprocess_free(&process);
    return status;
}

static sm_status collect(sm_plots *plots, const char *folder) {
    for (int i = 0; i < plots->n; i++) {
        char path[PATH_SIZE];
        char *text = NULL;
        snprintf(path, sizeof(path), "%s/%d.svg", folder, i);
        sm_status status = read_text(path, &text);
        status = status == SM_OK ? page_svg(text, i, plots->plots[i].title, &plots->plots[i].svg) : status;
        free(text);
        SM_TRY(status);
    }
    return SM_OK;
}

static void remove_folder(const sm_plots *plots, const char *folder) {
    char path[PATH_SIZE];
    for (int i = 0; i < plots->n; i++) {
        snprintf(path, sizeof(path), "%s/%d.svg", folder, i);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/charts.gp", folder);
    unlink(path);
    rmdir(folder);
}

sm_status sm_plots_draw(sm_plots *plots) {
    const char *place = getenv("TMPDIR");
    char folder[PATH_SIZE / 2];
    char path[PATH_SIZE];
    sm_status status = SM_OK;
    if (plots->n == 0) {
        return SM_OK;
    }
    fputs("unset output\n", plots->script);
    if (fflush(plots->script) != 0 || ferror(plots->script)) {
        return sm_fail(SM_ERR_OOM, "no memory for charts");
    }
    place = place != NULL && place[0] == '/' && strlen(place) < 64 ? place : "/tmp";
    snprintf(folder, sizeof(folder), "%s/stepmark-charts-XXXXXX", place);
    if (mkdtemp(folder) == NULL) {
        return sm_fail(SM_ERR_IO, "%s: no folder for the charts can be made there", place);
    }
    snprintf(path, sizeof(path), "%s/charts.gp", folder);
    SM_TRY_GOTO(write_script(plots, path));
    SM_TRY_GOTO(run_gnuplot(folder));
    SM_TRY_GOTO(collect(plots, folder));
cleanup:
    remove_folder(plots, folder);
    return status;
}
