// score.c: the subcommand `score`: measures the frozen work of docs/score.md on every device; or prints the last one.
#include <unistd.h>

#include "clock.h"
#include "bench/score/score.h"
#include "cli/flags/flag.h"
#include "cli/sweep/sweep.h"

static const char recompute[] = "--recompute=block"; // where memory is short

// A row for people: the line, or why there is none; and what else there is to say of the figure.
// `is_cut`: it had less time than a score of this row alone.
static void print_row(json_t *row, bool is_cut, const json_t *references) {
    char text[SM_SCORE_TEXT_SIZE], doubt[SM_DOUBT_SIZE];
    const double n_samples = (double)json_array_size(sm_json_get(row, "samples_ns"));
    const double datasheet = sm_json_number(row, "datasheet_mfu");
    cli_live_clear();
    if (sm_score_lacks(row, references, text)) {
        printf("%s  %s %s: no score: %s\n", SM_SCORE_NAME, sm_rows_text(row, "device"), sm_rows_text(row, "precision"),
               text);
        return;
    }
    const bool is_busy = sm_doubt_row(row, doubt);
    sm_json_set_new(row, "busy", json_boolean(is_busy));
    sm_block_line(row, text);
    puts(text);
    if (datasheet > 0) {
        printf("    %.1f%% of datasheet (%s)\n", 100 * datasheet, sm_rows_text(row, "datasheet_source"));
    }
    if (is_busy) { // the fact, and below it what to do
        const bool is_machine = strncmp(doubt, "busy machine: ", 14) == 0;
        const char *what = is_machine ? doubt + 14 : doubt;
        printf("    busy: not to be quoted: %.*s\n", (int)strcspn(what, ";"), what);
        puts(is_machine ? "    end the other programs, then measure again" : "    measure again on an idle machine");
    } else if (sm_rows_is(row, "noise_verdict", "too few")) {
        printf("    %.0f sample%s: too few for an interval%s", n_samples, sm_plural((size_t)n_samples),
               is_cut ? ", to end within two minutes; for more:\n" : "\n");
        if (is_cut) {
            printf("    stepmark score --backend %s --precision %s\n", sm_rows_text(row, "device"),
                   sm_rows_text(row, "precision"));
        }
    } else if (!sm_rows_is(row, "noise_verdict", "steady")) {
        printf("    %.0f samples, and they are %s: measure again on a quiet machine\n", n_samples,
               sm_rows_text(row, "noise_verdict"));
    }
    if (sm_rows_is(row, "recompute", "block")) {
        puts("    memory is short: the backward computes each block again");
    }
    fflush(stdout);
}

// --- two minutes -------------------------------------------------------------------------------------

// Rows take as many samples as the time allows; their checks stay. Of a row's time the samples are about half, so a
// processor's later rows know from its first what is not samples. OpenCL on a processor, which the cpu backend measures
// too, comes last, and is left out if it had no time for a sample: it is no other device.
typedef enum { UNWANTED, OF_CARD, OF_PROCESSOR, OF_PROCESSOR_AGAIN } row_kind;

typedef struct {
    int64_t begin_ns;
    double other_s; // of the slowest row of the processor so far: all but its samples; 0: none yet
} schedule;

static const double most_s = 115;
static const double card_s = 20;       // its share, samples included
static const double again_share = 1.5; // OpenCL compiles, and is slower
static const double most_samples_s = 25;
static const double least_samples_s = 4;

static double other_of(const schedule *t, row_kind kind) {
    return kind == UNWANTED  ? 0
           : kind == OF_CARD ? card_s
                             : t->other_s * (kind == OF_PROCESSOR_AGAIN ? again_share : 1);
}

// Time for the samples of row i, of the `n` rows that are left; negative: there is none.
static double time_for_samples(const schedule *t, const row_kind *kinds, int i, int n) {
    if (kinds[i] == OF_CARD || t->other_s == 0) {
        return most_samples_s;
    }
    const double left_s = most_s - (double)(sm_now_ns() - t->begin_ns) / 1e9;
    double all_s = left_s;
    int n_rows = 0;
    for (int k = i; k < n; k++) {
        all_s -= other_of(t, kinds[k]);
        n_rows += kinds[k] == OF_PROCESSOR || kinds[k] == OF_PROCESSOR_AGAIN;
    }
    const double share_s = all_s / n_rows;
    const double alone_s = left_s - other_of(t, kinds[i]); // where not all have room, the first have it
    const double samples_s = share_s >= least_samples_s ? share_s : alone_s;
    return samples_s < most_samples_s ? samples_s : most_samples_s;
}

// And gives it its batch.
static sm_status kind_of(cli_sweep *s, int index, row_kind *kind) {
    const sm_device_info *info = &s->candidate->info;
    const cli_axes *axes = &s->sweeper.options->sweep.axes;
    SM_TRY(cli_candidate_look(&s->sweeper, &s->plan.items[index], s->candidate));
    // Formats of 16 bits are slower than fp32 on devices without units of their own for them.
    const bool is_asked_for = cli_axis_text(axes, "precision") != NULL || s->candidate->job.precision == CLI_FP32 ||
                              strcmp(info->tier, "tensor") == 0 ||
                              sm_is_word_of(info->isa, "avx512_bf16 amx neon_bf16 sme");
    *kind = !is_asked_for                                                ? UNWANTED
            : !info->is_host_processor                                   ? OF_CARD
            : strcmp(s->candidate->job.device.backend->name, "cpu") != 0 ? OF_PROCESSOR_AGAIN
                                                                         : OF_PROCESSOR;
    if (info->is_host_processor && cli_axis_text(axes, "batch-size") == NULL) {
        // A processor's micro-batch is that of its threads: a measured peak, by which --fit chooses, varies from run to
        // run, and with it the work, by 10% of the rate on 16 virtual cores.
        const cli_job *job = &s->candidate->job;
        const int64_t n_threads = job->n_threads > 0 ? job->n_threads : info->n_threads;
        const int64_t most = job->precision == CLI_FP32 ? n_threads / 4 : n_threads / 2;
        int64_t B = 1;
        while (2 * B <= most && B < 32) {
            B *= 2;
        }
        cli_configuration *c = &s->plan.items[index];
        cli_configuration_set(c, sm_text_of("--batch-size=%lld", (long long)B));
        cli_configuration_set_key(c, "");
    }
    return SM_OK;
}

static sm_status measure_one(cli_sweep *s, int index, double samples_s, json_t **row) {
    *row = NULL;
    cli_configuration *c = &s->plan.items[index];
    cli_configuration_set(c, sm_text_of("--max-time=%.0f", fmax(samples_s, least_samples_s)));
    SM_TRY(cli_candidate_look(&s->sweeper, c, s->candidate));
    SM_TRY(cli_sweep_measure(s, c, s->candidate, row));
    if (*row != NULL && sm_rows_is(*row, "status", "oom") && strstr(c->key, recompute + 2) == NULL) {
        // Appends a configuration once more with the least memory: one sequence, and recomputation.
        SM_TRY(cli_sweep_plan_derive(&s->plan, c, 1, SM_SCORE_SEQ_LEN));
        cli_configuration_set(&s->plan.items[s->plan.n - 1], sm_strdup(recompute));
        cli_configuration_set_key(&s->plan.items[s->plan.n - 1], "");
        return measure_one(s, s->plan.n - 1, samples_s, row);
    }
    return SM_OK;
}

// `score` and `make bench` leave their rows here, and --share looks for them.
static const char usual_file[] = "score.jsonl";
static const char bench_file[] = "build/score.jsonl";

static sm_status measure_row(cli_sweep *s, schedule *t, const row_kind *kinds, int i, int n, const json_t *references) {
    const bool is_read = sm_format_is_read(s->sweeper.options->out.format);
    const double samples_s = time_for_samples(t, kinds, i, n);
    json_t *row = NULL;
    if (kinds[i] == OF_PROCESSOR_AGAIN && samples_s < 1) {
        SM_TRY(cli_candidate_look(&s->sweeper, &s->plan.items[i], s->candidate));
        if (is_read) {
            printf("%s  %s: the processor again, not measured, to end within two minutes:\n"
                   "    stepmark score --backend %s\n",
                   SM_SCORE_NAME, s->candidate->info.id, s->candidate->info.id);
        }
        return SM_OK;
    }
    SM_TRY(measure_one(s, i, samples_s, &row));
    if (row != NULL) {
        json_array_append(s->rows, row);
    }
    if (row != NULL && kinds[i] != OF_CARD) {
        const json_t *samples = sm_json_get(row, "samples_ns");
        double other_s = sm_json_number(row, "process_ns") / 1e9;
        SM_EACH(ns, samples) { other_s -= json_number_value(ns) / 1e9; }
        t->other_s = other_s > t->other_s ? other_s : t->other_s;
    }
    if (row != NULL && is_read) {
        print_row(row, samples_s < most_samples_s, references);
    }
    return SM_OK;
}

// First the cards and the processor, then OpenCL on the processor.
static sm_status measure_all(cli_sweep *s, const json_t *references) {
    const int n = s->plan.n; // rows with less memory are appended
    schedule t = {.begin_ns = sm_now_ns()};
    SM_FREED row_kind *kinds = sm_calloc((size_t)n + 1, sizeof(*kinds));
    sm_status status = SM_OK;
    for (int i = 0; i < n && status == SM_OK; i++) {
        status = kind_of(s, i, &kinds[i]);
    }
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < n && status == SM_OK; i++) {
            if (kinds[i] != UNWANTED && (kinds[i] == OF_PROCESSOR_AGAIN) == (pass == 1)) {
                cli_live_parts("row", i, n);
                status = measure_row(s, &t, kinds, i, n, references);
                kinds[i] = UNWANTED;
            }
        }
    }
    return status;
}

static sm_status measure(const cli_options *options, const json_t *references) {
    char text[SM_SCORE_TEXT_SIZE];
    static cli_sweep s;         // static because of their lists
    static cli_options of_plan; // options, and the preset
    of_plan = *options;
    of_plan.sweep.preset = "score";
    of_plan.sweep.order = CLI_ORDER_GIVEN;
    of_plan.sweep.rounds = 1;
    sm_status status = cli_sweep_open(&of_plan, &s);
    status = status == SM_OK ? measure_all(&s, references) : status;
    if (status == SM_OK && sm_format_is_read(options->out.format)) {
        // A backend that finds no device says what to install.
        for (int b = 0; b < sm_backend_count(); b++) {
            sm_device_info info;
            if (cli_count_devices(sm_backend_at(b)) > 0 && sm_backend_at(b)->describe(0, &info) == SM_OK &&
                !info.available) {
                printf("%s  %s: %s\n", SM_SCORE_NAME, sm_backend_at(b)->name, info.reason);
            }
        }
        // Commands begin as this one was called: a fresh build is not in PATH.
        const char *file = options->out.output_file;
        const bool is_found =
            strcmp(file, usual_file) == 0 || (strcmp(file, bench_file) == 0 && access(usual_file, F_OK) != 0);
        sm_score_standing(s.rows, references, text);
        if (text[0] != '\0') {
            printf("\nThis machine: %s.\n\n", text);
            printf("next, as text to send:    %s score --share%s%s\n", options->argv[0],
                   is_found ? "" : " --output-file ", is_found ? "" : file);
            printf("where the time goes:      %s profile -m small -b 1 --seq-len 1024\n", options->argv[0]);
        }
    } else if (status == SM_OK) {
        status = sm_record_write_all(&sm_row_table, options->out.format, stdout, s.rows);
    }
    bool has_score = false;
    snprintf(text, sizeof(text), "no device can run");
    SM_EACH(row, s.rows) { has_score = has_score || !sm_score_lacks(row, references, text); }
    cli_sweep_close(&s);
    return status != SM_OK || has_score ? status : sm_fail(SM_ERR_DEVICE, "no score: %s", text);
}

// --- to send -----------------------------------------------------------------------------------------

// The last score of each device, format and program, without those that may not be quoted; *n_busy counts these.
static json_t *last_scores(const json_t *rows, const json_t *references, size_t *n_busy) {
    SM_OWN(json_t) *seen = json_object();
    json_t *last = json_array();
    *n_busy = 0;
    for (size_t i = json_array_size(rows); i-- > 0;) {
        json_t *row = json_array_get(rows, i);
        char text[SM_SCORE_TEXT_SIZE];
        SM_FREED char *which = sm_text_of("%s|%s|%s", sm_rows_text(row, "device"), sm_rows_text(row, "precision"),
                                          sm_rows_text(row, "backend_used"));
        const bool is_last = json_object_get(seen, which) == NULL;
        (void)json_object_set_new(seen, which, json_true());
        if (!is_last || sm_score_lacks(row, references, text)) {
            continue;
        }
        const bool is_busy = sm_doubt_row(row, text);
        *n_busy += is_busy;
        sm_json_set_new(row, "busy", json_boolean(is_busy));
        sm_json_set_new(row, "score", json_string(SM_SCORE_NAME)); // rows of other programs do not say so themselves
        json_array_insert(last, 0, row);
    }
    return last;
}

static sm_status share(const cli_options *options, const json_t *references) {
    SM_AT_END(sm_rows_free) sm_rows rows = sm_rows_new();
    size_t n_busy = 0, n_shared = 0;
    const char *file = options->out.output_file;
    const bool is_of_bench = strcmp(file, usual_file) == 0 && access(file, F_OK) != 0 && access(bench_file, F_OK) == 0;
    const sm_status status = sm_rows_read(is_of_bench ? bench_file : file, &rows);
    SM_FAIL_IF(status != SM_OK, status, "%s; `stepmark score` measures one", sm_error_message());
    SM_OWN(json_t) *last = last_scores(rows.rows, references, &n_busy);
    SM_FAIL_IF(json_array_size(last) == 0, SM_ERR_INVALID,
               "%s: holds no score; `stepmark score --output-file %s` measures one", file, file);
    SM_FREED char *text = sm_block_make(last, &n_shared);
    fputs(text, stdout);
    if (n_busy > 0) {
        cli_note("warning: %zu of %zu scores come from a busy machine, and should not be quoted; measure again", n_busy,
                 json_array_size(last));
    }
    if (n_shared < json_array_size(last)) {
        cli_note("the text has room for %zu of %zu scores", n_shared, json_array_size(last));
    }
    return SM_OK;
}

sm_status cli_score(const cli_options *options) {
    SM_OWN(json_t) *references = sm_bundle_references();
    return options->out.chosen ? share(options, references) : measure(options, references);
}
