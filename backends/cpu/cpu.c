// cpu.c: the cpu backend: its one device is this machine's processors.
#include <math.h>
#include <omp.h>

#include "backends/cpu/cpu.h"

#include "os/os.h"
#include "os/processor.h"

extern const sm_backend sm_backend_cpu; // declared again by src/session/registry.c

static int device_count(void) { return 1; }

static sm_status describe(int index, sm_device_info *info) {
    double quota_cpus;
    int64_t throttled_ns;
    SM_FAIL_IF(index != 0, SM_ERR_USAGE, "cpu: device %d: there is one device, 0", index);
    const cpu_isa *isa;
    *info = (sm_device_info){.is_host_processor = true, .available = cpu_isa_best(&isa) == SM_OK};
    snprintf(info->id, sizeof info->id, "cpu");
    os_processor_name("", info->name, sizeof info->name);
    snprintf(info->driver, sizeof info->driver, "POSIX threads"); // and OpenBLAS, once a plan needs it
    snprintf(info->isa, sizeof info->isa, "%s", info->available ? isa->name : "");
    snprintf(info->reason, sizeof info->reason, "%s", info->available ? "" : sm_error_message() + strlen("cpu: "));
    cpu_isa_reason(info->tier_reason);
    info->n_units = cpu_topology_n_cores();
    cpu_binding *binding;
    os_cpu_allowed("", &quota_cpus, &throttled_ns);
    if (quota_cpus > 0 && quota_cpus < info->n_units) { // as many threads as the cgroup's quota keeps running
        info->n_threads = (int)fmax(1, floor(quota_cpus));
        info->n_warnings = snprintf(info->warnings[0], sizeof info->warnings[0],
                                    "the cgroup's quota is %.3g of %d processors: %d thread%s by default; "
                                    "--threads sets another number",
                                    quota_cpus, info->n_units, info->n_threads, info->n_threads > 1 ? "s" : "") > 0;
    }
    SM_TRY(cpu_binding_make(NULL, &info->n_threads, &binding));
    snprintf(info->binding, sizeof info->binding, "%s", cpu_binding_text(binding));
    cpu_binding_free(binding);
    info->memory_bytes = host_total_bytes();
    info->free_bytes = host_available_bytes();
    if (cpu_topology_lack() != NULL) {
        snprintf(info->warnings[info->n_warnings++], sizeof info->warnings[0], "%s", cpu_topology_lack());
    }
    return SM_OK;
}

// More threads for each processor would only wait for one another.
static sm_status check_threads(int n_threads) {
    enum { MOST_A_PROCESSOR = 16, ALWAYS = 64 };
    const int n_processors = os_n_processors();
    const int most = n_processors * MOST_A_PROCESSOR > ALWAYS ? n_processors * MOST_A_PROCESSOR : ALWAYS;
    SM_FAIL_IF(n_threads < 0 || n_threads > most, SM_ERR_USAGE,
               "cpu: --threads %d: at most %d make sense on %d processors", n_threads, most, n_processors);
    SM_FAIL_IF(n_threads > omp_get_thread_limit(), SM_ERR_USAGE, "cpu: --threads %d: OMP_THREAD_LIMIT allows %d",
               n_threads, omp_get_thread_limit());
    return SM_OK;
}

static void close_device(sm_device *device) {
    cpu_device *cpu = (cpu_device *)device;
    if (cpu != NULL) {
        cpu_pool_free(cpu->pool);
        cpu_binding_free(cpu->binding);
        free(cpu);
    }
}

static sm_status open_device(int index, const sm_open_options *options, sm_device **device) {
    sm_device_info info;
    const cpu_isa *isa;
    SM_TRY(cpu_isa_best(&isa));
    SM_TRY(describe(index, &info));
    SM_TRY(check_threads(options->n_threads));
    SM_TRY(options->isa != NULL ? cpu_isa_find(options->isa, &isa) : SM_OK);
    cpu_device *cpu = sm_calloc(1, sizeof *cpu);
    SM_OWN(sm_device) *owned = &cpu->base;
    cpu->base.backend = &sm_backend_cpu;
    // OpenMP's limit also applies here.
    const int n_threads = options->n_threads > 0 || info.n_warnings == 0 ? options->n_threads : info.n_threads;
    info.n_threads = n_threads < omp_get_thread_limit() ? n_threads : omp_get_thread_limit();
    info.n_warnings = options->n_threads > 0 || options->cpu_mask != NULL ? 0 : info.n_warnings;
    SM_TRY(cpu_binding_make(options->cpu_mask, &info.n_threads, &cpu->binding));
    snprintf(info.binding, sizeof info.binding, "%s", cpu_binding_text(cpu->binding));
    snprintf(info.isa, sizeof info.isa, "%s", isa->name);
    SM_TRY(cpu_pool_make(info.n_threads, cpu->binding, &cpu->pool));
    cpu->base.info = info;
    cpu->isa = isa;
    cpu->progress = options->progress;
    cpu->keep_env = options->keep_env;
    cpu->openblas = options->openblas;
    for (int i = 0; i < options->n_own_kernels; i++) {
        cpu->own[options->own_kernels[i].kind] = &options->own_kernels[i];
    }
    *device = sm_give(&owned);
    return SM_OK;
}

// OpenBLAS's sbgemm, of bf16, is left out of most builds.
static sm_status supports_openblas(const sm_plan *plan) {
    SM_FAIL_IF(plan->dtype != SM_F32 || plan->products != SM_PRODUCTS_PLAIN, SM_ERR_UNSUPPORTED,
               "cpu: --products openblas: OpenBLAS multiplies fp32 alone here (its products of bf16 are left out "
               "of most builds); use --precision fp32 or --products own");
    return plan->tuned ? sm_fail(SM_ERR_UNSUPPORTED, "cpu: --products openblas: mode tuned chooses what multiplies by "
                                                     "measurement; use another mode or leave --products out")
                       : SM_OK;
}

static sm_status supports(const sm_device *device, const sm_plan *plan, const sm_op *op) {
    const cpu_device *cpu = (const cpu_device *)device;
    SM_FAIL_IF(plan->dtype == SM_F64, SM_ERR_UNSUPPORTED, "cpu: no %s kernels: it computes in fp32, bf16 and fp16",
               sm_dtype_name(plan->dtype));
    if (plan->products != SM_PRODUCTS_BF16X6) {
        SM_TRY(sm_plan_supports_plain_products(plan, "cpu"));
    } else if (cpu->isa->kernels_x6 == NULL) {
        return sm_fail(SM_ERR_UNSUPPORTED,
                       "cpu: no bf16x6 products: they need AMX, and the kernels here are %s; use fp32", cpu->isa->name);
    }
    SM_TRY(cpu->openblas ? supports_openblas(plan) : SM_OK);
    SM_FAIL_IF(cpu->own[op->kind] != NULL && plan->dtype != SM_F32, SM_ERR_UNSUPPORTED,
               "cpu: --kernel %s: your own kernels compute in fp32, and the plan is %s", sm_op_name(op->kind),
               sm_dtype_name(plan->dtype));
    if (cpu_kernels_for(cpu->isa, plan)->run[op->kind] == NULL) {
        return sm_fail(SM_ERR_UNSUPPORTED, "cpu: %s: there is no kernel", sm_op_name(op->kind));
    }
    return SM_OK;
}

static bool emulates(const sm_device *device, sm_precision precision) {
    const cpu_device *cpu = (const cpu_device *)device;
    return precision.dtype == SM_F16 || (precision.dtype == SM_BF16 && cpu->isa->kernels_bf16->peak_flops == NULL);
}

const sm_backend sm_backend_cpu = {
    .name = "cpu",
    .summary = "C kernels on threads, for the instruction sets of this processor",
    .benchmarked = true,
    .own_kernels = SM_OWN_C,
    .openblas = true,
    .tunes = true,
    .device_count = device_count,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .supports = supports,
    .emulates = emulates,
    .measure_peaks = cpu_measure_peaks,
    .measure_peaks_within = cpu_measure_peaks_within,
    .measure_ceilings = cpu_measure_ceilings,
    .working_bytes = cpu_working_bytes,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .execute = cpu_execute,
    .synchronize = host_synchronize,
    .upload = host_upload,
    .download = host_download,
    .keep_weights = host_keep_weights,
    .address = host_address,
};
