// exercise_confine.c: filters of system calls (seccomp), and of writes to files (Landlock).
#include "exercise_confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#endif

// --- filters of system calls -----------------------------------------------------------------------

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#define ARCHITECTURE 0
#endif

// Computing, memory, time, reading files (to load a library), ending.
static const int allowed[] = {
    SYS_read,
    SYS_pread64,
    SYS_close,
    SYS_fstat,
    SYS_newfstatat,
    SYS_lseek,
    SYS_mmap,
    SYS_mprotect,
    SYS_munmap,
    SYS_mremap,
    SYS_brk,
    SYS_madvise,
    SYS_futex,
    SYS_sched_yield,
    SYS_clock_gettime,
    SYS_clock_nanosleep,
    SYS_getrandom,
    SYS_getpid,
    SYS_gettid,
    SYS_rt_sigreturn,
    SYS_rt_sigprocmask,
    SYS_exit,
    SYS_exit_group,
    SYS_sigaltstack,
    SYS_readlinkat,
    SYS_sched_getaffinity,
#ifdef SYS_nanosleep
    SYS_nanosleep,
#endif
#ifdef SYS_readlink
    SYS_readlink,
#endif
};
enum { N_ALLOWED = sizeof(allowed) / sizeof(allowed[0]) };

#define LOAD(offset)                 BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define IF_EQUAL(value, then, other) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)(value), then, other)
#define RETURN(action)               BPF_STMT(BPF_RET | BPF_K, (action))
#define NUMBER                       offsetof(struct seccomp_data, nr)
#define ARGUMENT(i)                  offsetof(struct seccomp_data, args[i])

// A call that opens a file, with its flags at that place: only to read.
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

// Another architecture's calls have other numbers.
static unsigned short append_architecture(struct sock_filter *code, unsigned short n) {
    code[n++] = (struct sock_filter)LOAD(offsetof(struct seccomp_data, arch));
    code[n++] = (struct sock_filter)IF_EQUAL(ARCHITECTURE, 1, 0);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_KILL_PROCESS);
    code[n++] = (struct sock_filter)LOAD(NUMBER);
    return n;
}

// Files may be opened to read, and stdout and stderr written to. False: there is no such filter here.
bool sm_confine_kernel(void) {
    enum { MOST = 2 * N_ALLOWED + 32 };
    struct sock_filter code[MOST];
    unsigned short n = append_architecture(code, 0);
    for (int i = 0; i < N_ALLOWED; i++) {
        code[n++] = (struct sock_filter)IF_EQUAL(allowed[i], 0, 1);
        code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    }
    n = append_open(code, n, SYS_openat, ARGUMENT(2));
#ifdef SYS_open
    n = append_open(code, n, SYS_open, ARGUMENT(1));
#endif
    code[n++] = (struct sock_filter)IF_EQUAL(SYS_write, 0, 4);
    code[n++] = (struct sock_filter)LOAD(ARGUMENT(0));
    code[n++] = (struct sock_filter)IF_EQUAL(1, 1, 0);
    code[n++] = (struct sock_filter)IF_EQUAL(2, 0, 1);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_TRAP);
    return install(code, n);
}

// --- a driver's process ----------------------------------------------------------------------------

// A driver opens devices, starts threads, keeps files and calls compilers, so what is refused is listed: the network,
// other processes, the way out of the group of processes that is ended in the end, and the system's own affairs.
static const int refused[] = {
    SYS_socket,
    SYS_connect,
    SYS_bind,
    SYS_io_uring_setup,
    SYS_kill,
    SYS_tkill,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_pidfd_send_signal,
    SYS_pidfd_open,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_setsid,
    SYS_setpgid,
    SYS_setns,
    SYS_unshare,
    SYS_chroot,
    SYS_pivot_root,
    SYS_mount,
    SYS_umount2,
    SYS_reboot,
    SYS_kexec_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_swapon,
    SYS_swapoff,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_acct,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_add_key,
    SYS_keyctl,
    SYS_open_by_handle_at,
    SYS_setrlimit,
#ifdef SYS_fork
    SYS_fork,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
#endif
};
enum { N_REFUSED = sizeof(refused) / sizeof(refused[0]), FIRST_OF_X32 = 0x40000000 };

static bool filter_driver(void) {
    struct sock_filter code[2 * N_REFUSED + 32];
    unsigned short n = append_architecture(code, 0);
    code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, FIRST_OF_X32, 0, 1);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    for (int i = 0; i < N_REFUSED; i++) {
        code[n++] = (struct sock_filter)IF_EQUAL(refused[i], 0, 1);
        code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    }
    code[n++] = (struct sock_filter)IF_EQUAL(SYS_tgkill, 0, 3); // a thread of its own
    code[n++] = (struct sock_filter)LOAD(ARGUMENT(0));
    code[n++] = (struct sock_filter)IF_EQUAL(getpid(), 1, 0);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    code[n++] = (struct sock_filter)LOAD(NUMBER);
    code[n++] = (struct sock_filter)IF_EQUAL(SYS_prlimit64, 0, 5); // to ask, not to set
    code[n++] = (struct sock_filter)LOAD(ARGUMENT(2));
    code[n++] = (struct sock_filter)IF_EQUAL(0, 0, 2);
    code[n++] = (struct sock_filter)LOAD(ARGUMENT(2) + 4);
    code[n++] = (struct sock_filter)IF_EQUAL(0, 1, 0);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ERRNO | EPERM);
    code[n++] = (struct sock_filter)RETURN(SECCOMP_RET_ALLOW);
    return install(code, n);
}

#ifdef LANDLOCK_CREATE_RULESET_VERSION
static const uint64_t writes = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                               LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                               LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                               LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                               LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

// As much of it as this kernel and these headers know.
static struct landlock_ruleset_attr rules_of(long version) {
    struct landlock_ruleset_attr rules = {.handled_access_fs = writes};
#ifdef LANDLOCK_ACCESS_FS_REFER
    rules.handled_access_fs |= version >= 2 ? LANDLOCK_ACCESS_FS_REFER : 0;
#endif
#ifdef LANDLOCK_ACCESS_FS_TRUNCATE
    rules.handled_access_fs |= version >= 3 ? LANDLOCK_ACCESS_FS_TRUNCATE : 0;
#endif
#ifdef LANDLOCK_ACCESS_NET_BIND_TCP
    rules.handled_access_net = version >= 4 ? LANDLOCK_ACCESS_NET_BIND_TCP | LANDLOCK_ACCESS_NET_CONNECT_TCP : 0;
#endif
#ifdef LANDLOCK_SCOPE_SIGNAL
    rules.scoped = version >= 6 ? LANDLOCK_SCOPE_SIGNAL | LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET : 0;
#endif
    return rules;
}

static void allow_below(int ruleset, uint64_t access, const char *folder) {
    struct landlock_path_beneath_attr rule = {.allowed_access = access};
    rule.parent_fd = open(folder, O_PATH | O_CLOEXEC);
    if (rule.parent_fd >= 0) {
        syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
        close(rule.parent_fd);
    }
}

// The folder of a variable, or that within HOME; made where it is not there. False: neither is set.
static bool find_place(const char *variable, const char *within_home, char path[PATH_MAX]) {
    const char *folder = variable != NULL ? getenv(variable) : NULL;
    const char *home = getenv("HOME");
    int length = -1;
    if (folder != NULL && folder[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s", folder);
    } else if (within_home != NULL && home != NULL && home[0] == '/') {
        length = snprintf(path, PATH_MAX, "%s/%s", home, within_home);
    }
    if (length < 0 || length >= PATH_MAX) {
        return false;
    }
    mkdir(path, 0700);
    return true;
}

// Devices, and where drivers and this program keep what they compile. What is temporary goes there, too.
static void allow_places(int ruleset, uint64_t access) {
    static const struct {
        const char *variable, *within_home;
    } places[] = {{"POCL_CACHE_DIR", NULL}, {"CUDA_CACHE_PATH", ".nv"}, {"XDG_CACHE_HOME", ".cache"}};
    char path[PATH_MAX];
    allow_below(ruleset, access, "/dev");
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        if (find_place(places[i].variable, places[i].within_home, path)) {
            allow_below(ruleset, access, path);
            setenv("TMPDIR", path, 1);
        }
    }
}

// Where there is no Landlock, the filter of system calls is all.
static void limit_writes(void) {
    const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    const struct landlock_ruleset_attr rules = rules_of(version);
    const int ruleset = version < 1 ? -1 : (int)syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);
    if (ruleset >= 0) {
        allow_places(ruleset, rules.handled_access_fs);
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
            syscall(SYS_landlock_restrict_self, ruleset, 0);
        }
        close(ruleset);
    }
}
#else
static void limit_writes(void) {}
#endif

bool sm_confine_driver(void) {
    limit_writes();
    return filter_driver();
}
