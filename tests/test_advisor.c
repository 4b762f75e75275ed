// test_advisor.c: which configurations the advisor asks for, on machines that are made up: it finds the fastest, in few
// runs, whatever fails or does not fit.
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "advisor.h"
#include "philox.h"

// --- a machine ---------------------------------------------------------------------------------------

// Tokens a second of a step, from what it costs: products, the optimizer once a step, attention, what is computed
// again. The axes act upon each other: a large batch pays more where products are fast.
enum { BATCH, PRECISION, MODE, ATTENTION, RECOMPUTE, ACCUM, N_AXES };

static const sm_choices choices = {N_AXES, {4, 2, 2, 3, 3, 2}};

typedef struct {
    double flop_s[2];      // of a token's products, by precision
    double optimizer_s;    // a step
    double launch_s;       // a micro-batch, by mode
    double attention_s[3]; // a token
    double limit_gib;
    double noise; // relative
    uint64_t seed;
} machine;

static const double batches[] = {4, 8, 16, 2};

static double memory_gib(const int level[N_AXES]) {
    static const double kept[] = {0.10, 0.14, 0.03}; // a sequence: light, none, block
    return 1.9 + batches[level[BATCH]] * kept[level[RECOMPUTE]] * (level[ATTENTION] == 0 ? 1 : 1.4);
}

static double speed_of(const machine *m, const int level[N_AXES]) {
    static const double again[] = {1.02, 1, 1.33};
    const double accum = level[ACCUM] == 1 ? 4 : 1;
    const double tokens = 64 * batches[level[BATCH]];
    const double micro_s =
        tokens * (m->flop_s[level[PRECISION]] * again[level[RECOMPUTE]] * (level[MODE] == 1 ? 1.18 : 1) +
                  m->attention_s[level[ATTENTION]]) +
        m->launch_s * (level[MODE] == 1 ? 1.6 : 1);
    return accum * tokens / (accum * micro_s + m->optimizer_s);
}

static void levels_of(int64_t configuration, int level[N_AXES]) {
    for (int axis = 0; axis < N_AXES; axis++) {
        level[axis] = sm_choices_level(&choices, configuration, axis);
    }
}

static double uniform(const machine *m, uint32_t index) {
    return ((double)sm_philox4x32(sm_philox_key(m->seed, "noise"), index, 0).word[0] + 0.5) / 4294967296.0;
}

static double normal(const machine *m, uint32_t index) {
    return sqrt(-2 * log(uniform(m, 2 * index))) * cos(6.283185307179586 * uniform(m, 2 * index + 1));
}

static bool fits(const machine *m, int64_t configuration) {
    int level[N_AXES];
    levels_of(configuration, level);
    return memory_gib(level) <= m->limit_gib;
}

static double true_speed(const machine *m, int64_t configuration) {
    int level[N_AXES];
    levels_of(configuration, level);
    return speed_of(m, level);
}

static int64_t fastest(const machine *m) {
    int64_t best = -1;
    for (int64_t i = 0; i < sm_choices_count(&choices); i++) {
        if (fits(m, i) && (best < 0 || true_speed(m, i) > true_speed(m, best))) {
            best = i;
        }
    }
    return best;
}

// Advice on a machine that drifts by a tenth while it is measured; how many runs it took.
static int advise(const machine *m, int64_t *best) {
    sm_advisor *advisor;
    sm_trial trial;
    int n_runs = 0;
    assert_int_equal(sm_advisor_open(&choices, 6, &advisor), SM_OK);
    while (sm_advisor_next(advisor, &trial)) {
        if (!fits(m, trial.configuration)) {
            assert_int_equal(sm_advisor_take(advisor, SM_TRIAL_TOO_LARGE, 0), SM_OK);
            continue;
        }
        const double drift = 1 - 0.1 * n_runs / 60;
        const double speed = true_speed(m, trial.configuration) * drift * exp(m->noise * normal(m, (uint32_t)n_runs));
        assert_int_equal(sm_advisor_take(advisor, SM_TRIAL_MEASURED, speed), SM_OK);
        n_runs++;
        assert_true(n_runs < 1000);
    }
    assert_int_equal(sm_advisor_most_left(advisor), 0);
    *best = sm_advisor_best(advisor);
    sm_advisor_close(advisor);
    return n_runs;
}

static const machine machines[] = {
    // A processor: the optimizer is a third of a small step; bf16 makes products three times as fast.
    {{2.8e-3, 0.9e-3}, 0.085, 0.003, {2e-4, 2.4e-4, 4e-4}, 8, 0.005, 1},
    // A card: launches count, and the matrix of attention.
    {{2e-5, 4e-6}, 0.004, 0.006, {2e-6, 4e-6, 1.1e-5}, 3, 0.005, 2},
    // bf16 is emulated, and slower.
    {{2.8e-3, 4.2e-3}, 0.085, 0.003, {2e-4, 2.4e-4, 4e-4}, 8, 0.005, 3},
    // So little memory that only recomputation lets a larger batch in.
    {{2e-5, 4e-6}, 0.04, 0.006, {2e-6, 4e-6, 1.1e-5}, 2.42, 0.005, 4},
    // The same, noisy: what alone is slower, or does not fit, must be tried together.
    {{2e-5, 4e-6}, 0.04, 0.006, {2e-6, 4e-6, 1.1e-5}, 2.42, 0.02, 7},
    // All the same: nothing pays.
    {{1e-3, 1e-3}, 0, 0, {0, 0, 0}, 100, 0.002, 5},
    // Noisy.
    {{2.8e-3, 0.9e-3}, 0.085, 0.003, {2e-4, 2.4e-4, 4e-4}, 8, 0.02, 6},
};

static void finds_the_fastest(void **state) {
    (void)state;
    const int64_t n = sm_choices_count(&choices);
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        for (uint64_t seed = 0; seed < 20; seed++) {
            machine m = machines[i];
            int64_t best = -1;
            m.seed += 100 * seed;
            const int n_runs = advise(&m, &best);
            const double share = true_speed(&m, best) / true_speed(&m, fastest(&m));
            assert_true(fits(&m, best));
            if (!(share >= 0.97) || !(5 * n_runs <= n)) {
                fail_msg("machine %zu, seed %d: %d runs of %d, %.3f of the best", i, (int)seed, n_runs, (int)n, share);
            }
        }
    }
}

// A value that fails alone is given up; one that fails beside another is left out.
static void what_fails_is_given_up(void **state) {
    (void)state;
    const machine *m = &machines[0];
    sm_advisor *advisor;
    sm_trial trial;
    assert_int_equal(sm_advisor_open(&choices, 6, &advisor), SM_OK);
    while (sm_advisor_next(advisor, &trial)) {
        int level[N_AXES];
        levels_of(trial.configuration, level);
        const bool fails = level[PRECISION] == 1 || (level[BATCH] == 2 && level[ACCUM] == 1);
        assert_true(trial.round < 2 || level[PRECISION] == 0);
        assert_int_equal(
            sm_advisor_take(advisor, fails ? SM_TRIAL_FAILED : SM_TRIAL_MEASURED, true_speed(m, trial.configuration)),
            SM_OK);
    }
    const int64_t best = sm_advisor_best(advisor);
    int level[N_AXES];
    levels_of(best, level);
    assert_true(level[PRECISION] == 0 && !(level[BATCH] == 2 && level[ACCUM] == 1));
    assert_true(true_speed(m, best) > true_speed(m, 0));
    sm_advisor_close(advisor);
}

// Without the default the others are compared with each other; without anything it ends.
static void the_default_may_fail(void **state) {
    (void)state;
    for (int all = 0; all < 2; all++) {
        const machine *m = &machines[1];
        sm_advisor *advisor;
        sm_trial trial;
        int n_runs = 0;
        assert_int_equal(sm_advisor_open(&choices, 6, &advisor), SM_OK);
        while (sm_advisor_next(advisor, &trial)) {
            const bool fails = trial.configuration == 0 || all == 1;
            assert_true(trial.configuration != 0 || n_runs == 0); // once is enough
            assert_int_equal(sm_advisor_take(advisor, fails ? SM_TRIAL_FAILED : SM_TRIAL_MEASURED,
                                             true_speed(m, trial.configuration)),
                             SM_OK);
            n_runs++;
        }
        assert_true(n_runs < 40);
        if (all == 1) {
            assert_int_equal(sm_advisor_best(advisor), -1);
        } else {
            assert_true(true_speed(m, sm_advisor_best(advisor)) > 0.97 * true_speed(m, fastest(&machines[1])));
        }
        sm_advisor_close(advisor);
    }
}

static void one_configuration_is_its_own_advice(void **state) {
    (void)state;
    static const sm_choices none = {2, {1, 1}};
    static const sm_choices too_many = {1, {SM_ADVISOR_MAX_LEVELS + 1}};
    sm_advisor *advisor;
    sm_trial trial;
    int n_runs = 0;
    assert_int_equal(sm_advisor_open(&none, 6, &advisor), SM_OK);
    while (sm_advisor_next(advisor, &trial)) {
        assert_int_equal(trial.configuration, 0);
        assert_int_equal(sm_advisor_take(advisor, SM_TRIAL_MEASURED, 1), SM_OK);
        n_runs++;
    }
    assert_true(n_runs <= 3);
    assert_int_equal(sm_advisor_best(advisor), 0);
    sm_advisor_close(advisor);
    assert_int_equal(sm_advisor_open(&too_many, 6, &advisor), SM_ERR_INVALID);
    assert_null(advisor);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_fastest),
        cmocka_unit_test(what_fails_is_given_up),
        cmocka_unit_test(the_default_may_fail),
        cmocka_unit_test(one_configuration_is_its_own_advice),
    };
    return cmocka_run_group_tests_name("advisor", tests, NULL, NULL);
}
