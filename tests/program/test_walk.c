// The walk as a program reads it: JSON by its schema, whole tensors from which numpy computes the same step, ops by
// number or kind, weights and tokens of one's own.
#include "op.h"
#include "tests/support/run_program.h"

// Debian's, which has its numpy.
#define PYTHON "/usr/bin/python3 "

static void expect_shell(const char *format, const char *path) {
    const char *command = textf(format, path);
    FAIL_IF(system(command) != 0, "failed: %s", command);
}

// The schema has every attribute that an op can have.
TEST(schema_has_all_attributes) {
    for (sm_attr attr = 0; attr < SM_ATTR_COUNT; attr++) {
        const char *command = textf("grep -q '^        \"%s\": {' docs/walk.schema.json", sm_attr_get_info(attr)->name);
        FAIL_IF(system(command) != 0, "failed: %s", command);
    }
}

TEST(json_is_as_its_schema_says) {
    static const char *const walks[] = {
        "walk -o json",
        "walk --values -o json --mode fused --dropout 0.1 --recompute block",
        "walk --full -o json --arch llama --seq-len 3 --optimizer sgd",
        "walk --values -o json --optimizer muon --at 3 --precision fp16",
        "walk -o json --vocab 50",
    };
    for (size_t i = 0; i < sizeof(walks) / sizeof(walks[0]); i++) {
        expect_exit(walks[i], 0);
        expect_shell(PYTHON "-W ignore -c \"import json, jsonschema; jsonschema.validate(json.load(open('%s/out')), "
                            "json.load(open('docs/walk.schema.json')))\"",
                     temp_folder);
    }
    expect_text("a padded matrix", out, "\"model_elems\": 1600");
}

// From weights, tokens and settings alone numpy comes to every number of the step.
TEST(numpy_computes_the_same_step) {
    static const char *const walks[] = {
        "walk --full -o json",
        "walk --full -o json --arch llama -b 2 --seq-len 5",
        "walk --full -o json --arch qwen3 -b 2 --seq-len 5",
        "walk --full -o json --n-layer 1 --vocab 50 -b 3 --seq-len 4",
        "walk --full -o json --weights $T/model --data README.md --data-format bytes",
    };
    for (size_t i = 0; i < sizeof(walks) / sizeof(walks[0]); i++) {
        expect_exit(walks[i], 0);
        expect_shell(PYTHON "docs/course/step.py %s/out >/dev/null", temp_folder);
    }
}

// A number that is changed by a thousandth is found.
TEST(numpy_finds_a_wrong_number) {
    expect_exit("walk --full -o json", 0);
    expect_shell(PYTHON "-c \"import json; w = json.load(open('%1$s/out')); o = w['ops'][7]['operands'][1]['values']; "
                        "o[5] *= 1.001; json.dump(w, open('%1$s/wrong', 'w'))\"",
                 temp_folder);
    expect_shell(PYTHON "docs/course/step.py %1$s/wrong 2>&1 | grep -q 'op 7, attention_forward: y differs'",
                 temp_folder);
}

TEST(ops_are_chosen) {
    CHECK_ALL({"walk --at 7 --full --seq-len 3", 0, "[1, 0, 0]\n", NULL},
              {"walk --at attention_forward", 0, "Shown: 2 ops, those of --at attention_forward", NULL},
              {"walk --at 5", 0, "Shown: 1 op, that of --at 5\n", NULL},
              {"walk --at attention_forward --layer 1", 0, "--- block 1 ---", NULL},
              {"walk --at adamw --values", 0, "  before ", NULL},
              {"walk --optimizer lion --at lion", 0, "with     weight decay\n", NULL},
              {"walk --optimizer lion --at lion", 0, "with     no weight decay\n", NULL},
              {"walk --at attention_foward", 2, NULL, "did you mean"},
              {"walk --at 5,7", 2, NULL, "--at: no op 5,7 is shown"}, {"walk --at 1000", 2, NULL, "ops are 0 to 81"},
              {"walk --full -m small --seq-len 1", 2, NULL, "--full: "});
}

TEST(says_where_numbers_come_from) {
    CHECK_ALL({"walk --values --seed 7", 0, "weights  stepmark train --init -m tiny --seed 7 --save DIR", NULL},
              {"walk --values --arch llama --d-model 48 --n-head 3", 0,
               "weights  stepmark train --init --arch llama -m tiny --n-head 3 --d-model 48 --seed 42", NULL},
              {"walk --values --weights $T/model", 0, "/model\n", NULL},
              {"walk --weights $T/missing", 1, NULL, "missing"}, {"walk --data $T/missing", 1, NULL, "missing"},
              {"walk --weights $T/model --d-model 64", 2, NULL, "--d-model"});
    // The line makes the weights that were walked: the numbers of fresh weights and of these are the same.
    expect_exit("train --init -m tiny --seed 42 --save $T/same", 0);
    expect_exit("walk --values --weights $T/same | grep norm > $T/loaded", 0);
    expect_exit("walk --values | grep norm > $T/fresh; cmp $T/fresh $T/loaded", 0);
}

static int set_up(void **state) {
    return temp_folder_make(state) != 0 ? -1 : run("train --init -m tiny --seed 5 --save $T/model");
}

AROUND_ALL(set_up, temp_folder_remove)
