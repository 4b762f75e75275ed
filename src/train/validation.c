#include "src/train/trainer.h"

// Runs this process's batches; `losses` has room for those of all processes.
static sm_status run_share(const sm_validation *v, int32_t *ids, double *losses) {
    for (int64_t i = sm_comm_rank(v->comm); i < v->n_batches; i += sm_comm_size(v->comm)) {
        const int64_t B = v->session->plan->B;
        const int64_t T = v->session->plan->T;
        int32_t *targets = ids + B * T;
        int32_t *starts = ids + 2 * B * T;
        if (v->collation != NULL) {
            SM_TRY(sm_collation_fill(v->collation, v->tokens, i, ids, targets, starts, NULL));
            SM_TRY(v->collation->padding != SM_PADDING_NONE ? sm_session_set_documents(v->session, starts) : SM_OK);
        } else {
            SM_TRY(sm_tokens_batch(v->tokens, i, B, T, ids, targets));
        }
        SM_TRY(sm_session_set_batch(v->session, ids, targets));
        SM_TRY(sm_session_run(v->session, SM_RUN_FORWARD, NULL));
        SM_TRY(sm_session_loss(v->session, &losses[i]));
    }
    return SM_OK;
}

static double mean_of(const sm_validation *v, const double *losses, int64_t *n_tokens) {
    const sm_collation *c = v->collation;
    double mean = 0;
    *n_tokens = c == NULL ? v->n_batches * v->session->plan->B * v->session->plan->T : 0;
    for (int64_t i = 0; i < v->n_batches && c != NULL; i++) {
        *n_tokens += sm_collation_real_tokens(c, i);
    }
    for (int64_t i = 0; i < v->n_batches; i++) {
        mean += c != NULL ? losses[i] * (double)sm_collation_real_tokens(c, i) / (double)*n_tokens
                          : losses[i] / (double)v->n_batches;
    }
    return mean;
}

sm_status sm_validation_run(const sm_validation *v, double *loss, int64_t *n_tokens) {
    const int64_t n_ids = 3 * v->session->plan->B * v->session->plan->T;
    SM_FREED int32_t *ids = sm_malloc((size_t)n_ids * sizeof *ids);
    SM_FREED double *losses = sm_calloc((size_t)v->n_batches, sizeof *losses);
    sm_status status = v->session != v->trained ? sm_session_copy_params(v->trained, v->session) : SM_OK;
    status = status == SM_OK ? run_share(v, ids, losses) : status;
    *loss = 0;
    SM_TRY(sm_comm_agree(v->comm, status));
    SM_TRY(sm_comm_sum(v->comm, losses, (int)v->n_batches)); // each process has zeros for the others' batches
    *loss = mean_of(v, losses, n_tokens);
    return SM_OK;
}
