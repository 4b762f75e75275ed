// whole.h: how much of a test runs, where it takes long.
#pragma once

#include <stdbool.h>
#include <stdlib.h>

// The long tests (make torture) run everything.
static inline bool runs_all(void) { return getenv("STEPMARK_TEST_ALL") != NULL; }

// Sanitizers make arithmetic slow: what only repeats a path with other numbers runs without them.
static inline bool repeats_paths(void) {
#ifdef __SANITIZE_ADDRESS__
    return runs_all();
#else
    return true;
#endif
}
