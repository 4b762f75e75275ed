// test_advisor.c: which configurations the advisor asks for, on machines that are made up: it finds the fastest, in few
// runs, whatever fails or does not fit.
#include "tests/support/test.h"
#include "philox.h"
#include "bench/compare/compare.h"

// --- a machine ---------------------------------------------------------------------------------------

// Tokens a second of a step, from what it costs: products, the optimizer once a step, attention, what is computed
// again. The axes act upon each other: a large batch pays more where products are fast.
enum { BATCH, PRECISION, MODE, ATTENTION, RECOMPUTE, ACCUM, N_AXES };

static const sm_choices choices = {N_AXES, {4, 2, 2, 3, 3, 2}, {MODE, ATTENTION, RECOMPUTE, BATCH, PRECISION, ACCUM}};

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

static double speed_of(const machine *m, const int level[N_AXES]) {
    static const double again[] = {1.02, 1, 1.33};
    const double accum = level[ACCUM] == 1 ? 4 : 1, tokens = 64 * batches[level[BATCH]];
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

static double uniform(uint64_t seed, uint32_t index) {
    return ((double)sm_philox4x32(sm_philox_key(seed, "noise"), index, 0).word[0] + 0.5) / 4294967296.0;
}

static double normal(uint64_t seed, uint32_t index) {
    return sqrt(-2 * log(uniform(seed, 2 * index))) * cos(6.283185307179586 * uniform(seed, 2 * index + 1));
}

static bool fits(const machine *m, int64_t configuration) {
    static const double kept[] = {0.10, 0.14, 0.03}; // GiB of a sequence: light, none, block
    int level[N_AXES];
    levels_of(configuration, level);
    return 1.9 + batches[level[BATCH]] * kept[level[RECOMPUTE]] * (level[ATTENTION] == 0 ? 1 : 1.4) <= m->limit_gib;
}

static double true_speed(const machine *m, int64_t configuration) {
    int level[N_AXES];
    levels_of(configuration, level);
    return speed_of(m, level);
}

// The time of a machine that is quiet: NaN does not fit.
enum { MOST_CONFIGURATIONS = 288 };

static void measure_all(const machine *m, double *speeds) {
    for (int64_t i = 0; i < sm_choices_count(&choices); i++) {
        speeds[i] = fits(m, i) ? true_speed(m, i) : NAN;
    }
}

static double fastest(const double *speeds, int64_t n) {
    double best = 0;
    for (int64_t i = 0; i < n; i++) {
        best = fmax(best, speeds[i]); // which leaves out NaN
    }
    return best;
}

// Advice on a machine that drifts by a tenth while it is measured; how many runs it took.
static int advise(const sm_choices *c, const double *speeds, double noise, uint64_t seed, int64_t *best) {
    sm_trial trial;
    int n_runs = 0;
    sm_advisor *advisor = sm_advisor_open(c, 6);
    while (sm_advisor_next(advisor, &trial)) {
        const double quiet = speeds[trial.configuration], drift = 1 - 0.1 * n_runs / 60;
        const sm_trial_outcome outcome = isnan(quiet) ? SM_TRIAL_TOO_LARGE : SM_TRIAL_MEASURED;
        const double speed = quiet * drift * exp(noise * normal(seed, (uint32_t)n_runs));
        sm_advisor_take(advisor, outcome, speed);
        n_runs += outcome == SM_TRIAL_MEASURED;
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

TEST(finds_the_fastest) {
    static double speeds[MOST_CONFIGURATIONS];
    const int64_t n = sm_choices_count(&choices);
    for (size_t i = 0; i < sizeof(machines) / sizeof(machines[0]); i++) {
        measure_all(&machines[i], speeds);
        for (uint64_t seed = 0; seed < 20; seed++) {
            int64_t best = -1;
            const int n_runs = advise(&choices, speeds, machines[i].noise, machines[i].seed + 100 * seed, &best);
            const double share = speeds[best] / fastest(speeds, n);
            if (!(share >= 0.97) || !(5 * n_runs <= n)) { // which one that does not fit is not, either
                fail_msg("machine %zu, seed %d: %d runs of %d, %.3f of the best", i, (int)seed, n_runs, (int)n, share);
            }
        }
    }
}

// Batch, recomputation, attention, accumulation, precision, mode.
static const sm_choices few = {6, {3, 3, 2, 2, 2, 2}, {5, 2, 1, 0, 4, 3}};

// As GPT-2 124M was measured on two cores with AMX, 16 tokens: accumulation gains with fp32 and loses with bf16; fused
// operations gain much with bf16, and nothing where it accumulates.
static void measure_124m(double *speeds) {
    static const double products[2][3] = {{66, 118, 192}, {97, 199, 354}}; // tokens/s by precision, batch
    static const double again[] = {1, 1.005, 0.94};
    for (int64_t i = 0; i < sm_choices_count(&few); i++) {
        const int batch = sm_choices_level(&few, i, 0);
        const int precision = sm_choices_level(&few, i, 4);
        const bool accumulates = sm_choices_level(&few, i, 3) == 1;
        const bool is_naive = sm_choices_level(&few, i, 5) == 1;
        const double accumulated = precision == 1 ? 0.84 : 1.17;
        const double naive = accumulates ? 0.99 : precision == 1 ? 0.64 : 0.93;
        speeds[i] = products[precision][batch] * again[sm_choices_level(&few, i, 1)] *
                    (sm_choices_level(&few, i, 2) == 1 ? 1.005 : 1) * (accumulates ? accumulated : 1) *
                    (is_naive ? naive : 1);
    }
}

TEST(finds_what_gains_elsewhere) {
    static double speeds[MOST_CONFIGURATIONS];
    const int64_t n = sm_choices_count(&few);
    measure_124m(speeds);
    int n_runs = 0;
    for (int seed = 0; seed < 100; seed++) {
        int64_t best = -1;
        n_runs += advise(&few, speeds, 0.012, (uint64_t)seed, &best);
        const double share = speeds[best] / fastest(speeds, n);
        FAIL_IF(!(share >= 0.97), "seed %d: %.3f of the best", seed, share);
    }
    assert_true(5 * n_runs <= 100 * n);
}

// Each level of each axis gains something at random, and so does each pair of levels, in logarithms.
static void make_up(uint64_t seed, double pair, double *speeds) {
    static const double alone[] = {0.5, 0.05, 0.04, 0.12, 0.4, 0.2};
    for (int64_t i = 0; i < sm_choices_count(&few); i++) {
        double sum = 0;
        for (int a = 0; a < few.n_axes; a++) {
            const int level = sm_choices_level(&few, i, a);
            sum += level > 0 ? alone[a] * normal(seed, (uint32_t)(1000 + 8 * a + level)) : 0;
            for (int b = 0; b < a && level > 0; b++) {
                const int other = sm_choices_level(&few, i, b);
                sum += other > 0 ? pair * normal(seed, (uint32_t)(2000 + 512 * a + 64 * b + 8 * level + other)) : 0;
            }
        }
        speeds[i] = exp(sum);
    }
}

// Not always: it measures few of many. How often, it says.
TEST(finds_most_where_flags_depend_on_one_another) {
    enum { N_MACHINES = 200 };
    static const struct {
        double pair;
        int least;
    } cases[] = {{0, 99}, {0.04, 94}, {0.08, 75}}; // percent
    static double speeds[MOST_CONFIGURATIONS];
    const int64_t n = sm_choices_count(&few);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int n_found = 0;
        int64_t n_runs = 0;
        for (uint64_t seed = 0; seed < N_MACHINES; seed++) {
            int64_t best = -1;
            make_up(seed, cases[i].pair, speeds);
            n_runs += advise(&few, speeds, 0.012, seed, &best);
            n_found += speeds[best] >= 0.97 * fastest(speeds, n);
        }
        assert_true(5 * n_runs <= N_MACHINES * n);
        FAIL_IF(!(100 * n_found >= cases[i].least * N_MACHINES), "pairs of %.2f: within 3%% on %d of %d", cases[i].pair,
                n_found, N_MACHINES);
    }
}

// A value that fails alone is given up; one that fails only together with another is left out.
TEST(what_fails_is_given_up) {
    const machine *m = &machines[0];
    sm_trial trial;
    sm_advisor *advisor = sm_advisor_open(&choices, 6);
    while (sm_advisor_next(advisor, &trial)) {
        int level[N_AXES];
        levels_of(trial.configuration, level);
        const bool fails = level[PRECISION] == 1 || (level[BATCH] == 2 && level[ACCUM] == 1);
        assert_true(trial.round < 2 || level[PRECISION] == 0);
        sm_advisor_take(advisor, fails ? SM_TRIAL_FAILED : SM_TRIAL_MEASURED, true_speed(m, trial.configuration));
    }
    const int64_t best = sm_advisor_best(advisor);
    int level[N_AXES];
    levels_of(best, level);
    assert_true(level[PRECISION] == 0 && !(level[BATCH] == 2 && level[ACCUM] == 1));
    assert_true(true_speed(m, best) > true_speed(m, 0));
    sm_advisor_close(advisor);
}

// Without the default the others are compared with each other; without anything it ends.
TEST(the_default_may_fail) {
    static double speeds[MOST_CONFIGURATIONS];
    for (int all = 0; all < 2; all++) {
        const machine *m = &machines[1];
        sm_trial trial;
        int n_runs = 0;
        sm_advisor *advisor = sm_advisor_open(&choices, 6);
        while (sm_advisor_next(advisor, &trial)) {
            const bool fails = trial.configuration == 0 || all == 1;
            assert_true(trial.configuration != 0 || n_runs == 0); // once is enough
            sm_advisor_take(advisor, fails ? SM_TRIAL_FAILED : SM_TRIAL_MEASURED, true_speed(m, trial.configuration));
            n_runs++;
        }
        assert_true(n_runs < 40);
        if (all == 1) {
            assert_int_equal(sm_advisor_best(advisor), -1);
        } else {
            measure_all(m, speeds);
            assert_true(true_speed(m, sm_advisor_best(advisor)) > 0.97 * fastest(speeds, MOST_CONFIGURATIONS));
        }
        sm_advisor_close(advisor);
    }
}

TEST(one_configuration_is_its_own_advice) {
    static const sm_choices none = {2, {1, 1}, {0, 1}};
    sm_trial trial;
    int n_runs = 0;
    sm_advisor *advisor = sm_advisor_open(&none, 6);
    while (sm_advisor_next(advisor, &trial)) {
        assert_int_equal(trial.configuration, 0);
        sm_advisor_take(advisor, SM_TRIAL_MEASURED, 1);
        n_runs++;
    }
    assert_true(n_runs <= 3);
    assert_int_equal(sm_advisor_best(advisor), 0);
    sm_advisor_close(advisor);
}
