// The smallest program trains as the engine does: the same losses and gradients in its first steps.
#include "tests/support/test.h"

#define TRAIN    SM_TEST_BINARY " train -m tiny --mode naive --backend reference --steps 6 2>/dev/null"
#define SMALLEST "$(dirname " SM_TEST_BINARY ")/smallest"

// The next line of a step; false at the end.
static bool read_step(FILE *from, int *step, double *loss, double *norm) {
    char line[256];
    while (fgets(line, sizeof line, from) != NULL) {
        if (sscanf(line, "step %d/6 | loss %lf | norm %lf", step, loss, norm) == 3) {
            return true;
        }
    }
    return false;
}

TEST(it_trains_as_the_engine_does) {
    FILE *small = popen(SMALLEST " 6", "r");
    FILE *engine = popen(TRAIN, "r");
    assert_true(small != NULL && engine != NULL);
    for (int i = 1; i <= 6; i++) {
        int step[2] = {0};
        double loss[2], norm[2];
        assert_true(read_step(small, &step[0], &loss[0], &norm[0]));
        assert_true(read_step(engine, &step[1], &loss[1], &norm[1]));
        assert_int_equal(step[0], i);
        assert_int_equal(step[1], i);
        FAIL_IF(!(fabs(loss[0] - loss[1]) <= 2e-6) || !(fabs(norm[0] - norm[1]) <= 2e-4),
                "step %d: loss %.6f and %.6f, norm %.4f and %.4f", i, loss[0], loss[1], norm[0], norm[1]);
    }
    assert_int_equal(pclose(small), 0);
    assert_int_equal(pclose(engine), 0);
}

TEST(bad_input_is_refused) {
    assert_int_equal(system(SMALLEST " none 2>/dev/null"), 2 << 8);
    assert_int_equal(system(SMALLEST " 1 /missing 2>/dev/null"), 1 << 8);
}
