// shell_word.h: commands that are printed for copying, or given as one text.
#pragma once

#include <stdio.h>

// Writes a word of a command line for a shell, quoted where it must be; a word with what a terminal or JSON cannot show
// by numbers ($'\033'), which bash, zsh and POSIX of 2024 know.
void sm_put_shell_word(FILE *out, const char *word);

// A path, likewise; one that begins with "-" is no flag (./-x). Returns `text`.
enum { SM_SHELL_PATH_SIZE = 1 << 15 };
const char *sm_shell_path(const char *path, char text[SM_SHELL_PATH_SIZE]);

// n words of a command line. The caller frees it.
char *sm_shell_line(char *const *words, int n);

// The words of a line with blanks between them, which may be quoted; a backslash stands before a quote, a blank or
// another. NULL: it has what a shell would act on, or a quote without its end. The caller frees them, also NULL.
char **sm_shell_words(const char *line, int *n);
void sm_shell_words_free(char **words);
