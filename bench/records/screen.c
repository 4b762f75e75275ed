// screen.c: how wide a terminal is, and texts that keep within.
#include "screen.h"

#include "layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { LEAST_WIDTH = 40, USUAL_WIDTH = 80, HANGING = 2 };

// The stream of sm_screen_open().
typedef struct {
    FILE *stream; // NULL: none is open
    int descriptor;
    int width;
    int column; // of what is to come
} screen;

static screen opened;

static int terminal_width(int descriptor) {
    struct winsize size;
    if (descriptor < 0 || !isatty(descriptor)) {
        return 0;
    }
    if (ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
        return USUAL_WIDTH;
    }
    return size.ws_col > LEAST_WIDTH ? size.ws_col : LEAST_WIDTH;
}

int sm_screen_width(FILE *out) {
    return out == opened.stream && out != NULL ? opened.width : terminal_width(fileno(out));
}

static void put_spaces(FILE *out, int n) {
    for (int i = 0; i < n; i++) {
        fputc(' ', out);
    }
}

// The first `length` bytes, in characters.
static int width_of(const char *text, size_t length) {
    int width = 0;
    for (size_t i = 0; i < length; i++) {
        width += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return width;
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

// A word longer than a line is cut where the line ends.
static int put_word(FILE *out, int width, int indent, int column, const char *word, size_t length) {
    while (column + width_of(word, length) > width && width > indent) {
        const size_t n_bytes = bytes_of(word, length, width - column);
        fprintf(out, "%.*s\n", (int)n_bytes, word);
        put_spaces(out, indent);
        column = indent;
        word += n_bytes;
        length -= n_bytes;
    }
    fprintf(out, "%.*s", (int)length, word);
    return column + width_of(word, length);
}

// Where a line's text begins that stands in a column of its own, behind two spaces or more and within the line's first
// six tenths; 0: there is none.
static int last_column(const char *line, size_t length, int width) {
    int column = 0;
    for (size_t i = 2; i < length && width_of(line, i) <= width * 6 / 10; i++) {
        if (line[i - 1] == ' ' && line[i - 2] == ' ' && line[i] != ' ') {
            column = width_of(line, i);
        }
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
    put_spaces(out, (int)n_leading);
    column += (int)n_leading;
    line += n_leading;
    for (bool first = true; line < end; first = false) {
        const size_t n_spaces = strspn(line, " ");
        const char *word = line + n_spaces;
        const size_t n_bytes = word < end ? strcspn(word, " \n") : 0;
        const int taken = (int)n_spaces + width_of(word, n_bytes);
        if (!first && column + taken > width && n_bytes > 0) {
            fputc('\n', out);
            put_spaces(out, indent);
            column = indent;
        } else {
            put_spaces(out, (int)n_spaces);
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

// --- a stream that keeps within --------------------------------------------------------------------

static bool write_all(int descriptor, const char *text, size_t size_bytes) {
    while (size_bytes > 0) {
        const ssize_t n = write(descriptor, text, size_bytes);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        text += n > 0 ? n : 0;
        size_bytes -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

// Of the last line of a text, behind what stands there already.
static int column_behind(const char *text, int column) {
    const char *last = strrchr(text, '\n');
    return last != NULL ? width_of(last + 1, strlen(last + 1)) : column + width_of(text, strlen(text));
}

// What was printed comes here line by line, and where the program flushes in the middle of one, as far as it is.
static void lay_out(const screen *s, const char *text, FILE *out) {
    if (s->column > 0) {
        const size_t length = strcspn(text, "\n");
        put_line(out, s->width, s->column, HANGING - s->column, text, length);
        text += length;
        fputs(*text == '\n' ? "\n" : "", out);
        text += *text == '\n';
    }
    sm_screen_put_within(out, s->width, 0, HANGING, text);
}

static ssize_t take(void *cookie, const char *text, size_t size_bytes) {
    screen *s = cookie;
    char *within = NULL;
    size_t within_bytes = 0;
    char *given = strndup(text, size_bytes);
    FILE *out = given != NULL ? open_memstream(&within, &within_bytes) : NULL;
    if (out != NULL) {
        lay_out(s, given, out);
    }
    const bool is_laid_out = out != NULL && fclose(out) == 0;
    const bool written = is_laid_out ? write_all(s->descriptor, within, within_bytes)
                                     : write_all(s->descriptor, text, size_bytes); // without memory: as it is
    s->column = is_laid_out ? column_behind(within, s->column) : 0;
    free(within);
    free(given);
    return written ? (ssize_t)size_bytes : 0;
}

FILE *sm_screen_open(FILE *out) {
    const int width = sm_screen_width(out);
    if (width == 0 || opened.stream != NULL || fflush(out) != 0) {
        return out;
    }
    opened = (screen){.descriptor = fileno(out), .width = width};
    opened.stream = fopencookie(&opened, "w", (cookie_io_functions_t){.write = take});
    if (opened.stream == NULL) {
        return out;
    }
    setvbuf(opened.stream, NULL, _IOLBF, 0);
    return opened.stream;
}
