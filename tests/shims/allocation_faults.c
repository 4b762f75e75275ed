// allocation_faults.c: preloaded, it lets one allocation fail: the FAULT_AT-th (from 1) of those that the program
// itself, libjansson, and the libraries named in FAULT_IN (parts of their paths, separated by commas) make. With
// FAULT_COUNT=FILE their number is written there at the end, if it is larger than what is there. Processes that the
// program starts are not affected.
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdarg.h>
#include <stdatomic.h>

#include "status.h"

void *__libc_malloc(size_t size_bytes);
void *__libc_calloc(size_t n, size_t size_bytes);
void *__libc_realloc(void *old, size_t size_bytes);
void *__libc_memalign(size_t alignment, size_t size_bytes);
int asprintf(char **text, const char *format, ...);

enum { MOST_RANGES = 32 };

static struct {
    uintptr_t begin;
    uintptr_t end;
} watched[MOST_RANGES]; // code whose allocations count
static int n_watched;
static long fault_at;
static atomic_long n_allocations;

static int is_watched_library(const char *path) {
    char names[256];
    const char *also = getenv("FAULT_IN");
    snprintf(names, sizeof(names), "libjansson,%s", also != NULL ? also : "");
    for (char *name = strtok(names, ","); name != NULL; name = strtok(NULL, ",")) {
        if (strstr(path, name) != NULL) {
            return 1;
        }
    }
    return 0;
}

static int watch(struct dl_phdr_info *info, SM_UNUSED size_t size_bytes, SM_UNUSED void *data) {
    const int is_program = info->dlpi_name[0] == '\0';
    for (int i = 0; i < info->dlpi_phnum && n_watched < MOST_RANGES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && (part->p_flags & PF_X) != 0 &&
            (is_program || is_watched_library(info->dlpi_name))) {
            watched[n_watched].begin = info->dlpi_addr + part->p_vaddr;
            watched[n_watched].end = watched[n_watched].begin + part->p_memsz;
            n_watched++;
        }
    }
    return 0;
}

static __attribute__((constructor)) void begin(void) {
    const char *at = getenv("FAULT_AT");
    fault_at = at != NULL ? strtol(at, NULL, 10) : 0;
    unsetenv("LD_PRELOAD");
    dl_iterate_phdr(watch, NULL);
}

static long count_in(const char *path) {
    long n = 0;
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        n = fscanf(file, "%ld", &n) == 1 ? n : 0;
        fclose(file);
    }
    return n;
}

// A process that the program forks counts on from where it was; of all of them the largest number counts.
static __attribute__((destructor)) void end(void) {
    const char *path = getenv("FAULT_COUNT");
    const long before = path != NULL ? count_in(path) : 0;
    FILE *file = path != NULL && n_allocations > before ? fopen(path, "w") : NULL;
    if (file != NULL) {
        fprintf(file, "%ld\n", (long)n_allocations);
        fclose(file);
    }
}

// Is this the one that fails?
static int fails(const void *caller) {
    for (int i = 0; i < n_watched; i++) {
        if ((uintptr_t)caller >= watched[i].begin && (uintptr_t)caller < watched[i].end) {
            errno = ENOMEM;
            return atomic_fetch_add(&n_allocations, 1) + 1 == fault_at;
        }
    }
    return 0;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t size_bytes) { return fails(CALLER) ? NULL : __libc_malloc(size_bytes); }
void *calloc(size_t n, size_t size_bytes) { return fails(CALLER) ? NULL : __libc_calloc(n, size_bytes); }
void *realloc(void *old, size_t size_bytes) { return fails(CALLER) ? NULL : __libc_realloc(old, size_bytes); }
void *aligned_alloc(size_t alignment, size_t size_bytes) {
    return fails(CALLER) ? NULL : __libc_memalign(alignment, size_bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t size_bytes) {
    void *made = fails(CALLER) ? NULL : __libc_memalign(alignment, size_bytes);
    *memory = made != NULL ? made : *memory;
    return made != NULL ? 0 : ENOMEM;
}

static char *copy(const char *text, size_t length) {
    char *made = __libc_malloc(length + 1);
    if (made != NULL) {
        memcpy(made, text, length);
        made[length] = '\0';
    }
    return made;
}

#undef strdup
#undef strndup
char *strdup(const char *text) { return fails(CALLER) ? NULL : copy(text, strlen(text)); }
char *strndup(const char *text, size_t most) { return fails(CALLER) ? NULL : copy(text, strnlen(text, most)); }

int asprintf(char **text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = fails(CALLER) ? -1 : vasprintf(text, format, arguments);
    va_end(arguments);
    return length;
}
