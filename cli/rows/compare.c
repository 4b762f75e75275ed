// compare.c: compares two sets of rows.
#include <time.h>

#include "bench/tables/layout.h"
#include "bench/tables/show.h"
#include "cli/output/output.h"
#include "cli/rows/rows.h"

// --- the two sides -----------------------------------------------------------------------------

static sm_status find_factors(const cli_options *options, unsigned *across) {
    *across = 0;
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
        *across |= 1u << factor;
    }
    return SM_OK;
}

// --- output --------------------------------------------------------------------------------------

static sm_status write_read(const sm_comparison *c, sm_format format) {
    SM_TRY(sm_record_write_all(&sm_compare_table, format, stdout, c->compared));
    if (json_array_size(c->apart) > 0) {
        putchar('\n');
        SM_TRY(sm_record_write_all(&sm_apart_table, format, stdout, c->apart));
    }
    for (size_t i = 0; i < json_array_size(c->notes); i++) {
        fputs(i == 0 ? "\n- note: " : "- note: ", stdout);
        sm_markdown_text(json_string_value(json_array_get(c->notes, i)), stdout);
        putchar('\n');
    }
    if (json_array_size(c->compared) > 0) {
        printf("\nverdict: B against A: %s\n", sm_verdict_name(c->verdict));
    }
    return SM_OK;
}

static sm_status write_comparison(const sm_comparison *c, sm_format format) {
    if (format == SM_FORMAT_JSON) {
        return cli_print_object(json_pack("{s:s, s:O, s:O, s:O}", "verdict", sm_verdict_name(c->verdict), "comparisons",
                                          c->compared, "not_compared", c->apart, "notes", c->notes),
                                "the comparison");
    }
    if (sm_format_is_read(format)) {
        return write_read(c, format);
    }
    for (size_t i = 0; i < json_array_size(c->apart); i++) { // a stream of records has only one kind
        const json_t *apart = json_array_get(c->apart, i);
        cli_note("not compared: %s %s: %s", sm_rows_text(apart, "side"), sm_rows_text(apart, "test"),
                 sm_rows_text(apart, "reason"));
    }
    return sm_record_write_all(&sm_compare_table, format, stdout, c->compared);
}

// --- the subcommand ------------------------------------------------------------------------------

static sm_status compare(const cli_options *options, sm_rows *a, sm_rows *b) {
    SM_AT_END(sm_comparison_free) sm_comparison c = {NULL, NULL, NULL, SM_VERDICT_SAME, 0};
    sm_compare_options how = {.threshold = options->compare.threshold_percent / 100,
                              .any_factor = options->compare.interleaved};
    const char *baseline = options->compare.save_baseline;
    SM_TRY(find_factors(options, &how.across));
    sm_status ended = SM_OK;
    if (options->compare.interleaved) {
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        const uint64_t seed = options->work.seed > 0 ? (uint64_t)options->work.seed
                                                     : (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
        const cli_interleave_how pairs = {options->compare.pairs, seed, &how};
        ended = cli_interleave(options->operands[0], options->operands[1], &pairs, a, b);
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
    SM_TRY(write_comparison(&c, (sm_format)options->out.format));
    if (ended != SM_OK) { // incomplete: printed, but not judged
        cli_note("compared: the pairs that were whole when Ctrl-C came%s",
                 baseline != NULL ? "; no baseline is saved" : "");
        return ended;
    }
    SM_TRY(baseline != NULL ? cli_baseline_save(baseline, b->rows) : SM_OK);
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
    SM_AT_END(sm_rows_free) sm_rows a = {.rows = NULL};
    SM_AT_END(sm_rows_free) sm_rows b = {.rows = NULL};
    SM_FAIL_IF(options->n_operands != 2 && !only_saves, SM_ERR_USAGE,
               options->compare.interleaved
                   ? "--interleaved needs two command lines, each in quotes: \"run ...\" \"run ...\""
                   : "give two result files or baselines: stepmark compare A B");
    if (options->compare.save_baseline != NULL) {
        SM_TRY(cli_baseline_check(options->compare.save_baseline));
    }
    sm_rows_init(&a);
    sm_rows_init(&b);
    a.interrupted = &cli_interrupted;
    b.interrupted = &cli_interrupted;
    if (!only_saves) {
        return compare(options, &a, &b);
    }
    SM_TRY(cli_baseline_read(options->operands[0], &a));
    cli_note_warnings(&a);
    SM_TRY(cli_baseline_save(options->compare.save_baseline, a.rows));
    cli_note("%zu row%s saved as baseline %s", json_array_size(a.rows), sm_plural(json_array_size(a.rows)),
             options->compare.save_baseline);
    return SM_OK;
}
