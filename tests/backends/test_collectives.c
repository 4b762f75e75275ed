// test_collectives.c: one card's part in exchanges by NCCL and by links: memory that OpenCL and CUDA share, a stream
// that waits for a queue in each way, one process's exchanges, sums of several parts, and what is missing. Run where
// there is a card of NVIDIA's, it uses that card and its libraries. Elsewhere it starts again with a card in the host's
// memory (tests/shims).
#define OWN_MAIN
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include "backends/opencl/peers/peers.h"
#include "f16.h"
#include "shard.h"
#include "tests/support/opencl_device.h"

enum { N = 100 * SM_SLICE_BLOCK + 3 };

static const sm_collectives *library, *nccl_library, *links;
static bool is_real; // a card, not the host's memory

static float number_at(int i) { return (float)((i * 7919) % 100003 - 50000) / 777.0f; }

static float rounded(float x) { return sm_bf16_widen(sm_bf16_round(x)); }

// --- a plan of one bucket --------------------------------------------------------------------------

typedef struct {
    sm_device *device;
    sm_plan *plan;
    sm_executable *executable;
    int tensor;
    void *ticket;
    float values[N];
} bench;

static void join_alone(sm_device *device) {
    unsigned char id[SM_COLLECTIVES_ID_BYTES];
    check(library->find(device, NULL));
    check(library->make_id(device, id));
    check(library->join(device, id, 0, 1));
}

static sm_plan *make_plan(bool is_bf16, int *tensor) {
    const int64_t dims[] = {N};
    sm_plan *plan = sm_plan_new(SM_F32);
    assert_non_null(plan);
    plan->processes = (sm_processes){.n = 2, .is_bf16 = is_bf16};
    *tensor = sm_plan_add_tensor(plan, SM_ROLE_GRADIENT, SM_F32, 1, dims, "g");
    plan->buckets = calloc(1, sizeof *plan->buckets);
    plan->n_buckets = 1;
    assert_non_null(plan->buckets);
    plan->buckets[0] = (sm_bucket){.n_elems = N, .gradient = *tensor};
    sm_op zero = sm_op_make(SM_OP_ZERO, SM_PHASE_ZERO_GRAD, -1);
    zero.out[0] = *tensor;
    check(sm_plan_add_op(plan, &zero));
    return plan;
}

static bench *set_up(bool is_bf16) {
    bench *b = sm_calloc(1, sizeof *b);
    b->device = open_device("registers");
    join_alone(b->device);
    b->plan = make_plan(is_bf16, &b->tensor);
    check(sm_plan_assign_memory(b->plan, b->device->info.max_alloc_bytes));
    check(backend->prepare(b->device, b->plan, &b->executable));
    for (int i = 0; i < N; i++) {
        b->values[i] = number_at(i);
    }
    check(backend->upload(b->executable, b->tensor, 0, N, b->values));
    return b;
}

static void tear_down(bench *b) {
    backend->release(b->executable);
    backend->close(b->device);
    sm_plan_free(b->plan);
    free(b);
}

static void exchange(bench *b, sm_collective_kind kind, bool is_bf16) {
    const sm_collective what = {.kind = kind, .tensor = b->tensor, .line_elems = SM_SLICE_BLOCK, .is_bf16 = is_bf16};
    check(library->begin(b->executable, &what, &b->ticket));
    if (library->hand_over != NULL) {
        check(library->hand_over(b->executable, &b->ticket, 1));
    }
    bool is_done = false;
    while (!is_done) {
        check(library->is_done(b->executable, b->ticket, &is_done));
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    assert_true(library->elapsed_ns(b->executable, b->ticket) >= 0);
    check(library->finish(b->executable, b->ticket));
    check(backend->download(b->executable, b->tensor, 0, N, b->values));
}

// --- what is missing ---------------------------------------------------------------------------------

static void expect(sm_status status, sm_status wanted, const char *part) {
    assert_int_equal(status, wanted);
    FAIL_IF(strstr(sm_error_message(), part) == NULL || strchr(sm_error_message(), '\n') != NULL,
            "not one line with \"%s\": %s", part, sm_error_message());
}

// The first test, as a library that was found stays.
TEST(test_missing) {
    sm_device *device = open_device("registers");
    expect(library->find(device, "/nowhere/libnccl.so.2"), SM_ERR_UNSUPPORTED, "--nccl: /nowhere/libnccl.so.2");
    setenv("STEPMARK_NCCL", "/elsewhere/libnccl.so.2", 1);
    expect(library->find(device, NULL), SM_ERR_UNSUPPORTED, "STEPMARK_NCCL: /elsewhere/libnccl.so.2");
    unsetenv("STEPMARK_NCCL");
    expect(library->find(device, "libdl.so.2"), SM_ERR_UNSUPPORTED, "libdl.so.2 has no nccl");
    if (!is_real) {
        backend->close(device);
        device = open_device("registers");
        unsetenv("STEPMARK_CARD");
        assert_false(library->suits(device));
        expect(library->find(device, NULL), SM_ERR_UNSUPPORTED, "cl_khr_external_memory_opaque_fd");
        setenv("STEPMARK_CARD", "refuses", 1);
        unsigned char id[SM_COLLECTIVES_ID_BYTES] = {0};
        check(library->find(device, NULL));
        expect(library->join(device, id, 0, 1), SM_ERR_DEVICE, "clCreateBufferWithProperties");
        setenv("STEPMARK_CARD", "1", 1);
    }
    backend->close(device);
}

// --- exchanges of one process ------------------------------------------------------------------------

static void check_kinds(bench *b) {
    static const sm_collective_kind kinds[] = {SM_COLLECTIVE_ALL_REDUCE, SM_COLLECTIVE_REDUCE_SCATTER,
                                               SM_COLLECTIVE_ALL_GATHER};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        memset(b->values, 0, sizeof b->values);
        exchange(b, kinds[k], false);
        for (int i = 0; i < N; i++) {
            assert_true(b->values[i] == number_at(i));
        }
    }
    check(backend->execute(b->executable, (sm_range){0, 1}, NULL)); // zeros, which the exchange must wait for
    exchange(b, SM_COLLECTIVE_ALL_REDUCE, false);
    for (int i = 0; i < N; i++) {
        assert_true(b->values[i] == 0);
    }
}

TEST(test_best_order) {
    char text[SM_COLLECTIVES_TEXT_SIZE];
    bench *b = set_up(false);
    library->describe(b->device, text);
    print_message("%s\n", text);
    assert_non_null(strstr(text, "NCCL "));
    assert_non_null(strstr(text, "Ring, Simple"));
    check_kinds(b);
    tear_down(b);
}

TEST(test_host_order) {
    bench *b = set_up(false);
    ((opencl_device *)b->device)->peers->order = OPENCL_ORDER_HOST;
    check_kinds(b);
    tear_down(b);
}

TEST(test_bf16) {
    bench *b = set_up(true);
    exchange(b, SM_COLLECTIVE_ALL_REDUCE, true);
    for (int i = 0; i < N; i++) {
        assert_true(b->values[i] == rounded(number_at(i)));
    }
    tear_down(b);
}

// --- links -------------------------------------------------------------------------------------------

TEST(test_links) {
    library = links;
    for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
        bench *b = set_up(is_bf16);
        if (is_bf16) {
            exchange(b, SM_COLLECTIVE_ALL_REDUCE, true);
            for (int i = 0; i < N; i++) {
                assert_true(b->values[i] == rounded(number_at(i)));
            }
        } else {
            check_kinds(b);
        }
        tear_down(b);
    }
    library = nccl_library;
}

// Sums of several parts, here of one device: element i of part r is number_at(i + 1000 r), rounded if `rounds`.
// Elements FIRST .. N - 1 of the own part are summed, in the order of ranks; what lies before them is unchanged.
enum { FIRST = 2 * SM_SLICE_LINE, EACH = (N - FIRST + SM_SLICE_LINE - 1) / SM_SLICE_LINE * SM_SLICE_LINE };

static float part_at(int rank, int i, bool rounds) {
    const float x = number_at(i + 1000 * rank);
    return rounds ? rounded(x) : x;
}

static void put(void *all, int i, float x, bool rounds) {
    if (rounds) {
        ((uint16_t *)all)[i] = sm_bf16_round(x);
    } else {
        ((float *)all)[i] = x;
    }
}

static cl_mem make_buffer(const opencl_device *d, size_t size_bytes, void *all) {
    cl_int code;
    cl_mem buffer = opencl.clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, size_bytes, all, &code);
    assert_int_equal(code, CL_SUCCESS);
    return buffer;
}

static void sum_parts(const opencl_device *d, int n_ranks, int own_rank, bool rounds, void *result) {
    const size_t theirs_bytes = (size_t)(n_ranks - 1) * EACH * sizeof(float);
    SM_FREED void *theirs = sm_calloc(1, theirs_bytes), *own = sm_calloc(N, sizeof(float));
    for (int rank = 0; rank < n_ranks; rank++) {
        for (int i = 0; i < N; i++) {
            const float x = part_at(rank, i, rounds);
            if (rank == own_rank) {
                put(own, i, x, rounds);
            } else if (i >= FIRST) {
                put(theirs, (rank - (rank > own_rank)) * EACH + i - FIRST, x, rounds);
            }
        }
    }
    cl_mem theirs_buffer = make_buffer(d, theirs_bytes, theirs), sum = make_buffer(d, N * sizeof(float), own);
    const cl_ulong n = N - FIRST, theirs_at = 0, each = EACH, sum_at = FIRST;
    const cl_uint n_parts = (cl_uint)n_ranks, own_part = (cl_uint)own_rank;
    const opencl_argument arguments[] = {
        OPENCL_ARGUMENT(n),         OPENCL_ARGUMENT(n_parts), OPENCL_ARGUMENT(own_part), OPENCL_ARGUMENT(theirs_buffer),
        OPENCL_ARGUMENT(theirs_at), OPENCL_ARGUMENT(each),    OPENCL_ARGUMENT(sum),      OPENCL_ARGUMENT(sum_at)};
    const size_t group = 64, n_items = (N / 4 + group) / group * group;
    cl_kernel kernel;
    check(opencl_get_kernel((opencl_device *)d, "links", "-DDATA_BF16", rounds ? "links_sum_rounded" : "links_sum",
                            &kernel));
    check(opencl_set_arguments(d, kernel, arguments, 8));
    assert_int_equal(opencl.clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &n_items, &group, 0, NULL, NULL), 0);
    assert_int_equal(opencl.clEnqueueReadBuffer(d->queue, sum, CL_TRUE, 0, N * sizeof(float), result, 0, NULL, NULL),
                     0);
    opencl_release_kernel(kernel);
    opencl_release_buffer(theirs_buffer);
    opencl_release_buffer(sum);
}

TEST(test_sums_of_links) {
    SM_OWN(sm_device) *device = open_device("registers");
    for (int k = 0; k < 8; k++) {
        const int n_ranks = k % 2 ? 2 : 5, own_rank = k / 2 % 2 ? n_ranks - 1 : n_ranks / 2 - 1;
        const bool rounds = k >= 4;
        float result[N];
        sum_parts((opencl_device *)device, n_ranks, own_rank, rounds, result);
        for (int i = 0; i < N; i++) {
            float wanted = part_at(i < FIRST ? own_rank : 0, i, rounds);
            for (int rank = 1; rank < n_ranks && i >= FIRST; rank++) {
                wanted += part_at(rank, i, rounds);
            }
            const float got = rounds ? sm_bf16_widen(((const uint16_t *)(void *)result)[i]) : result[i];
            assert_true(got == (rounds ? rounded(wanted) : wanted));
        }
    }
}

// --- what fails -------------------------------------------------------------------------------------

TEST(test_out_of_memory) {
    opencl_shared shared;
    SM_OWN(sm_device) *device = open_device("registers");
    join_alone(device);
    expect(opencl_share((opencl_device *)device, (size_t)512 << 20, &shared), SM_ERR_UNSUPPORTED,
           "OpenCL imports only pieces of less than 512 MiB");
    assert_null(shared.buffer);
    if (!is_real) {
        sm_executable *executable = NULL;
        int tensor;
        SM_OWN(sm_plan) *plan = make_plan(false, &tensor);
        setenv("STEPMARK_CARD_BYTES", "2097152", 1); // which the words have
        expect(opencl_share((opencl_device *)device, 1, &shared), SM_ERR_OOM,
               "cuMemCreate: CUDA_ERROR_OUT_OF_MEMORY (2)");
        assert_null(shared.buffer);
        check(sm_plan_assign_memory(plan, device->info.max_alloc_bytes));
        expect(backend->prepare(device, plan, &executable), SM_ERR_OOM, "use a smaller batch or model");
        setenv("STEPMARK_CARD_BYTES", "1073741824", 1);
    }
}

// NCCL's messages go through: a failed call, and one that failed since.
TEST(test_failures) {
    bool is_done;
    SKIP_IF(is_real);
    bench *b = set_up(false);
    const sm_collective what = {.kind = SM_COLLECTIVE_ALL_REDUCE, .tensor = b->tensor, .line_elems = SM_SLICE_BLOCK};
    setenv("STEPMARK_NCCL_FAULT", "exchange 1", 1);
    check(library->begin(b->executable, &what, &b->ticket));
    expect(library->hand_over(b->executable, &b->ticket, 1), SM_ERR_DEVICE, "NCCL: internal error of a test (3)");
    check(library->is_done(b->executable, b->ticket, &is_done));
    assert_false(is_done);
    unsetenv("STEPMARK_NCCL_FAULT");
    tear_down(b);
}

// --- where -------------------------------------------------------------------------------------------

// The loader looks for libraries where the environment said when the program began.
static void start_again(char **argv) {
    setenv("STEPMARK_OPENCL", opencl_loader(), 1);
    setenv("LD_LIBRARY_PATH", SM_TEST_SHIMS, 1);
    setenv("STEPMARK_CARD", "1", 1);
    setenv("STEPMARK_CARD_BYTES", "1073741824", 1);
    if (getenv("STEPMARK_OPENCL")[0] != '\0') {
        execv("/proc/self/exe", argv);
    }
}

static int set_up_all(void **state) {
    const int code = find_device(state);
    links = sm_collectives_of(backend, 0);
    library = nccl_library = sm_collectives_of(backend, 1);
    return code;
}

int main(SM_UNUSED int argc, char **argv) {
    is_real = getenv("STEPMARK_CARD") == NULL && dlopen("libcuda.so.1", RTLD_NOW) != NULL;
    if (!is_real && getenv("STEPMARK_CARD") == NULL) {
        start_again(argv);
    }
    return cmocka_run_group_tests(tests, set_up_all, NULL);
}
