// score.c: the subcommand `score`: measures the preset "score", the frozen work of docs/score.md, on every device, a line
// each; or prints the last one as text to send.
#include <stdlib.h>
#include <string.h>

#include "bench/compare/noise_verdict.h"
#include "bench/rows/block.h"
#include "bench/rows/bundle.h"
#include "bench/score/score.h"
#include "bench/tables/show.h"
#include "cli/flags/flag.h"
#include "cli/rows/rows.h"
#include "cli/sweep/sweep.h"

static const char recompute[] = "--recompute=block"; // where memory is short

// --- one device ------------------------------------------------------------------------------------

// Whether the device multiplies in 16 bits by units of its own; elsewhere these formats are slower than fp32.
static bool has_narrow_units(const sm_device_info *info) {
    static const char *const isas[] = {"avx512_bf16", "amx", "neon_bf16", "sme"};
    bool found = strcmp(info->tier, "tensor") == 0;
    for (size_t i = 0; i < sizeof(isas) / sizeof(isas[0]); i++) {
        found = found || strcmp(info->isa, isas[i]) == 0;
    }
    return found;
}

static bool is_given(const cli_axes *axes, const char *name) {
    bool found = false;
    for (int i = 0; i < axes->n; i++) {
        found = found || strcmp(cli_flag_at(axes->axes[i].flag)->name, name) == 0;
    }
    return found;
}

static bool is_asked_for(const cli_options *options, const cli_candidate *c) {
    return is_given(&options->sweep.axes, "precision") || c->job.precision == CLI_FP32 || has_narrow_units(&c->info);
}

// Appends a configuration once more with the least memory: one sequence, and recomputation in place of --fit.
static sm_status append_small(cli_sweep_plan *plan, int index) {
    SM_TRY(cli_sweep_plan_derive(plan, &plan->items[index], 1, SM_SCORE_SEQ_LEN));
    cli_configuration *small = &plan->items[plan->n - 1];
    for (int i = 1; i < small->n_args; i++) {
        if (strncmp(small->args[i], "--fit=", strlen("--fit=")) == 0) {
            free(small->args[i]);
            small->args[i] = sm_strdup(recompute);
        }
    }
    cli_configuration_set_key(small, "");
    return SM_OK;
}

// A row for people: the line, or why there is none; and what else there is to say of the figure.
static void print_row(json_t *row, const json_t *references) {
    char text[SM_SCORE_TEXT_SIZE];
    char doubt[SM_DOUBT_SIZE];
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
        const char *what = strncmp(doubt, "busy machine: ", 14) == 0 ? doubt + 14 : doubt;
        const size_t length = strcspn(what, ";");
        printf("    busy: not to be quoted: %.*s\n", (int)length, what);
        printf("%s%s%s", what[length] != '\0' ? "   " : "", what[length] != '\0' ? what + length + 1 : "",
               what[length] != '\0' ? "\n" : "");
    } else if (strcmp(sm_rows_text(row, "noise_verdict"), "steady") != 0) {
        printf("    %.0f samples, and they are %s: measure again on a quiet machine\n", n_samples,
               sm_rows_text(row, "noise_verdict"));
    }
    if (strcmp(sm_rows_text(row, "recompute"), "block") == 0) {
        puts("    memory is short: the backward computes each block again");
    }
    fflush(stdout);
}

static sm_status measure_one(cli_sweep *s, int index, json_t **row) {
    const cli_options *o = s->sweeper.options;
    *row = NULL;
    SM_TRY(cli_candidate_look(&s->sweeper, &s->plan.items[index], s->candidate));
    if (!is_asked_for(o, s->candidate)) {
        return SM_OK;
    }
    SM_TRY(cli_sweep_measure(s, &s->plan.items[index], s->candidate, row));
    if (*row != NULL && strcmp(sm_rows_text(*row, "status"), "oom") == 0 &&
        strstr(s->plan.items[index].key, recompute + 2) == NULL) {
        SM_TRY(append_small(&s->plan, index));
        return measure_one(s, s->plan.n - 1, row);
    }
    return SM_OK;
}

// --- all of them -------------------------------------------------------------------------------------

// A backend that finds no device says what to install.
static void print_missing(void) {
    for (int b = 0; b < sm_backend_count(); b++) {
        sm_device_info info;
        if (cli_count_devices(sm_backend_at(b)) > 0 && sm_backend_at(b)->describe(0, &info) == SM_OK &&
            !info.available) {
            printf("%s  %s: %s\n", SM_SCORE_NAME, sm_backend_at(b)->name, info.reason);
        }
    }
}

static void print_end(const cli_options *o, const json_t *rows, const json_t *references) {
    char text[SM_SCORE_TEXT_SIZE];
    sm_score_standing(rows, references, text);
    if (text[0] != '\0') {
        printf("\nThis machine: %s.\n\n", text);
        printf("next: `stepmark score --share --output-file %s` prints it as text to send\n"
               "      `stepmark profile -m small -b 1 --seq-len 1024` shows where the time goes\n",
               o->out.output_file);
    }
}

static sm_status measure_all(cli_sweep *s, const json_t *references) {
    const bool is_read = sm_format_is_read((sm_format)s->sweeper.options->out.format);
    const int n = s->plan.n; // rows with less memory are appended
    for (int i = 0; i < n; i++) {
        json_t *row = NULL;
        cli_live_parts("row", i, n);
        SM_TRY(measure_one(s, i, &row));
        if (row != NULL) {
            json_array_append(s->rows, row);
        }
        if (row != NULL && is_read) {
            print_row(row, references);
        }
    }
    return SM_OK;
}

static sm_status conclude(const json_t *rows, const json_t *references) {
    char text[SM_SCORE_TEXT_SIZE] = "no device can run";
    for (size_t i = 0; i < json_array_size(rows); i++) {
        if (!sm_score_lacks(json_array_get(rows, i), references, text)) {
            return SM_OK;
        }
    }
    return sm_fail(SM_ERR_DEVICE, "no score: %s", text);
}

static sm_status measure(const cli_options *options, const json_t *references) {
    static cli_sweep s;         // static because of their lists
    static cli_options of_plan; // options, and the preset
    of_plan = *options;
    of_plan.sweep.preset = "score";
    of_plan.sweep.order = CLI_ORDER_GIVEN;
    of_plan.sweep.rounds = 1;
    sm_status status = cli_sweep_open(&of_plan, &s);
    status = status == SM_OK ? measure_all(&s, references) : status;
    if (status == SM_OK && sm_format_is_read((sm_format)options->out.format)) {
        print_missing();
        print_end(options, s.rows, references);
    } else if (status == SM_OK) {
        status = sm_record_write_all(&sm_row_table, (sm_format)options->out.format, stdout, s.rows);
    }
    status = status == SM_OK ? conclude(s.rows, references) : status;
    cli_sweep_close(&s);
    return status;
}

// --- to send -----------------------------------------------------------------------------------------

static bool is_same_kind(const json_t *a, const json_t *b) {
    return strcmp(sm_rows_text(a, "device"), sm_rows_text(b, "device")) == 0 &&
           strcmp(sm_rows_text(a, "precision"), sm_rows_text(b, "precision")) == 0;
}

// The last score of each device and format, without those that may not be quoted; *n_busy counts these.
static json_t *last_scores(const json_t *rows, const json_t *references, size_t *n_busy) {
    json_t *last = json_array();
    *n_busy = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char text[SM_SCORE_TEXT_SIZE];
        bool is_last = true;
        for (size_t k = i + 1; k < json_array_size(rows) && is_last; k++) {
            is_last = !is_same_kind(row, json_array_get(rows, k));
        }
        if (!is_last || sm_score_lacks(row, references, text)) {
            continue;
        }
        const bool is_busy = sm_doubt_row(row, text);
        *n_busy += is_busy;
        sm_json_set_new(row, "busy", json_boolean(is_busy));
        sm_json_set_new(row, "score", json_string(SM_SCORE_NAME)); // rows of other programs do not say so themselves
        json_array_append(last, row);
    }
    return last;
}

static sm_status share(const cli_options *options, const json_t *references) {
    sm_rows rows;
    size_t n_busy = 0;
    size_t n_shared = 0;
    json_t *last = NULL;
    sm_status status = SM_OK;
    sm_rows_init(&rows);
    SM_TRY_GOTO(sm_rows_read(options->out.output_file, &rows));
    last = last_scores(rows.rows, references, &n_busy);
    if (json_array_size(last) == 0) {
        SM_TRY_GOTO(sm_fail(SM_ERR_INVALID, "%s: holds no score; `stepmark score --output-file %s` measures one",
                            options->out.output_file, options->out.output_file));
    }
    char *text = sm_block_make(last, &n_shared);
    fputs(text, stdout);
    free(text);
    if (n_busy > 0) {
        cli_note("warning: %zu of %zu scores come from a busy machine, and should not be quoted; measure again", n_busy,
                 json_array_size(last));
    }
    if (n_shared < json_array_size(last)) {
        cli_note("the text has room for %zu of %zu scores", n_shared, json_array_size(last));
    }
cleanup:
    json_decref(last);
    sm_rows_free(&rows);
    return status;
}

sm_status cli_score(const cli_options *options) {
    json_t *references = NULL;
    SM_TRY(sm_bundle_references(&references));
    const sm_status status = options->out.chosen ? share(options, references) : measure(options, references);
    json_decref(references);
    return status;
}
