// Plans of several processes: what they sum up together, when, and how the optimizer's state is shared out.
#include "shard.h"
#include "bench/measure/harness.h"
#include "tests/support/plans.h"

enum { N_PROCESSES = 3 };
static bool never_clips;
static int64_t bucket_bytes;

static sm_status build_of(const sm_model_config *config, int64_t T, int rank, bool is_sharded,
                          const sm_optimizer *optimizer, sm_mode mode, bool one_micro_batch, sm_plan **plan) {
    const sm_plan_options options = {TRAINING_BY(optimizer, 2, T, SM_BF16), .one_micro_batch = one_micro_batch,
                                     .processes = {N_PROCESSES, rank, false, is_sharded, never_clips, bucket_bytes}};
    SM_TRY(sm_model_build(config, &options, plan));
    return sm_plan_rewrite(*plan, mode, 0);
}

static sm_plan *build(const sm_model *model, int rank, bool is_sharded, const sm_optimizer *optimizer, sm_mode mode) {
    sm_plan *plan = NULL;
    assert_int_equal(build_of(&model->odd, 8, rank, is_sharded, optimizer, mode, false, &plan), SM_OK);
    return plan;
}

static bool overlap(const sm_plan *plan, int a, int b) {
    if (a == SM_NO_TENSOR || b == SM_NO_TENSOR || sm_plan_root(plan, a) != sm_plan_root(plan, b)) {
        return false;
    }
    const sm_tensor *x = &plan->tensors[a], *y = &plan->tensors[b];
    const int64_t from = x->view_of == SM_NO_TENSOR ? 0 : x->view_offset_elems;
    const int64_t at = y->view_of == SM_NO_TENSOR ? 0 : y->view_offset_elems;
    return from < at + sm_tensor_elems(y) && at < from + sm_tensor_elems(x);
}

static bool is_among(const sm_plan *plan, const int *operands, int n, int tensor) {
    return n > 0 && (overlap(plan, operands[0], tensor) || is_among(plan, operands + 1, n - 1, tensor));
}

static int find(const sm_plan *plan, sm_op_kind kind, int tensor) {
    for (int i = 0; i < plan->n_ops; i++) {
        if (plan->ops[i].kind == kind && plan->ops[i].out[0] == tensor) {
            return i;
        }
    }
    return -1;
}

// Between its start and its finish nobody touches a bucket, and before its start all have.
static void check_bucket(const sm_plan *plan, const sm_bucket *bucket, sm_op_kind kind) {
    const int start = find(plan, kind, bucket->gradient);
    const int end = find(plan, SM_OP_COMMUNICATION_FINISH, bucket->gradient);
    assert_true(0 < start && start < end);
    assert_int_equal(plan->ops[end].range, SM_PHASE_OPTIMIZER);
    for (int i = start + 1; i < end; i++) {
        assert_false(is_among(plan, plan->ops[i].out, SM_MAX_OUT, bucket->gradient));
        assert_false(is_among(plan, plan->ops[i].in, SM_MAX_IN, bucket->gradient));
    }
    bool is_behind_writer = false; // it begins as soon as it can
    for (int i = start - 1; i >= 0 && sm_op_is_communication(plan->ops[i + 1].kind); i--) {
        is_behind_writer |= is_among(plan, plan->ops[i].out, SM_MAX_OUT, bucket->gradient);
    }
    assert_true(is_behind_writer);
}

// The gradients of blocks are complete at another time than those of the embeddings and the head.
static void check_parts(const sm_plan *plan, const sm_bucket *bucket) {
    bool has_blocks = false, has_others = false;
    for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
        if ((op->kind == SM_OP_MATMUL_BACKWARD_WEIGHT || op->kind == SM_OP_EMBEDDING_BACKWARD) &&
            overlap(plan, op->out[0], bucket->gradient)) {
            *(op->layer >= 0 ? &has_blocks : &has_others) = true;
        }
    }
    assert_false(has_blocks && has_others);
}

static void check_sums(const sm_plan *plan, sm_op_kind kind) {
    int64_t n_gradients = 0, n_in_buckets = 0;
    for (int k = 0; k < plan->n_buckets; k++) {
        check_bucket(plan, &plan->buckets[k], kind);
        check_parts(plan, &plan->buckets[k]);
        n_in_buckets += plan->buckets[k].n_elems;
        for (int other = 0; other < k; other++) {
            assert_false(overlap(plan, plan->buckets[k].gradient, plan->buckets[other].gradient));
        }
    }
    for (const sm_tensor *t = plan->tensors; t < plan->tensors + plan->n_tensors; t++) {
        n_gradients += t->role == SM_ROLE_GRADIENT && t->view_of == SM_NO_TENSOR ? sm_tensor_elems(t) : 0;
    }
    assert_int_equal(n_in_buckets, n_gradients); // and none twice: all of them
}

TEST(test_every_gradient_is_summed_once) {
    for (int i = 0; i < sm_model_count() * 2; i++) {
        const sm_mode mode = i % 2 == 0 ? SM_MODE_NAIVE : SM_MODE_FUSED;
        SM_OWN(sm_plan) *whole = build(sm_model_at(i / 2), 0, false, &sm_optimizer_adamw, mode);
        SM_OWN(sm_plan) *sharded = build(sm_model_at(i / 2), 0, true, &sm_optimizer_lion, mode);
        check_sums(whole, SM_OP_ALL_REDUCE_START);
        check_sums(sharded, SM_OP_REDUCE_SCATTER_START);
    }
}

// --- rows of the embedding ---------------------------------------------------------------------------------

// A plan whose batch uses few rows of its embedding table.
static sm_plan *build_with_rows(const sm_model *model, int rank, bool is_sharded, sm_mode mode, bool one_micro_batch) {
    sm_plan *plan = NULL;
    sm_model_config config = model->odd;
    config.vocab = 512;
    config.context = 32;
    assert_int_equal(build_of(&config, 32, rank, is_sharded, &sm_optimizer_adamw, mode, one_micro_batch, &plan), SM_OK);
    return plan;
}

static int find_when(const sm_plan *plan, sm_op_kind kind, sm_when when) {
    for (int i = 0; i < plan->n_ops; i++) {
        if (plan->ops[i].kind == kind && plan->ops[i].attr.when == when) {
            return i;
        }
    }
    return -1;
}

// The table's buckets are summed before rows are added to them, and nobody touches them meanwhile.
static void check_rows(const sm_plan *plan, sm_op_kind kind) {
    const int all = find_when(plan, SM_OP_EMBEDDING_BACKWARD, SM_WHEN_LAST);
    const int own = find_when(plan, SM_OP_EMBEDDING_BACKWARD, SM_WHEN_MORE);
    const int gather = find_when(plan, SM_OP_GATHER_ROWS, SM_WHEN_ALWAYS);
    int n_tables = 0;
    assert_true(0 < gather && gather < all);
    assert_int_equal(own >= 0, !plan->one_micro_batch);
    for (int k = 0; k < plan->n_buckets; k++) {
        const int start = find(plan, kind, plan->buckets[k].gradient);
        const int end = find(plan, SM_OP_COMMUNICATION_FINISH, plan->buckets[k].gradient);
        const bool is_table = overlap(plan, plan->ops[all].out[0], plan->buckets[k].gradient);
        n_tables += is_table;
        assert_true(0 < start && start < end);
        assert_true(!is_table || (end < all && start < gather));
        for (int i = start + 1; i < end; i++) {
            const bool is_done = plan->ops[i].attr.when != SM_WHEN_MORE; // where sums begin
            assert_false(is_done && overlap(plan, plan->ops[i].out[0], plan->buckets[k].gradient));
        }
    }
    assert_true(n_tables > 0);
}

TEST(test_rows_are_added_to_the_sum) {
    for (int i = 0; i < sm_model_count() * 4; i++) {
        const bool is_sharded = i / 2 % 2 == 1, one_micro_batch = i % 2 == 1;
        SM_OWN(sm_plan) *plan = build_with_rows(sm_model_at(i / 4), 1, is_sharded, SM_MODE_FUSED, one_micro_batch);
        check_rows(plan, is_sharded ? SM_OP_REDUCE_SCATTER_START : SM_OP_ALL_REDUCE_START);
    }
}

// Each process writes its rows where they are gathered, at its own place.
TEST(test_rows_have_their_places) {
    for (int rank = 0; rank < N_PROCESSES; rank++) {
        SM_OWN(sm_plan) *plan = build_with_rows(sm_model_at(0), rank, false, SM_MODE_NAIVE, false);
        const sm_op *own = &plan->ops[find_when(plan, SM_OP_EMBEDDING_BACKWARD, SM_WHEN_MORE)];
        const sm_op *all = &plan->ops[find_when(plan, SM_OP_EMBEDDING_BACKWARD, SM_WHEN_LAST)];
        const sm_tensor *rows = &plan->tensors[own->in[SM_IN(embedding_backward, dx)]];
        assert_int_equal(rows->view_of, all->in[SM_IN(embedding_backward, dx)]);
        assert_int_equal(rows->view_offset_elems, rank * sm_tensor_elems(rows));
        assert_int_equal(all->in[SM_IN(embedding_backward, token)], plan->gathered_tokens);
        assert_int_equal(sm_tensor_elems(&plan->tensors[plan->gathered_tokens]), N_PROCESSES * plan->B * plan->T);
    }
}

// --- other ways to exchange -----------------------------------------------------------------------------

// Tiny: 28 parameters in two groups, 35,712 numbers of 4 bytes.
static sm_plan *build_tiny(sm_processes processes) {
    const sm_plan_options options = {TRAINING(2, 32, SM_F32), .one_micro_batch = true, .processes = processes};
    return build_plan(gpt2_of("tiny"), &options, SM_MODE_FUSED, 0);
}

TEST(test_buckets_are_as_large_as_asked_for) {
    static const struct {
        int64_t bucket_bytes;
        int n_buckets;
        bool is_after;
    } cases[] = {{SM_BUCKETS_NAIVE, 28, true}, {SM_BUCKETS_ALL, 2, true}, {16 << 10, 10, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        SM_OWN(sm_plan) *plan = build_tiny((sm_processes){.n = 2, .bucket_bytes = cases[i].bucket_bytes});
        int64_t n_elems = 0, first = plan->n_ops;
        for (int k = 0; k < plan->n_buckets; k++) {
            const int start = find(plan, SM_OP_ALL_REDUCE_START, plan->buckets[k].gradient);
            assert_true(start > 0);
            first = start < first ? start : first;
            n_elems += plan->buckets[k].n_elems;
            assert_true(cases[i].bucket_bytes < 0 || plan->buckets[k].n_elems * 4 <= cases[i].bucket_bytes);
        }
        bool is_after = true;
        for (int64_t at = first; at < plan->n_ops; at++) {
            is_after &= plan->ops[at].range != SM_PHASE_BACKWARD || sm_op_is_communication(plan->ops[at].kind);
        }
        assert_true(n_elems >= 35712); // small ones are aligned
        assert_int_equal(plan->n_buckets, cases[i].n_buckets);
        assert_int_equal(is_after, cases[i].is_after);
    }
}

// A process without a part of a small bucket adds 0 to the norm, and not what lies in memory.
TEST(test_an_empty_slice_has_a_norm_of_zero) {
    SM_OWN(sm_plan) *plan = build_tiny((sm_processes){.n = 8, .is_sharded = true});
    int n_empty = 0, n_zeroed = 0;
    for (int k = 0; k < plan->n_buckets; k++) {
        n_empty += plan->buckets[k].own_gradient == SM_NO_TENSOR;
    }
    for (int i = 0; i < plan->n_ops; i++) {
        n_zeroed += plan->ops[i].kind == SM_OP_ZERO && plan->ops[i].range == SM_PHASE_OPTIMIZER;
    }
    assert_true(n_empty > 0);
    bucket_bytes = 0;
    assert_int_equal(n_zeroed, n_empty);
}

// --- exchanges by themselves ------------------------------------------------------------------------------

// By nccl-tests' definitions: 1 MiB in 1 ms are 1.048576 GB/s by the algorithm.
TEST(test_bandwidths_are_those_of_nccl_tests) {
    static const struct {
        const char *name;
        int n;
        double share;
    } known[] = {{"all_reduce", 2, 1},       {"all_reduce", 4, 1.5},       {"all_reduce", 8, 1.75},
                 {"reduce_scatter", 2, 0.5}, {"reduce_scatter", 8, 0.875}, {"all_gather", 4, 0.75},
                 {"broadcast", 2, 1},        {"broadcast", 8, 1}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const sm_collective_op op = sm_collective_op_find(known[i].name);
        sm_plan *built = NULL;
        const sm_processes processes = {.n = known[i].n};
        assert_int_equal(sm_collective_plan(op, 1 << 20, i % 2 > 0, processes, &built), SM_OK);
        SM_OWN(sm_plan) *plan = built;
        double bytes = 0; // sent and received: each process sends half of them
        for (int k = 0; k < plan->n_ops; k++) {
            bytes += sm_op_is_communication(plan->ops[k].kind) ? sm_op_bytes(plan, &plan->ops[k]) : 0;
        }
        assert_true(bytes / 2 == known[i].share * (1 << 20));
        // Devices make room by its buckets.
        assert_int_equal(plan->n_buckets * (1 + i % 2), plan->n_tensors);
        assert_int_equal(plan->buckets[0].n_elems * 4, 1 << 20);
    }
    assert_int_equal(sm_collective_op_find("all_sum"), SM_ALONE_COUNT);
    sm_plan *none = NULL;
    assert_int_equal(sm_collective_plan(SM_ALONE_ALL_REDUCE, 1 << 20, false, (sm_processes){.n = 1}, &none),
                     SM_ERR_UNSUPPORTED);
    assert_int_equal(sm_collective_plan(SM_ALONE_ALL_REDUCE, 1022, false, (sm_processes){.n = 2}, &none), SM_ERR_USAGE);
}

// Without others, a sum is the process's own operand.
TEST(test_a_wrong_sum_has_no_speed) {
    const sm_backend *backend = sm_backend_find("cpu");
    SM_OWN(sm_device) *device = NULL;
    assert_int_equal(backend->open(0, &(sm_open_options){.n_threads = 1}, &device), SM_OK);
    for (sm_collective_op op = 0; op < SM_ALONE_COUNT; op++) {
        sm_plan *plan = NULL;
        SM_OWN(sm_session) *session = NULL;
        SM_AT_END(sm_row_free) sm_row row = {0};
        sm_collective_work work = {.op = op, .size_bytes = 4096};
        const sm_workload workload = sm_collective_workload(&work);
        assert_int_equal(sm_collective_plan(op, 4096, false, (sm_processes){.n = 2}, &plan), SM_OK);
        assert_int_equal(sm_session_open(device, plan, &session), SM_OK);
        sm_row_init(&row);
        assert_int_equal(workload.before_step(&work, session, 1, SM_RUN_FORWARD, 7), SM_OK);
        assert_int_equal(workload.check(&work, session, 0, 7, &row), SM_OK);
        assert_int_equal(sm_session_write_part(session, 0, 5, 1, &(float){3}), SM_OK);
        assert_int_equal(workload.check(&work, session, 0, 7, &row), SM_ERR_MISMATCH);
        assert_non_null(strstr(sm_error_message(), "wrong result: element 5 of"));
    }
}

// Weights that were gathered are waited for before their first reader of the step after. Where they have copies, these
// alone are gathered, and only updates read the values. Updates wait for the norm if it may clip, else for their sum.
static void check_weights(const sm_plan *plan, const sm_bucket *b) {
    const int start = find(plan, SM_OP_ALL_GATHER_START, b->value);
    const int end = find(plan, SM_OP_COMMUNICATION_FINISH, b->value);
    const int update = find(plan, SM_OP_ADAMW, b->own_value), norm = find(plan, SM_OP_GRAD_CLIP, plan->grad_norm);
    assert_int_equal(plan->ops[end].range, SM_PHASE_FORWARD);
    assert_int_equal(plan->ops[start].out[SM_OUT(all_gather_start, w)], b->working_copy);
    assert_true(find(plan, SM_OP_COMMUNICATION_FINISH, b->gradient) < update && update < start);
    assert_true((update < norm) == never_clips && (start < norm) == never_clips);
    for (int i = 0; i < plan->n_ops; i++) {
        const bool reads = is_among(plan, plan->ops[i].in, SM_MAX_IN, b->value);
        assert_false(i < end && (reads || is_among(plan, plan->ops[i].in, SM_MAX_IN, b->working_copy)));
        assert_false(reads && b->working_copy != SM_NO_TENSOR && !sm_op_is_update(plan, &plan->ops[i]));
    }
}

TEST(test_weights_are_waited_for) {
    for (int i = 0; i < 2 * sm_model_count(); i++) {
        never_clips = i % 2 == 0;
        SM_OWN(sm_plan) *plan = build_with_rows(sm_model_at(i / 2), 2, true, SM_MODE_FUSED, true);
        for (int k = 0; k < plan->n_buckets; k++) {
            check_weights(plan, &plan->buckets[k]);
        }
    }
}

// A process whose slice of a bucket is empty exchanges what the others do, in the same order.
TEST(test_all_processes_exchange_the_same) {
    static char texts[2 * N_PROCESSES][1 << 16];
    int n_empty = 0;
    bucket_bytes = 2 * SM_SLICE_BLOCK * (int64_t)sizeof(float);
    for (int i = 0; i < 2 * N_PROCESSES; i++) {
        never_clips = i % 2 == 0;
        SM_OWN(sm_plan) *plan = build_with_rows(sm_model_at(0), i / 2, true, SM_MODE_FUSED, true);
        for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
            if (sm_op_is_communication(op->kind)) {
                sm_append(texts[i], sizeof texts[i], "%s %s, ", sm_op_name(op->kind), plan->tensors[op->out[0]].name);
            }
            n_empty += op->range == SM_PHASE_OPTIMIZER && op->kind == SM_OP_ZERO;
        }
        assert_string_equal(texts[i], texts[i % 2]);
    }
    assert_true(n_empty > 0);
    bucket_bytes = 0;
}

static int64_t state_elems(const sm_plan *plan) {
    int64_t n = 0;
    for (const sm_tensor *t = plan->tensors; t < plan->tensors + plan->n_tensors; t++) {
        const bool has_memory = t->role == SM_ROLE_OPTIMIZER && t->view_of == SM_NO_TENSOR && !t->is_sharded;
        n += has_memory ? sm_tensor_elems(t) : 0;
    }
    return n;
}

// The slices' states make up the whole; each is saved under the names that the whole has.
static void check_shards(const sm_optimizer *optimizer) {
    SM_OWN(sm_plan) *whole = build(sm_model_at(0), 0, false, optimizer, SM_MODE_FUSED);
    int64_t n_elems = 0, most_padding = 0; // between the end of each state's matrix and the next one
    for (int rank = 0; rank < N_PROCESSES; rank++) {
        SM_OWN(sm_plan) *plan = build(sm_model_at(0), rank, true, optimizer, SM_MODE_FUSED);
        n_elems += state_elems(plan);
        for (const sm_tensor *t = whole->tensors; t < whole->tensors + whole->n_tensors; t++) {
            most_padding += rank == 0 && t->role == SM_ROLE_OPTIMIZER ? SM_SLICE_BLOCK - 1 : 0;
            if (t->role == SM_ROLE_OPTIMIZER && t->is_saved) {
                const int same = sm_plan_find_tensor(plan, t->name);
                assert_int_not_equal(same, SM_NO_TENSOR);
                assert_int_equal(plan->tensors[same].real_elems, t->real_elems);
                assert_true(plan->tensors[same].is_saved);
            }
        }
    }
    assert_true(n_elems >= state_elems(whole));
    assert_true(n_elems <= state_elems(whole) + (optimizer == &sm_optimizer_adamw8bit ? most_padding : 0));
}

TEST(test_shards_make_up_the_state) {
    check_shards(&sm_optimizer_adamw);
    check_shards(&sm_optimizer_adamw8bit);
}

// Each element of a matrix is updated once, with the scale of its own block.
TEST(test_blocks_are_not_cut) {
    SM_OWN(sm_plan) *whole = build(sm_model_at(0), 0, false, &sm_optimizer_adamw8bit, SM_MODE_FUSED);
    int64_t n_elems = 0, n_matrices = 0;
    for (const sm_op *op = whole->ops; op < whole->ops + whole->n_ops; op++) {
        n_matrices += op->kind == SM_OP_ADAMW8BIT ? sm_tensor_elems(&whole->tensors[op->out[SM_OUT(adamw8bit, p)]]) : 0;
    }
    for (int rank = 0; rank < N_PROCESSES; rank++) {
        SM_OWN(sm_plan) *plan = build(sm_model_at(0), rank, true, &sm_optimizer_adamw8bit, SM_MODE_FUSED);
        for (const sm_op *op = plan->ops; op < plan->ops + plan->n_ops; op++) {
            if (op->kind != SM_OP_ADAMW8BIT) {
                continue;
            }
            const sm_tensor *p = &plan->tensors[op->out[SM_OUT(adamw8bit, p)]];
            const sm_tensor *m = &plan->tensors[op->out[SM_OUT(adamw8bit, m)]];
            const sm_tensor *m_max = &plan->tensors[op->out[SM_OUT(adamw8bit, m_max)]];
            n_elems += sm_tensor_elems(p);
            assert_int_equal(p->view_offset_elems % SM_SLICE_BLOCK, 0);
            assert_int_equal(m->view_offset_elems, m_max->view_offset_elems * SM_SLICE_BLOCK);
            assert_int_equal((sm_tensor_elems(m) + SM_SLICE_BLOCK - 1) / SM_SLICE_BLOCK, sm_tensor_elems(m_max));
        }
    }
    assert_int_equal(n_elems, n_matrices);
}

TEST(test_what_cannot_be_sharded_says_why) {
    const sm_optimizer *whole_only[] = {&sm_optimizer_muon, &sm_optimizer_adafactor};
    for (size_t i = 0; i < sizeof whole_only / sizeof whole_only[0]; i++) {
        sm_plan *plan = NULL;
        assert_int_equal(build_of(&sm_model_at(0)->odd, 8, 0, true, whole_only[i], SM_MODE_FUSED, false, &plan),
                         SM_ERR_UNSUPPORTED);
        assert_non_null(strstr(sm_error_message(), whole_only[i]->name));
        assert_non_null(strstr(sm_error_message(), "use adamw"));
        assert_null(plan);
    }
}

TEST(test_slices_cover_all) {
    const int64_t counts[] = {1, 63, 64, 65, 1000, 12345};
    const int lines[] = {SM_SLICE_LINE, SM_SLICE_BLOCK};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        for (int size = 1; size < 9; size++) {
            int64_t end = 0;
            for (int rank = 0; rank < size; rank++) {
                const sm_slice slice = sm_slice_of(counts[i], lines[i % 2], rank, size);
                assert_int_equal(slice.first, end);
                assert_true(slice.first % lines[i % 2] == 0 || slice.first == counts[i]);
                assert_true(slice.end >= slice.first);
                end = slice.end;
            }
            assert_int_equal(end, counts[i]);
        }
    }
}

TEST(test_alone_everything_is_done_at_once) {
    double value = 3;
    int copy = 0;
    const sm_comm_fact fact = {"--lr", "1"};
    assert_int_equal(sm_comm_rank(NULL), 0);
    assert_int_equal(sm_comm_size(NULL), 1);
    assert_int_equal(sm_comm_sum(NULL, &value, 1), SM_OK);
    assert_true(value == 3);
    assert_int_equal(sm_comm_gather(NULL, &(int){7}, sizeof copy, &copy), SM_OK);
    assert_int_equal(copy, 7);
    assert_int_equal(sm_comm_agree(NULL, SM_ERR_IO), SM_ERR_IO);
    assert_int_equal(sm_comm_barrier(NULL), SM_OK);
    assert_int_equal(sm_comm_compare(NULL, SM_OK, &fact, 1, ""), SM_OK);
    assert_int_equal(sm_comm_compare(NULL, SM_ERR_IO, &fact, 1, ""), SM_ERR_IO);
    assert_true(sm_comm_has_agreed(NULL));
}

// All of them, or how many more there are. Alike ones, each its own, are not told.
TEST(devices_are_listed) {
    static sm_place all[64];
    char text[SM_DEVICES_SIZE];
    for (int i = 0; i < 64; i++) {
        snprintf(all[i].id, sizeof all[i].id, "opencl:0.%d", i);
        snprintf(all[i].uuid, sizeof all[i].uuid, "%d", i);
        snprintf(all[i].name, sizeof all[i].name, "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition");
    }
    sm_list_places(all, 16, text);
    assert_string_equal(text, "");
    snprintf(all[15].uuid, sizeof all[15].uuid, "%d", 14); // shared
    sm_list_places(all, 16, text);
    assert_non_null(strstr(text, "Edition, opencl:0.1, opencl:0.2,"));
    assert_non_null(strstr(text, ", opencl:0.14, opencl:0.15"));
    snprintf(all[1].name, sizeof all[1].name, "another");
    sm_list_places(all, 64, text);
    assert_non_null(strstr(text, "opencl:0.1 another, opencl:0.2 NVIDIA"));
    int n_told = 1, n_more = 0;
    for (const char *at = text; (at = strstr(at, ", opencl:")) != NULL; at++) {
        n_told++;
    }
    assert_int_equal(sscanf(strstr(text, ", and "), ", and %d more", &n_more), 1);
    assert_int_equal(n_told + n_more, 64);
}
