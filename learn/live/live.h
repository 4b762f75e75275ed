// live.h: a training step op by op on the reference backend, whose numbers can be read and changed. Users: walk, the
// page of a step, and the module inside that page (module.c), which is this file compiled for browsers.
#pragma once

#include "src/models/model.h"
#include "src/rewrites/rewrite.h"
#include "src/session/session.h"
#include "src/tokenizer/tokenizer.h"

// A plan as numbers, which a page hands to its module: everything that a plan depends on, besides one process and one
// micro-batch. OPTION(member of sm_plan_options), SCALING(member of its scaling)
// clang-format off
#define SM_LIVE_PLAN(OPTION, SCALING) \
    OPTION(B) OPTION(T) OPTION(dtype) OPTION(products) OPTION(dropout_p) OPTION(seed) OPTION(documents) OPTION(recompute) \
    OPTION(attention) SCALING(scale) SCALING(growth) SCALING(backoff) SCALING(interval)
// clang-format on

typedef enum {
    SM_LIVE_model,
    SM_LIVE_optimizer,
    SM_LIVE_mode,
    SM_LIVE_without,
#define X(name) SM_LIVE_##name,
    SM_LIVE_PLAN(X, X)
#undef X
#define X(type, member, ...) SM_LIVE_FIELD_##member,
        SM_MODEL_FIELDS(X, X)
#undef X
            SM_LIVE_COUNT
} sm_live_number;

void sm_live_numbers(const sm_model_config *config, const sm_plan_options *options, sm_mode mode, unsigned without,
                     double numbers[SM_LIVE_COUNT]);

// The plan of these numbers, without memory. SM_ERR_INVALID: a number is out of range.
sm_status sm_live_plan(const double numbers[SM_LIVE_COUNT], sm_plan **plan);

typedef struct sm_live_edit sm_live_edit;

typedef struct {
    sm_device *device;
    sm_session *session;
    double *values; // room for the values of the largest tensor
    float *narrow;  // likewise
    sm_live_edit *edits;
    int n_edits;
} sm_live;

// Takes ownership of the plan, also after a failure. Parameters are undefined until written.
sm_status sm_live_open(sm_plan *plan, sm_live **live);
void sm_live_close(sm_live *live); // NULL is fine
SM_OWNABLE(sm_live, sm_live_close)

// Whether a tensor holds data before the step begins.
bool sm_live_is_initial(const sm_tensor *t);

// Before the ops of step `step` (1, 2, ...): its batch, and the optimizer's settings (NULL: its defaults).
sm_status sm_live_begin(sm_live *live, const int32_t *tokens, const int32_t *targets, const sm_step_settings *settings,
                        int64_t step);

// One op; all of them in ascending order are the step.
sm_status sm_live_run(sm_live *live, int op);

// The elements of a tensor of any type as doubles, in live->values until the next call.
sm_status sm_live_read(sm_live *live, int tensor);

// Holds numbers at other values: NAME[12]=0.5 and NAME[0:32]*2 of all elements in order, NAME[3,5]=0.5 and
// NAME[*,0:16]=0 of rows and columns, or an index for each side; several with semicolons between them. Values that
// exist before the first op are changed when the step begins, others each time an op has written them; the ops after
// that compute with them. mask[*]=0 and mask[1]=0 take the mask from the attention of all blocks or of one, line[2]=0
// and line[3]=0 the residual line around attention and MLP of block 1, forward and backward. SM_ERR_USAGE: no such
// tensor or element. sm_live_release: all are as computed again.
sm_status sm_live_hold(sm_live *live, const char *texts);
void sm_live_release(sm_live *live);
sm_status sm_live_apply(sm_live *live, int tensor); // for sm_live_begin and sm_live_run

// The input that is the residual stream, or its gradient, of an op that adds to it; SM_NO_TENSOR: none.
int sm_live_stream(const sm_op *op);

// A tokenizer as bytes, which a page hands to its module. SM_ERR_FORMAT: the bytes end too early, or are no tokenizer.
void sm_live_write_tokenizer(const sm_tokenizer *tokenizer, FILE *out);
sm_status sm_live_read_tokenizer(const uint8_t *bytes, size_t n_bytes, sm_tokenizer **tokenizer);
