// memory.c: the machine's memory, by /proc/meminfo, and what control groups (cgroups) leave of it to this process.
#include <stdio.h>
#include <string.h>

#include "os/os.h"

// --- the machine's ---------------------------------------------------------------------------------

// Value of the first line "key value" or "key: value" of a file in /proc or a cgroup; false if absent.
static bool read_field(const char *root, const char *path, const char *key, uint64_t *value) {
    FILE *file = os_open_facts(root, path);
    if (file == NULL) {
        return false;
    }
    char line[256];
    size_t key_length = strlen(key);
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL) {
        unsigned long long number = 0;
        found = strncmp(line, key, key_length) == 0 && sscanf(line + key_length, "%llu", &number) == 1;
        if (found) {
            *value = number;
        }
    }
    fclose(file);
    return found;
}

static uint64_t read_bytes(const char *root, const char *key) {
    uint64_t n_kib = 0;
    return read_field(root, "/proc/meminfo", key, &n_kib) ? n_kib * 1024 : 0;
}

void os_memory(const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    *total_bytes = read_bytes(root, "MemTotal:");
    *available_bytes = read_bytes(root, "MemAvailable:");
    if (*available_bytes == 0) {
        *available_bytes = *total_bytes;
    }
}

// --- this process's --------------------------------------------------------------------------------

// The files of one cgroup version: where its tree is mounted, and the fields' names.
typedef struct {
    const char *mount;
    const char *limit; // absent, or "max": no limit
    const char *usage;
    const char *inactive; // key in memory.stat of the file cache that the kernel reclaims first
} cgroup_files;

static const cgroup_files cgroup_v1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                                       "total_inactive_file "};
static const cgroup_files cgroup_v2 = {"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file "};

enum { CGROUP_PATH_SIZE = 1024, FILE_PATH_SIZE = 1280 };

// Lowers both figures to the limit of a group and to what is left of it.
static void apply_group(const char *root, const cgroup_files *files, const char *group, uint64_t *total_bytes,
                        uint64_t *available_bytes) {
    char path[FILE_PATH_SIZE];
    uint64_t limit = 0;
    uint64_t usage = 0;
    uint64_t inactive = 0;
    snprintf(path, sizeof path, "%s%s/%s", files->mount, group, files->limit);
    if (!read_field(root, path, "", &limit)) {
        return;
    }
    snprintf(path, sizeof path, "%s%s/%s", files->mount, group, files->usage);
    read_field(root, path, "", &usage);
    snprintf(path, sizeof path, "%s%s/memory.stat", files->mount, group);
    read_field(root, path, files->inactive, &inactive);
    usage -= inactive < usage ? inactive : usage;
    uint64_t left = usage < limit ? limit - usage : 0;
    *total_bytes = limit < *total_bytes ? limit : *total_bytes;
    *available_bytes = left < *available_bytes ? left : *available_bytes;
}

// A limit applies to a group and all groups below it: walks from this process's group to the root. In a container the
// path may name invisible groups; then the root is ours.
static void apply_groups(const char *root, const cgroup_files *files, char *group, uint64_t *total_bytes,
                         uint64_t *available_bytes) {
    for (;;) {
        apply_group(root, files, group, total_bytes, available_bytes);
        char *slash = strrchr(group, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

void os_memory_allowed(const char *root, uint64_t *total_bytes, uint64_t *available_bytes) {
    os_memory(root, total_bytes, available_bytes);
    FILE *file = os_open_facts(root, "/proc/self/cgroup");
    if (file == NULL) {
        return;
    }
    char line[CGROUP_PATH_SIZE]; // "4:memory:/group" (version 1) or "0::/group" (version 2)
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        controllers++;
        if (controllers[0] == '\0') {
            apply_groups(root, &cgroup_v2, group, total_bytes, available_bytes);
        } else if (strcmp(controllers, "memory") == 0) {
            apply_groups(root, &cgroup_v1, group, total_bytes, available_bytes);
        }
    }
    fclose(file);
}
