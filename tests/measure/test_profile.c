// test_profile.c: the profile adds up and names each op's bound; its trace can be read back.
#include "tests/support/session.h"
#include "tests/support/fake_backend.h"
#include "bench/profile/profile.h"

enum { N_OPS = 6, WALL_NS = 13200 };

// zero | residual, residual, loss_mean | gelu_backward | adamw
static const int64_t op_times[N_OPS] = {1000, 2000, 2000, 100, 5000, 3000};

// A FLOP and a byte take a nanosecond each.
static sm_profile_input make_input(const sm_plan *plan) {
    return (sm_profile_input){.plan = plan,
                              .op_ns = op_times,
                              .wall_ns = WALL_NS,
                              .headline_ns = 13000,
                              .peak_flops = 1e9,
                              .peak_bandwidth = 1e9};
}

static int64_t sum_of_lines(const sm_profile *profile) {
    int64_t sum_ns = profile->unaccounted_ns;
    for (int i = 0; i < profile->n_lines; i++) {
        sum_ns += profile->lines[i].self_ns;
    }
    return sum_ns;
}

static const sm_profile_line *find(const sm_profile *profile, const char *name) {
    for (int i = 0; i < profile->n_lines; i++) {
        if (strcmp(profile->lines[i].name, name) == 0) {
            return &profile->lines[i];
        }
    }
    fail_msg("no line '%s'", name);
    return NULL;
}

TEST(lines_add_up) {
    static const int n_lines[SM_PROFILE_BY_COUNT] = {
        [SM_PROFILE_BY_OP] = N_OPS, [SM_PROFILE_BY_LAYER] = 1, [SM_PROFILE_BY_KIND] = N_OPS - 1};
    SM_OWN(sm_plan) *plan = make_plan();
    const sm_profile_input input = make_input(plan);
    for (int by = 0; by < SM_PROFILE_BY_COUNT; by++) {
        SM_AT_END(sm_profile_free) sm_profile profile;
        assert_int_equal(sm_profile_make(&input, (sm_profile_by)by, &profile), SM_OK);
        assert_int_equal(profile.n_lines, n_lines[by]);
        assert_int_equal(profile.unaccounted_ns, 100);
        assert_int_equal(sum_of_lines(&profile), WALL_NS);
        assert_int_equal(profile.total.n_calls, N_OPS);
        assert_true(profile.total.flops == FORWARD_FLOPS + BACKWARD_FLOPS + ADAMW_FLOPS);
    }
}

// What tensors hold while each op runs is what the planner counts, and no more than it allocates.
TEST(a_timeline_holds_what_the_planner_says) {
    static const sm_recompute ways[] = {SM_RECOMPUTE_NONE, SM_RECOMPUTE_BLOCK, SM_RECOMPUTE_BLOCK_2};
    for (size_t way = 0; way < 3 * 2; way++) {
        sm_model_config config = sm_model_size_find(sm_model_at(0), "tiny")->config;
        config.n_layer = 4;
        const sm_plan_options options = {TRAINING(2, 32, SM_F32), .recompute = ways[way % 3]};
        SM_OWN(sm_plan) *plan = place_plan(&config, &options, way < 3 ? SM_MODE_FUSED : SM_MODE_NAIVE, 0);
        json_auto_t *timeline = sm_profile_timeline(plan, NULL, 7);
        const json_t *tensors = json_object_get(timeline, "tensors");
        const json_t *alive = json_object_get(timeline, "alive_bytes");
        double most = 0;
        for (int op = 0; op < plan->n_ops; op++) {
            double sum = 0;
            for (size_t i = 0; i < json_array_size(tensors); i++) {
                const json_t *t = json_array_get(tensors, i);
                const bool is_there =
                    json_integer_value(json_array_get(t, 3)) <= op && op < json_integer_value(json_array_get(t, 4));
                sum += is_there ? ceil(json_number_value(json_array_get(t, 2)) / 256) * 256 : 0; // its place in memory
            }
            assert_true(sum == json_number_value(json_array_get(alive, (size_t)op)));
            most = fmax(most, sum);
        }
        assert_true(most == sm_json_number(timeline, "peak_alive_bytes"));
        assert_true(most <= (double)sm_plan_memory(plan, NULL));
        assert_true(sm_json_number(timeline, "tensor_bytes") == (double)sm_plan_memory(plan, NULL));
        assert_int_equal(json_array_size(json_object_get(timeline, "peak_largest")), 10);
    }
}

TEST(bounds_and_verdict) {
    SM_OWN(sm_plan) *plan = make_plan();
    const sm_profile_input input = make_input(plan);
    SM_AT_END(sm_profile_free) sm_profile profile;
    assert_int_equal(sm_profile_make(&input, SM_PROFILE_BY_KIND, &profile), SM_OK);
    // The two residuals are one line, the longest op comes first.
    assert_string_equal(profile.lines[0].name, "gelu_backward");
    assert_int_equal(find(&profile, "residual")->n_calls, 2);
    assert_int_equal(find(&profile, "residual")->self_ns, 4000);
    assert_int_equal(find(&profile, "residual")->phase, SM_PHASE_COUNT);
    // 180 FLOPs take longer than gelu_backward's bytes; all others move more bytes than they compute.
    assert_int_equal(find(&profile, "gelu_backward")->bound, SM_BOUND_COMPUTE);
    assert_true(find(&profile, "gelu_backward")->roofline_ns == 180);
    assert_true(find(&profile, "gelu_backward")->above_ns == 5000 - 180);
    assert_int_equal(find(&profile, "adamw")->bound, SM_BOUND_MEMORY);
    // The loss's mean is the call that took least above its work, and its work is less than that.
    assert_int_equal(find(&profile, "loss_mean")->bound, SM_BOUND_OVERHEAD);
    assert_true(profile.overhead_ns == 100 - find(&profile, "loss_mean")->roofline_ns);
    assert_int_equal(profile.bound, SM_BOUND_MEMORY);
    assert_non_null(strstr(profile.verdict, "bound by memory"));
    assert_non_null(strstr(profile.verdict, "look first at gelu_backward"));
}

// An op that was preempted in the step that is shown is not what to look at.
TEST(a_preempted_op_is_not_named) {
    SM_OWN(sm_plan) *plan = make_plan();
    sm_profile_input input = make_input(plan);
    sm_profile profile;
    SM_FREED int64_t *least = calloc((size_t)plan->n_ops, sizeof(*least));
    assert_non_null(least);
    for (int i = 0; i < plan->n_ops; i++) {
        bool preempted = plan->ops[i].kind == SM_OP_GELU_BACKWARD;
        least[i] = preempted ? 200 : input.op_ns[i];
    }
    input.op_least_ns = least;
    input.is_noisy = true;
    assert_int_equal(sm_profile_make(&input, SM_PROFILE_BY_KIND, &profile), SM_OK);
    assert_string_equal(profile.lines[0].name, "gelu_backward"); // it is shown as it was
    assert_null(strstr(profile.verdict, "look first at gelu_backward"));
    assert_non_null(strstr(profile.verdict, "look first at"));
    assert_non_null(strstr(profile.verdict, "were noisy"));
    sm_profile_free(&profile);
    snprintf(input.doubt, sizeof(input.doubt), "busy machine");
    assert_int_equal(sm_profile_make(&input, SM_PROFILE_BY_KIND, &profile), SM_OK);
    assert_string_equal(profile.verdict, "No verdict: busy machine.");
    assert_int_equal(profile.bound, SM_BOUND_UNKNOWN);
    sm_profile_free(&profile);
}

TEST(time_outside_of_ops_is_overhead) {
    SM_OWN(sm_plan) *plan = make_plan();
    sm_profile_input input = make_input(plan);
    SM_AT_END(sm_profile_free) sm_profile profile;
    input.wall_ns = 100000;
    assert_int_equal(sm_profile_make(&input, SM_PROFILE_BY_KIND, &profile), SM_OK);
    assert_int_equal(sum_of_lines(&profile), 100000);
    assert_int_equal(profile.bound, SM_BOUND_OVERHEAD);
    assert_non_null(strstr(profile.verdict, "outside of the ops"));
}

// Two ops of a kind in two steps: threads waited 40% of their time, and the slowest part took half as long again as the
// mean. Of others nothing is known.
TEST(shares_of_threads) {
    SM_OWN(sm_plan) *plan = make_plan();
    sm_profile_input input = make_input(plan);
    const sm_op_parts parts[N_OPS] = {[1] = {.timed_ns = 4000, .busy_ns = 2000, .slowest_ns = 4000},
                                       [2] = {.timed_ns = 4000, .busy_ns = 2800, .slowest_ns = 3200}};
    SM_AT_END(sm_profile_free) sm_profile profile = {0};
    input.op_parts = parts;
    assert_int_equal(sm_profile_make(&input, SM_PROFILE_BY_KIND, &profile), SM_OK);
    SM_OWN(json_t) *context = json_object();
    SM_OWN(json_t) *records = sm_profile_records(&profile, context);
    for (int i = 0; i < profile.n_lines; i++) {
        const json_t *record = json_array_get(records, (size_t)i);
        if (strcmp(profile.lines[i].name, "residual") == 0) {
            assert_true(fabs(sm_json_number(record, "waiting") - 0.4) < 1e-9);
            assert_true(fabs(sm_json_number(record, "imbalance") - 0.5) < 1e-9);
        } else {
            assert_null(sm_json_get(record, "waiting"));
        }
    }
}

TEST(without_ceilings) {
    SM_OWN(sm_plan) *plan = make_plan();
    sm_profile_input input = make_input(plan);
    SM_AT_END(sm_profile_free) sm_profile profile;
    input.peak_flops = NAN;
    assert_int_equal(sm_profile_make(&input, SM_PROFILE_BY_KIND, &profile), SM_OK);
    assert_string_equal(sm_bound_name(profile.lines[0].bound), "");
    assert_non_null(strstr(profile.verdict, "Without the device's ceilings"));
    json_auto_t *context = json_object();
    json_auto_t *records = sm_profile_records(&profile, context);
    assert_int_equal(json_array_size(records), profile.n_lines + 2);
    assert_true(json_is_null(sm_json_get(json_array_get(records, 0), "roofline_ns")));
}

TEST(ops_must_have_run) {
    static const int64_t nothing[N_OPS] = {0};
    static const int64_t negative[N_OPS] = {5, -1, 0, 0, 0, 0};
    SM_OWN(sm_plan) *plan = make_plan();
    sm_profile_input input = make_input(plan);
    sm_profile profile;
    input.op_ns = nothing;
    assert_int_equal(sm_profile_make(&input, SM_PROFILE_BY_OP, &profile), SM_ERR_INVALID);
    input.op_ns = negative;
    assert_int_equal(sm_profile_make(&input, SM_PROFILE_BY_OP, &profile), SM_ERR_INTERNAL);
}

// Through text and back, as a viewer reads it.
TEST(trace_can_be_read) {
    SM_OWN(sm_plan) *plan = make_plan();
    const sm_profile_input input = make_input(plan);
    json_auto_t *made = sm_profile_trace(&input, "cpu_op", "a \"device\" \xFF");
    SM_FREED char *text = json_dumps(made, JSON_COMPACT);
    assert_non_null(text);
    json_auto_t *trace = json_loads(text, 0, NULL);
    assert_non_null(trace);
    double end_us = 0;
    int n_ops = 0, n_counters = 0;
    SM_EACH(event, json_object_get(trace, "traceEvents")) {
        const char *phase = json_string_value(json_object_get(event, "ph"));
        assert_true(json_is_string(json_object_get(event, "name")));
        assert_true(json_is_number(json_object_get(event, "ts")));
        n_counters += strcmp(phase, "C") == 0;
        if (strcmp(phase, "X") != 0 || sm_json_get(event, "args.flops") == NULL) {
            continue;
        }
        assert_string_equal(json_string_value(json_object_get(event, "cat")), "cpu_op");
        assert_true(fabs(json_number_value(json_object_get(event, "ts")) - end_us) < 1e-6);
        end_us += json_number_value(json_object_get(event, "dur"));
        n_ops++;
    }
    assert_int_equal(n_ops, N_OPS);
    assert_int_equal(n_counters, N_OPS);
    assert_true(fabs(end_us - 13.1) < 1e-6);
}

// x and y live from the first residual to gelu_backward; parameters always.
TEST(memory_alive) {
    SM_OWN(sm_plan) *plan = make_plan();
    size_t alive[N_OPS];
    sm_plan_alive_bytes(plan, SM_ROLE_ACTIVATION, alive);
    assert_int_equal(alive[0], 0);
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(alive[i], 512);
    }
    assert_int_equal(alive[5], 0);
    sm_plan_alive_bytes(plan, SM_ROLE_PARAMETER, alive);
    assert_int_equal(alive[0], 256);
    assert_int_equal(alive[5], 256);
}

TEST(measured_step_adds_up) {
    const sm_workload workload = {.next_batch = fake_next_batch, .check = fake_check, FAKE_CHECKS};
    sm_protocol protocol = sm_protocol_default();
    SM_OWN(sm_session) *session = NULL;
    SM_AT_END(sm_row_free) sm_row row;
    SM_AT_END(sm_profile_free) sm_profile profile;
    memset(&fake, 0, sizeof(fake));
    fake.loss = 2.5;
    assert_int_equal(sm_session_open(&fake_device, make_plan(), &session), SM_OK);
    sm_row_init(&row);
    protocol.n_repetitions = 2;
    assert_int_equal(sm_harness_measure(session, &protocol, &workload, &row), SM_OK);
    const sm_profile_input input = {.plan = session->plan,
                                    .op_ns = row.op_ns.values,
                                    .wall_ns = row.attribution_ns,
                                    .headline_ns = row.median_ns,
                                    .peak_flops = 1e9,
                                    .peak_bandwidth = 1e9};
    assert_int_equal(sm_profile_make(&input, SM_PROFILE_BY_OP, &profile), SM_OK);
    assert_true(profile.unaccounted_ns >= 0);
    assert_int_equal(sum_of_lines(&profile), row.attribution_ns);
    assert_int_equal(profile.unaccounted_ns, row.phases.unaccounted_ns);
}
