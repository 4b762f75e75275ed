// screen.c: the width of a terminal, and fitting text into it.
#include "bench/tables/screen.h"

#include "bench/tables/layout.h"

#include <unistd.h>

#include "os/os.h"
#include "os/files.h"

enum { LEAST_WIDTH = 40, USUAL_WIDTH = 80, HANGING = 2 };

// The stream of sm_screen_open().
typedef struct {
    FILE *stream; // NULL: none is open
    int descriptor, width;
    bool fits;
    int column;   // of the next character
    char held[4]; // an incomplete character
    size_t n_held;
} screen;

static screen opened;

int sm_screen_width(FILE *out) {
    int n_columns = 0, n_lines;
    if (out == opened.stream && out != NULL) {
        return opened.width;
    }
    const int descriptor = fileno(out);
    return descriptor < 0 || !isatty(descriptor)                                 ? 0
           : !os_screen_size(descriptor, &n_columns, &n_lines) || n_columns == 0 ? USUAL_WIDTH
           : n_columns > LEAST_WIDTH                                             ? n_columns
                                                                                 : LEAST_WIDTH;
}

int sm_screen_height(FILE *out) {
    int n_columns, n_lines;
    const int descriptor = out == opened.stream && out != NULL ? opened.descriptor : fileno(out);
    return descriptor >= 0 && isatty(descriptor) && os_screen_size(descriptor, &n_columns, &n_lines) ? n_lines : 0;
}

void sm_put_repeated(FILE *out, char c, int n) {
    for (int i = 0; i < n; i++) {
        fputc(c, out);
    }
}

// Bytes of the first `width` characters.
static size_t bytes_of(const char *text, size_t length, int width) {
    size_t i = 0;
    while (i < length && (width > 0 || ((unsigned char)text[i] & 0xC0) == 0x80)) {
        width -= ((unsigned char)text[i] & 0xC0) != 0x80;
        i++;
    }
    while (i < length && ((unsigned char)text[i] & 0xC0) == 0x80) {
        i++;
    }
    return i;
}

// A word longer than a line is cut at the end of the line.
static int put_word(FILE *out, int width, int indent, int column, const char *word, size_t length) {
    while (column + sm_text_width_of(word, length) > width && width > indent) {
        const size_t n_bytes = bytes_of(word, length, width - column);
        fprintf(out, "%.*s\n", (int)n_bytes, word);
        sm_put_repeated(out, ' ', indent);
        column = indent;
        word += n_bytes;
        length -= n_bytes;
    }
    fprintf(out, "%.*s", (int)length, word);
    return column + sm_text_width_of(word, length);
}

// The start of a line's last column of text, after two spaces or more and within the line's first six tenths; 0: none.
static int last_column(const char *line, size_t length, int width) {
    int column = 0;
    for (size_t i = 2; i < length && sm_text_width_of(line, i) <= width * 6 / 10; i++) {
        column = line[i - 1] == ' ' && line[i - 2] == ' ' && line[i] != ' ' ? sm_text_width_of(line, i) : column;
    }
    return column;
}

// One line of the text.
static void put_line(FILE *out, int width, int column, int indent, const char *line, size_t length) {
    const char *end = line + length;
    const size_t n_leading = strspn(line, " ") < length ? strspn(line, " ") : length;
    const int own = column == 0 ? last_column(line, length, width) : 0;
    indent += column + (int)n_leading;
    indent = own > indent ? own : indent;
    indent = indent < width * 6 / 10 ? indent : width / 2;
    sm_put_repeated(out, ' ', (int)n_leading);
    column += (int)n_leading;
    line += n_leading;
    for (bool first = true; line < end; first = false) {
        const size_t n_spaces = strspn(line, " ");
        const char *word = line + n_spaces;
        const size_t n_bytes = word < end ? strcspn(word, " \n") : 0;
        const int taken = (int)n_spaces + sm_text_width_of(word, n_bytes);
        if (!first && column + taken > width && n_bytes > 0) {
            fputc('\n', out);
            sm_put_repeated(out, ' ', indent);
            column = indent;
        } else {
            sm_put_repeated(out, ' ', (int)n_spaces);
            column += (int)n_spaces;
        }
        column = put_word(out, width, indent, column, word, n_bytes);
        line = word + n_bytes;
    }
}

void sm_screen_put_within(FILE *out, int width, int column, int indent, const char *text) {
    if (width == 0) {
        fputs(text, out);
        return;
    }
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        put_line(out, width, column, indent, text, length);
        text += length;
        if (*text == '\n') {
            fputc('\n', out);
            text++;
            column = 0;
        }
    }
}

// --- what a terminal would obey ----------------------------------------------------------------------

char *sm_escape_controls(const char *text, size_t size_bytes) {
    enum { MOST_BYTES = 6 }; // for an escaped byte
    char *escaped = sm_malloc(MOST_BYTES * size_bytes + 1);
    char *end = escaped;
    for (size_t i = 0; i < size_bytes;) {
        const int length = sm_utf8_length(text + i);
        const bool is_control = sm_control_length(text + i) > 0 && text[i] != '\n' && text[i] != '\t';
        if (length == 0) {
            end += sprintf(end, "\\x%02x", (unsigned char)text[i]);
        } else if (is_control) {
            end += sprintf(end, "\\u%04x", sm_utf8_code(text + i, (size_t)length));
        } else {
            memcpy(end, text + i, (size_t)length);
            end += length;
        }
        i += length > 0 ? (size_t)length : 1;
    }
    *end = '\0';
    return escaped;
}

// Bytes at the end that are an incomplete character: a program may flush in the middle of one.
static size_t unfinished(const char *text, size_t size_bytes) {
    for (size_t n = 1; n <= 3 && n <= size_bytes; n++) {
        if (sm_utf8_bytes(text + size_bytes - n, n) > n) {
            return n;
        }
    }
    return 0;
}

// --- a stream that keeps within --------------------------------------------------------------------

// Escapes the bytes held back and the complete characters of the text; holds back incomplete ones.
static char *take_whole(screen *s, const char *text, size_t size_bytes) {
    SM_FREED char *all = sm_malloc(s->n_held + size_bytes + 1);
    memcpy(all, s->held, s->n_held);
    memcpy(all + s->n_held, text, size_bytes);
    size_bytes += s->n_held;
    s->n_held = unfinished(all, size_bytes);
    memcpy(s->held, all + size_bytes - s->n_held, s->n_held);
    all[size_bytes - s->n_held] = '\0';
    return sm_escape_controls(all, size_bytes - s->n_held);
}

// Printed text arrives here line by line, or as far as it is when the program flushes.
static ssize_t take(void *cookie, const char *text, size_t size_bytes) {
    screen *s = cookie;
    SM_FREED char *within = NULL;
    size_t within_bytes = 0;
    SM_FREED char *escaped = take_whole(s, text, size_bytes);
    if (s->fits) {
        const char *rest = escaped;
        FILE *out = sm_memstream(&within, &within_bytes);
        if (s->column > 0) {
            const size_t length = strcspn(rest, "\n");
            put_line(out, s->width, s->column, HANGING - s->column, rest, length);
            rest += length;
            fputs(*rest == '\n' ? "\n" : "", out);
            rest += *rest == '\n';
        }
        sm_screen_put_within(out, s->width, 0, HANGING, rest);
        sm_memstream_close(out);
        const char *last = strrchr(within, '\n');
        s->column = last != NULL ? sm_text_width(last + 1) : s->column + sm_text_width(within);
    }
    const char *written = s->fits ? within : escaped;
    const bool is_written = os_write_all(s->descriptor, written, strlen(written));
    return is_written ? (ssize_t)size_bytes : 0;
}

FILE *sm_screen_open(FILE *out, bool fits) {
    const int width = sm_screen_width(out);
    if (width == 0 || opened.stream != NULL || fflush(out) != 0) {
        return out;
    }
    opened = (screen){.descriptor = fileno(out), .width = width, .fits = fits};
    opened.stream = os_open_writer(take, &opened);
    if (opened.stream == NULL) {
        return out;
    }
    setvbuf(opened.stream, NULL, _IOLBF, 0);
    return opened.stream;
}
