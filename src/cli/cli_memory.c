// cli_memory.c: see cli_memory.h.
#include <jansson.h>
#include <stdlib.h>

#include "cli_commands.h"
#include "cli_memory.h"

static void *allocate(size_t size_bytes) {
    void *memory = malloc(size_bytes);
    if (memory == NULL && size_bytes > 0) {
        cli_note("out of memory: %zu bytes for a JSON value", size_bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

void cli_memory_watch(void) { json_set_alloc_funcs(allocate, free); }
