// processor.c: preloaded into a program, pretends another processor: it traps CPUID, and reports fewer features.
//
//   PROCESSOR=avx512    no AMX and no bf16
//             icelake   likewise, and of that model
//             unknown   likewise, of a model that nobody has heard of
//             avx2      no AVX-512 either
//             zen3      likewise, and AMD's
//             baseline  no AVX
//
// tools/torture/program.py runs tests so. Only code that asks by CPUID is fooled, which is ours and that of the
// libraries that choose kernels, but not the C library's own.
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "status.h"

#if defined(__x86_64__)

#include <cpuid.h>

enum { SET_CPUID = 0x1012 };

// Bits of leaf 1's ECX, of leaf 7's EBX, ECX and EDX, and of the EAX of its second part.
static const unsigned avx = 1u << 28 | 1u << 12 | 1u << 29; // FMA and F16C with it
static const unsigned avx2 = 1u << 5;
static const unsigned avx512_b = 0xdc230000u;
static const unsigned avx512_c = 0x5842u;
static const unsigned avx512_d = 0x10cu | 1u << 23;
static const unsigned amx_d = 7u << 22;
static const unsigned amx_and_bf16 = 1u << 5 | 1u << 21;
static const unsigned avx_vnni = 1u << 4;

typedef struct {
    unsigned a, b, c, d;
} registers;

typedef struct {
    const char *name;
    enum { ALL, NO_AMX, NO_AVX512, NO_AVX } least;
    unsigned signature; // family, model and stepping; 0: the machine's
    bool is_amd;
} processor;

static const processor processors[] = {
    {"avx512", NO_AMX, 0, false},  {"icelake", NO_AMX, 0x000606a6, false}, {"unknown", NO_AMX, 0x000f06f1, false},
    {"avx2", NO_AVX512, 0, false}, {"zen3", NO_AVX512, 0x00a20f12, true},  {"baseline", NO_AVX, 0, false},
};
static processor told;
static struct sigaction theirs; // what the program has asked for; the real one is ours
static bool has_theirs;

static void may_ask(bool may) { syscall(SYS_arch_prctl, SET_CPUID, (long)may); }

static void tell_vendor(unsigned leaf, SM_UNUSED unsigned sub, registers *r) {
    if (leaf == 0) {
        r->b = 0x68747541, r->d = 0x69746e65, r->c = 0x444d4163; // AuthenticAMD
    } else if (leaf == 4 || leaf == 0x14 || leaf == 0x1d || leaf == 0x1e) {
        *r = (registers){0};
    } else if (leaf >= 0x80000002 && leaf <= 0x80000004) {
        static const char name[48] = "AMD EPYC 7763 64-Core Processor                ";
        memcpy(r, name + 16 * (leaf - 0x80000002), 16);
    }
}

static void tell_less(unsigned leaf, unsigned sub, registers *r) {
    if (leaf == 7 && sub == 0 && told.least >= NO_AMX) {
        r->d &= ~amx_d;
    }
    if (leaf == 7 && sub == 1 && told.least >= NO_AMX) {
        r->a &= ~amx_and_bf16;
    }
    if (leaf == 7 && sub == 0 && told.least >= NO_AVX512) {
        r->b &= ~avx512_b;
        r->c &= ~avx512_c;
        r->d &= ~avx512_d;
    }
    if (leaf == 7 && sub == 1 && told.least >= NO_AVX512) {
        r->a &= ~avx_vnni;
    }
    if (leaf == 7 && sub == 0 && told.least >= NO_AVX) {
        r->b &= ~avx2;
    }
    if (leaf == 1 && told.least >= NO_AVX) {
        r->c &= ~avx;
    }
    if (leaf == 1 && told.signature != 0) {
        r->a = told.signature;
    }
    if (told.is_amd) {
        tell_vendor(leaf, sub, r);
    }
}

static void on_fault(int number, siginfo_t *info, void *context) {
    greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)regs[REG_RIP];
    const bool is_ours = info->si_code == SI_KERNEL && code[0] == 0x0f && code[1] == 0xa2;
    if (is_ours) {
        const unsigned leaf = (unsigned)regs[REG_RAX];
        const unsigned sub = (unsigned)regs[REG_RCX];
        registers r;
        may_ask(true);
        __cpuid_count(leaf, sub, r.a, r.b, r.c, r.d);
        may_ask(false);
        tell_less(leaf, sub, &r);
        regs[REG_RAX] = r.a, regs[REG_RBX] = r.b, regs[REG_RCX] = r.c, regs[REG_RDX] = r.d;
        regs[REG_RIP] += 2;
    } else if (has_theirs && (theirs.sa_flags & SA_SIGINFO) != 0) {
        theirs.sa_sigaction(number, info, context);
    } else if (has_theirs && theirs.sa_handler != SIG_DFL && theirs.sa_handler != SIG_IGN) {
        theirs.sa_handler(number);
    } else {
        const struct sigaction usual = {.sa_handler = SIG_DFL};
        syscall(SYS_rt_sigaction, SIGSEGV, &usual, NULL, 8); // it faults again, and ends
    }
}

extern int __sigaction(int number, const struct sigaction *now, struct sigaction *before);

// The program's handler of this signal is called after ours.
__attribute__((visibility("default"))) int sigaction(int number, const struct sigaction *now,
                                                     struct sigaction *before) {
    if (number != SIGSEGV) {
        return __sigaction(number, now, before);
    }
    const struct sigaction was = theirs;
    if (now != NULL) {
        theirs = *now;
        has_theirs = true;
    }
    if (before != NULL) {
        *before = was;
    }
    return 0;
}

__attribute__((visibility("default"))) sighandler_t signal(int number, sighandler_t handler) {
    const struct sigaction now = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct sigaction before;
    return sigaction(number, &now, &before) == 0 ? before.sa_handler : SIG_ERR;
}

__attribute__((constructor(101))) static void become(void) {
    const char *name = getenv("PROCESSOR");
    const struct sigaction ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    if (name == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof(processors) / sizeof(processors[0]); i++) {
        told = strcmp(name, processors[i].name) == 0 ? processors[i] : told;
    }
    __sigaction(SIGSEGV, &ours, NULL);
    may_ask(false);
}

#endif
