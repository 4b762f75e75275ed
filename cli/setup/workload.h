// workload.h: the batches of a measurement, and the checks of its loss, gradients and updates: the harness's callbacks.
#ifndef STEPMARK_CLI_SETUP_WORKLOAD_H
#define STEPMARK_CLI_SETUP_WORKLOAD_H

#include "bench/measure/harness.h"
#include "cli/setup/data.h"
#include "cli/setup/session.h"
#include "src/verify/update_check.h"

typedef struct {
    const cli_options *options; // not owned, like the config
    const sm_model_config *config;
    int64_t B;
    int64_t T;
    int32_t *ids; // n_batches times B*T inputs, B*T targets and B*T starts of documents
    int64_t n_batches;
    double real_tokens; // of a mean batch; 0: all, likewise for the pairs
    double attended_pairs;
    double grad_norm;              // of the first step, from the gradient check; 0 = unknown
    int64_t first_checked;         // batch of the step whose gradients are checked
    int64_t n_loss_checks;         // so far
    sm_update_check *update_check; // of the current step; otherwise NULL
} cli_workload;

// Reads the first batches of --data, or of the embedded text, or of its --documents. A longer run repeats them.
sm_status cli_workload_open(const cli_options *options, const sm_model_config *config, int64_t B, int64_t T,
                            cli_workload *workload);
sm_status cli_workload_open_of(const cli_options *options, const sm_model_config *config, int64_t B, int64_t T,
                               sm_tokens *tokens, cli_workload *workload); // from open tokens
void cli_workload_close(cli_workload *workload);                           // one whose ids are NULL is fine

// Sets the plan's real tokens and pairs from its batches, for its work and speed.
void cli_workload_count(const cli_workload *workload, sm_plan *plan);

// Of all its batches.
void cli_workload_digest(const cli_workload *workload, char digest[SM_DIGEST_SIZE]);

// The workload as the harness's interface; the workload must outlive it.
sm_workload cli_workload_interface(cli_workload *workload);

#endif
