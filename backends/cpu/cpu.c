// cpu.c: the cpu backend: one device, which is this machine's processors.
#include <cblas.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

extern const sm_backend sm_backend_cpu; // declared again by src/registry.c

static int device_count(void) { return 1; }

__attribute__((format(printf, 2, 3))) static void warn(sm_device_info *info, const char *format, ...) {
    if (info->n_warnings < SM_MAX_WARNINGS) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(info->warnings[info->n_warnings], sizeof info->warnings[0], format, arguments);
        va_end(arguments);
        info->n_warnings++;
    }
}

static bool is_one_of(const char *name, const char *const *names) {
    for (; *names != NULL; names++) {
        if (strcmp(name, *names) == 0) {
            return true;
        }
    }
    return false;
}

// OpenBLAS chooses its kernels by processor model (or OPENBLAS_CORETYPE), and may choose older ones
// than the processor could run.
static void warn_of_blas(sm_device_info *info) {
    static const char *const avx512_cores[] = {"SkylakeX", "Cooperlake", "SapphireRapids", NULL};
    static const char *const avx2_cores[] = {"Haswell",        "Zen", "Excavator", "SkylakeX", "Cooperlake",
                                             "SapphireRapids", NULL};
    const char *forced = getenv("OPENBLAS_CORETYPE");
    const char *lacking = NULL;
    if (cpu_has_avx512() && !is_one_of(info->blas_core, avx512_cores)) {
        lacking = "AVX-512";
    }
    if (cpu_has_avx2() && !is_one_of(info->blas_core, avx2_cores)) {
        lacking = "AVX2";
    }
    if (lacking != NULL && forced != NULL) {
        warn(info,
             "OpenBLAS uses its %s core, without the processor's %s, because OPENBLAS_CORETYPE=%s is set; unset it",
             info->blas_core, lacking, forced);
        snprintf(info->slowed_by_env, sizeof info->slowed_by_env, "OPENBLAS_CORETYPE");
    } else if (lacking != NULL) {
        warn(info, "OpenBLAS uses its %s core, without the processor's %s; a newer OpenBLAS may be faster",
             info->blas_core, lacking);
    }
    const char *dropped = getenv("STEPMARK_DROPPED_ENV"); // set by the command line, which started itself anew
    if (dropped != NULL) {
        warn(info, "%.80s was set, and held OpenBLAS back; stepmark started itself anew without it", dropped);
    }
    if (openblas_get_parallel() == 1) {
        warn(info, "this OpenBLAS has its own threads (pthread build); it is called serially, and stepmark's threads "
                   "share the work");
    }
}

// "OpenBLAS 0.3.21, OpenMP 4.5"
static void name_driver(char *text, size_t size_bytes) {
    const char *config = openblas_get_config(); // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    size_t length = strcspn(config, " ");
    if (config[length] == ' ') {
        length += 1 + strcspn(config + length + 1, " ");
    }
    const char *openmp = _OPENMP >= 202011 ? "5.1" : _OPENMP >= 201811 ? "5.0" : _OPENMP >= 201511 ? "4.5" : "4.0";
    snprintf(text, size_bytes, "%.*s, OpenMP %s", (int)length, config, openmp);
}

static sm_status describe(int index, sm_device_info *info) {
    if (index != 0) {
        return sm_fail(SM_ERR_USAGE, "cpu: device %d: there is one device, 0", index);
    }
    *info = (sm_device_info){.available = true};
    snprintf(info->id, sizeof info->id, "cpu");
    host_cpu_name(info->name, sizeof info->name);
    name_driver(info->driver, sizeof info->driver);
    snprintf(info->isa, sizeof info->isa, "%s", cpu_isa_best()->name);
    snprintf(info->blas_core, sizeof info->blas_core, "%s", openblas_get_corename());
    info->n_units = cpu_topology_n_cores();
    cpu_binding *binding;
    SM_TRY(cpu_binding_make(NULL, &info->n_threads, &binding));
    snprintf(info->binding, sizeof info->binding, "%s", cpu_binding_text(binding));
    cpu_binding_free(binding);
    info->memory_bytes = host_total_bytes();
    info->free_bytes = host_available_bytes();
    warn_of_blas(info);
    return SM_OK;
}

static sm_status check_threads(int n_threads) {
    enum { MAX_THREADS = 4096 };
    if (n_threads < 0 || n_threads > MAX_THREADS) {
        return sm_fail(SM_ERR_USAGE, "cpu: %d threads; 1 to %d are possible", n_threads, MAX_THREADS);
    }
    return SM_OK;
}

static void close_device(sm_device *device) {
    cpu_device *cpu = (cpu_device *)device;
    if (cpu != NULL) {
        cpu_binding_free(cpu->binding);
        free(cpu);
    }
}

static sm_status open_device(int index, const sm_open_options *options, sm_device **device) {
    sm_status status = SM_OK;
    sm_device_info info;
    const cpu_isa *isa = cpu_isa_best();
    SM_TRY(describe(index, &info));
    SM_TRY(check_threads(options->n_threads));
    if (options->isa != NULL) {
        SM_TRY(cpu_isa_find(options->isa, &isa));
    }
    cpu_device *cpu = calloc(1, sizeof *cpu);
    if (cpu == NULL) {
        return sm_fail(SM_ERR_OOM, "cpu: no memory for a device");
    }
    // OpenMP's limit is respected here, once: scratch is shared out among exactly so many threads.
    info.n_threads = options->n_threads < omp_get_thread_limit() ? options->n_threads : omp_get_thread_limit();
    SM_TRY_GOTO(cpu_binding_make(options->cpu_mask, &info.n_threads, &cpu->binding));
    snprintf(info.binding, sizeof info.binding, "%s", cpu_binding_text(cpu->binding));
    snprintf(info.isa, sizeof info.isa, "%s", isa->name);
    openblas_set_num_threads(1); // each of our threads calls it on its own part
    omp_set_dynamic(0);          // as many threads as asked for
    cpu->base.backend = &sm_backend_cpu;
    cpu->base.info = info;
    cpu->isa = isa;
    cpu->progress = options->progress;
    *device = &cpu->base;
    return SM_OK;
cleanup:
    close_device(&cpu->base);
    return status;
}

static sm_status supports(const sm_device *device, const sm_plan *plan, const sm_op *op) {
    const cpu_device *cpu = (const cpu_device *)device;
    if (plan->dtype != SM_F32 && plan->dtype != SM_BF16) {
        return sm_fail(SM_ERR_UNSUPPORTED, "cpu: no %s kernels: it computes in fp32 and bf16",
                       sm_dtype_name(plan->dtype));
    }
    if (cpu->isa->kernels->run[op->kind] == NULL) {
        return sm_fail(SM_ERR_UNSUPPORTED, "cpu: %s: there is no kernel", sm_op_name(op->kind));
    }
    return SM_OK;
}

static bool emulates(const sm_device *device, sm_dtype dtype) {
    const cpu_device *cpu = (const cpu_device *)device;
    return dtype == SM_BF16 && cpu->isa->kernels_bf16->peak_flops == NULL;
}

// execute() returns when all is done.
static sm_status synchronize(sm_executable *executable) {
    (void)executable;
    return SM_OK;
}

static sm_status upload(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems,
                        const void *data) {
    const cpu_executable *e = (const cpu_executable *)executable;
    return host_upload(&e->memory, executable->plan, tensor, offset_elems, n_elems, data);
}

static sm_status download(sm_executable *executable, int tensor, int64_t offset_elems, int64_t n_elems, void *data) {
    const cpu_executable *e = (const cpu_executable *)executable;
    return host_download(&e->memory, executable->plan, tensor, offset_elems, n_elems, data);
}

const sm_backend sm_backend_cpu = {
    .name = "cpu",
    .summary = "C kernels on OpenMP threads, matrix products by OpenBLAS",
    .benchmarked = true,
    .tunes = true,
    .device_count = device_count,
    .describe = describe,
    .open = open_device,
    .close = close_device,
    .supports = supports,
    .emulates = emulates,
    .measure_peaks = cpu_measure_peaks,
    .measure_ceilings = cpu_measure_ceilings,
    .working_bytes = cpu_working_bytes,
    .prepare = cpu_prepare,
    .release = cpu_release,
    .execute = cpu_execute,
    .synchronize = synchronize,
    .upload = upload,
    .download = download,
};
