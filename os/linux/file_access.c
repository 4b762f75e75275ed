// file_access.c: see os/file_access.h.
#include "os/file_access.h"

#include <fcntl.h>
#include <stdint.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "status.h"

#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#endif

#ifdef LANDLOCK_CREATE_RULESET_VERSION
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

static const uint64_t reads = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
static const uint64_t writes = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                               LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                               LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                               LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                               LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;
static const uint64_t makes_devices = LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK;
static const uint64_t of_files = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE |
                                 LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE;

static long version(void) { return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION); }

bool os_file_access_is_limited(void) { return version() >= 1; }

// Rights to write, as far as this kernel knows them.
static uint64_t known_writes(long known) {
    return writes | (known >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0) | (known >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0);
}

int os_file_access_open(bool limits_reading) {
    const long known = version();
    struct landlock_ruleset_attr rules = {.handled_access_fs = known_writes(known) | (limits_reading ? reads : 0)};
#ifdef LANDLOCK_ACCESS_NET_BIND_TCP
    rules.handled_access_net = known >= 4 ? LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP : 0;
#endif
#ifdef LANDLOCK_SCOPE_SIGNAL
    rules.scoped = known >= 6 ? LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET : 0;
#endif
    return known < 1 ? -1 : (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
}

void os_file_access_allow(int rules, const char *path, unsigned rights) {
    struct stat info;
    const uint64_t access = ((rights & OS_MAY_READ) != 0 ? reads : 0) |
                            ((rights & OS_MAY_WRITE) != 0 ? known_writes(version()) & ~makes_devices : 0);
    struct landlock_path_beneath_attr rule = {.parent_fd = rules >= 0 ? open(path, O_PATH | O_CLOEXEC) : -1};
    if (rule.parent_fd >= 0 && fstat(rule.parent_fd, &info) == 0) {
        rule.allowed_access = S_ISDIR(info.st_mode) ? access : access & of_files;
        // Unless reading is limited, it cannot be allowed.
        if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) != 0) {
            rule.allowed_access &= ~reads;
            syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        }
        close(rule.parent_fd);
    }
}

void os_file_access_limit(int rules) {
    if (rules >= 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
            syscall(SYS_landlock_restrict_self, rules, 0);
        }
        close(rules);
    }
}
#else
bool os_file_access_is_limited(void) { return false; }

int os_file_access_open(SM_UNUSED bool limits_reading) { return -1; }

void os_file_access_allow(SM_UNUSED int rules, SM_UNUSED const char *path, SM_UNUSED unsigned rights) {}

void os_file_access_limit(SM_UNUSED int rules) {}
#endif

void os_file_access_allow_system(int rules) {
    static const char paths[] =
        "/bin\0/lib\0/lib32\0/lib64\0/libx32\0/usr/bin\0/usr/include\0/usr/lib\0/usr/lib32\0/usr/lib64\0/usr/libx32\0"
        "/usr/libexec\0/usr/local/bin\0/usr/local/lib\0/usr/local/include\0/etc/alternatives\0/etc/ld.so.cache\0"
        "/nix/store\0/gnu/store\0/proc/self\0/proc/cpuinfo\0/sys/devices/system/cpu\0/dev/null\0/dev/urandom\0";
    for (const char *path = paths; *path != '\0'; path += strlen(path) + 1) {
        os_file_access_allow(rules, path, OS_MAY_READ);
    }
    os_file_access_allow(rules, "/dev/null", OS_MAY_READ | OS_MAY_WRITE);
}
