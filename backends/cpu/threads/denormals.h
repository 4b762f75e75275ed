// denormals.h: on x86, makes denormal numbers count as zero in this thread (they cost a hundred cycles each, and
// carry nothing) and returns the state before, for cpu_denormals_restore().
#ifndef STEPMARK_BACKENDS_CPU_THREADS_DENORMALS_H
#define STEPMARK_BACKENDS_CPU_THREADS_DENORMALS_H

#if defined(__x86_64__)
#include <immintrin.h>

static inline unsigned cpu_denormals_off(void) {
    enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x0040 };
    unsigned state = _mm_getcsr();
    _mm_setcsr(state | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
    return state;
}

static inline void cpu_denormals_restore(unsigned state) { _mm_setcsr(state); }
#else
static inline unsigned cpu_denormals_off(void) { return 0; }

static inline void cpu_denormals_restore(unsigned state) { (void)state; }
#endif

#endif
