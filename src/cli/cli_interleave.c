// cli_interleave.c: see cli_interleave.h.
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wordexp.h>

#include "cli_commands.h"
#include "cli_interleave.h"
#include "philox.h"
#include "show.h"
#include "subprocess.h"

// A command line, split. argv is its words with `-o json` behind them.
typedef struct {
    const char *name; // A or B
    const char *line;
    wordexp_t words;
    char **argv;
} command;

static char self[] = "/proc/self/exe";

static sm_status split(const char *name, const char *line, command *c) {
    static char output_flag[] = "-o";
    static char output_format[] = "json";
    static char no_peaks[] = "--no-peaks"; // ceilings say nothing of a difference
    memset(c, 0, sizeof(*c));
    c->name = name;
    c->line = line;
    // Variables and substitutions are refused, so that a line does what it says and no more.
    if (strpbrk(line, "$`") != NULL || wordexp(line, &c->words, WRDE_NOCMD | WRDE_UNDEF) != 0) {
        return sm_fail(SM_ERR_USAGE, "%s: '%s' cannot be split into words; give plain words, quoted where they need it",
                       name, line);
    }
    size_t n = c->words.we_wordc;
    bool is_own = n > 0 && strcmp(c->words.we_wordv[0], "run") == 0;
    bool is_other = n > 1 && strcmp(c->words.we_wordv[1], "run") == 0;
    if (!is_own && !is_other) {
        return sm_fail(SM_ERR_USAGE, "%s: '%s' is no `run`; give \"run FLAGS\" or \"PROGRAM run FLAGS\"", name, line);
    }
    c->argv = calloc(n + 5, sizeof(*c->argv));
    if (c->argv == NULL) {
        return sm_fail(SM_ERR_OOM, "no memory for a command line");
    }
    size_t used = 0;
    if (is_own) {
        c->argv[used++] = self;
    }
    memcpy(c->argv + used, c->words.we_wordv, n * sizeof(*c->argv));
    c->argv[used + n] = output_flag; // the last -o counts
    c->argv[used + n + 1] = output_format;
    c->argv[used + n + 2] = is_own ? no_peaks : NULL;
    return SM_OK;
}

static void release(command *c) {
    free(c->argv);
    wordfree(&c->words);
}

static sm_status run_once(const command *c, int64_t pair, sm_rows *rows, double *median_ns) {
    sm_subprocess process;
    size_t n_before = json_array_size(rows->rows);
    SM_TRY(sm_subprocess_run(c->argv, NULL, &cli_interrupted, &process));
    sm_status status = sm_rows_parse(c->line, process.out, process.out_bytes, rows);
    if (process.exit_code == 2) { // its first line says what is wrong with the flags
        status =
            sm_fail(SM_ERR_USAGE, "%s: '%.120s': %.*s", c->name, c->line, (int)strcspn(process.err, "\n"), process.err);
    } else if (status != SM_OK) {
        status = sm_fail(SM_ERR_DEVICE, "%s: '%.120s' gave no rows (exit %d): %.300s", c->name, c->line,
                         process.exit_code, sm_subprocess_last_line(&process));
    }
    *median_ns = NAN;
    for (size_t i = n_before; status == SM_OK && i < json_array_size(rows->rows); i++) {
        json_t *row = json_array_get(rows->rows, i);
        *median_ns = sm_json_number(row, "median_ns");
        if (json_object_set_new(row, "compare_pair", json_integer(pair)) != 0) {
            status = sm_fail(SM_ERR_OOM, "no memory for a row");
        }
    }
    sm_subprocess_free(&process);
    return status;
}

// Of pairs 2k and 2k+1 one begins with B; a bit of the seed says which.
static bool begins_with_b(uint64_t seed, int64_t pair) {
    sm_philox_block block = sm_philox4x32(sm_philox_key(seed, "interleave"), (uint64_t)pair / 2, 0);
    return ((block.word[0] & 1) ^ ((uint32_t)pair & 1)) != 0;
}

static sm_status run_pairs(const command *a, const command *b, int64_t n_pairs, uint64_t seed, sm_rows *rows_a,
                           sm_rows *rows_b) {
    char text_a[32];
    char text_b[32];
    for (int64_t pair = 0; pair < n_pairs; pair++) {
        double a_ns;
        double b_ns;
        bool b_first = begins_with_b(seed, pair);
        if (b_first) {
            SM_TRY(run_once(b, pair, rows_b, &b_ns));
        }
        SM_TRY(run_once(a, pair, rows_a, &a_ns));
        if (!b_first) {
            SM_TRY(run_once(b, pair, rows_b, &b_ns));
        }
        sm_text_ms(a_ns, text_a, sizeof(text_a));
        sm_text_ms(b_ns, text_b, sizeof(text_b));
        cli_note("pair %lld of %lld: A %s ms, B %s ms%s", (long long)pair + 1, (long long)n_pairs, text_a, text_b,
                 b_first ? " (B first)" : "");
    }
    return SM_OK;
}

sm_status cli_interleave(const char *line_a, const char *line_b, int64_t n_pairs, uint64_t seed, sm_rows *a,
                         sm_rows *b) {
    command commands[2];
    memset(commands, 0, sizeof(commands));
    sm_status status = SM_OK;
    SM_TRY_GOTO(split("A", line_a, &commands[0]));
    SM_TRY_GOTO(split("B", line_b, &commands[1]));
    SM_TRY_GOTO(run_pairs(&commands[0], &commands[1], n_pairs, seed, a, b));
cleanup:
    release(&commands[0]);
    release(&commands[1]);
    return status;
}
