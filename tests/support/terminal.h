// terminal.h: for tests of the display: a terminal of a given width, and its contents.
#pragma once

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

enum { SCREEN_SIZE = 1 << 20 };

typedef struct {
    int master; // what a terminal's window reads
    int slave;  // what a program writes to
} terminal;

static inline terminal open_terminal(int n_columns) {
    terminal t = {.master = posix_openpt(O_RDWR | O_NOCTTY)};
    struct winsize size = {.ws_row = 50, .ws_col = (unsigned short)n_columns};
    assert_true(t.master >= 0 && grantpt(t.master) == 0 && unlockpt(t.master) == 0);
    t.slave = open(ptsname(t.master), O_RDWR | O_NOCTTY);
    assert_true(t.slave >= 0);
    assert_int_equal(ioctl(t.slave, TIOCSWINSZ, &size), 0);
    return t;
}

// What is left on the screen: a line that was removed ("\r\033[K") is gone, and so are the last n ("\r\033[nA\033[J");
// "\r\n" ends a line.
static inline void settle(char *text) {
    char *to = text, *line = text;
    int n_lines, n_bytes;
    for (const char *from = text; *from != '\0'; from++) {
        if (strncmp(from, "\r\033[K", 4) == 0) {
            to = line;
            from += 3;
        } else if (n_bytes = 0, sscanf(from, "\r\033[%dA\033[J%n", &n_lines, &n_bytes) == 1 && n_bytes > 0) {
            for (to = line; n_lines > 0 && to > text; n_lines--) {
                for (to--; to > text && to[-1] != '\n'; to--) {
                }
            }
            line = to;
            from += n_bytes - 1;
        } else if (*from != '\r') {
            *to++ = *from;
            line = *from == '\n' ? to : line;
        }
    }
    *to = '\0';
}

// Reads until the last writer has closed the terminal.
static inline void read_screen(int master, char *text) {
    size_t used = 0;
    ssize_t n;
    while (used + 1 < SCREEN_SIZE && (n = read(master, text + used, SCREEN_SIZE - 1 - used)) > 0) {
        used += (size_t)n;
    }
    text[used] = '\0';
    close(master);
}

// What a child process leaves on a terminal where `write`, given the terminal and `ctx`, writes as it likes; the
// child's exit code, which is what `write` returns. A terminal holds less than a screen, so it is read meanwhile.
static inline int write_on_terminal(int n_columns, int (*write)(int screen_fd, const void *ctx), const void *ctx,
                                    char *text) {
    terminal t = open_terminal(n_columns);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(t.master);
        _exit(write(t.slave, ctx));
    }
    close(t.slave);
    read_screen(t.master, text);
    settle(text);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static inline int run_command_there(int screen_fd, const void *command) {
    dup2(screen_fd, STDOUT_FILENO);
    dup2(screen_fd, STDERR_FILENO);
    close(screen_fd);
    execl("/bin/sh", "sh", "-c", (const char *)command, (char *)NULL);
    return 127;
}

// Runs a command line on a terminal and fills `text` with what it leaves there; the exit code.
static inline int run_on_terminal(int n_columns, const char *command, char *text) {
    return write_on_terminal(n_columns, run_command_there, command, text);
}

// The first line that is wider than that, in characters; NULL: none is.
static inline const char *too_wide(const char *text, int n_columns) {
    int width = 0;
    const char *line = text;
    for (; *text != '\0'; text++) {
        width = *text == '\n' ? 0 : width + (((unsigned char)*text & 0xC0) != 0x80);
        if (width > n_columns) {
            return line;
        }
        line = *text == '\n' ? text + 1 : line;
    }
    return NULL;
}
