// test_opencl_narrow.c: data in bf16 and fp16 on the first usable opencl device: conversions bit by bit, every op and
// whole steps in both families of kernels, and training that learns as in fp32. Skipped without a device.
#include "tests/support/opencl_ops.h"
#include "tests/support/training_curve.h"
#include "backends/opencl/program/program.h"

static const sm_dtype formats[] = {SM_BF16, SM_F16};

// --- conversions ------------------------------------------------------------------------------------

// Every number of a format, the middle between it and the next one, and the values just off that middle.
enum { N_CODES = 0x10000, N_VALUES = 4 * N_CODES + 3 };

static void fill_values(sm_dtype dtype, float *values) {
    SM_FREED uint16_t *codes = sm_malloc(N_CODES * sizeof *codes);
    SM_FREED float *numbers = sm_malloc(N_CODES * sizeof *numbers);
    for (uint32_t i = 0; i < N_CODES; i++) {
        codes[i] = (uint16_t)i;
    }
    sm_dtype_format(dtype)->widen(N_CODES, codes, numbers);
    for (uint32_t i = 0; i < N_CODES; i++) {
        const float next = numbers[i + 1 < N_CODES ? i + 1 : i], half_way = numbers[i] / 2 + next / 2;
        values[4 * i] = numbers[i];
        values[4 * i + 1] = half_way;
        values[4 * i + 2] = nextafterf(half_way, -INFINITY);
        values[4 * i + 3] = nextafterf(half_way, INFINITY);
    }
    values[4 * N_CODES] = 1e30f;
    values[4 * N_CODES + 1] = -65520.0f; // the first that fp16 has no finite number for
    values[4 * N_CODES + 2] = 65519.996f;
}

// The results of the prelude's stores and loads: codes, and these as floats again.
static void convert_on_device(opencl_device *device, sm_dtype dtype, int vector, const float *values, uint16_t *codes,
                              float *wide) {
    static const char probe[] = "kernel void probe(ulong n, const global float *x, global data *codes,\n"
                                "                  global float *wide) {\n"
                                "    const ulong i = get_global_id(0) * (ulong)VECTOR;\n"
                                "    if (i < n) {\n"
                                "        store_data_part(load_part(x + i, n - i, 0.0f), codes + i, n - i);\n"
                                "        store_part(load_data_part(codes + i, n - i, 0.0f), wide + i, n - i);\n"
                                "    }\n"
                                "}\n";
    const cl_ulong n = N_VALUES;
    const size_t n_items = (N_VALUES + (size_t)vector - 1) / (size_t)vector;
    const size_t sizes[] = {N_VALUES * sizeof(float), N_VALUES * sizeof(uint16_t), N_VALUES * sizeof(float)};
    cl_program program = NULL;
    cl_int code = CL_SUCCESS;
    cl_mem buffers[3];
    const sm_embedded *prelude = opencl_find_source("prelude");
    assert_non_null(prelude);
    SM_FREED char *source = sm_malloc(prelude->size_bytes + sizeof probe);
    memcpy(source, prelude->text, prelude->size_bytes);
    memcpy(source + prelude->size_bytes, probe, sizeof probe);
    check(opencl_build_source(device, "probe", source,
                              textf("-cl-std=CL1.2 -cl-denorms-are-zero -DVECTOR=%d -D%s", vector,
                                    dtype == SM_BF16 ? "DATA_BF16" : "DATA_F16"),
                              &program));
    cl_kernel kernel = opencl.clCreateKernel(program, "probe", &code);
    assert_int_equal(code, CL_SUCCESS);
    opencl.clSetKernelArg(kernel, 0, sizeof n, &n);
    for (cl_uint i = 0; i < 3; i++) {
        buffers[i] = opencl.clCreateBuffer(device->context, CL_MEM_READ_WRITE, sizes[i], NULL, &code);
        assert_int_equal(code, CL_SUCCESS);
        opencl.clSetKernelArg(kernel, i + 1, sizeof buffers[i], &buffers[i]);
    }
    opencl.clEnqueueWriteBuffer(device->queue, buffers[0], CL_TRUE, 0, sizes[0], values, 0, NULL, NULL);
    assert_int_equal(opencl.clEnqueueNDRangeKernel(device->queue, kernel, 1, NULL, &n_items, NULL, 0, NULL, NULL),
                     CL_SUCCESS);
    opencl.clEnqueueReadBuffer(device->queue, buffers[1], CL_TRUE, 0, sizes[1], codes, 0, NULL, NULL);
    opencl.clEnqueueReadBuffer(device->queue, buffers[2], CL_TRUE, 0, sizes[2], wide, 0, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        opencl.clReleaseMemObject(buffers[i]);
    }
    opencl.clReleaseKernel(kernel);
    opencl.clReleaseProgram(program);
}

static bool is_same(float x, float y) { return (isnan(x) && isnan(y)) || (x == y && signbit(x) == signbit(y)); }

static void check_conversions(opencl_device *device, sm_dtype dtype, int vector) {
    SM_FREED float *values = sm_malloc(N_VALUES * sizeof *values);
    SM_FREED float *expected = sm_malloc(N_VALUES * sizeof *expected);
    SM_FREED float *wide = sm_malloc(N_VALUES * sizeof *wide);
    SM_FREED float *widened = sm_malloc(N_VALUES * sizeof *widened);
    SM_FREED uint16_t *codes = sm_malloc(N_VALUES * sizeof *codes);
    fill_values(dtype, values);
    memcpy(expected, values, N_VALUES * sizeof *values);
    sm_dtype_round_trip(dtype, N_VALUES, expected);
    convert_on_device(device, dtype, vector, values, codes, wide);
    sm_dtype_format(dtype)->widen(N_VALUES, codes, widened);
    for (int i = 0; i < N_VALUES; i++) {
        // A device may take a float without an exponent for zero.
        const bool is_denormal = fabsf(values[i]) < 0x1p-126f;
        FAIL_IF(!(is_same(widened[i], expected[i]) || (is_denormal && widened[i] == 0)) ||
                    !is_same(wide[i], widened[i]),
                "%s, vec of %d: %a is stored as %a, read as %a; it should be %a", sm_dtype_name(dtype), vector,
                (double)values[i], (double)widened[i], (double)wide[i], (double)expected[i]);
    }
}

TEST(test_conversions) {
    static const int vectors[] = {1, 4, 8, 16};
    SM_OWN(sm_device) *device = open_device(NULL);
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
            check_conversions((opencl_device *)device, formats[f], vectors[v]);
        }
    }
}

// --- right results ------------------------------------------------------------------------------------

// The families differ in what they do with a format, not between formats.
static const struct {
    sm_dtype format;
    const char *family;
} pairs[] = {{SM_BF16, "registers"}, {SM_BF16, "local"}, {SM_F16, "registers"}};

enum { N_PAIRS = sizeof pairs / sizeof pairs[0] };

// Outside of the long tests fp16, whose loads and stores alone differ, has its conversions and its training. Cases of up to some thousand elements: rows of odd length that begin anywhere are among them.
TEST(test_ops) {
    for (int i = 0; i < N_PAIRS - !runs_all(); i++) {
        const int n = check_ops((sm_precision){.dtype = pairs[i].format}, pairs[i].family, 6000);
        print_message("%s in %s: %d comparisons\n", sm_dtype_name(pairs[i].format), pairs[i].family, n);
        assert_true(n > 150);
    }
}

// Steps of both families, compared with the reference's; outside of the long tests with what a run checks of its own
// (losses, operations, gradients and updates), in the family that test_curves does not train.
TEST(test_step) {
    for (int i = 0; i < N_PAIRS && runs_all(); i++) {
        tally t = {0};
        SM_OWN(sm_device) *device = open_device(pairs[i].family);
        check(sm_verify_step(device, (sm_precision){.dtype = pairs[i].format}, SM_MODE_FUSED, SM_RECOMPUTE_LIGHT, 0,
                             show_row, &t));
        assert_int_equal(t.n_skipped, 0);
    }
    static const char *const models[] = {"gpt2", "llama"};
    backend->close(open_device("local"));
    for (int i = 0; i < 2 && !runs_all(); i++) {
        shell(textf(SM_TEST_BINARY " run --arch %s -m tiny -b 3 --seq-len 16 --accum 2 -r 2 -w 0 --no-peaks "
                                   "--backend opencl --isa local --precision bf16 >/dev/null",
                    models[i]));
    }
}

// --- training -----------------------------------------------------------------------------------------

TEST(test_curves) {
    unsetenv("POCL_EXTRA_BUILD_FLAGS"); // hundreds of steps take longer to run than to compile
    static double wide[N_STEPS], narrow[N_STEPS];
    SM_OWN(sm_device) *device = open_device(NULL);
    train(device, (sm_precision){.dtype = SM_F32}, SM_MODE_FUSED, wide);
    for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++) {
        train(device, (sm_precision){.dtype = formats[f]}, SM_MODE_FUSED, narrow);
        compare_curves(sm_dtype_name(formats[f]), wide, narrow);
    }
}

TEST(test_emulated) {
    SM_OWN(sm_device) *device = open_device("registers");
    assert_false(backend->emulates(device, (sm_precision){.dtype = SM_F32}));
    assert_true(backend->emulates(device, (sm_precision){.dtype = SM_BF16}));
    assert_true(backend->emulates(device, (sm_precision){.dtype = SM_F16}));
}

TEST(test_fp8_is_refused) {
    const sm_plan_options options = {TRAINING(2, 16, SM_BF16), .products = SM_PRODUCTS_FP8};
    SM_OWN(sm_device) *device = open_device("local");
    SM_OWN(sm_plan) *plan = build_plan(gpt2_of("tiny"), &options, SM_MODE_FUSED, 0);
    assert_int_equal(sm_session_supports(device, plan), SM_ERR_UNSUPPORTED);
    assert_non_null(strstr(sm_error_message(), "no fp8 products"));
}

AROUND_ALL(find_device, NULL)
