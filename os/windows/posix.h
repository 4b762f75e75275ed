// posix.h: POSIX for Windows: the part of it that stepmark uses, included before every file. Paths are UTF-8; files are
// binary, and may be renamed and removed while they are open; descriptors are not inherited. Functions that Windows
// lacks fail with ENOSYS, and callers say so.
#pragma once

#define _POSIX_THREAD_SAFE_FUNCTIONS 200112L // gmtime_r
#define _CRT_RAND_S                          // rand_s
#define WIN32_LEAN_AND_MEAN                  // no sockets

#define tell os_tell_of_the_c_library // stepmark has another use for the name
#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>
#undef tell
#undef PATH_MAX
#define PATH_MAX 4096 // long paths are allowed

// --- memory --------------------------------------------------------------------------------------------

// One heap for plain and for aligned memory, so that free() takes both.
void *os_malloc(size_t n_bytes);
void *os_calloc(size_t n, size_t n_bytes);
void *os_realloc(void *memory, size_t n_bytes);
void os_free(void *memory);
void *os_aligned_alloc(size_t alignment, size_t n_bytes);
char *os_strdup(const char *text);
char *os_strndup(const char *text, size_t most_bytes);
int os_vasprintf(char **text, const char *format, va_list arguments);
#define malloc        os_malloc
#define calloc        os_calloc
#define realloc       os_realloc
#define free          os_free
#define aligned_alloc os_aligned_alloc
#undef strdup
#define strdup    os_strdup
#define strndup   os_strndup
#define vasprintf os_vasprintf

// What a child needs to map the memory of os_map_shared and os_map_given.
void *os_shared_name(const void *memory);
void **os_shared_events(const void *memory, int *n);

// --- files ---------------------------------------------------------------------------------------------

#define O_CLOEXEC   O_NOINHERIT
#define O_NONBLOCK  0
#define O_NOFOLLOW  0
#define O_DIRECTORY 0x100000
enum { LOCK_SH = 1, LOCK_EX = 2, LOCK_NB = 4 };
enum { F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_DUPFD_CLOEXEC, FD_CLOEXEC = 1 };
#define NAME_MAX 255

struct os_stat {
    uint64_t st_dev, st_ino;
    mode_t st_mode;
    unsigned st_nlink, st_uid;
    int64_t st_size;
    struct timespec st_mtim;
};
#undef stat
#undef fstat
#undef lstat
#define stat     os_stat
#define fstat    os_fstat
#define lstat    os_stat
#define S_ISLNK(mode) ((void)(mode), false) // links need rights that few have there
#define st_mtime st_mtim.tv_sec
int os_stat(const char *path, struct os_stat *info);
int os_fstat(int file, struct os_stat *info);
int os_open(const char *path, int flags, ...);
FILE *os_fopen(const char *path, const char *mode);
int os_mkdir(const char *path, mode_t mode);
int os_unlink(const char *path);
int os_rmdir(const char *path);
int os_remove(const char *path);
int os_rename(const char *from, const char *to);
int os_access(const char *path, int mode);
int os_mkstemp(char *path);
int os_ftruncate(int file, int64_t n_bytes);
int os_close(int file);
#define close   os_close
#define open    os_open
#define fopen   os_fopen
#define mkdir   os_mkdir
#define unlink  os_unlink
#define rmdir   os_rmdir
#define remove  os_remove
#define rename  os_rename
#define access  os_access
#define mkstemp os_mkstemp
#undef ftruncate
#define ftruncate os_ftruncate
#undef lseek
#define lseek _lseeki64
int openat(int folder, const char *name, int flags, ...);
char *mkdtemp(char *path);
char *realpath(const char *path, char *found);
ssize_t pread(int file, void *data, size_t n_bytes, off_t at);
ssize_t pwrite(int file, const void *data, size_t n_bytes, off_t at);
int os_put_bytes(int file, const void *data, unsigned n_bytes);
#define write(file, data, n_bytes) os_put_bytes(file, data, n_bytes)
int fsync(int file);
int flock(int file, int operation);
int fcntl(int file, int command, ...);
#define chmod(path, mode) ((void)(path), (void)(mode), 0)

struct statvfs {
    unsigned long f_bsize;
    uint64_t f_bavail, f_frsize;
};
int statvfs(const char *path, struct statvfs *facts);

// --- text ----------------------------------------------------------------------------------------------

FILE *open_memstream(char **text, size_t *n_bytes);
int os_fclose(FILE *file); // completes these
#define fclose os_fclose
ssize_t getline(char **line, size_t *room, FILE *file);
void *memmem(const void *text, size_t n, const void *part, size_t n_part);
char *strcasestr(const char *text, const char *part);
char *strsignal(int number);
time_t timegm(struct tm *parts);
// Assignable, as the C library's of others is.
extern FILE *os_stdout;
#undef stdout
#define stdout os_stdout
#undef stderr
#define stderr __acrt_iob_func(2)

// --- processes -----------------------------------------------------------------------------------------

enum { SIGHUP = 1, SIGQUIT = 3, SIGBUS = 7, SIGKILL = 9, SIGUSR1 = 10, SIGPIPE = 13, SIGCHLD = 17 };
enum { SIGXCPU = 24, SIGXFSZ = 25, SIGSYS = 31 };
enum { SA_SIGINFO = 1, SA_ONSTACK = 2, SA_RESTART = 4 };
typedef unsigned os_sigset;
#define sigset_t os_sigset
typedef struct {
    int si_signo, si_code, si_status, si_syscall;
    pid_t si_pid;
    void *si_addr;
} siginfo_t;
typedef struct {
    void *ss_sp;
    size_t ss_size;
    int ss_flags;
} stack_t;
struct sigaction {
    void (*sa_handler)(int);
    void (*sa_sigaction)(int, siginfo_t *, void *);
    sigset_t sa_mask;
    int sa_flags;
};
int sigaction(int number, const struct sigaction *wanted, struct sigaction *before);
int os_signal(int number, void (*handler)(int)); // SIG_IGN and others of signals that Windows lacks: nothing
#define signal(number, handler) ((void)os_signal((number), (handler)))
#undef sigemptyset
#undef sigaddset
#define sigfillset(set)               (*(set) = ~0U)
#define sigemptyset(set)              (*(set) = 0)
#define sigaddset(set, number)        (*(set) |= 1U << ((number) % 32))
#define sigprocmask(how, set, before) os_signals_held((set), (before))
#undef pthread_sigmask
#define pthread_sigmask(how, set, before) os_signals_held((set), (before))
static inline int sigaltstack(const stack_t *stack, stack_t *before) {
    return stack != NULL && before == NULL ? -1 : 0;
}
int os_signals_held(const os_sigset *set, os_sigset *before);

struct rusage {
    long ru_maxrss, ru_nivcsw, ru_majflt, ru_minflt, ru_nvcsw;
    struct timeval ru_utime, ru_stime;
};
enum { RUSAGE_SELF, RUSAGE_CHILDREN, RUSAGE_THREAD };
int getrusage(int whose, struct rusage *usage);

unsigned geteuid(void);

// --- the machine ---------------------------------------------------------------------------------------

enum { _SC_NPROCESSORS_ONLN, _SC_CLK_TCK };
long sysconf(int name);
int setenv(const char *name, const char *value, int replaces);
int unsetenv(const char *name);
int os_gethostname(char *name, size_t n_bytes);
#define gethostname os_gethostname
int getloadavg(double *loads, int n);
struct utsname {
    char sysname[65], nodename[65], release[65], version[65], machine[65];
};
int uname(struct utsname *names);
