// compare.c: compares two sets of rows; and saves rows under a name, to compare with later.
#include <limits.h>
#include <unistd.h>

#include "clock.h"
#include "philox.h"
#include "cli/output/output.h"
#include "cli/rows/rows.h"
#include "os/os.h"
#include "src/io/atomic_file.h"
#include "src/io/shell_word.h"
#include "src/processes/process.h"

static sm_status check_name(const char *name) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    SM_FAIL_IF(name[0] == '\0' || name[0] == '.' || name[strspn(name, letters)] != '\0' || strlen(name) > 100,
               SM_ERR_USAGE, "'%s' is not a valid name of a baseline; use letters, digits, '.', '_' and '-'", name);
    return SM_OK;
}

// The path of a baseline; `make`: makes its folders.
static sm_status path_of(const char *name, bool make, char path[PATH_MAX]) {
    char data[PATH_MAX];
    SM_TRY(check_name(name));
    SM_FAIL_IF(!os_user_folder("XDG_DATA_HOME", ".local/share", data, sizeof data), SM_ERR_IO,
               "no folder for baselines: neither XDG_DATA_HOME nor HOME is set");
    SM_TRY(sm_make_path(path, "%s/stepmark/baselines/%s.jsonl", data, name));
    for (char *slash = path + 1; make && (slash = strchr(slash, '/')) != NULL; *slash++ = '/') {
        *slash = '\0';
        SM_TRY(sm_make_folder(path));
    }
    return SM_OK;
}

// Replaces an older one.
static sm_status save(const char *name, const json_t *rows) {
    char path[PATH_MAX];
    SM_FREED char *text = NULL;
    size_t size_bytes;
    SM_TRY(path_of(name, true, path));
    FILE *out = sm_memstream(&text, &size_bytes);
    SM_EACH(row, rows) {
        json_dumpf(row, out, SM_JSON_DUMP_FLAGS);
        fputc('\n', out);
    }
    sm_memstream_close(out);
    return sm_atomic_write_all(path, text, size_bytes);
}

sm_status cli_baseline_read(const char *path_or_name, sm_rows *rows) {
    char path[PATH_MAX];
    const bool is_file = access(path_or_name, F_OK) == 0;
    const bool is_name = strchr(path_or_name, '/') == NULL && path_of(path_or_name, false, path) == SM_OK;
    SM_FAIL_IF(!is_file && !is_name, SM_ERR_IO, "%s: no such file%s", path_or_name,
               strstr(path_or_name, "run ") != NULL ? "; --interleaved compares command lines" : "");
    if (is_file && is_name && access(path, F_OK) == 0) {
        cli_note("warning: %s: the file of this folder is compared, not the baseline %s", path_or_name, path);
    }
    return is_file ? sm_rows_read(path_or_name, rows)
           : access(path, F_OK) != 0
               ? sm_fail(SM_ERR_IO, "%s: neither a file nor a saved baseline (%.200s)", path_or_name, path)
               : sm_rows_read(path, rows);
}

void cli_note_warnings(const sm_rows *rows) {
    SM_EACH(warning, rows->warnings) { cli_note("warning: %s", json_string_value(warning)); }
}

sm_status cli_rows_read(const cli_options *options, size_t *first, sm_rows *rows) {
    rows->interrupted = &cli_interrupted;
    for (int i = 0; i < options->n_operands; i++) {
        if (first != NULL) {
            first[i] = json_array_size(rows->rows);
        }
        SM_TRY(sm_rows_read(options->operands[i], rows));
    }
    cli_note_warnings(rows);
    return SM_OK;
}

// --- interleaved ---------------------------------------------------------------------------------------

// Command lines run in turn, so that a drift of the machine affects both. A command line is a `run` of this program
// ("run -m tiny"), or of another program with the same flags ("./old/stepmark run -m tiny").

// The time for a run to end by itself after Ctrl-C: our parent process waits no longer than two seconds.
static const double interrupted_grace_s = 1.2;

// Limits on a run's samples if the line does not set them.
enum { LEAST_SAMPLES = 7, MOST_SAMPLES = 100 };

// Limits on pairs without --pairs.
enum { LEAST_PAIRS = 20, MOST_PAIRS = 100 };

// One of every two pairs runs A first, and the other B; the seed decides which.
typedef struct {
    int64_t n_pairs; // 0: 20, then up to 100 until a change of twice the threshold could be seen
    uint64_t seed;   // of the order
    const sm_compare_options *compare;
} turns;

// A command line, split into words, with `-o json` appended.
typedef struct {
    const char *name; // A or B
    const char *line;
    char **words;
    int n_words;
    char **argv;
    int n_args;
    bool says_samples;    // it has --repetitions or --max-noise
    char repetitions[32]; // "-r40", the last argument once known
} command;

static bool begins_with(const char *word, const char *start) { return strncmp(word, start, strlen(start)) == 0; }

static sm_status split(command *c) {
    // Variables and substitutions are refused: a line must do what it says and no more.
    c->words = strpbrk(c->line, "$`") == NULL ? sm_shell_words(c->line, &c->n_words) : NULL;
    SM_FAIL_IF(c->words == NULL, SM_ERR_USAGE,
               "%s: '%s' cannot be split into words; give plain words, quoted where they need it", c->name, c->line);
    const size_t n = (size_t)c->n_words;
    bool is_own = n > 0 && strcmp(c->words[0], "run") == 0;
    bool is_other = n > 1 && strcmp(c->words[1], "run") == 0;
    SM_FAIL_IF(!is_own && !is_other, SM_ERR_USAGE,
               "%s: '%s' is not a `run`; give \"run FLAGS\" or \"PROGRAM run FLAGS\"", c->name, c->line);
    c->argv = sm_calloc(n + 6, sizeof(*c->argv));
    if (is_own) {
        c->argv[c->n_args++] = (char *)os_program();
    }
    for (size_t i = 0; i < n; i++) {
        char *word = c->words[i];
        c->argv[c->n_args++] = word;
        c->says_samples |= begins_with(word, "-r") || begins_with(word, "--rep") || begins_with(word, "--max-n");
    }
    c->argv[c->n_args++] = (char *)"-o"; // the last -o counts
    c->argv[c->n_args++] = (char *)"json";
    if (is_own) {
        c->argv[c->n_args++] = (char *)"--no-peaks"; // ceilings do not matter for a difference
    }
    return SM_OK;
}

static void release(command *c) {
    free(c->argv);
    sm_shell_words_free(c->words);
}

static sm_status run_once(const command *c, int64_t pair, sm_rows *rows, double *median_ns) {
    SM_AT_END(sm_process_free) sm_process_result process = {0};
    const sm_process_job job = {.argv = c->argv,
                                .has_no_input = true,
                                .output = SM_OUTPUT_KEPT,
                                .interrupted = &cli_interrupted,
                                .interrupted_grace_s = interrupted_grace_s};
    size_t n_before = json_array_size(rows->rows);
    SM_TRY(sm_process_run(&job, &process));
    if (process.interrupted) {
        return SM_ERR_INTERRUPTED;
    }
    sm_status status = sm_rows_parse(c->line, process.out, process.out_bytes, rows);
    if (process.exit_code == 2) { // its first line has the error in the flags
        status =
            sm_fail(SM_ERR_USAGE, "%s: '%.120s': %.*s", c->name, c->line, (int)strcspn(process.err, "\n"), process.err);
    } else if (status != SM_OK) {
        status = sm_fail(SM_ERR_DEVICE, "%s: '%.120s' gave no rows (exit %d): %.300s", c->name, c->line,
                         process.signal > 0 ? 128 + process.signal : process.exit_code, sm_process_last_line(&process));
    }
    *median_ns = NAN;
    for (size_t i = n_before; status == SM_OK && i < json_array_size(rows->rows); i++) {
        json_t *row = json_array_get(rows->rows, i);
        *median_ns = sm_json_number(row, "median_ns");
        json_object_set_new(row, "compare_pair", json_integer(pair));
    }
    return status;
}

// Sampling should take about as long as starting the process. Computes that number of samples.
static sm_status rehearse(const command *c, double *n_samples) {
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    double ignored;
    double samples_ns = 0; // of one sample of every row
    int64_t begin_ns = sm_now_ns();
    sm_status status = run_once(c, 0, &rows, &ignored);
    double start_ns = (double)(sm_now_ns() - begin_ns); // outside of steps
    SM_EACH(row, rows.rows) {
        double median_ns = sm_json_number(row, "median_ns");
        if (isfinite(median_ns)) {
            start_ns -= median_ns * (double)json_array_size(json_object_get(row, "losses")); // one for each step
            samples_ns += median_ns;
        }
    }
    *n_samples = samples_ns > 0 ? start_ns / samples_ns : 0;
    return status;
}

// Pair `pair` of `most`, the first of which began at begin_ns.
static sm_status run_pair(const command *a, const command *b, const turns *how, int64_t pair, int64_t most,
                          int64_t begin_ns, sm_rows *rows_a, sm_rows *rows_b) {
    char left[64] = "";
    double a_ns, b_ns;
    // One of the pairs 2k and 2k+1 begins with B; a bit of the seed decides which.
    sm_philox_block block = sm_philox4x32(sm_philox_key(how->seed, "interleave"), (uint64_t)pair / 2, 0);
    const bool b_first = ((block.word[0] & 1) ^ ((uint32_t)pair & 1)) != 0;
    SM_TRY(b_first ? run_once(b, pair, rows_b, &b_ns) : SM_OK);
    SM_TRY(run_once(a, pair, rows_a, &a_ns));
    SM_TRY(!b_first ? run_once(b, pair, rows_b, &b_ns) : SM_OK);
    if (pair + 1 < most) {
        const double pair_s = (double)(sm_now_ns() - begin_ns) * 1e-9 / (double)(pair + 1);
        snprintf(left, sizeof(left), "; about %s left", CLI_DURATION(pair_s * (double)(most - pair - 1)));
    }
    cli_say("pair %lld of %s%lld: A %s ms, B %s ms%s%s", (long long)pair + 1, how->n_pairs > 0 ? "" : "at most ",
            (long long)most, SM_TEXT_MS(a_ns), SM_TEXT_MS(b_ns), b_first ? " (B first)" : "", left);
    return SM_OK;
}

// Removes the rows of an incomplete pair.
static void forget_pair(sm_rows *rows, int64_t pair) {
    size_t n = json_array_size(rows->rows);
    while (n > 0 && json_integer_value(json_object_get(json_array_get(rows->rows, n - 1), "compare_pair")) == pair) {
        json_array_remove(rows->rows, --n);
    }
}

// Without --pairs until every comparison could have seen a change of twice the threshold: by the width of the intervals
// and not their position, so that stopping on it favours no verdict. Checked whenever the pairs have grown by an eighth.
static sm_status run_pairs(const command *a, const command *b, const turns *how, sm_rows *rows_a, sm_rows *rows_b) {
    const int64_t most = how->n_pairs > 0 ? how->n_pairs : MOST_PAIRS;
    int64_t next_look = how->n_pairs > 0 ? most : LEAST_PAIRS;
    const int64_t begin_ns = sm_now_ns();
    bool sharp = false;
    for (int64_t pair = 0; pair < most && !sharp; pair++) {
        sm_status status = run_pair(a, b, how, pair, most, begin_ns, rows_a, rows_b);
        if (status != SM_OK) {
            forget_pair(rows_a, pair);
            forget_pair(rows_b, pair);
            return status;
        }
        if (pair + 1 == next_look && pair + 1 < most) {
            SM_AT_END(sm_comparison_free) sm_comparison c = {0};
            SM_TRY(sm_compare(rows_a->rows, rows_b->rows, how->compare, &c));
            sharp = true;
            SM_EACH(record, c.compared) {
                sharp = sharp && sm_json_number(record, "detectable_percent") <= 2 * 100 * how->compare->threshold;
            }
            next_look += 1 + next_look / 8;
        }
    }
    return SM_OK;
}

// Each runs once unmeasured. If neither line sets the number of samples, a run then takes 7 to 100, as many as take
// about the time of starting it. Then runs both, each in its own process, and appends their rows, each with its pair's
// number as `compare_pair`. Lines use quotes and backslashes as in a shell, but no substitution. SM_ERR_USAGE for a
// line that is no such command; SM_ERR_INTERRUPTED with the rows of all complete pairs.
static sm_status interleave(const cli_options *options, const sm_compare_options *how, sm_rows *a, sm_rows *b) {
    SM_AT_END(release) command of_a = {.name = "A", .line = options->operands[0]};
    SM_AT_END(release) command of_b = {.name = "B", .line = options->operands[1]};
    SM_TRY(split(&of_a));
    SM_TRY(split(&of_b));
    // Runs both once, unmeasured, so that caches of files and programs are equal. Both get the same number of samples.
    double n_a, n_b;
    SM_TRY(rehearse(&of_a, &n_a));
    SM_TRY(rehearse(&of_b, &n_b));
    double n = fmin(fmax(fmax(n_a, n_b), LEAST_SAMPLES), MOST_SAMPLES);
    command *const both[] = {&of_a, &of_b};
    for (int i = 0; i < 2 && !of_a.says_samples && !of_b.says_samples; i++) {
        snprintf(both[i]->repetitions, sizeof(both[i]->repetitions), "-r%.0f", n);
        both[i]->argv[both[i]->n_args] = both[i]->repetitions;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const turns t = {.n_pairs = options->compare.pairs,
                     .seed = options->work.seed > 0 ? (uint64_t)options->work.seed
                                                    : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
                     .compare = how};
    return run_pairs(&of_a, &of_b, &t, a, b);
}

static sm_status write_comparison(const sm_comparison *c, sm_format format) {
    if (format == SM_FORMAT_JSON) {
        return cli_print_object(json_pack("{s:s, s:O, s:O, s:O}", "verdict", sm_verdict_name(c->verdict), "comparisons",
                                          c->compared, "not_compared", c->apart, "notes", c->notes),
                                "the comparison");
    }
    if (sm_format_is_read(format)) {
        SM_TRY(sm_record_write_all(&sm_compare_table, format, stdout, c->compared));
        if (json_array_size(c->apart) > 0) {
            putchar('\n');
            SM_TRY(sm_record_write_all(&sm_apart_table, format, stdout, c->apart));
        }
        SM_EACH(note, c->notes) {
            sm_put_sentence(note_at == 0 ? "\n- note: " : "- note: ", json_string_value(note), "\n", format, stdout);
        }
        if (json_array_size(c->compared) > 0) {
            printf("\nverdict: B against A: %s\n", sm_verdict_name(c->verdict));
        }
        return SM_OK;
    }
    SM_EACH(apart, c->apart) { // a stream of records has only one kind
        cli_note("not compared: %s %s: %s", sm_rows_text(apart, "side"), sm_rows_text(apart, "test"),
                 sm_rows_text(apart, "reason"));
    }
    return sm_record_write_all(&sm_compare_table, format, stdout, c->compared);
}

static sm_status compare(const cli_options *options, sm_rows *a, sm_rows *b) {
    SM_AT_END(sm_comparison_free) sm_comparison c = {NULL, NULL, NULL, SM_VERDICT_SAME, 0};
    sm_compare_options how = {.threshold = options->compare.threshold_percent / 100,
                              .any_factor = options->compare.interleaved};
    const char *baseline = options->compare.save_baseline;
    for (int i = 0; i < options->compare.across.n; i++) {
        sm_identity factor;
        if (!sm_factor_parse(options->compare.across.texts[i], &factor)) {
            const char *names[SM_IDENTITY_COUNT];
            int n = 0;
            for (int k = SM_FACTOR_MACHINE; k < SM_IDENTITY_COUNT; k++) {
                names[n++] = sm_identity_name((sm_identity)k);
            }
            return cli_no_such_name("--across", "factor", options->compare.across.texts[i], names, n);
        }
        how.across |= 1u << factor;
    }
    sm_status ended = SM_OK;
    if (options->compare.interleaved) {
        ended = interleave(options, &how, a, b);
    } else {
        SM_TRY(cli_baseline_read(options->operands[0], a));
        SM_TRY(cli_baseline_read(options->operands[1], b));
    }
    if (ended != SM_OK && !(ended == SM_ERR_INTERRUPTED && json_array_size(b->rows) > 0)) {
        return ended;
    }
    cli_note_warnings(a);
    cli_note_warnings(b);
    SM_TRY(sm_compare(a->rows, b->rows, &how, &c));
    SM_TRY(write_comparison(&c, options->out.format));
    if (ended != SM_OK) { // incomplete: printed, but not judged
        cli_note("compared: the pairs that were whole when Ctrl-C came%s",
                 baseline != NULL ? "; no baseline is saved" : "");
        return ended;
    }
    SM_TRY(baseline != NULL ? save(baseline, b->rows) : SM_OK);
    SM_FAIL_IF(c.verdict == SM_VERDICT_SLOWER, SM_ERR_REGRESSION, "B is slower than A");
    SM_FAIL_IF(c.n_failed > 0, SM_ERR_DEVICE, "%d configuration%s that ran in A failed in B", c.n_failed,
               sm_plural((size_t)c.n_failed));
    SM_FAIL_IF(json_array_size(c.compared) == 0, SM_ERR_INVALID,
               "nothing could be compared: no configuration has figures on both sides");
    return SM_OK;
}

sm_status cli_compare(const cli_options *options) {
    bool only_saves =
        options->compare.save_baseline != NULL && options->n_operands == 1 && !options->compare.interleaved;
    SM_AT_END(sm_rows_free) sm_rows a = sm_rows_new();
    SM_AT_END(sm_rows_free) sm_rows b = sm_rows_new();
    SM_FAIL_IF(options->n_operands != 2 && !only_saves, SM_ERR_USAGE,
               options->compare.interleaved
                   ? "--interleaved needs two command lines, each in quotes: \"run ...\" \"run ...\""
                   : "give two result files or baselines: stepmark compare A B");
    SM_TRY(options->compare.save_baseline != NULL ? check_name(options->compare.save_baseline) : SM_OK);
    a.interrupted = b.interrupted = &cli_interrupted;
    if (!only_saves) {
        return compare(options, &a, &b);
    }
    SM_TRY(cli_baseline_read(options->operands[0], &a));
    cli_note_warnings(&a);
    SM_TRY(save(options->compare.save_baseline, a.rows));
    cli_note("%zu row%s saved as baseline %s", json_array_size(a.rows), sm_plural(json_array_size(a.rows)),
             options->compare.save_baseline);
    return SM_OK;
}
