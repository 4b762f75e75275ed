// isa.c: the instruction sets that there are kernels for, and which of them processor and operating system support.
#include "backends/cpu/cpu.h"
#include "os/threads.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__riscv)
#include <sys/syscall.h>
#include <unistd.h>
#endif

static bool always(void) { return true; }

#if defined(__x86_64__)
extern const cpu_kernel_table cpu_kernels_avx2, cpu_kernels_bf16_avx2, cpu_kernels_f16_avx2;
extern const cpu_kernel_table cpu_kernels_avx512, cpu_kernels_bf16_avx512, cpu_kernels_f16_avx512;
extern const cpu_kernel_table cpu_kernels_bf16_avx512_bf16, cpu_kernels_bf16_amx, cpu_kernels_amx;

static bool has_avx512_bf16(void) { return cpu_has_avx512() && __builtin_cpu_supports("avx512bf16"); }

// Whether this process may use AMX's tiles: the processor has them, and the system gives leave.
static bool has_amx(void) {
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24 };
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    if (!has_avx512_bf16() || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
        return false;
    }
    return (edx & AMX_BF16) != 0 && (edx & AMX_TILE) != 0 && os_may_use_tiles();
}
#endif

#if defined(__aarch64__)
extern const cpu_kernel_table cpu_kernels_neon, cpu_kernels_bf16_neon, cpu_kernels_f16_neon;
extern const cpu_kernel_table cpu_kernels_bf16_neon_bf16, cpu_kernels_sme, cpu_kernels_bf16_sme;

// BFMMLA and what comes with it (Linux's Documentation/arch/arm64/elf_hwcaps.rst).
static bool has_neon_bf16(void) {
    enum { HAS_BF16 = 1 << 14 };
    return (os_arm_features() & HAS_BF16) != 0;
}

// The Scalable Matrix Extension: outer products of floats and of bf16.
static bool has_sme(void) {
    enum { HAS_SME = 1 << 23 };
    return has_neon_bf16() && (os_arm_features() & HAS_SME) != 0;
}
#elif defined(__riscv)
extern const cpu_kernel_table cpu_kernels_scalar, cpu_kernels_bf16_scalar, cpu_kernels_f16_scalar;
extern const cpu_kernel_table cpu_kernels_rvv128, cpu_kernels_bf16_rvv128, cpu_kernels_f16_rvv128;
extern const cpu_kernel_table cpu_kernels_rvv256, cpu_kernels_bf16_rvv256, cpu_kernels_f16_rvv256;
extern const cpu_kernel_table cpu_kernels_rvv512, cpu_kernels_bf16_rvv512, cpu_kernels_f16_rvv512;

// Bits of a vector register, of version 1.0 (Linux's Documentation/arch/riscv/hwprobe.rst); 0: there are none. The bit
// of AT_HWCAP is also set for version 0.7.
static long vector_bits(void) {
    enum { HWPROBE = 258, IMA_EXTENSIONS = 4, HAS_V = 1 << 2 };
    struct {
        int64_t key;
        uint64_t value;
    } asked = {IMA_EXTENSIONS, 0};
    if (syscall(HWPROBE, &asked, 1, 0, NULL, 0) != 0 || asked.key != IMA_EXTENSIONS || (asked.value & HAS_V) == 0) {
        return 0;
    }
    long n_bytes;
    __asm__("csrr %0, 0xc22" : "=r"(n_bytes)); // vlenb
    return 8 * n_bytes;
}
static bool has_rvv128(void) { return vector_bits() >= 128; }
static bool has_rvv256(void) { return vector_bits() >= 256; }
static bool has_rvv512(void) { return vector_bits() >= 512; }
#else
extern const cpu_kernel_table cpu_kernels_baseline, cpu_kernels_bf16_baseline, cpu_kernels_f16_baseline;
#endif

// Best first; the last, which every such processor has, is also found as baseline. The build says which it has kernels
// of (Makefile, ISAS): a smaller build lacks some.
#define BUILT(isa, table) (CPU_WITH_##isa ? &(table) : NULL)
#define KERNELS(isa, supported, f32, bf16, f16)                                          \
#isa, supported, BUILT(isa, cpu_kernels_##f32), BUILT(isa, cpu_kernels_bf16_##bf16), \
        BUILT(isa, cpu_kernels_f16_##f16)
static const cpu_isa isas[] = {
#if defined(__x86_64__)
    {KERNELS(amx, has_amx, avx512, amx, avx512), BUILT(amx, cpu_kernels_amx)},
    {KERNELS(avx512_bf16, has_avx512_bf16, avx512, avx512_bf16, avx512), NULL},
    {KERNELS(avx512, cpu_has_avx512, avx512, avx512, avx512), NULL},
    {KERNELS(avx2, cpu_has_avx2, avx2, avx2, avx2), NULL},
#endif
#if defined(__aarch64__)
    {KERNELS(sme, has_sme, sme, sme, neon), NULL},
    {KERNELS(neon_bf16, has_neon_bf16, neon, neon_bf16, neon), NULL},
    {KERNELS(neon, always, neon, neon, neon), NULL},
#elif defined(__riscv)
    // Vectors of a fixed length run on every processor whose registers are as long, or longer.
    {KERNELS(rvv512, has_rvv512, rvv512, rvv512, rvv512), NULL},
    {KERNELS(rvv256, has_rvv256, rvv256, rvv256, rvv256), NULL},
    {KERNELS(rvv128, has_rvv128, rvv128, rvv128, rvv128), NULL},
    {KERNELS(scalar, always, scalar, scalar, scalar), NULL},
#else
    {KERNELS(baseline, always, baseline, baseline, baseline), NULL},
#endif
};

enum { N_ISAS = sizeof isas / sizeof isas[0] };

// The names of those that are built: "amx, avx512_bf16".
static const char *list_built(char text[SM_TEXT_SIZE]) {
    text[0] = '\0';
    for (int i = 0; i < N_ISAS; i++) {
        sm_append_part(text, SM_TEXT_SIZE, ", ", isas[i].kernels != NULL ? isas[i].name : "");
    }
    return text;
}

// FLOPs a second of this thread, operands in registers, by processor time: other load does not count.
static double measure(const cpu_kernel_table *kernels) {
    enum { N_TRIALS = 5, LEAST_NS = 100000 };
    double best = 0;
    int64_t n_rounds = 64;
    for (int i = 0; i < N_TRIALS;) {
        const int64_t begin_ns = host_thread_busy_ns();
        const double flops = kernels->peak_flops(n_rounds);
        const int64_t busy_ns = host_thread_busy_ns() - begin_ns;
        if (busy_ns < LEAST_NS) {
            n_rounds *= 2;
            continue;
        }
        const double rate = flops / (double)busy_ns;
        best = rate > best ? rate : best;
        i++;
    }
    return best;
}

// Some Intel processors without AMX multiply bf16 at half the rate of floats: data that are widened while they are
// packed are then multiplied sooner. Returns the instruction set that does so with the same kernels for floats, or NULL
// if there is none, or it is not faster.
static const cpu_isa *find_faster(const cpu_isa *isa) {
    for (const cpu_isa *wide = isa + 1; wide < isas + N_ISAS && isa->kernels_bf16->peak_flops != NULL; wide++) {
        if (wide->kernels == isa->kernels && wide->kernels_bf16 != NULL && wide->kernels_bf16->peak_flops == NULL) {
            return measure(isa->kernels_bf16) < measure(isa->kernels) ? wide : NULL;
        }
    }
    return NULL;
}

static const cpu_isa *chosen, *left; // left: with instructions for bf16 that are slower
static pthread_once_t is_chosen = PTHREAD_ONCE_INIT;

static void choose(void) {
    for (int i = 0; i < N_ISAS && chosen == NULL; i++) {
        chosen = isas[i].kernels != NULL && isas[i].supported() ? &isas[i] : NULL;
    }
    const cpu_isa *faster = chosen != NULL ? find_faster(chosen) : NULL;
    if (faster != NULL) {
        left = chosen;
        chosen = faster;
    }
}

sm_status cpu_isa_best(const cpu_isa **isa) {
    char built[SM_TEXT_SIZE];
    pthread_once(&is_chosen, choose);
    SM_FAIL_IF(chosen == NULL, SM_ERR_UNSUPPORTED,
               "cpu: this build has kernels for %s alone, which this processor lacks; build without CONFIG=dev",
               list_built(built));
    *isa = chosen;
    return SM_OK;
}

void cpu_isa_reason(char text[SM_TEXT_SIZE]) {
    text[0] = '\0';
    pthread_once(&is_chosen, choose);
    if (left != NULL) {
        snprintf(text, SM_TEXT_SIZE, "%s multiplies bf16 at less than the rate of floats: bf16 data are widened",
                 left->name);
    }
}

bool cpu_isa_includes(const cpu_isa *isa, const cpu_isa *other) {
    return (left != NULL && isa == chosen ? left : isa) <= other; // left is slower, and can be measured
}

sm_status cpu_isa_find(const char *name, const cpu_isa **isa) {
    char built[SM_TEXT_SIZE];
    const cpu_isa *found = isas;
    while (found < isas + N_ISAS && strcmp(found->name, name) != 0) {
        found++;
    }
    found = strcmp(name, "baseline") == 0 ? &isas[N_ISAS - 1] : found;
    SM_FAIL_IF(found == isas + N_ISAS, SM_ERR_USAGE, "cpu: instruction set %s: there are kernels for %s", name,
               list_built(built));
    SM_FAIL_IF(found->kernels == NULL, SM_ERR_UNSUPPORTED,
               "cpu: instruction set %s: this build has kernels for %s alone; build without CONFIG=dev", name,
               list_built(built));
    if (!found->supported()) {
        const cpu_isa *best;
        SM_TRY(cpu_isa_best(&best));
        return sm_fail(SM_ERR_UNSUPPORTED, "cpu: instruction set %s: this processor does not have it; its best is %s",
                       name, best->name);
    }
    *isa = found;
    return SM_OK;
}
