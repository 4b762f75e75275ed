#include <stdarg.h>

#include "clock.h"
#include "bench/rows/read_rows.h"
#include "bench/tables/screen.h"
#include "cli/output/output.h"
#include "src/io/atomic_file.h"

static const double least_pause_s = 0.5; // between two updates
static const double most_lost_s = 2;     // of rows of a file that is written as a whole, if the program is killed
static const double told_after_s = 2;    // an estimate earlier than this would be a guess

bool cli_is_quiet;
volatile sig_atomic_t cli_interrupted;

static struct {
    bool is_shown;
    char part[32];
    int n_done, n_parts;
    int64_t parts_begin_ns;
    char what[64]; // the current work
    int64_t begin_ns, shown_ns;
    int n_lines; // above the cursor
    int width;   // of the terminal when they were shown
} live;

static double seconds_since(int64_t ns) { return (double)(sm_now_ns() - ns) * 1e-9; }

bool cli_live_is_off(void) {
    const char *terminal = getenv("TERM");
    return cli_is_quiet || sm_screen_width(stderr) == 0 || (terminal != NULL && strcmp(terminal, "dumb") == 0);
}

void cli_live_parts(const char *what, int done, int total) {
    snprintf(live.part, sizeof(live.part), "%s", what);
    live.parts_begin_ns = done == 0 || live.n_parts != total ? sm_now_ns() : live.parts_begin_ns;
    live.n_done = done;
    live.n_parts = total;
}

const char *cli_text_duration(double seconds, char text[32]) {
    const double unit_s = seconds < 90 ? 1 : seconds < 5400 ? 60 : 3600;
    snprintf(text, 32, "%.*f %s", unit_s == 3600, seconds / unit_s, unit_s == 1 ? "s" : unit_s == 60 ? "min" : "h");
    return text;
}

bool cli_live_is_due(void) { return seconds_since(live.shown_ns) >= least_pause_s; }

void cli_live_show(const char *what, int done, int total) {
    if (cli_live_is_off()) {
        return;
    }
    const bool is_new = strcmp(live.what, what) != 0;
    if (is_new) {
        snprintf(live.what, sizeof(live.what), "%s", what);
        live.begin_ns = sm_now_ns();
    } else if (live.is_shown && !cli_live_is_due()) {
        return;
    }
    char line[256] = "";
    if (live.n_parts > 1) {
        snprintf(line, sizeof(line), "%s %d of %d: ", live.part, live.n_done + 1, live.n_parts);
    }
    sm_append(line, sizeof(line), "%s", what);
    if (total > 0) {
        sm_append(line, sizeof(line), " %d/%d", done, total);
    }
    const double elapsed_s = seconds_since(live.n_parts > 1 ? live.parts_begin_ns : live.begin_ns);
    // For the whole once a part is complete, before that for the current part; below 0: unknown.
    const double within = total > 0 ? (double)done / total : 0;
    const double n_done = live.n_done + within;
    const double left_s = live.n_parts > 1 && live.n_done > 0          ? elapsed_s / n_done * (live.n_parts - n_done)
                          : live.n_parts <= 1 && done > 0 && total > 0 ? elapsed_s / done * (total - done)
                                                                       : -1;
    sm_append(line, sizeof(line), ", %.0f s", elapsed_s);
    if (left_s >= 0 && elapsed_s >= told_after_s) {
        sm_append(line, sizeof(line), ", about %s left", CLI_DURATION(left_s));
    }
    if (live.n_lines > 0) {
        cli_live_clear();
    }
    fprintf(stderr, "\r\033[K%.*s", sm_screen_width(stderr) - 1, line);
    fflush(stderr);
    live.is_shown = true;
    live.shown_ns = sm_now_ns();
}

void cli_live_lines(const char *lines) {
    cli_live_clear();
    fputs(lines, stderr);
    fflush(stderr);
    for (; *lines != '\0'; lines++) {
        live.n_lines += *lines == '\n';
    }
    live.width = sm_screen_width(stderr);
    live.is_shown = true;
    live.shown_ns = sm_now_ns();
}

void cli_live_clear(void) {
    if (!live.is_shown) {
        return;
    }
    if (live.n_lines == 0) {
        fputs("\r\033[K", stderr);
    } else if (live.width == sm_screen_width(stderr)) {
        fprintf(stderr, "\r\033[%dA\033[J", live.n_lines);
    } // else the terminal has laid them out again, on an unknown number of lines
    fflush(stderr);
    cli_live_keep();
}

void cli_live_keep(void) {
    live.is_shown = false;
    live.n_lines = 0;
}

static bool is_muted;

void cli_mute(bool muted) { is_muted = muted; }

static void note(const char *format, va_list arguments) {
    char *text = NULL, *shown = NULL;
    if (is_muted) {
        return;
    }
    fflush(stdout); // keeps the order of both streams on a terminal
    cli_live_clear();
    const int length = vasprintf(&text, format, arguments);
    if (length >= 0) { // a name may contain characters that move the cursor or colour a terminal
        shown = sm_escape_controls(text, (size_t)length);
    }
    fputs("stepmark: ", stderr);
    sm_screen_put_within(stderr, sm_screen_width(stderr), (int)strlen("stepmark: "), 0,
                         shown != NULL ? shown : "no memory for a message");
    fputc('\n', stderr);
    free(length >= 0 ? text : NULL);
    free(shown);
}

void cli_note(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    note(format, arguments);
    va_end(arguments);
}

void cli_note_line(const char *line) { cli_note("%s", line); }

void cli_say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (!cli_is_quiet) {
        note(format, arguments);
    }
    va_end(arguments);
}

sm_status cli_row_file_open(const char *path, bool looks, cli_row_file *file) {
    *file = (cli_row_file){.path = path, .written_ns = sm_now_ns()};
    if (path == NULL) {
        return SM_OK;
    }
    if (!sm_format_of_file(path, &file->format) || file->format == SM_FORMAT_JSONL) {
        return sm_sweep_log_open(path, looks, &file->log);
    }
    SM_TRY(looks ? SM_OK : sm_atomic_open_alone(path, &file->whole));
    file->rows = file->whole != NULL ? json_array() : NULL;
    return SM_OK;
}

// In between to a file of its own: `whole` keeps other runs away to the end.
static sm_status write_whole(const cli_row_file *file, const json_t *rows, sm_atomic_file *whole) {
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    FILE *out = sm_memstream(&text, &size_bytes);
    const sm_status status = sm_record_write_all(&sm_row_table, file->format, out, rows);
    sm_memstream_close(out);
    SM_TRY(status);
    SM_TRY(whole != NULL ? sm_atomic_write(whole, text, size_bytes)
                         : sm_atomic_write_all(file->path, text, size_bytes));
    return whole != NULL ? sm_atomic_commit(whole) : SM_OK;
}

sm_status cli_row_file_add(cli_row_file *file, json_t *row) {
    if (file->rows != NULL) {
        json_array_append_new(file->rows, json_deep_copy(row));
    }
    if (file->rows != NULL && seconds_since(file->written_ns) > most_lost_s) {
        file->written_ns = sm_now_ns();
        return write_whole(file, file->rows, NULL);
    }
    return file->log != NULL ? sm_sweep_log_append(file->log, row) : SM_OK;
}

size_t cli_row_file_number(const cli_row_file *file, const json_t *row) {
    return file->log != NULL                ? sm_json_place(sm_sweep_log_rows(file->log)->rows, row)
           : file->format == SM_FORMAT_JSON ? json_array_size(file->rows)
                                            : 0;
}

sm_status cli_row_file_close(cli_row_file *file) {
    SM_OWN(json_t) *rows = file->rows;
    SM_OWN(sm_atomic_file) *whole = file->whole;
    sm_sweep_log_close(file->log);
    file->log = NULL;
    file->rows = NULL;
    file->whole = NULL;
    return json_array_size(rows) > 0 ? write_whole(file, rows, whole) : SM_OK; // without a row the old file stays
}

sm_status cli_write_row(const char *path, json_t *row) {
    cli_row_file file;
    sm_status status = cli_row_file_open(path, false, &file);
    status = status == SM_OK ? cli_row_file_add(&file, row) : status;
    const sm_status closed = cli_row_file_close(&file);
    return status == SM_OK ? closed : status;
}

sm_status cli_write_page(const char *path, cli_page_function put, void *what, const char *before) {
    SM_FREED char *text = NULL;
    size_t size_bytes = 0;
    if (path == NULL && sm_screen_width(stdout) > 0) { // a table as wide as the terminal
        return put(what, stdout);
    }
    FILE *out = sm_memstream(&text, &size_bytes);
    sm_status status = put(what, out);
    sm_memstream_close(out);
    if (status == SM_OK && path == NULL) {
        fwrite(text, 1, size_bytes, stdout);
    } else if (status == SM_OK) {
        status = sm_atomic_write_all(path, text, size_bytes);
    }
    if (status == SM_OK && path != NULL) {
        cli_note("%s: %s%zu kB%s", path, before, size_bytes / 1000,
                 strncmp(text, "<!DOCTYPE", strlen("<!DOCTYPE")) == 0 ? "; open it in a browser" : "");
    }
    return status;
}

sm_status cli_print_object(json_t *object, const char *what) {
    const bool is_written = json_dumpf(object, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12)) == 0;
    json_decref(object);
    putchar('\n');
    return is_written ? SM_OK : sm_fail(SM_ERR_IO, "cannot write %s", what);
}

sm_status cli_write_json(const json_t *value, const char *path) {
    SM_FREED char *text = json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(15));
    return sm_atomic_write_all(path, text, strlen(text));
}

sm_status cli_write_trace(const json_t *trace, const char *path) {
    const sm_status status = cli_write_json(trace, path);
    if (status == SM_OK) {
        cli_note("wrote %s; open it at ui.perfetto.dev or chrome://tracing", path);
    }
    return status;
}
