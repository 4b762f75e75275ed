// test_loop.c: a training loop under the harness: its phases add up, what bounds it is found, and how it changed.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "fake_backend.h"
#include "loop.h"
#include "loop_phases.h"
#include "loop_verdict.h"
#include "temp_folder.h"
#include "utilisation.h"

// --- the recorder --------------------------------------------------------------------------------------

typedef struct {
    int64_t op_ns[8];
    int64_t lapped_ns[8];
    sm_step_phases phases;
} recorder;

static void phases_add_up(void **state) {
    (void)state;
    static recorder r;
    sm_plan *plan = make_plan();
    r = (recorder){.op_ns = {99}, .phases = {.op_ns = r.op_ns, .lapped_ns = r.lapped_ns}};
    sm_step_phases *p = &r.phases;
    sm_phases_begin(p, plan);
    assert_int_equal(r.op_ns[0], 0);
    spin_ns(1000000);
    sm_phases_add(p, SM_STEP_READ, 300000);
    sm_phases_lap(p, SM_STEP_COLLATE);
    for (int i = 0; i < plan->n_ops; i++) {
        r.op_ns[i] += 1000 * (i + 1);
    }
    spin_ns(1000000);
    sm_phases_lap_ops(p, plan);
    sm_phases_lap_ops(p, plan); // none ran since
    sm_phases_end(p);
    assert_int_equal(p->ns[SM_STEP_READ], 300000);
    assert_true(p->ns[SM_STEP_COLLATE] >= 700000);
    assert_int_equal(p->ns[SM_STEP_ZERO_GRAD], 1000);
    assert_int_equal(p->ns[SM_STEP_FORWARD], 2000 + 4000);
    assert_int_equal(p->ns[SM_STEP_BACKWARD], 3000 + 5000);
    assert_int_equal(p->ns[SM_STEP_UPDATE], 6000);
    assert_true(p->ns[SM_STEP_LAUNCH] >= 1000000 - 21000);
    int64_t sum_ns = 0;
    for (int phase = 0; phase < SM_STEP_PHASE_COUNT; phase++) {
        sum_ns += p->ns[phase];
    }
    assert_int_equal(sum_ns, p->wall_ns);
    assert_int_equal(p->spans[0].begin_ns, p->begin_ns);
    assert_int_equal(p->spans[p->n_spans - 1].end_ns, p->begin_ns + p->wall_ns);
    sm_plan_free(plan);
}

static void no_recorder_is_fine(void **state) {
    (void)state;
    sm_phases_begin(NULL, NULL);
    sm_phases_add(NULL, SM_STEP_READ, 1);
    sm_phases_lap(NULL, SM_STEP_READ);
    sm_phases_lap_ops(NULL, NULL);
    sm_phases_end(NULL);
    assert_null(sm_phases_op_times(NULL));
}

// --- what bounds a loop ----------------------------------------------------------------------------------

static void what_gains_most_bounds(void **state) {
    (void)state;
    static const struct {
        const char *what;
        sm_loop_division division; // compute, memory, launches, input, communication
        sm_loop_bound bound;
        double without_ns;
    } cases[] = {
        {"arithmetic", {100, 0, {70, 20, 1, 2, 0}, {50, 10, 1, 2, 0}, true}, SM_LOOP_COMPUTE, 50},
        {"memory", {100, 0, {20, 70, 1, 2, 0}, {10, 60, 1, 2, 0}, true}, SM_LOOP_MEMORY, 40},
        {"launches", {100, 0, {20, 20, 55, 2, 0}, {10, 10, 55, 2, 0}, true}, SM_LOOP_LAUNCHES, 45},
        {"other processes", {100, 0, {40, 10, 0, 0, 50}, {30, 5, 0, 0, 50}, true}, SM_LOOP_COMMUNICATION, 50},
        {"inline input", {100, 0, {30, 10, 0, 60, 0}, {20, 5, 0, 60, 0}, true}, SM_LOOP_INPUT, 40},
        {"a loader half as fast", {100, 100, {50, 0, 0, 50, 0}, {50, 0, 0, 50, 0}, true}, SM_LOOP_INPUT, 50},
        {"a loader a little slower", {100, 100, {97, 0, 0, 3, 0}, {90, 0, 0, 3, 0}, true}, SM_LOOP_INPUT, 97},
        {"a loader a little faster", {100, 90, {97, 0, 0, 3, 0}, {80, 0, 0, 3, 0}, true}, SM_LOOP_COMPUTE, 90},
        {"no ceilings, much input", {100, 100, {0, 0, 0, 60, 0}, {0, 0, 0, 60, 0}, false}, SM_LOOP_INPUT, 40},
        {"no ceilings", {100, 0, {0, 0, 0, 30, 0}, {0, 0, 0, 30, 0}, false}, SM_LOOP_BOUND_COUNT, 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const sm_loop_bound bound = sm_loop_judge(&cases[i].division);
        if (bound != cases[i].bound) {
            fail_msg("%s: bound %d, not %d", cases[i].what, (int)bound, (int)cases[i].bound);
        }
        if (bound != SM_LOOP_BOUND_COUNT) {
            assert_true(fabs(sm_loop_without_ns(&cases[i].division, bound) - cases[i].without_ns) < 1e-9);
        }
    }
}

static void something_always_is_left(void **state) {
    (void)state;
    const sm_loop_division all = {.step_ns = 100, .gained_ns = {[SM_LOOP_INPUT] = 130}, .knows_ops = true};
    assert_true(sm_loop_without_ns(&all, SM_LOOP_INPUT) > 0);
}
