// find_limits.c: see sweep/sweep.h.
#include "cli/sweep/sweep.h"

#include <string.h>

#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/output/notes.h"

// After a batch that did not run, the next is this share of it.
static const double next_share = 0.9;

// B and T of the largest work that fits by estimate, with B below `most` (0: any). Halves T until one sequence fits. *B
// is 0 if nothing fits.
static void largest_by_estimate(const cli_candidate *c, int64_t most, int64_t *B, int64_t *T) {
    cli_job job = c->job;
    *B = 0;
    for (; job.T > 0 && *B == 0; job.T /= 2) {
        *T = job.T;
        *B = cli_largest_batch(&c->run, &job, (cli_target){c->info.max_alloc_bytes, NULL}, c->limit_bytes);
    }
    if (most > 0 && *T == c->job.T && *B >= most) {
        *B = most - 1;
    }
}

// Runs the configuration with other B and T, or finds its row.
static sm_status probe(cli_sweep *s, int index, int64_t B, int64_t T, json_t **row) {
    SM_TRY(cli_sweep_plan_derive(&s->plan, &s->plan.items[index], B, T));
    const cli_configuration *c = &s->plan.items[s->plan.n - 1];
    *row = cli_sweep_known(s, c->key);
    if (*row != NULL) {
        return SM_OK;
    }
    SM_TRY(cli_candidate_look(&s->sweeper, c, s->candidate));
    SM_TRY(cli_sweep_measure(s, c, s->candidate, row));
    cli_note("%s: %s %s", c->key, sm_rows_text(*row, "status"), sm_rows_text(*row, "reason"));
    return SM_OK;
}

// `row` is that of the last probe; NULL if there was none.
static void announce(const cli_sweep *s, int index, const json_t *row, int64_t B, int64_t T, int64_t failed_B) {
    const char *key = s->plan.items[index].key;
    if (B == 0) {
        cli_note("%s: not even one token fits", key);
    } else if (json_array_size(json_object_get(row, "samples_ns")) == 0) { // a late one with samples did run
        cli_note("%s: a batch of %lld of %lld tokens should fit, but it is not proven: %s", key, (long long)B,
                 (long long)T, sm_rows_text(row, "reason"));
    } else if (failed_B > 0) {
        cli_note("%s: the largest batch is %lld of %lld tokens: it ran, and %lld did not", key, (long long)B,
                 (long long)T, (long long)failed_B);
    } else {
        cli_note("%s: the largest batch is %lld of %lld tokens: it ran, and %lld does not fit by estimate", key,
                 (long long)B, (long long)T, (long long)B + 1);
    }
}

sm_status cli_sweep_find(cli_sweep *s, int index) {
    int64_t B = 0;
    int64_t T = 0;
    int64_t failed_B = 0;
    json_t *row = NULL;
    SM_TRY(cli_candidate_look(&s->sweeper, &s->plan.items[index], s->candidate));
    const json_t *known = cli_sweep_known(s, s->plan.items[index].key);
    largest_by_estimate(s->candidate, known != NULL ? s->candidate->job.B : 0, &B, &T);
    while (B > 0) {
        SM_TRY(probe(s, index, B, T, &row));
        if (strcmp(sm_rows_text(row, "status"), "oom") != 0) {
            break;
        }
        failed_B = B;
        B = (int64_t)((double)B * next_share);
    }
    announce(s, index, row, B, T, failed_B);
    return SM_OK;
}
