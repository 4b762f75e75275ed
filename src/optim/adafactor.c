// adafactor.c: Adafactor (Shazeer and Stern 2018) as in PyTorch. State: for a matrix, one element for each row and
// column; for a vector, v, one for each parameter.
#include <float.h>

#include "src/optim/optimizer.h"

// The matrix without the rows of padding, which are 0 but would count in every mean.
static int add_model_rows(sm_plan *plan, const sm_param *param, int64_t rows, int of) {
    const int64_t dims[2] = {rows, param->cols};
    return of != SM_NO_TENSOR && rows < param->rows
               ? sm_plan_add_view(plan, of, 0, 2, dims, "rows.%.50s", plan->tensors[of].name)
               : of;
}

static sm_status build_matrix(sm_plan *plan, const sm_param *param, int clip) {
    const int64_t rows = plan->tensors[param->value].real_elems / param->cols;
    sm_op op = sm_op_make(SM_OP_ADAFACTOR, SM_PHASE_OPTIMIZER, -1);
    op.attr.decay = true;
    SM_INPUTS(op, adafactor, add_model_rows(plan, param, rows, param->gradient), plan->hyper, clip);
    op.out[SM_OUT(adafactor, p)] = add_model_rows(plan, param, rows, param->value);
    op.out[SM_OUT(adafactor, w)] = add_model_rows(plan, param, rows, plan->tensors[param->value].working_copy);
    op.out[SM_OUT(adafactor, row)] = sm_param_add_state(plan, param, "row", plan->real, 1, &rows);
    op.out[SM_OUT(adafactor, col)] = sm_param_add_state(plan, param, "col", plan->real, 1, &param->cols);
    return sm_plan_add_op(plan, &op);
}

static sm_status build(sm_plan *plan, const sm_params *params, int clip) {
    for (const sm_param *param = params->params; param < params->params + params->n_params; param++) {
        SM_TRY(param->is_matrix ? build_matrix(plan, param, clip)
                                : sm_build_param_update(plan, param, SM_OP_ADAFACTOR_VECTOR, clip));
    }
    return SM_OK;
}

static void fill_hyper(const sm_step_settings *settings, int64_t step, double hyper[SM_HYPER_COUNT]) {
    hyper[SM_HYPER_BETA2] = 1.0 - pow((double)step, -0.8);
    hyper[SM_HYPER_RELATIVE_STEP] = fmin(settings->lr, 1.0 / sqrt((double)step));
    hyper[SM_HYPER_EPS2] = 1e-3;
    hyper[SM_HYPER_UPDATE_RMS] = 1;
}

// The defaults are PyTorch's.
const sm_optimizer sm_optimizer_adafactor = {
    .name = "adafactor",
    .title = "Adafactor",
    .defaults = SM_DEFAULTS(1e-2, NAN, NAN, (double)FLT_EPSILON, 0, NAN, NAN),
    .build = build,
    .not_sharded = "its state is of rows and columns, and its step of whole matrices",
    .fill_hyper = fill_hyper,
};
