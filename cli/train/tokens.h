// tokens.h: what the subcommands about tokens share.
#ifndef STEPMARK_CLI_TRAIN_TOKENS_H
#define STEPMARK_CLI_TRAIN_TOKENS_H

#include "cli/flags/options.h"

// --threads, or one a core.
int cli_token_threads(const cli_options *options);

// For the library's callbacks; ctx is cli_token_progress.
typedef struct {
    const char *what;     // "learned"
    const char *unit;     // "tokens"
    bool is_wanted;       // --progress
    int64_t last_note_ns; // at most one a second
} cli_token_progress;

bool cli_token_stop(void *ctx);
void cli_token_progress_note(void *ctx, int64_t done, int64_t of);

#endif
