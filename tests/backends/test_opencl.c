// test_opencl.c: the opencl backend on the first usable device: correct ops and steps in both families of kernels;
// repeatable bits; the cpu backend's losses; messages when memory or a build fails, or a kernel hangs; and the cache of
// built programs. Skipped, with the reason, without a device.
#include <ftw.h>
#include <sys/mman.h>

#include "tests/support/plans.h"
#include "clock.h"
#include "tests/support/opencl_ops.h"
#include "tests/support/temp_folder.h"
#include "backends/host/helper.h"
#include "backends/host/memory.h"
#include "backends/opencl/nvidia/tensor.h"
#include "backends/opencl/opencl.h"
#include "src/session/session.h"
#include "src/verify/op_cases.h"

TEST(test_description) {
    sm_device_info info;
    for (int i = 0; i < backend->device_count(); i++) {
        check(backend->describe(i, &info));
        assert_memory_equal(info.id, "opencl", 6);
        if (!info.available) {
            assert_true(strlen(info.reason) > 0);
            continue;
        }
        assert_true(info.n_units > 0 && info.memory_bytes > 0 && info.max_alloc_bytes > 0);
        assert_true(strlen(info.name) > 0 && strlen(info.platform) > 0 && strlen(info.driver) > 0);
        assert_true(strlen(info.tier) > 0 && strlen(info.tier_reason) > 0);
    }
    assert_int_equal(backend->describe(1000, &info), SM_ERR_USAGE);
}

TEST(test_unknown_tier) {
    sm_device *device = NULL;
    SKIP_IF(usable < 0);
    assert_int_equal(backend->open(usable, &(sm_open_options){.isa = "magic"}, &device), SM_ERR_UNSUPPORTED);
    assert_non_null(strstr(sm_error_message(), "magic"));
    assert_null(device);
}

// Without matrix units the family for them is not there, and the message says what is missing.
TEST(test_tensor_refused) {
    sm_device *device = NULL;
    SKIP_IF(usable < 0 || opencl_find_matrix_units(opencl_device_facts(usable))->has_mma);
    assert_int_equal(backend->open(usable, &(sm_open_options){.isa = "tensor"}, &device), SM_ERR_UNSUPPORTED);
    assert_non_null(strstr(sm_error_message(), "family 'tensor' does not run here"));
    assert_null(device);
}

// --- matrix units: what needs no card -----------------------------------------------------------------

TEST(test_retarget) {
    static const char ptx[] = ".version 8.5\n.target sm_90\n.entry k()\n.reqntid 384, 1, 1\n{\n //@wgmma.fence;\n add; "
                              "// a comment\n //@x;\n}";
    size_t n_bytes = 0;
    SM_FREED char *text = opencl_retarget((const unsigned char *)ptx, sizeof ptx, &n_bytes);
    assert_non_null(text);
    assert_string_equal(text, ".version 8.5\n.target sm_90a\n.entry k()\n.minnctapersm 1\n.reqntid 384, 1, 1\n{\n "
                              "wgmma.fence;\n add; // a comment\n x;\n}");
    assert_int_equal(n_bytes, strlen(text));
    static const char three[] = ".target sm_90\n.reqntid 128, 1, 1\n{\n //groups a unit: 3\n}";
    SM_FREED char *other = opencl_retarget((const unsigned char *)three, sizeof three, &n_bytes);
    assert_non_null(other);
    assert_string_equal(other, ".target sm_90a\n.minnctapersm 3\n.reqntid 128, 1, 1\n{\n //groups a unit: 3\n}");
    static const char fewer[] = ".target sm_90\n.reqntid 384, 1, 1\n{\n //registers: 104\n}";
    SM_FREED char *limited = opencl_retarget((const unsigned char *)fewer, sizeof fewer, &n_bytes);
    assert_string_equal(limited, ".target sm_90a\n.maxnreg 104\n.reqntid 384, 1, 1\n{\n //registers: 104\n}");
    assert_null(opencl_retarget((const unsigned char *)"\177ELF", 4, &n_bytes));
}

// As cuTensorMapEncodeTiled makes it of the same matrix.
TEST(test_tensor_map) {
    static const opencl_tensor_map bf16 = {.dtype = SM_BF16, .n_dims = 2, .dims = {4096, 4096}, .box = {64, 128}};
    static const opencl_tensor_map f32 = {.dtype = SM_F32, .n_dims = 3, .dims = {768, 100, 7}, .box = {32, 64, 1}};
    static const struct {
        int at;
        unsigned char value;
    } bf16_bytes[] = {{1, 0x9A},  {2, 0x78},  {3, 0x56},  {4, 0x34},  {5, 0x12},  {8, 0x10}, {9, 0x65},
                      {13, 0x02}, {32, 0xFF}, {33, 0x0F}, {36, 0xFF}, {37, 0x0F}, {55, 63},  {56, 127}},
      f32_bytes[] = {{8, 0xA0},  {9, 0x63}, {12, 192}, {16, 0x00}, {17, 0x4B}, {32, 0xFF},
                     {33, 0x02}, {36, 99},  {40, 6},   {55, 31},   {56, 63}};
    unsigned char expected[OPENCL_MAP_BYTES] = {0}, map[OPENCL_MAP_BYTES];
    for (size_t i = 0; i < sizeof bf16_bytes / sizeof bf16_bytes[0]; i++) {
        expected[bf16_bytes[i].at] = bf16_bytes[i].value;
    }
    opencl_encode_map(&bf16, 0x123456789A00, map);
    assert_memory_equal(map, expected, sizeof map);
    memset(expected, 0, sizeof expected);
    for (size_t i = 0; i < sizeof f32_bytes / sizeof f32_bytes[0]; i++) {
        expected[f32_bytes[i].at] = f32_bytes[i].value;
    }
    opencl_encode_map(&f32, 0, map);
    assert_memory_equal(map, expected, sizeof map);
}

// How the first way to compute a product of verify's cases begins, on a card that has the units but not wgmma.
static void check_way(const char *shape, sm_precision precision, const char *begins) {
    static const opencl_facts facts = {.n_units = 132, .max_group = 1024, .local_bytes = 48 * 1024};
    const sm_op_kind kind = SM_OP_MATMUL_FORWARD;
    char text[SM_CASE_TEXT_SIZE] = "";
    SM_OWN(sm_plan) *plan = NULL;
    opencl_product product;
    int index = 0;
    while (strcmp(text, shape) != 0) {
        assert_true(index < sm_op_case_count(kind));
        sm_op_case_text(kind, index++, text);
    }
    check(sm_op_case_plan(kind, index - 1, precision, &plan));
    check(sm_plan_assign_memory(plan, 0));
    assert_true(opencl_is_product(plan, &plan->ops[plan->n_ops - 1], &product));
    assert_true(opencl_family_tensor.matmul_way(&facts, &product, 0, text, sizeof text));
    assert_memory_equal(text, begins, strlen(begins));
}

// What goes to the units: 16-bit numbers, and floats that may be rounded, in rows of a multiple of 16 bytes. All else is as in local.
TEST(test_tensor_ways) {
    const sm_precision f32 = {SM_F32, SM_PRODUCTS_PLAIN};
    const sm_precision tf32 = {SM_F32, SM_PRODUCTS_TF32};
    const sm_precision bf16 = {SM_BF16, SM_PRODUCTS_PLAIN};
    check_way("N=120 C=264 F=200", bf16, "mma 128x128 of 64x64");
    check_way("N=120 C=264 F=200", tf32, "mma 128x128 of 64x64");
    check_way("N=120 C=264 F=200", (sm_precision){SM_F32, SM_PRODUCTS_TF32X3}, "mma 128x128 of 64x32");
    check_way("N=120 C=264 F=200", f32, "64x128x8 of 8x8");
    check_way("N=700 C=36 F=40", tf32, "mma 128x128");
    check_way("N=700 C=36 F=40", bf16, "64x128x8 of 8x8");
    check_way("N=17 C=33 F=65", tf32, "64x128x8 of 8x8");
}

TEST(test_ops) { assert_true(check_ops((sm_precision){.dtype = SM_F32}, NULL, 0) > 300); }

// The family of kernels for cards runs on every device, if slowly.
TEST(test_ops_local) { assert_true(check_ops((sm_precision){.dtype = SM_F32}, "local", 0) > 300); }

TEST(test_step) {
    tally t = {0};
    SM_OWN(sm_device) *device = open_device(NULL);
    check(sm_verify_step(device, (sm_precision){.dtype = SM_F32}, SM_MODE_NAIVE, SM_RECOMPUTE_AUTO, 0, show_row, &t));
    check(sm_verify_step(device, (sm_precision){.dtype = SM_F32}, SM_MODE_FUSED, SM_RECOMPUTE_LIGHT, 0, show_row, &t));
    check(sm_verify_step(device, (sm_precision){.dtype = SM_F32}, SM_MODE_FUSED, SM_RECOMPUTE_BLOCK, 0, show_row, &t));
    check(sm_verify_documents(device, (sm_precision){.dtype = SM_F32}, SM_MODE_FUSED, show_row, &t));
    assert_int_equal(t.n_skipped, 0);
}

// --- training -------------------------------------------------------------------------------------

static const sm_model_config model = {MODEL(gpt2, 2, 2, 24, 96, 67, 19)};

enum { BATCH = 3, SEQUENCE = 19, N_STEPS = 50, MOST_ELEMS = 128 * 24 };

static sm_dtype dtype = SM_F32; // of the sessions

static sm_status open_session(sm_device *device, int64_t B, double dropout_p, sm_session **session) {
    sm_plan *plan = NULL;
    const sm_plan_options options = {TRAINING(B, SEQUENCE, dtype), .dropout_p = dropout_p, .seed = 3,
                                     .max_tensor_bytes = device->info.max_alloc_bytes};
    SM_TRY(sm_model_build(&model, &options, &plan));
    SM_TRY(sm_plan_rewrite(plan, SM_MODE_FUSED, 0));
    return sm_session_open(device, plan, session);
}

static bool any_squares(SM_UNUSED const opencl_facts *f, SM_UNUSED const opencl_product *p, SM_UNUSED int way) {
    return true;
}

// Several ops write to the tied embedding's gradient; the first of several micro-batches leaves no sum.
TEST(test_squares_are_of_whole_gradients) {
    const opencl_device device = {.family = &(const opencl_family){.matmul_squares = any_squares}};
    for (int one = 0; one < 2; one++) {
        const sm_plan_options options = {TRAINING(1, SEQUENCE, SM_F32), .one_micro_batch = one};
        SM_OWN(sm_plan) *plan = build_plan(&model, &options, SM_MODE_FUSED, 0);
        int n = 0;
        for (int i = 0; i < plan->n_ops; i++) {
            n += opencl_leaves_squares(&device, plan, &plan->ops[i]);
        }
        assert_int_equal(n, one ? 4 * 2 : 0); // products of two layers
    }
}

static sm_session *start_training(sm_device *device, double dropout_p) {
    sm_session *session = NULL;
    int32_t tokens[BATCH * SEQUENCE], targets[BATCH * SEQUENCE];
    check(open_session(device, BATCH, dropout_p, &session));
    check(sm_session_draw(session, 11));
    for (int i = 0; i < BATCH * SEQUENCE; i++) {
        tokens[i] = i * 29 % 67;
        targets[i] = i % 5 == 4 ? -1 : (i + 1) * 29 % 67;
    }
    check(sm_session_set_batch(session, tokens, targets));
    return session;
}

static double train_step(sm_session *session, int step) {
    sm_step_settings settings = sm_optimizer_adamw.defaults;
    double loss = 0;
    settings.grad_clip = 1;
    check(sm_session_set_hyper(session, &settings, step, 1));
    check(sm_session_run(session, SM_RUN_STEP, NULL));
    check(sm_session_loss(session, &loss));
    return loss;
}

TEST(test_losses_as_cpu) {
    SM_OWN(sm_device) *device = open_device(NULL);
    SM_OWN(sm_device) *cpu = NULL;
    check(sm_backend_find("cpu")->open(0, &(sm_open_options){0}, &cpu));
    SM_OWN(sm_session) *here = start_training(device, 0);
    SM_OWN(sm_session) *there = start_training(cpu, 0);
    double first = 0, last = 0;
    for (int step = 1; step <= N_STEPS; step++) {
        double expected = train_step(there, step);
        last = train_step(here, step);
        first = step == 1 ? last : first;
        FAIL_IF(!(fabs(last - expected) <= 1e-4 * expected), "step %d: loss %.7f, the cpu backend has %.7f", step, last,
                expected);
    }
    assert_true(last < 0.9 * first);
}

// Trains both, compares all weights, and closes them.
static void check_same_bits(sm_session *runs[2]) {
    float values[2][MOST_ELEMS];
    for (int run = 0; run < 2; run++) {
        for (int step = 1; step <= 3; step++) {
            train_step(runs[run], step);
        }
    }
    for (int i = 0; i < runs[0]->plan->n_tensors; i++) {
        if (sm_plan_is_param(runs[0]->plan, i)) {
            const int64_t n = runs[0]->plan->tensors[i].real_elems;
            for (int run = 0; run < 2; run++) {
                check(sm_session_read(runs[run], i, n, values[run]));
            }
            assert_memory_equal(values[0], values[1], (size_t)n * sizeof(float));
        }
    }
    sm_session_close(runs[0]);
    sm_session_close(runs[1]);
}

// OF_FLOATS makes a difference in plans of 16 bits alone.
TEST(test_plain_programs_are_one) {
    SM_OWN(sm_device) *device = open_device("local");
    sm_session_close(start_training(device, 0));
    assert_true(opencl_is_built((const opencl_device *)device, "plain", "-DWHOLE"));
    assert_false(opencl_is_built((const opencl_device *)device, "plain", "-DWHOLE -DOF_FLOATS"));
}

TEST(test_same_bits_twice) {
    SM_OWN(sm_device) *device = open_device(NULL);
    check_same_bits((sm_session *[]){start_training(device, 0.1), start_training(device, 0.1)});
}

// Gradients of weights, and the sums of norms, in a queue of their own, and in the one of all other launches.
TEST(test_same_bits_in_two_queues) {
    SM_OWN(sm_device) *device = open_device("local");
    opencl_device *d = (opencl_device *)device;
    assert_non_null(d->aside);
    dtype = SM_BF16;
    sm_session *runs[2] = {NULL, start_training(device, 0.1)}; // too small for a second queue
    d->least_aside_flops = 0;
    runs[0] = start_training(device, 0.1);
    dtype = SM_F32;
    int n_aside[2] = {0}, n_sums[2] = {0};
    for (int run = 0; run < 2; run++) {
        const opencl_executable *e = (const opencl_executable *)runs[run]->executable;
        for (int i = 0; i < e->base.plan->n_ops; i++) {
            const sm_range launches = e->launches_of[i];
            const bool is_norm = e->base.plan->ops[i].kind == SM_OP_LAYERNORM_BACKWARD;
            for (int k = launches.first; k < launches.end; k++) {
                n_aside[run] += e->launches[k].is_aside;
                n_sums[run] += is_norm && e->launches[k].is_aside && k > launches.first;
            }
        }
    }
    assert_true(n_aside[0] > 2 + n_sums[0] && n_aside[1] == 0);
    assert_true(n_sums[0] > OPENCL_NORM_PLACES); // so that places are used again
    check_same_bits(runs);
}

// Timed op by op, each op takes time and the results stay the same.
TEST(test_timed) {
    SM_OWN(sm_device) *device = open_device(NULL);
    SM_OWN(sm_session) *timed = start_training(device, 0);
    SM_OWN(sm_session) *plain = start_training(device, 0);
    SM_FREED int64_t *op_ns = sm_calloc((size_t)timed->plan->n_ops, sizeof *op_ns);
    double loss;
    int n_timed = 0;
    check(sm_session_set_hyper(timed, &sm_optimizer_adamw.defaults, 1, 1));
    check(sm_session_run(timed, SM_RUN_STEP, op_ns));
    check(sm_session_loss(timed, &loss));
    for (int i = 0; i < timed->plan->n_ops; i++) {
        n_timed += op_ns[i] > 0;
    }
    assert_true(n_timed > timed->plan->n_ops / 2); // a clock may be coarse
    assert_true(loss == train_step(plain, 1));
}

// --- what goes wrong -------------------------------------------------------------------------------

TEST(test_out_of_memory) {
    SM_OWN(sm_device) *device = open_device(NULL);
    sm_session *session = NULL;
    const int64_t B = (int64_t)(device->info.memory_bytes / SEQUENCE / 64);
    assert_int_equal(open_session(device, B, 0, &session), SM_ERR_OOM);
    assert_null(session);
    assert_non_null(strstr(sm_error_message(), "GiB"));
    session = start_training(device, 0); // and the process continues
    assert_true(isfinite(train_step(session, 1)));
    sm_session_close(session);
}

// A kernel that runs for as long as go[0] is 0, put into the queue before a step.
static void enqueue_endless(opencl_device *device, volatile cl_int *go, cl_mem *flag) {
    cl_program program = NULL;
    cl_int code = CL_SUCCESS;
    const size_t one = 1;
    check(opencl_build_source(device, "endless",
                              "kernel void endless(global volatile int *go) { while (go[0] == 0) { } }", "", &program));
    *flag = opencl.clCreateBuffer(device->context, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, 4096, (void *)(uintptr_t)go,
                                  &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_kernel kernel = opencl.clCreateKernel(program, "endless", &code);
    assert_int_equal(code, CL_SUCCESS);
    assert_int_equal(opencl.clSetKernelArg(kernel, 0, sizeof *flag, flag), CL_SUCCESS);
    assert_int_equal(opencl.clEnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL),
                     CL_SUCCESS);
    opencl.clReleaseKernel(kernel); // the driver keeps both until the kernel has run
    opencl.clReleaseProgram(program);
}

// A step after that, and the sessions and devices after it.
TEST(test_hanging_kernel) {
    sm_device *device = open_device(NULL);
    sm_device *again = NULL;
    double loss = 0;
    cl_mem flag = NULL;
    if (!((opencl_device *)device)->facts.shares_host_memory) {
        backend->close(device);
        skip(); // nothing could end the kernel
    }
    volatile cl_int *go = aligned_alloc(4096, 4096);
    assert_non_null((void *)(uintptr_t)go);
    *go = 0;
    sm_session *session = start_training(device, 0);
    session->executable->deadline_ns = sm_now_ns() + 60000000000;
    const double before = train_step(session, 1);
    assert_true(isfinite(before)); // a limit that is not reached changes nothing

    enqueue_endless((opencl_device *)device, go, &flag);
    session->executable->deadline_ns = sm_now_ns() + 50000000;
    check(sm_session_run(session, SM_RUN_STEP, NULL));
    assert_int_equal(sm_session_synchronize(session), SM_ERR_TIMEOUT);
    assert_non_null(strstr(sm_error_message(), "hangs"));
    assert_int_equal(sm_session_loss(session, &loss), SM_ERR_TIMEOUT);
    assert_int_equal(sm_session_run(session, SM_RUN_STEP, NULL), SM_ERR_TIMEOUT);
    sm_session_close(session); // which may not wait either
    backend->close(device);
    assert_int_equal(backend->open(usable, &(sm_open_options){0}, &again), SM_ERR_TIMEOUT);
    assert_null(again);

    *go = 1;
    device = open_device(NULL);
    session = start_training(device, 0);
    assert_true(train_step(session, 1) == before);
    sm_session_close(session);
    backend->close(device);
    opencl.clReleaseMemObject(flag);
    free((void *)(uintptr_t)go);
}

TEST(test_build_failure) {
    opencl_device *device = (opencl_device *)open_device(NULL);
    cl_program program = NULL;
    assert_int_equal(
        opencl_build_source(device, "broken", "kernel void f(global int *x) { x[0] = missing; }", "", &program),
        SM_ERR_DEVICE);
    assert_null(program);
    assert_non_null(strstr(sm_error_message(), "broken"));
    assert_non_null(strstr(sm_error_message(), "missing")); // a line of the build log
    backend->close(&device->base);
}

// Elements past 2^31 and 2^32: more than fits in most devices, so the arithmetic is run by itself.
TEST(test_large_indices) {
    static const char probe[] = "kernel void probe(ulong row, ulong n_cols, global ulong *start) "
                                "{ start[0] = row_start(row, n_cols) + 3; }";
    const cl_ulong cases[][2] = {{70000, 50304}, {1000003, 50304}, {UINT64_C(1) << 33, 5}};
    opencl_device *device = (opencl_device *)open_device(NULL);
    cl_program program = NULL;
    cl_int code = CL_SUCCESS;
    const sm_embedded *prelude = opencl_find_source("prelude");
    assert_non_null(prelude);
    SM_FREED char *source = NULL;
    assert_true(asprintf(&source, "#define SM_ACTIVATION_PAIRS(X)\n%.*s%s", (int)prelude->size_bytes, prelude->text,
                         probe) > 0);
    check(opencl_build_source(device, "probe", source, "-cl-std=CL1.2", &program));
    cl_kernel kernel = opencl.clCreateKernel(program, "probe", &code);
    assert_int_equal(code, CL_SUCCESS);
    cl_mem out = opencl.clCreateBuffer(device->context, CL_MEM_READ_WRITE, sizeof(cl_ulong), NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const size_t one = 1;
        cl_ulong start = 0;
        const opencl_argument arguments[] = {OPENCL_ARGUMENT(cases[i][0]), OPENCL_ARGUMENT(cases[i][1]),
                                             OPENCL_ARGUMENT(out)};
        check(opencl_set_arguments(device, kernel, arguments, 3));
        check(OPENCL_CALL(device, clEnqueueNDRangeKernel, device->queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL));
        check(OPENCL_CALL(device, clEnqueueReadBuffer, device->queue, out, CL_TRUE, 0, sizeof start, &start, 0, NULL,
                          NULL));
        assert_true(start == cases[i][0] * cases[i][1] + 3);
    }
    opencl.clReleaseMemObject(out);
    opencl.clReleaseKernel(kernel);
    opencl.clReleaseProgram(program);
    backend->close(&device->base);
}

TEST(test_error_names) {
    assert_string_equal(opencl_error_name(CL_OUT_OF_RESOURCES), "CL_OUT_OF_RESOURCES");
    assert_string_equal(opencl_error_name(-9999), "CL error -9999");
    assert_int_equal(opencl_fail("opencl:0.0", "test", CL_MEM_OBJECT_ALLOCATION_FAILURE), SM_ERR_OOM);
    assert_int_equal(opencl_fail("opencl:0.0", "test", CL_INVALID_KERNEL_ARGS), SM_ERR_DEVICE);
    assert_string_equal(sm_error_message(), "opencl:0.0: test: CL_INVALID_KERNEL_ARGS (-52)");
}

// --- the cache ---------------------------------------------------------------------------------------

static char damaged[PATH_MAX];

static int keep_file(const char *path, SM_UNUSED const struct stat *info, int type, SM_UNUSED struct FTW *where) {
    if (type == FTW_F) {
        snprintf(damaged, sizeof damaged, "%s", path);
    }
    return 0;
}

// Changes byte `at` of the only entry, or cuts the entry there.
static void damage_entry(long at, bool cut) {
    assert_int_equal(nftw(temp_folder, keep_file, 16, FTW_PHYS), 0);
    if (cut) {
        assert_int_equal(truncate(damaged, at), 0);
        return;
    }
    FILE *file = fopen(damaged, "r+b");
    assert_non_null(file);
    fseek(file, at, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, at, SEEK_SET);
    fputc(byte ^ 1, file);
    assert_int_equal(fclose(file), 0);
}

// A cache folder of one's own, and back. Returns what the variable was, which the second call takes.
static const char *enter_cache(void) {
    assert_int_equal(temp_folder_make(NULL), 0);
    return set_variable("XDG_CACHE_HOME", temp_folder);
}

static void leave_cache(const char *saved) {
    set_variable("XDG_CACHE_HOME", saved);
    temp_folder_remove(NULL);
}

static unsigned char *load_entry(const char *key, size_t *size_bytes) {
    unsigned char *binary = NULL;
    assert_int_equal(opencl_cache_load(key, &binary, size_bytes), SM_OK);
    return binary;
}

TEST(test_cache) {
    static const unsigned char binary[] = "what a driver built";
    size_t size_bytes = 0;
    const char *saved = enter_cache();
    assert_null(load_entry("key", &size_bytes));
    for (int fault = 0; fault < 4; fault++) {
        opencl_cache_store("key", binary, sizeof binary);
        SM_FREED unsigned char *loaded = load_entry("key", &size_bytes);
        assert_non_null(loaded);
        assert_int_equal(size_bytes, sizeof binary);
        assert_memory_equal(loaded, binary, sizeof binary);
        assert_null(load_entry("another key", &size_bytes));
        switch (fault) { // magic, key, binary, length
        case 0: damage_entry(0, false); break;
        case 1: damage_entry(33, false); break;
        case 2: damage_entry(40, false); break;
        default: damage_entry(20, true); break;
        }
        assert_null(load_entry("key", &size_bytes));
    }
    leave_cache(saved);
}

// --- programs built by several processes ----------------------------------------------------------------

// Four ops, of a program each.
static sm_plan *make_four(const sm_device *device) {
    const int64_t wide[] = {1, 4, 16};
    const int64_t narrow[] = {1, 4, 8};
    sm_plan *plan = sm_plan_new(SM_F32);
    assert_non_null(plan);
    const int x = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 3, wide, "x");
    const int y = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 3, narrow, "y");
    const int w = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 1, narrow + 2, "w");
    const int z = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 3, narrow, "z");
    const int rstd = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 2, narrow, "rstd");
    const int mean = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 2, narrow, "mean");
    const int turned = sm_plan_add_tensor(plan, SM_ROLE_ACTIVATION, SM_F32, 3, wide, "turned");
    sm_op rope = {.kind = SM_OP_ROPE, .out = {turned}};
    sm_op layernorm = {
        .kind = SM_OP_LAYERNORM_FORWARD, .in = {z, w, w, SM_NO_TENSOR}, .out = {y, mean, rstd, SM_NO_TENSOR}};
    rope.in[SM_IN(rope, x)] = x;
    rope.in[SM_IN(rope, starts)] = SM_NO_TENSOR;
    rope.attr.n_head = 2; // of 4 channels, and as many of keys and of values for one
    rope.attr.n_kv_head = 1;
    rope.attr.rope_theta = 10000;
    sm_op swiglu = {.kind = SM_OP_SWIGLU_FORWARD, .in = {x}, .out = {y}};
    sm_op rmsnorm = {.kind = SM_OP_RMSNORM_FORWARD, .in = {y, w, SM_NO_TENSOR}, .out = {z, rstd, SM_NO_TENSOR}};
    check(sm_plan_add_op(plan, &swiglu));
    check(sm_plan_add_op(plan, &rmsnorm));
    check(sm_plan_add_op(plan, &layernorm));
    check(sm_plan_add_op(plan, &rope));
    check(sm_plan_assign_memory(plan, device->info.max_alloc_bytes));
    return plan;
}

// As on a device whose driver does not keep what it builds.
static void prepare_with(const char *helper) {
    sm_executable *e = NULL;
    SM_OWN(sm_device) *device = NULL;
    check(backend->open(usable, &(sm_open_options){.isa = "registers", .helper = helper}, &device));
    ((opencl_device *)device)->facts.keeps_builds = false;
    SM_OWN(sm_plan) *plan = make_four(device);
    check(backend->prepare(device, plan, &e));
    backend->release(e);
}

// Whether a helper builds its programs or none does, all are there in the end.
TEST(test_helpers) {
    static const char *const helpers[] = {SM_TEST_BINARY, "/bin/false", "/nothing/there"};
    SKIP_IF(usable < 0);
    for (size_t i = 0; i < sizeof helpers / sizeof helpers[0]; i++) {
        const char *saved = enter_cache();
        prepare_with(helpers[i]);
        assert_int_equal(temp_count(temp_path("stepmark/opencl")), 4);
        leave_cache(saved);
    }
}

// They may wait before there is a plan, and then for one of another device.
TEST(test_early_helpers) {
    static const char *const helpers[] = {SM_TEST_BINARY, "/bin/false"};
    SKIP_IF(usable < 0);
    for (size_t i = 0; i < sizeof helpers / sizeof helpers[0]; i++) {
        const char *saved = enter_cache();
        backend->foresee(helpers[i], i == 1); // and with its drivers, where processes exchange
        opencl_begin_early(opencl_device_facts(usable));
        backend->foresee(NULL, false);
        prepare_with(helpers[i]);
        assert_int_equal(temp_count(temp_path("stepmark/opencl")), 4);
        leave_cache(saved);
    }
}

static os_child start_helper(const char *index, host_pipe *work, host_pipe *done) {
    char *const argv[] = {(char *)SM_TEST_BINARY, (char *)"--helper", (char *)"opencl", (char *)index, NULL};
    os_child helper;
    assert_true(host_start_helper(argv, work->take, done->put, &helper));
    sm_close_at(&work->put);
    sm_close_at(&work->take);
    sm_close_at(&done->put);
    return helper;
}

static bool ends_well(os_child helper) { return host_await_helper(&helper, host_now_ns() + (int64_t)60e9); }

// Whether a program builds or not, the next is taken, and this process is told; the helper stays until nobody listens.
TEST(test_help) {
    enum { N = 2 };
    static const opencl_named_program programs[N] = {{"registers", "nothing", ""}, {"registers", "swiglu", ""}};
    host_pipe work, done;
    char index[16], byte;
    SKIP_IF(usable < 0);
    assert_true(host_open_pipe(&work) && host_open_pipe(&done));
    assert_true(host_put(work.put, programs, sizeof programs));
    snprintf(index, sizeof index, "%d", usable);
    const os_child helper = start_helper(index, &work, &done);
    for (int i = 0; i < N; i++) {
        assert_true(host_take(done.take, &byte, 1));
    }
    assert_false(host_await_record(done.take, host_now_ns() + (int64_t)50e6));
    sm_close_at(&done.take);
    assert_true(ends_well(helper));
}

TEST(test_help_without_device) {
    static const char *const indices[] = {"1000", NULL};
    for (size_t i = 0; i < sizeof indices / sizeof indices[0]; i++) {
        host_pipe work, done;
        assert_true(host_open_pipe(&work) && host_open_pipe(&done));
        assert_false(ends_well(start_helper(indices[i], &work, &done)));
        sm_close_at(&done.take);
    }
}

// --- choices by measurement ----------------------------------------------------------------------------

enum { TUNED_ELEMS = 36 * 40 };

// Prepares, and again as long as tuning was cut off by its time: on a busy machine one go does not try everything.
static void prepare_whole(sm_device *device, const sm_plan *plan, sm_executable **e) {
    check(backend->prepare(device, plan, e));
    for (int again = 0; again < 10 && (*e)->tune_warning[0] != '\0'; again++) {
        backend->release(*e);
        check(backend->prepare(device, plan, e));
    }
    assert_string_equal((*e)->tune_warning, "");
}

static __typeof__(&clCreateBuffer) create_buffer;

// A buffer that ends where memory does: a kernel that goes on behind it ends the test.
static cl_mem create_guarded(cl_context context, cl_mem_flags flags, size_t size, SM_UNUSED void *data, cl_int *code) {
    enum { PAGE = 1 << 16 }; // and 128 bytes: the largest vector
    const size_t inside = (size + PAGE - 1) / PAGE * PAGE;
    char *map = mmap(NULL, inside + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED && mprotect(map + inside, PAGE, PROT_NONE) == 0);
    return create_buffer(context, flags | CL_MEM_USE_HOST_PTR, size, map + inside - ((size + 127) & ~(size_t)127),
                         code);
}

// The gradient of a weight (36,40), from 700 rows: K is long, so that it can be cut.
static void run_product(sm_device *device, bool tuned, float dw[TUNED_ELEMS]) {
    static const char text[] = "N=700 C=36 F=40";
    opencl_device *d = (opencl_device *)device;
    char name[OPENCL_PRODUCT_NAME_SIZE], other[OPENCL_PRODUCT_NAME_SIZE];
    SM_OWN(sm_plan) *plan = NULL;
    sm_executable *e = NULL;
    check(sm_op_text_plan(SM_OP_MATMUL_BACKWARD_WEIGHT, text, (sm_precision){.dtype = SM_F32}, &plan));
    plan->tuned = tuned;
    check(sm_plan_assign_memory(plan, device->info.max_alloc_bytes));
    const sm_op *op = &plan->ops[plan->n_ops - 1];
    d->trial = &(int){2}; // a way with most parts
    const size_t most_bytes = sizeof(float) * opencl_op_scratch_elems(d, plan, op, false);
    d->trial = NULL;
    assert_true(!tuned || backend->working_bytes(device, plan) >= most_bytes);
    prepare_whole(device, plan, &e);
    assert_int_equal(e->tune_ns > 0, tuned);
    assert_true(((opencl_executable *)e)->scratch_at[OPENCL_ASIDE] >=
                opencl_op_scratch_elems(d, plan, op, false)); // as the way chosen needs
    check(sm_op_text_upload(text, 1, plan, e));
    check(backend->execute(e, (sm_range){0, plan->n_ops}, NULL));
    check(backend->download(e, op->out[SM_OUT(matmul_backward_weight, dW)], 0, TUNED_ELEMS, dw));
    backend->release(e);
    const opencl_product product = opencl_describe_product(plan, op);
    opencl_name_product(&product, name);
    plan->products = SM_PRODUCTS_TF32; // other ways, and choices of their own
    opencl_name_product(&product, other);
    assert_string_not_equal(name, other);
}

// A tuned plan computes what another does; what was measured is on disk, and is not measured again.
TEST(test_tuned) {
    static float expected[TUNED_ELEMS], measured[TUNED_ELEMS], remembered[TUNED_ELEMS];
    for (int i = 0; i < 2; i++) {
        const char *saved = enter_cache();
        sm_device *device = open_device(i == 0 ? "local" : "registers");
        create_buffer = opencl.clCreateBuffer;
        opencl.clCreateBuffer = device->info.is_host_processor ? create_guarded : create_buffer;
        run_product(device, false, expected);
        run_product(device, true, measured);
        backend->close(device);
        device = open_device(i == 0 ? "local" : "registers");
        run_product(device, true, remembered);
        backend->close(device);
        opencl.clCreateBuffer = create_buffer;
        leave_cache(saved);
        assert_true(sm_verify_error(SM_F32, TUNED_ELEMS, measured, expected, 0) < 1e-5);
        assert_memory_equal(measured, remembered, sizeof measured);
    }
}

AROUND_ALL(find_device, NULL)
