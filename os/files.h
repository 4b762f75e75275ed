// files.h: folders by the names in them; and writing.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

// When its contents last changed, since 1970.
int64_t os_changed_ns(const struct stat *info);

typedef struct {
    char **list; // sorted by bytes
    int n;
} os_names;

// The names in a folder, without . and .. themselves. False with errno: it cannot be read.
bool os_list_folder(const char *path, os_names *names);

// The paths that match a pattern of a shell (*, ?, [a-z]). False with errno, ENOENT: none.
bool os_match_paths(const char *pattern, os_names *paths);

void os_free_names(os_names *names); // empty ones are fine

// For both of them: appends a copy, but not of . and ..; false with errno: no memory, and nothing is left.
bool os_add_name(os_names *names, const char *name);
void os_sort_names(os_names *names);

// Writes all of it, however often a signal interrupts; false with errno: it cannot be written.
bool os_write_all(int fd, const void *data, size_t size_bytes);

// Locks an open file or folder for this process alone (flock). A killed process may need a moment to disappear, with
// what it had started, so this waits for seconds. 0, or errno: EWOULDBLOCK if another process keeps it.
int os_lock_soon(int fd);
