// Figures of plans that the README tells: true of the plans that this program builds.
#include "tests/support/test.h"
#include "src/models/model.h"
#include "src/rewrites/rewrite.h"

static char readme[1 << 16];

static int read_readme(void **state) {
    (void)state;
    FILE *file = fopen("README.md", "r");
    if (file == NULL) {
        return -1;
    }
    readme[fread(readme, 1, sizeof(readme) - 1, file)] = '\0';
    return fclose(file);
}

// "402 operations of 22 kinds", of the plan of a mode.
static void count(sm_mode mode, char *text, size_t size_bytes) {
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
    snprintf(text, size_bytes, "%d operations of %d kinds", plan->n_ops, n_kinds);
}

TEST(readme_counts_operations) {
    char expected[64];
    assert_non_null(strstr(readme, "GPT-2 124M and 4 x 64 tokens"));
    count(SM_MODE_NAIVE, expected, sizeof(expected));
    if (strstr(readme, expected) == NULL) {
        fail_msg("README.md does not say: %s as built", expected);
    }
    count(SM_MODE_FUSED, expected, sizeof(expected));
    if (strstr(readme, expected) == NULL) {
        fail_msg("README.md does not say: %s in mode fused", expected);
    }
}

int main(void) { return cmocka_run_group_tests(tests, read_readme, NULL); }
