// The page of a step: what it is made of. Its look in a browser: tools/tests/step_page.py.
#include "embedded.h"
#include "tests/support/run_program.h"
#include "learn/page/step_page.h"
#include "tests/support/plans.h"

// Their trees, as the page's own code builds them.
TEST(equations_are_read_as_meant) { shell("node tests/learn/equations.js"); }

// --- the film --------------------------------------------------------------------------------------

static sm_plan *make_plan(void) {
    sm_plan *plan = sm_plan_new(SM_F32);
    const int64_t dims[] = {6};
    const int64_t part[] = {3};
    assert_non_null(plan);
    assert_int_equal(sm_plan_add_tensor(plan, SM_ROLE_PARAMETER, SM_F32, 1, dims, "whole"), 0);
    assert_int_equal(sm_plan_add_view(plan, 0, 2, 1, part, "part"), 1);
    return plan;
}

TEST(a_film_keeps_changes_alone) {
    SM_OWN(sm_plan) *plan = make_plan();
    sm_film *film = sm_film_new(plan, 0);
    assert_int_equal(sm_film_see(film, 0, 0, (const double[]){1, 1, 1, 1, 1, 1}), SM_OK);
    assert_int_equal(sm_film_see(film, 1, 1, (const double[]){1, 1, 1}), SM_OK); // nothing new
    assert_int_equal(sm_film_see(film, 2, 1, (const double[]){1, 2, 3}), SM_OK);
    assert_int_equal(sm_film_see(film, 3, 0, (const double[]){1, 1, 1, 2, 3, 1}), SM_OK); // neither
    json_auto_t *json = sm_film_json(film);
    SM_FREED char *changes = json_dumps(json_object_get(json, "changes"), JSON_COMPACT);
    assert_string_equal(changes, "[[0,0,0,6,-1,1.0],[2,0,3,2,0]]");
    assert_string_equal(json_string_value(json_object_get(json, "values")), "AAAAQAAAQEA="); // 2 and 3
    sm_film_free(film);
}

// A slice is the first rows and columns; memory of its own shows its changes, whatever wrote them.
TEST(a_film_keeps_slices) {
    SM_OWN(sm_plan) *plan = sm_plan_new(SM_F32);
    sm_film *film;
    const int64_t sides[] = {4, 6};
    const int64_t all[] = {24};
    int64_t dims[SM_MAX_DIMS];
    double values[6];
    assert_non_null(plan);
    assert_int_equal(sm_plan_add_tensor(plan, SM_ROLE_PARAMETER, SM_F32, 1, all, "all"), 0);
    assert_int_equal(sm_plan_add_view(plan, 0, 0, 2, sides, "matrix"), 1);
    assert_false(sm_page_slice(plan, 1, 0, dims));
    assert_false(sm_page_slice(plan, 1, 24, dims));
    assert_true(sm_page_slice(plan, 1, 6, dims) && dims[0] == 2 && dims[1] == 3);
    assert_true(sm_page_slice(plan, 0, 6, dims) && dims[0] == 6);
    assert_true(sm_page_slice(plan, 1, 6, dims));
    for (int i = 0; i < 6; i++) {
        values[i] = (double)sm_page_slice_place(&plan->tensors[1], dims, i);
    }
    assert_true(values[2] == 2 && values[3] == 6 && values[5] == 8);
    assert_true(sm_film_elems(plan, 6) == 12);
    film = sm_film_new(plan, 6);
    assert_int_equal(sm_film_see(film, 0, 1, values), SM_OK);
    values[4] = 5;
    assert_int_equal(sm_film_see(film, 3, 1, values), SM_OK);
    json_auto_t *json = sm_film_json(film);
    SM_FREED char *changes = json_dumps(json_object_get(json, "changes"), JSON_COMPACT);
    assert_string_equal(changes, "[[0,1,0,6,0],[3,1,4,1,-1,5.0]]");
    sm_film_free(film);
}

// An activation lives from the op that writes it to the last that reads it.
TEST(a_page_says_how_long_tensors_live) {
    const sm_plan_options options = {TRAINING(1, 8, SM_F32)};
    SM_OWN(sm_plan) *plan = build_plan(gpt2_of("tiny"), &options, SM_MODE_NAIVE, 0);
    json_auto_t *json = sm_step_page_plan(plan);
    int n_alive = 0;
    for (int t = 0; t < plan->n_tensors; t++) {
        const json_t *tensor = json_array_get(json_object_get(json, "tensors"), (size_t)t);
        int first = plan->n_ops, end = 0;
        for (int i = 0; i < plan->n_ops; i++) {
            for (int k = 0; k < SM_MAX_IN; k++) {
                end = plan->ops[i].in[k] == t ? i + 1 : end;
            }
            for (int k = 0; k < SM_MAX_OUT; k++) {
                first = plan->ops[i].out[k] == t && i < first ? i : first;
            }
        }
        if (plan->tensors[t].role == SM_ROLE_ACTIVATION && plan->tensors[t].view_of == SM_NO_TENSOR && first < end) {
            assert_int_equal(json_integer_value(json_object_get(tensor, "first")), first);
            assert_int_equal(json_integer_value(json_object_get(tensor, "end")), end);
            n_alive++;
        }
    }
    assert_true(n_alive > 20);
}

// --- the subcommand --------------------------------------------------------------------------------

TEST(pages_are_written) {
    CHECK_ALL(
        {"page --train-steps 3 --backend none --output $T/step.html", 0, NULL, "open it in a browser"},
        {"page --train-steps 0 --backend none", 0, "<!DOCTYPE html>", NULL},
        {"page --train-steps 0 --backend none --optimizer sgd --mode fused --recompute block", 0, "m = momentum m + g",
         NULL},
        {"page --train-steps 0 --backend none --optimizer muon --n-layer 1 --d-model 16 | grep -o 'Newton and Schulz'",
         0, "Newton and Schulz", NULL},
        {"page --train-steps 0 --backend none --data README.md --data-format bytes --vocab 300", 0, "README.md", NULL},
        {"page --train-steps 0 --backend none --d-model 256 --n-layer 1 --vocab 2000 | grep -c '\"slice\":.256,192.'",
         0, "1", NULL},
        {"page --train-steps 0 --backend none --vocab 50 | grep -o 'random, seed 42'", 0, "random", NULL},
        {"page --train-steps 0 --backend none --run $T/run --text 'static int x; // and so on'  --seq-len 8 | grep -o "
         "-- '--weights [^ ]*/run/model'",
         0, "--weights", NULL},
        {"page --train-steps 0 --backend none --weights $T/run/model | tail -1", 0, "</html>", NULL});
}

TEST(what_cannot_be_shown_is_refused) {
    CHECK_ALL(
        {"page -m xl --n-layer 400", 2, NULL, "even in slices of 256 values this step of"},
        {"page --backend none,cpu", 2, NULL, "--backend: none stands alone"},
        {"page --train-steps 0 --optimizer muon --n-layer 1 --backend none --output $T/muon.html", 0, NULL, NULL},
        {"page --text a", 2, NULL, "--text: 1 token"},
        {"page --text ab --data README.md", 2, NULL, "leave one of them out"},
        {"page --run $T/run --weights $T/run/model", 2, NULL, "leave one of them out"},
        {"page --run $T/missing", 1, NULL, "missing"},
        {"page --train-steps 0 --backend none --vocab 50 --text hello", 2, NULL, "--tokenizer"},
        {"page --backend cpx", 2, NULL, "cpx"}, {"page --output $T/missing/step.html", 1, NULL, "missing"},
        {"page --output html", 2, NULL, "is a format"},
        {"walk --text 'some text to walk' --seq-len 4", 0, "Shown", NULL},
        {"walk --text ab", 2, NULL, "--text: 2 tokens"},
        {"walk --set 'wte.weight[0]=1'", 2, NULL, "--set: changes numbers, and none are computed"},
        {"walk --train-steps 2", 2, NULL, "--train-steps: no numbers are shown"},
        {"walk --values --set 'wte.weight[0:9]=1;wte.weigh[0]=1'", 2, NULL, "wte.weigh: no tensor of this step"},
        {"walk --values --set 'tokens[0]=1'", 2, NULL, "holds ids or counters"},
        {"walk --values --set 'h.0.attproj[*,0:33]=0'", 2, NULL, "NAME[*,0:16]=0"},
        {"exercise gelu_forward --init $T --page $T/k.html", 2, NULL, "--page: needs --check FILE"},
        {"walk --values --set 'mask[2]=0'", 2, NULL, "mask[2]=0: give mask[*]=0 or mask[BLOCK]=0"},
        {"walk --values --set 'line[3]=1'", 2, NULL, "places are 0 to 3"},
        {"walk --values --set 'line[3]=0;mask[*]=0' | grep -c 'without its mask'", 0, "2", NULL},
        {"walk --values --train-steps 2 --set 'h.0.attproj[*,0:32]=0;ln_f.bias[3]*2'", 0, "step 3", NULL});
}

static int set_up(void **state) {
    return temp_folder_make(state) != 0 ? -1 : run("train -m tiny --steps 2 -b 1 --seq-len 8 --run $T/run");
}

AROUND_ALL(set_up, temp_folder_remove)
