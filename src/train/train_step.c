#include "src/train/train_step.h"

#include "clock.h"
#include "philox.h"
#include "src/comm/comm_reduce.h"

static const double least_loss_scale = 0x1p-24; // if gradients are not finite even at this scale, the scale is not the
                                                // reason

static bool is_interrupted(const sm_train_stepper *s) { return s->interrupted != NULL && *s->interrupted; }

// A single process waits for nobody.
static void lap_others(const sm_train_stepper *s) {
    if (sm_comm_size(s->comm) > 1) {
        sm_phases_lap(s->phases, SM_STEP_ALL_REDUCE);
    }
}

static sm_status next_load(sm_train_stepper *s, sm_train_step *result) {
    const sm_load *load = &result->load;
    SM_TRY(sm_loader_next(s->loader, &result->load));
    // Inline, a load's parts are the main thread's time; otherwise it waits for threads.
    if (load->thread < 0) {
        sm_phases_add(s->phases, SM_STEP_READ, load->cost.read_ns);
        sm_phases_add(s->phases, SM_STEP_TOKENISE, load->cost.tokenise_ns);
        sm_phases_lap(s->phases, SM_STEP_COLLATE);
    } else {
        sm_phases_lap(s->phases, SM_STEP_WAIT);
    }
    result->data_ns = sm_load_main_ns(load);
    result->n_tokens = load->n_real_of_all;
    result->n_padding = s->global_batch * s->session->plan->T - load->n_real_of_all;
    for (int64_t i = 0; i < load->n_micro; i++) {
        SM_FAIL_IF(load->n_real[i] < 1, SM_ERR_INVALID, "step %lld: micro-batch %lld of %s has no real token",
                   (long long)result->step, (long long)i + 1, s->data_name);
    }
    return SM_OK;
}

// Checks before the step, in all processes, that nothing failed since the last one, that the data are there and that no
// interruption was requested. A single process also checks between micro-batches; several must agree.
static sm_status begin(sm_train_stepper *s, sm_train_step *result) {
    sm_status status = s->before;
    s->before = SM_OK;
    status = status == SM_OK ? next_load(s, result) : status;
    if (status == SM_OK && is_interrupted(s)) {
        status = SM_ERR_INTERRUPTED;
    }
    status = sm_comm_agree(s->comm, status);
    lap_others(s);
    return status;
}

enum { FIRST_CHECK_IN_STEPS = 10 }; // its cost, before one is known

// A step that is due is drawn, so that it cannot be known. All processes check those that the first one draws: each
// would else wait, in its timed steps, for others' checks.
static bool is_next_drawn(const sm_train_stepper *s, int64_t step) {
    static const double most_of_time = 0.01;
    enum { ONE_OF = 4 };
    const sm_train_checks *c = &s->checks;
    const bool is_due = (double)(c->checks_ns + c->each_ns) < most_of_time * (double)c->steps_ns;
    const bool is_drawn = sm_philox4x32(c->seed, (uint64_t)step + 1, 3).word[0] % ONE_OF == 0;
    return sm_comm_rank(s->comm) == 0 && c->spot != NULL && !s->is_checked && is_due && is_drawn;
}

// One drawn micro-batch, and the last, with the update.
static bool is_micro_checked(const sm_train_stepper *s, int64_t step, int64_t micro) {
    const uint32_t drawn = sm_philox4x32(s->checks.seed, (uint64_t)step, 4).word[0];
    return s->is_checked && s->checks.spot != NULL && s->phases == NULL &&
           (micro + 1 == s->n_accum || micro == (int64_t)(drawn % (uint64_t)s->n_accum));
}

// A process whose checks end early waits for the longest: that is no communication, and no time of the step.
static sm_status count_checks(sm_train_stepper *s, const sm_spot_result *before, int64_t *waited_ns,
                              sm_train_step *result) {
    sm_train_checks *c = &s->checks;
    if (s->is_checked) {
        const sm_spot_result after = sm_spot_check_result(s->checks.spot);
        const int64_t mean_ns = c->n_steps > 0 ? c->steps_ns / c->n_steps : 0;
        const int64_t own_ns = after.elapsed_ns - before->elapsed_ns;
        double longest_ns = (double)own_ns;
        SM_TRY(sm_comm_max(s->comm, &longest_ns, 1));
        result->checked_ops = after.n_ops - before->n_ops;
        result->checks_ns = (int64_t)longest_ns;
        result->elapsed_ns -= result->checks_ns;
        *waited_ns = *waited_ns + own_ns > result->checks_ns ? *waited_ns + own_ns - result->checks_ns : 0;
        c->each_ns = result->checks_ns + (result->elapsed_ns > mean_ns ? result->elapsed_ns - mean_ns : 0);
        c->checks_ns += c->each_ns;
    } else if (c->checks_ns == 0) {
        c->each_ns = FIRST_CHECK_IN_STEPS * result->elapsed_ns;
    }
    c->steps_ns += result->elapsed_ns;
    c->n_steps++;
    return SM_OK;
}

// Uploads a micro-batch. With documents its weight is its number of real tokens.
static sm_status feed(sm_train_stepper *s, const sm_load *load, int64_t micro) {
    const int64_t at = micro * s->session->plan->B * s->session->plan->T;
    if (load->starts != NULL) {
        SM_TRY(sm_session_set_documents(s->session, load->starts + at));
        SM_TRY(sm_session_set_share(s->session, (double)load->n_real[micro] / (double)load->n_real_of_all));
    }
    return sm_session_set_batch(s->session, load->inputs + at, load->targets + at);
}

// Waits for the last micro-batch's loss, and adds its contribution to the step's.
static sm_status read_loss(const sm_train_stepper *s, const sm_load *load, int64_t micro, double *loss) {
    double micro_loss;
    SM_TRY(sm_session_loss(s->session, &micro_loss));
    sm_phases_lap(s->phases, SM_STEP_TRANSFER);
    // The contribution of a micro-batch's mean loss to the step's mean.
    const int64_t n_micro = s->n_accum * sm_comm_size(s->comm);
    *loss += load->n_real[micro] * n_micro == load->n_real_of_all
                 ? micro_loss / (double)n_micro
                 : micro_loss * (double)load->n_real[micro] / (double)load->n_real_of_all;
    return SM_OK;
}

// Runs this process's micro-batches and the update, and sums its part of the step's loss. Dropout's masks depend on the
// number of the micro-batch among those of all processes and steps.
static sm_status run_batches(sm_train_stepper *s, int64_t step, const sm_load *load, double *loss) {
    const int64_t n_micro = s->n_accum * sm_comm_size(s->comm);
    s->session->n_micro_steps = (uint64_t)((step - 1) * n_micro + sm_comm_rank(s->comm) * s->n_accum);
    *loss = 0;
    for (int64_t micro = 0; micro < s->n_accum; micro++) {
        if (sm_comm_size(s->comm) == 1 && is_interrupted(s)) {
            return SM_ERR_INTERRUPTED;
        }
        SM_TRY(feed(s, load, micro));
        sm_phases_lap(s->phases, SM_STEP_TRANSFER);
        // The update follows the last one at once, so that the device does not wait for the host to read the loss.
        const unsigned phases = SM_RUN_FORWARD | SM_RUN_BACKWARD | (micro == 0 ? SM_RUN_ZERO_GRAD : 0u) |
                                (micro + 1 < s->n_accum ? SM_RUN_MORE : SM_RUN_OPTIMIZER);
        SM_TRY(is_micro_checked(s, step, micro) ? sm_spot_check_run(s->checks.spot, s->session, phases, NULL)
                                                : sm_session_run(s->session, phases, sm_phases_op_times(s->phases)));
        sm_phases_lap_ops(s->phases, s->session->plan);
        SM_TRY(read_loss(s, load, micro, loss));
    }
    return SM_OK;
}

static sm_status read_norm(sm_train_stepper *s, sm_train_step *result) {
    SM_TRY(sm_session_grad_norm(s->session, &result->grad_norm));
    sm_phases_lap(s->phases, SM_STEP_TRANSFER);
    const int64_t before = s->n_skipped;
    result->is_scaled = s->session->plan->scaler != SM_NO_TENSOR;
    SM_TRY(sm_session_skipped(s->session, &s->n_skipped));
    result->is_skipped = s->n_skipped > before;
    SM_TRY(sm_session_loss_scale(s->session, &result->loss_scale));
    sm_phases_lap(s->phases, result->is_scaled ? SM_STEP_LOSS_SCALER : SM_STEP_TRANSFER);
    return SM_OK;
}

// If a step is refused, its update has already changed the weights; they are not saved.
static sm_status check_finite(const sm_train_stepper *s, const sm_train_step *result) {
    const bool has_loss = isfinite(result->loss);
    if (has_loss && (isfinite(result->grad_norm) || (result->is_skipped && result->loss_scale > least_loss_scale))) {
        return SM_OK;
    }
    return sm_fail(SM_ERR_INVALID, "step %lld: the %s is %g; its data begin at token %lld of %s; nothing is saved; %s",
                   (long long)result->step, has_loss ? "gradient's norm" : "loss",
                   has_loss ? result->grad_norm : result->loss, (long long)sm_load_first_token(s->share, result->step),
                   s->data_name, has_loss ? "try a lower --lr" : "try a lower --lr or --grad-clip 1");
}

// The cost of other processes in this step. Communication time that nobody waited for was hidden.
static void record_communication(const sm_train_stepper *s, int64_t waited_ns, int64_t under_way_ns,
                                 sm_train_step *result) {
    if (sm_comm_size(s->comm) > 1) {
        result->comm_ns = waited_ns;
        const int64_t busy_ns = under_way_ns < result->elapsed_ns ? under_way_ns : result->elapsed_ns; // without checks
        result->hidden_ns = busy_ns > waited_ns ? busy_ns - waited_ns : 0;
        double bytes = 0;
        for (int i = 0; i < s->session->plan->n_ops; i++) {
            bytes += s->session->plan->ops[i].phase == SM_PHASE_COMMUNICATION
                         ? sm_op_bytes(s->session->plan, &s->session->plan->ops[i])
                         : 0;
        }
        result->comm_bytes = (int64_t)bytes;
    }
}

sm_status sm_train_step_run(sm_train_stepper *s, int64_t step, bool *is_whole, sm_train_step *result) {
    sm_step_settings settings = s->optimizer;
    settings.lr = sm_schedule_lr(&s->schedule, step);
    *result = (sm_train_step){.step = step, .epoch = sm_load_epoch(s->share, step), .lr = settings.lr};
    const int64_t start_ns = sm_now_ns();
    const int64_t comm_start_ns = s->session->comm_ns;
    const int64_t busy_start_ns = sm_comm_busy_ns(s->comm);
    *is_whole = true;
    s->is_checked = step == s->checks.last_step || s->is_next_drawn;
    const sm_spot_result before = sm_spot_check_result(s->checks.spot);
    SM_TRY(begin(s, result));
    SM_TRY(sm_session_set_hyper(s->session, &settings, step, s->n_accum));
    sm_phases_lap(s->phases, SM_STEP_TRANSFER);
    sm_status status = run_batches(s, step, &result->load, &result->loss);
    *is_whole = status == SM_ERR_INTERRUPTED;
    // The weights may be wrong since an earlier step.
    SM_FAIL_IF(status == SM_ERR_MISMATCH, status, "step %lld: %s; nothing is saved", (long long)step,
               sm_error_message());
    SM_TRY(status);
    const int64_t sum_start_ns = sm_now_ns();
    double sums[] = {result->loss, is_next_drawn(s, step)};
    SM_TRY(sm_comm_sum(s->comm, sums, SM_COUNT(sums))); // waits for the slowest
    result->loss = sums[0];
    s->is_next_drawn = sums[1] != 0;
    lap_others(s);
    int64_t waited_ns = s->session->comm_ns - comm_start_ns + sm_now_ns() - sum_start_ns;
    SM_TRY(read_norm(s, result));
    SM_TRY(check_finite(s, result));
    result->elapsed_ns = sm_now_ns() - start_ns;
    SM_TRY(count_checks(s, &before, &waited_ns, result));
    record_communication(s, waited_ns, sm_comm_busy_ns(s->comm) - busy_start_ns, result);
    *is_whole = true;
    return SM_OK;
}
