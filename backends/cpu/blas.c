#include "backends/cpu/blas.h"

#include <strings.h>

#include "os/library.h"

cpu_blas_functions cpu_blas;

static const char variable[] = "OPENBLAS_CORETYPE";
static char dropped[64];  // the variable's value, if it was ignored; otherwise ""
static char given_up[32]; // the core that the library had chosen, if another was requested; otherwise ""
static bool was_wrong;    // because it multiplied wrongly
static bool is_kept;      // the variable stays, whatever its value

static bool is_one_of(const char *name, const char *const *names) {
    for (; *names != NULL; names++) {
        if (strcasecmp(name, *names) == 0) {
            return true;
        }
    }
    return false;
}

// The processor's features that OpenBLAS's kernels of that name do not use; NULL: none.
static const char *lacking_in(const char *core) {
    static const char *const avx512_cores[] = {"SkylakeX", "Cooperlake", "SapphireRapids", NULL};
    static const char *const avx2_cores[] = {"Haswell",        "Zen", "Excavator", "SkylakeX", "Cooperlake",
                                             "SapphireRapids", NULL};
    if (cpu_has_avx2() && !is_one_of(core, avx2_cores)) {
        return "AVX2";
    }
    return cpu_has_avx512() && !is_one_of(core, avx512_cores) ? "AVX-512" : NULL;
}

// Opens the library with that value of the variable (NULL: unset), read only then; restores the environment.
static void *open_with(const char *core) {
    const char *set = getenv(variable);
    char *before = set != NULL ? strdup(set) : NULL;
    void *library = NULL;
    if (set == NULL || before != NULL) {
        (void)(core != NULL ? setenv(variable, core, 1) : unsetenv(variable));
        library = os_library_open("libopenblas.so.0");
        library = library != NULL ? library : os_library_open("libopenblas.so");
        (void)(before != NULL ? setenv(variable, before, 1) : unsetenv(variable));
    }
    free(before);
    return library;
}

#define FIND(name, field) os_library_function(library, name, &cpu_blas.field)

static bool find_functions(void *library) {
    return FIND("cblas_sgemm", sgemm) && FIND("openblas_get_config", config) &&
           FIND("openblas_get_corename", core_name) && FIND("openblas_get_parallel", parallel) &&
           FIND("openblas_set_num_threads", set_num_threads);
}

// Whether products of small whole numbers, which no order of sums rounds, come out exactly. (OpenBLAS 0.3.34 has
// kernels for Arm's SME that do not.)
static bool is_exact(void) {
    enum { M = 17, N = 5, K = 19 };
    float a[M * K], b[K * N], c[M * N];
    for (int form = 0; form < 4; form++) {
        const bool ta = (form & 1) != 0, tb = (form & 2) != 0;
        for (int i = 0; i < M * K; i++) {
            a[i] = (float)(i * 7 % 11 - 5);
        }
        for (int i = 0; i < K * N; i++) {
            b[i] = (float)(i * 5 % 13 - 6);
        }
        for (int i = 0; i < M * N; i++) {
            c[i] = (float)i;
        }
        cpu_blas.sgemm(CPU_BLAS_ROW_MAJOR, ta ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN,
                       tb ? CPU_BLAS_TRANSPOSED : CPU_BLAS_PLAIN, M, N, K, 2.0f, a, ta ? M : K, b, tb ? K : N, 1.0f, c,
                       N);
        for (int i = 0; i < M * N; i++) {
            float sum = (float)i;
            for (int k = 0; k < K; k++) {
                sum += 2.0f * a[ta ? k * M + i / N : i / N * K + k] * b[tb ? i % N * K + k : k * N + i % N];
            }
            if (!(c[i] == sum)) {
                return false;
            }
        }
    }
    return true;
}

static bool load_again(void *library, const char *core) {
    snprintf(given_up, sizeof given_up, "%s", cpu_blas.core_name());
    os_library_close(library);
    return find_functions(open_with(core));
}

#if defined __aarch64__
static const char plainest_core[] = "ARMV8";
#elif defined __x86_64__
static const char plainest_core[] = "Haswell";
#else
static const char plainest_core[] = "Generic";
#endif

// A library older than the processor does not know its model, and uses kernels for any processor: it is loaded again,
// for a model with the same instructions. So is one whose kernels are wrong, for the plainest model.
static bool load(bool keep_env) {
    const char *core = getenv(variable);
    is_kept = keep_env && core != NULL;
    if (core != NULL && !is_kept && lacking_in(core) != NULL) {
        snprintf(dropped, sizeof dropped, "%s", core);
        core = NULL;
    }
    void *library = open_with(core);
    bool found = find_functions(library);
    if (found && !is_kept && lacking_in(cpu_blas.core_name()) != NULL) {
        return load_again(library, cpu_has_avx512() ? "SkylakeX" : "Haswell");
    }
    if (found && !is_kept && !is_exact()) {
        was_wrong = true;
        return load_again(library, plainest_core) && is_exact();
    }
    return found;
}

bool cpu_blas_load(bool keep_env) {
    static bool tried = false;
    static bool loaded = false;
    if (!tried) {
        loaded = load(keep_env);
        tried = true;
    }
    return loaded;
}

// --- what the device says of it ---------------------------------------------------------------------

#define WARN(info, ...)                                                                                   \
    (void)((info)->n_warnings < SM_MAX_WARNINGS                                                           \
               ? snprintf((info)->warnings[(info)->n_warnings++], sizeof(info)->warnings[0], __VA_ARGS__) \
               : 0)

// OpenBLAS chooses kernels by processor model (or OPENBLAS_CORETYPE), maybe older ones than the processor supports.
static void warn_of_core(sm_device_info *info) {
    const char *lacking = lacking_in(info->blas_core);
    const char *lacked = given_up[0] != '\0' ? lacking_in(given_up) : NULL;
    if (lacking != NULL && is_kept) {
        WARN(info, "OpenBLAS uses its %s core, without the processor's %s, because %s=%.32s is set; unset it",
             info->blas_core, lacking, variable, getenv(variable));
    } else if (was_wrong) {
        WARN(info, "OpenBLAS multiplies wrongly with its %s core; it is loaded with its %s core (OPENBLAS_CORETYPE)",
             given_up, info->blas_core);
    } else if (lacking != NULL) {
        WARN(info, "OpenBLAS uses its %s core, without the processor's %s; a newer OpenBLAS may be faster",
             info->blas_core, lacking);
    } else if (lacked != NULL) {
        WARN(info,
             "OpenBLAS does not know this processor and chose its %s core, without the processor's %s; it is "
             "loaded with its %s core (OPENBLAS_CORETYPE)",
             given_up, lacked, info->blas_core);
    }
    if (dropped[0] != '\0') {
        WARN(info, "%s=%s was set, and would hold OpenBLAS back; it is loaded without it (--keep-env keeps it)",
             variable, dropped);
    }
    if (cpu_blas.parallel() == 1) {
        WARN(info, "this OpenBLAS has its own threads (pthread build); it is called serially, and stepmark's threads "
                   "share the work");
    }
}

// "OpenBLAS 0.3.21, POSIX threads"
static void describe_library(sm_device_info *info) {
    char openmp[SM_TEXT_SIZE];
    const char *config = cpu_blas.config(); // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    size_t length = strcspn(config, " ");
    if (config[length] == ' ') {
        length += 1 + strcspn(config + length + 1, " ");
    }
    snprintf(openmp, sizeof openmp, "%s", info->driver);
    snprintf(info->driver, sizeof info->driver, "%.*s, %.60s", (int)length, config, openmp);
    snprintf(info->blas_core, sizeof info->blas_core, "%s", cpu_blas.core_name());
    warn_of_core(info);
}

// --- plans --------------------------------------------------------------------------------------------

static bool has_own_products(const cpu_device *device, const sm_plan *plan) {
    return !device->openblas && (plan->dtype != SM_F32 || strcmp(device->isa->name, "baseline") != 0);
}

// The first op that needs OpenBLAS, as it was asked for or for lack of kernels of our own; NULL: none.
static const sm_op *first_caller(const cpu_device *device, const sm_plan *plan) {
    const bool has_products = has_own_products(device, plan);
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_op_kind kind = plan->ops[i].kind;
        const bool stores_weights =
            sm_op_is_attention(kind) && kind != SM_OP_FLASH_ATTENTION_FORWARD && kind != SM_OP_FLASH_ATTENTION_BACKWARD;
        if (stores_weights || (sm_op_is_matmul(kind) && !has_products)) {
            return &plan->ops[i];
        }
    }
    return NULL;
}

sm_status cpu_blas_prepare(cpu_device *device, const sm_plan *plan) {
    sm_device_info *info = &device->base.info;
    const sm_op *caller = first_caller(device, plan);
    const bool is_candidate = plan->tuned && plan->dtype == SM_F32;
    if (caller == NULL && !is_candidate) {
        return SM_OK;
    }
    if (!cpu_blas_load(device->keep_env)) {
        return caller == NULL ? SM_OK
                              : sm_fail(SM_ERR_UNSUPPORTED, "cpu: %s needs OpenBLAS: %s", sm_op_name(caller->kind),
                                        was_wrong ? "it multiplies wrongly; use another version" : os_no_openblas);
    }
    cpu_blas.set_num_threads(1); // each of our threads calls it on its own part
    if (info->blas_core[0] == '\0') {
        describe_library(info);
    }
    if (!has_own_products(device, plan) || is_candidate) {
        char version[32] = "";
        sscanf(cpu_blas.config(), "OpenBLAS %31s", version);
        snprintf(info->products, sizeof info->products, "%sopenblas %s (%s)", is_candidate ? "own or " : "", version,
                 info->blas_core);
    }
    return SM_OK;
}
