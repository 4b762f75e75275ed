// rewrite.c: the modes, and the rewrites in their order of application.
#include "src/rewrites/rewrite.h"
#include "src/rewrites/passes.h"

static const sm_rewrite rewrites[] = {
    {"flash_attention", "attention that stores one number a query instead of T x T weights",
     sm_rewrite_flash_attention},
    {"matmul_epilogue", "bias, GELU and GELU's derivative applied to a matmul's block while it is in cache",
     sm_rewrite_matmul_epilogue},
    {"residual_layernorm", "residual and layernorm or rmsnorm, forward and backward, in one pass over a row",
     sm_rewrite_residual_layernorm},
    {"bias_gradient", "the gradient of a bias summed by the layernorm's backward or the product that has the same rows",
     sm_rewrite_bias_gradient},
    {"loss_head", "head, loss and their gradients over chunks of rows: the logits are never all in memory",
     sm_rewrite_loss_head},
    {"recompute",
     "cheap results (or, by --recompute block, a block except its input) computed again instead of kept for the "
     "backward",
     sm_rewrite_recompute},
    {"first_write", "weight gradients written by the first op that adds to them instead of zeroed before",
     sm_rewrite_first_write},
};

static const char *const mode_names[] = {
    [SM_MODE_NAIVE] = "naive", [SM_MODE_FUSED] = "fused", [SM_MODE_TUNED] = "tuned"};

static const char *const recompute_names[] = {[SM_RECOMPUTE_AUTO] = "auto",
                                              [SM_RECOMPUTE_NONE] = "none",
                                              [SM_RECOMPUTE_LIGHT] = "light",
                                              [SM_RECOMPUTE_BLOCK] = "block",
#define X(k) [SM_RECOMPUTE_BLOCK_##k] = "block:" #k,
                                              SM_RECOMPUTE_GROUPS(X)
#undef X
};

const char *sm_mode_name(sm_mode mode) { return mode_names[mode]; }

const char *sm_recompute_name(sm_recompute recompute) { return recompute_names[recompute]; }

sm_recompute sm_recompute_resolve(sm_recompute asked, unsigned without) {
    if (without & 1u << sm_rewrite_find("recompute")) {
        return SM_RECOMPUTE_NONE;
    }
    return asked != SM_RECOMPUTE_AUTO ? asked : SM_RECOMPUTE_NONE;
}

SM_WORDS(sm_attention_name, sm_attention, SM_ATTENTION_LIST)

sm_attention sm_attention_resolve(sm_attention asked, sm_mode mode, unsigned without) {
    const bool has_flash = !(without & 1u << sm_rewrite_find("flash_attention"));
    const sm_attention usual = mode == SM_MODE_NAIVE ? SM_ATTENTION_NAIVE : SM_ATTENTION_FLASH;
    const sm_attention wanted = asked == SM_ATTENTION_AUTO ? usual : asked;
    return wanted == SM_ATTENTION_FLASH && !has_flash ? SM_ATTENTION_NAIVE : wanted;
}

int sm_rewrite_count(void) { return (int)SM_COUNT(rewrites); }

const sm_rewrite *sm_rewrite_at(int index) { return &rewrites[index]; }

int sm_rewrite_find(const char *name) {
    for (int i = 0; i < sm_rewrite_count(); i++) {
        if (strcmp(rewrites[i].name, name) == 0) {
            return i;
        }
    }
    return -1;
}

// plan->recompute and plan->attention override the mode.
static bool is_wanted(const sm_plan *plan, const sm_rewrite *rewrite, sm_mode mode) {
    if (rewrite->apply == sm_rewrite_recompute) {
        return plan->recompute == SM_RECOMPUTE_LIGHT;
    }
    return rewrite->apply == sm_rewrite_flash_attention ? plan->attention == SM_ATTENTION_FLASH : mode != SM_MODE_NAIVE;
}

sm_status sm_plan_rewrite(sm_plan *plan, sm_mode mode, unsigned without) {
    plan->recompute = sm_recompute_resolve(plan->recompute, without);
    plan->attention = sm_attention_resolve(plan->attention, mode, without);
    plan->tuned = mode == SM_MODE_TUNED;
    if (plan->recompute >= SM_RECOMPUTE_BLOCK) { // before the other rewrites, which may fuse ops of two blocks
        SM_TRY(sm_rewrite_recompute_block(plan));
    }
    const sm_range backward = sm_plan_range(plan, SM_PHASE_BACKWARD);
    for (int i = 0; i < sm_rewrite_count(); i++) {
        // No choice, but the precision's; after the products' own rewrites. A forward by itself stays as it is.
        if (rewrites[i].apply == sm_rewrite_loss_head && plan->products == SM_PRODUCTS_FP8 &&
            backward.first < backward.end) {
            SM_TRY(sm_rewrite_fp8(plan));
        }
        SM_TRY(is_wanted(plan, &rewrites[i], mode) && !(without & (1u << i)) ? rewrites[i].apply(plan) : SM_OK);
    }
    return plan->processes.n > 1 ? sm_rewrite_communication(plan) : SM_OK;
}

sm_status sm_rewrite_fuse(sm_plan *plan, int (*fuse)(const sm_plan *plan, int i, sm_op *op)) {
    int n = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        sm_op op = plan->ops[i];
        i += fuse(plan, i, &op);
        SM_TRY(sm_op_check(plan, &op));
        plan->ops[n++] = op;
    }
    plan->n_ops = n;
    return SM_OK;
}

void sm_ops_append(sm_op_list *list, sm_op op) {
    list->plan->status = list->plan->status == SM_OK ? sm_op_check(list->plan, &op) : list->plan->status;
    SM_PUSH(list->ops, list->n, op);
}

sm_status sm_ops_take(sm_op_list *list) {
    sm_plan *plan = list->plan;
    free(plan->ops);
    plan->ops = list->ops;
    plan->n_ops = list->n;
    return plan->status;
}

int sm_rewrite_n_readers(const sm_plan *plan, int tensor) {
    int n = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        bool reads = false;
        for (int k = 0; k < SM_MAX_IN; k++) {
            reads |= plan->ops[i].in[k] == tensor;
        }
        n += reads;
    }
    return n;
}
