// Figures of plans that the README tells: true of the plans that this program builds.
#include "tests/support/test.h"
#include "tests/support/temp_folder.h"
#include "src/models/model.h"
#include "src/rewrites/rewrite.h"

// "402 operations of 22 kinds", of the plan of a mode.
static const char *count(sm_mode mode) {
    bool has_kind[SM_OP_KIND_COUNT] = {false};
    int n_kinds = 0;
    SM_OWN(sm_plan) *plan = NULL;
    const sm_plan_options options = {
        .B = 4, .T = 64, .dtype = SM_F32, .backward = true, .optimizer = &sm_optimizer_adamw, .one_micro_batch = true};
    assert_int_equal(sm_model_build(&sm_model_size_find(&sm_model_gpt2, "124M")->config, &options, &plan), SM_OK);
    assert_int_equal(sm_plan_rewrite(plan, mode, 0), SM_OK);
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

int main(void) { return cmocka_run_group_tests(tests, NULL, NULL); }
