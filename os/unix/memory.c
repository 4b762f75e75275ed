// memory.c: see os/memory.h.
#include "os/memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/os.h"

size_t os_page_bytes(void) { return (size_t)sysconf(_SC_PAGESIZE); }

static void *map(size_t size_bytes, int flags, int file) {
    void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    return memory != MAP_FAILED ? memory : NULL;
}

// Maps more than needed, and unmaps the parts outside of the aligned one.
void *os_map(size_t size_bytes, size_t alignment) {
    if (size_bytes > SIZE_MAX - alignment) {
        return NULL;
    }
    char *mapped = map(size_bytes + alignment, MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (mapped == NULL || alignment == 0) {
        return mapped;
    }
    const size_t head_bytes = (alignment - (uintptr_t)mapped % alignment) % alignment;
    char *aligned = mapped + head_bytes;
    if (head_bytes > 0) {
        munmap(mapped, head_bytes);
    }
    munmap(aligned + size_bytes, alignment - head_bytes);
    return aligned;
}

void *os_map_shared(size_t size_bytes) { return map(size_bytes, MAP_SHARED | MAP_ANONYMOUS, -1); }

void *os_map_file(int file, size_t size_bytes) { return map(size_bytes, MAP_SHARED | MAP_NORESERVE, file); }

void *os_map_given(size_t size_bytes, int *file) {
    *file = os_open_nameless();
    void *memory = *file >= 0 && ftruncate(*file, (off_t)size_bytes) == 0 ? os_map_file(*file, size_bytes) : NULL;
    if (memory == NULL && *file >= 0) {
        close(*file);
        *file = -1;
    }
    return memory;
}

void *os_map_input(size_t *size_bytes) {
    struct stat info;
    const bool is_there = fstat(STDIN_FILENO, &info) == 0 && info.st_size > 0;
    *size_bytes = is_there ? (size_t)info.st_size : 0;
    return is_there ? os_map_file(STDIN_FILENO, *size_bytes) : NULL;
}

void os_unmap(void *memory, size_t size_bytes) {
    if (memory != NULL) {
        munmap(memory, size_bytes);
    }
}

bool os_protect(void *memory, size_t size_bytes, os_page_right right) {
    static const int protections[] = {
        [OS_MAY_NOTHING] = PROT_NONE, [OS_MAY_ONLY_READ] = PROT_READ, [OS_MAY_CHANGE] = PROT_READ | PROT_WRITE};
    return mprotect(memory, size_bytes, protections[right]) == 0;
}
