// fuzz_flags.c: a command line. The first byte chooses the subcommand; blanks and zeros separate the words.

#include "harness_support.h"
#include "cli/flags/options.h"

enum { MAX_WORDS = 64 };

void fuzz_one(const uint8_t *data, size_t size_bytes) {
    static cli_options options; // large: lists
    char *words[MAX_WORDS + 2] = {"stepmark"};
    int n = 1;
    if (size_bytes == 0) {
        return;
    }
    SM_FREED char *text = fuzz_text(data + 1, size_bytes - 1);
    for (char *word = strtok(text, " \n"); word != NULL && n <= MAX_WORDS; word = strtok(NULL, " \n")) {
        words[n++] = word;
    }
    cli_options_parse((cli_command)(data[0] % CLI_COMMAND_COUNT), false, n, words, &options);
    cli_command_find(words[n - 1]);
}
