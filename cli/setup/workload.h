// workload.h: the batches that a measurement feeds, and the checks of its loss, gradients and updates: the callbacks of
// the harness.
#ifndef STEPMARK_CLI_SETUP_WORKLOAD_H
#define STEPMARK_CLI_SETUP_WORKLOAD_H

#include "bench/measure/harness.h"
#include "cli/setup/data.h"
#include "cli/setup/session.h"
#include "src/verify/update_check.h"

typedef struct {
    const cli_options *options; // not owned, as the config
    const sm_model_config *config;
    int64_t B;
    int64_t T;
    int32_t *ids; // n_batches times B*T inputs, B*T targets and B*T starts of documents
    int64_t n_batches;
    double real_tokens; // of a mean batch; 0: all, as are the pairs
    double attended_pairs;
    double grad_norm;              // of the first step, by the gradient check; 0 = not known
    int64_t n_loss_checks;         // so far
    sm_update_check *update_check; // of the step under way; NULL otherwise
} cli_workload;

// Reads the first batches of --data, or of the embedded text, or of its --documents. A longer run goes through them
// again.
sm_status cli_workload_open(const cli_options *options, const sm_model_config *config, int64_t B, int64_t T,
                            cli_workload *workload);
sm_status cli_workload_open_of(const cli_options *options, const sm_model_config *config, int64_t B, int64_t T,
                               sm_tokens *tokens, cli_workload *workload); // of tokens that are open
void cli_workload_close(cli_workload *workload);                           // one whose ids are NULL is fine

// Tells the plan what its batches hold, so that its work and its tokens are counted right.
void cli_workload_count(const cli_workload *workload, sm_plan *plan);

// Of all its batches.
void cli_workload_digest(const cli_workload *workload, char digest[SM_DIGEST_SIZE]);

// It, as the harness takes it; the workload outlives that.
sm_workload cli_workload_interface(cli_workload *workload);

#endif
