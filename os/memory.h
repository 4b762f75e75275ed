// memory.h: pages of the system's memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>

size_t os_page_bytes(void);

// Zeroed memory, which the system gives page by page as they are first touched. `alignment`: of its address, 0 for that
// of a page. NULL: none. Unmap it as a whole.
void *os_map(size_t size_bytes, size_t alignment);

// Likewise, shared with the children that are forked later.
void *os_map_shared(size_t size_bytes);

// The contents of a file, shared with all that map it.
void *os_map_file(int file, size_t size_bytes);

// Memory for a program that is started with it as its standard input (os_child_plan), where that finds it. *file: a
// descriptor of it, to be closed; -1: this system has none.
void *os_map_given(size_t size_bytes, int *file);
void *os_map_input(size_t *size_bytes);

void os_unmap(void *memory, size_t size_bytes); // NULL is fine

// The accesses to pages that are allowed from now on.
typedef enum { OS_MAY_NOTHING, OS_MAY_ONLY_READ, OS_MAY_CHANGE } os_page_right;
bool os_protect(void *memory, size_t size_bytes, os_page_right right);
