#include "os/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "status.h"

// Calls that may be newer than the C library's headers; the numbers are the same on all architectures.
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_riscv_hwprobe // RISC-V's library loader asks by it
#define SYS_riscv_hwprobe SYS_exit
#endif

// Newer architectures have some calls under their newer names alone.
#if defined(__x86_64__)
#define OF_X86_64(...) __VA_ARGS__
#define ARCHITECTURE   AUDIT_ARCH_X86_64
#else
#define OF_X86_64(...)
#endif
#if defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define ARCHITECTURE AUDIT_ARCH_RISCV64
#elif !defined(ARCHITECTURE)
#define ARCHITECTURE 0
#endif

// Computing, memory, time, reading files (to load a library), ending.
// clang-format off
static const int allowed[] = {
    SYS_read, SYS_pread64, SYS_close, SYS_fstat, SYS_newfstatat, SYS_lseek, SYS_readlinkat, OF_X86_64(SYS_readlink,)
    SYS_mmap, SYS_mprotect, SYS_munmap, SYS_mremap, SYS_brk, SYS_madvise,
    SYS_futex, SYS_sched_yield, SYS_sched_getaffinity, SYS_clock_gettime, SYS_clock_nanosleep, SYS_nanosleep,
    SYS_getrandom, SYS_getpid, SYS_gettid, SYS_riscv_hwprobe,
    SYS_rt_sigreturn, SYS_rt_sigprocmask, SYS_sigaltstack, SYS_exit, SYS_exit_group,
};
// clang-format on
enum { N_ALLOWED = sizeof(allowed) / sizeof(allowed[0]) };

#define LOAD(offset)                 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define IF_EQUAL(value, then, other) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), then, other)
#define RETURN(action)               BPF_STMT(BPF_RET | BPF_K, (action))
#define NUMBER                       offsetof(struct seccomp_data, nr)
#define ARGUMENT(i)                  offsetof(struct seccomp_data, args[i])

// Allows a call that opens a file, with its flags at that argument, only for reading.
static unsigned short append_open(struct sock_filter *code, unsigned short n, int call, unsigned flags_at) {
    code[n++] = (struct sock_filter)IF_EQUAL(call, 0, 4);
    code[n++] = (struct sock_filter)LOAD(flags_at);
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, 0, 1);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_TRAP);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    return n;
}

static bool install(struct sock_filter *code, unsigned short n) {
    const struct sock_fprog program = {.len = n, .filter = code};
    return ARCHITECTURE != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Other architectures have other numbers.
static unsigned short append_architecture(struct sock_filter *code, unsigned short n) {
    code[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)IF_EQUAL(ARCHITECTURE, 1, 0);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)LOAD(NUMBER);
    return n;
}

bool os_filter_to_compute(void) {
    enum { MOST = 2 * N_ALLOWED + 32 };
    struct sock_filter code[MOST];
    unsigned short n = append_architecture(code, 0);
    for (int i = 0; i < N_ALLOWED; i++) {
        code[n++] = (struct sock_filter)IF_EQUAL(allowed[i], 0, 1);
        code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    }
    n = append_open(code, n, SYS_openat, ARGUMENT(2));
    OF_X86_64(n = append_open(code, n, SYS_open, ARGUMENT(1));)
    code[n++] = (struct sock_filter)IF_EQUAL(SYS_write, 0, 4);
    code[n++] = (struct sock_filter)LOAD(ARGUMENT(0));
    code[n++] = (struct sock_filter)IF_EQUAL(1, 1, 0);
    code[n++] = (struct sock_filter)IF_EQUAL(2, 0, 1);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_TRAP);
    return install(code, n);
}

// --- a driver's process ----------------------------------------------------------------------------

// A driver opens devices, starts threads, keeps files and calls compilers, so this is a list of what is refused: the
// network, other processes, leaving the process group, and administration.
// clang-format off
static const int refused[] = {
    SYS_socket, SYS_connect, SYS_bind, SYS_io_uring_setup, OF_X86_64(SYS_fork, SYS_iopl, SYS_ioperm,)
    SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_pidfd_send_signal, SYS_pidfd_open,
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_setsid, SYS_setpgid, SYS_setns, SYS_unshare,
    SYS_chroot, SYS_pivot_root, SYS_mount, SYS_umount2, SYS_open_by_handle_at, SYS_swapon, SYS_swapoff,
    SYS_reboot, SYS_kexec_load, SYS_init_module, SYS_finit_module, SYS_delete_module,
    SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_sethostname, SYS_setdomainname, SYS_setrlimit,
    SYS_acct, SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, SYS_add_key, SYS_keyctl,
};
// clang-format on
enum { N_REFUSED = sizeof(refused) / sizeof(refused[0]), FIRST_OF_X32 = 0x40000000 };

bool os_filter_to_drive(void) {
    struct sock_filter code[2 * N_REFUSED + 32];
    unsigned short n = append_architecture(code, 0);
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_OF_X32, 0, 1);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    for (int i = 0; i < N_REFUSED; i++) {
        code[n++] = (struct sock_filter)IF_EQUAL(refused[i], 0, 1);
        code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    }
    code[n++] = (struct sock_filter)IF_EQUAL(SYS_tgkill, 0, 3); // a thread of this process
    code[n++] = (struct sock_filter)LOAD(ARGUMENT(0));
    code[n++] = (struct sock_filter)IF_EQUAL(getpid(), 1, 0);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    code[n++] = (struct sock_filter)LOAD(NUMBER);
    code[n++] = (struct sock_filter)IF_EQUAL(SYS_prlimit64, 0, 5); // to read, not to set
    code[n++] = (struct sock_filter)LOAD(ARGUMENT(2));
    code[n++] = (struct sock_filter)IF_EQUAL(0, 0, 2);
    code[n++] = (struct sock_filter)LOAD(ARGUMENT(2) + 4);
    code[n++] = (struct sock_filter)IF_EQUAL(0, 1, 0);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    return install(code, n);
}

// --- what was refused ------------------------------------------------------------------------------

bool os_has_address(const siginfo_t *info) { return info->si_code > 0 && info->si_code != SI_KERNEL; }

int os_filtered_call(const siginfo_t *info) { return info->si_syscall; }

const char *os_call_name(int number, char text[32]) {
    static const struct {
        int number;
        const char *name;
    } names[] = {{SYS_clone, "fork"},
                 {SYS_execve, "exec"},
                 {SYS_socket, "socket"},
                 {SYS_kill, "kill"},
                 {SYS_tgkill, "abort"},
                 {SYS_unlinkat, "remove"},
                 {SYS_openat, "open, to write"},
                 {SYS_connect, "connect"},
                 {SYS_ptrace, "ptrace"},
                 {SYS_write, "write, to a file"},
                 {SYS_clone3, "fork"},
                 OF_X86_64({SYS_fork, "fork"}, {SYS_vfork, "fork"}, {SYS_unlink, "remove"})};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i].number == number) {
            return names[i].name;
        }
    }
    snprintf(text, 32, "call %d", number);
    return text;
}

// --- files -----------------------------------------------------------------------------------------

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
