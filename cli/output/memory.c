// memory.c: see output/memory.h.
#include <jansson.h>
#include <stdlib.h>

#include "cli/flags/options.h"
#include "cli/output/memory.h"
#include "cli/output/notes.h"

static void *allocate(size_t size_bytes) {
    void *memory = malloc(size_bytes);
    if (memory == NULL && size_bytes > 0) {
        cli_note("out of memory: %zu bytes for a JSON value", size_bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

sm_status cli_memory_require(void) {
    enum { LIBRARIES_BYTES = 16 << 20 }; // several times what hwloc takes on a machine with hundreds of processors
    void *volatile memory = malloc(LIBRARIES_BYTES);
    if (memory == NULL) {
        return sm_fail(SM_ERR_OOM, "out of memory: not even %d MiB to begin with (ulimit -v?)", LIBRARIES_BYTES >> 20);
    }
    free(memory);
    return SM_OK;
}

void cli_memory_watch(void) { json_set_alloc_funcs(allocate, free); }
