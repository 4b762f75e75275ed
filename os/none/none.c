// none.c: the system of a page's module (wasm32): memory and a clock, one thread, no files. See os/os.h for what each
// function is; functions that this program never calls are left out.
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "os/memory.h"
#include "os/os.h"
#include "os/processor.h"

int os_n_processors(void) { return 1; }

void os_memory(const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    *total_bytes = 0;
    *available_bytes = 0;
}

void os_memory_allowed(const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    os_memory(root, total_bytes, available_bytes);
}

void os_use_large_pages(void *memory, size_t size_bytes) {}

void *os_map(size_t size_bytes, size_t alignment) {
    const size_t least = 4096;
    void *memory = aligned_alloc(alignment > least ? alignment : least, size_bytes);
    return memory != NULL ? memset(memory, 0, size_bytes) : NULL;
}

void os_unmap(void *memory, size_t size_bytes) { free(memory); }

void os_processor_name(const char *root, char *name, size_t size_bytes) { snprintf(name, size_bytes, "a browser"); }

int omp_get_num_procs(void) { return 1; }
int omp_get_thread_limit(void) { return 1; }
int omp_get_max_threads(void) { return 1; }
