// Figures of plans that the README tells: true of the plans that this program builds.
#include "tests/support/temp_folder.h"
#include "tests/support/plans.h"

// "402 operations of 22 kinds", of the plan of a mode.
static const char *count(sm_mode mode) {
    bool has_kind[SM_OP_KIND_COUNT] = {false};
    int n_kinds = 0;
    const sm_plan_options options = {TRAINING(4, 64, SM_F32), .one_micro_batch = true};
    SM_OWN(sm_plan) *plan = build_plan(gpt2_of("124M"), &options, mode, 0);
    for (int i = 0; i < plan->n_ops; i++) {
        n_kinds += !has_kind[plan->ops[i].kind];
        has_kind[plan->ops[i].kind] = true;
    }
    return textf("%d operations of %d kinds", plan->n_ops, n_kinds);
}

TEST(readme_counts_operations) {
    const char *readme = file_text("README.md");
    assert_non_null(strstr(readme, "GPT-2 124M and 4 x 64 tokens"));
    for (sm_mode mode = SM_MODE_NAIVE; mode <= SM_MODE_FUSED; mode++) {
        FAIL_IF(strstr(readme, count(mode)) == NULL, "README.md does not say: %s in mode %s", count(mode),
                sm_mode_name(mode));
    }
}
