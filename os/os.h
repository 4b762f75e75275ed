// os.h: the differences between operating systems. os/linux/ implements everything; os/posix.c implements what every
// Unix has, and reports the rest as unavailable. `make OS=posix` uses the latter on Linux, too. See also confinement.h.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

// --- processors and memory -------------------------------------------------------------------------

enum { OS_MAX_PROCESSORS = 1024 };
typedef struct {
    uint64_t bits[OS_MAX_PROCESSORS / 64];
} os_processors;

// The processors that the calling thread may use. False: unknown.
bool os_processors_allowed(os_processors *allowed);

static inline bool os_processors_has(const os_processors *set, int i) { return (set->bits[i / 64] >> i % 64 & 1) != 0; }

// The number of these; if unknown, the number of the machine's processors. At least 1.
int os_n_processors(void);

// Whether the system saves the state of AMX's tiles, for which it is asked once. (It is eight kilobytes a thread at
// every switch, so Linux only gives it to who asks: its Documentation/arch/x86/xstate.rst.)
bool os_may_use_tiles(void);

// The machine's memory, and the part available without swapping; 0: unknown. `root`: as of os_open_facts.
void os_memory(const char *root, uint64_t *total_bytes, uint64_t *available_bytes);

// Likewise, within the limits of this process: its control groups (cgroups) may allow less.
void os_memory_allowed(const char *root, uint64_t *total_bytes, uint64_t *available_bytes);

// The processors' worth of time that its control groups allow, 0: no limit; and how long they have stopped its threads
// for it so far, -1: unknown.
void os_cpu_allowed(const char *root, double *quota_cpus, int64_t *throttled_ns);

// Advice on newly mapped memory: large pages; no copy for child processes.
void os_use_large_pages(void *memory, size_t size_bytes);
void os_keep_from_children(void *memory, size_t size_bytes);

// Sleeps while *word is `value`, until os_wake or, with `most`, for that long. False: the time is over. It may also
// wake without a reason. `is_shared`: between processes.
bool os_sleep_while(_Atomic uint32_t *word, uint32_t value, const struct timespec *most, bool is_shared);
void os_wake(_Atomic uint32_t *word, bool is_shared);

// Likewise where nobody wakes it: looks at the word now and then (lacking.c).
bool os_look_while(_Atomic uint32_t *word, uint32_t value, const struct timespec *most);

// The bytes of an ru_maxrss: macOS counts bytes, others KiB.
static inline int64_t os_rss_bytes(long most) {
#ifdef __APPLE__
    return most;
#else
    return (int64_t)most * 1024;
#endif
}

// The number of times that the calling thread has lost its processor to others; 0: never, or unknown.
long os_n_preemptions(void);

// --- files -----------------------------------------------------------------------------------------

// Opens a file with facts about the system, "/proc/cpuinfo", below `root`: "" except in tests. NULL: none.
FILE *os_open_facts(const char *root, const char *path);

// The first line of such a file, without its newline; false, with errno set: there is none.
bool os_read_line(const char *root, const char *path, char *line, size_t size_bytes);

// The number in its first line "key 12" (or, with the colon in the key, "key: 12"); false: none, and *value stays.
bool os_read_count(const char *root, const char *path, const char *key, uint64_t *value);

// The text after `key` and a colon in its first such line, "model name\t: AMD EPYC 9654", trimmed. False: none.
bool os_read_fact(const char *root, const char *path, const char *key, char *value, size_t size_bytes);

// The user's folder for a kind of files: that of the variable (XDG_CACHE_HOME), else `within` the home folder, or what
// the system has in its place. False: there is none.
bool os_user_folder(const char *variable, const char *within, char *path, size_t size_bytes);

// The folder for temporary files: that of the variable TMPDIR, or what the system has in its place.
void os_temporary_folder(char *path, size_t size_bytes);

// A stream whose text `write` takes: it returns how many bytes it took. NULL: this system has no such streams.
typedef ssize_t os_write(void *ctx, const char *text, size_t size_bytes);
FILE *os_open_writer(os_write *write, void *ctx);

// The size of the terminal of a descriptor; false: it does not say.
bool os_screen_size(int file, int *n_columns, int *n_lines);

// Makes a file's contents durable: 0, or -1 with errno; and tells the disk to begin with a part of them.
int os_sync_data(int file);
void os_begin_writing(int file, int64_t at, int64_t n_bytes);

// A file without a name, closed by exec. -1 with errno: none.
int os_open_nameless(void);

// Opens both ends, closed by exec.
bool os_open_pipe(int ends[2]);

// The system's random numbers, without waiting for them; false: none.
bool os_draw(void *bytes, size_t n_bytes);

// --- processes -------------------------------------------------------------------------------------

// Call it first in main, with its words, which become UTF-8. os_program() is then a path for starting this program
// again, which stays the same program, or a link to it; "" if unknown.
void os_begin(char ***argv);
void os_hold_streams(void); // a part of it: else the next file would take the number and the text of a closed stream
const char *os_program(void);

// A descriptor that becomes readable when this child has ended; -1: none, so poll.
int os_watch(pid_t child);

// Makes the system kill this process when its parent ends; no effect if that is impossible.
void os_end_with_parent(void);

// Makes it the first to be killed when memory runs out, and without a core file.
void os_die_first(void);
void os_leave_no_core(void);

// Closes this descriptor and all after it.
void os_close_from(int first);

// Ends the process without any cleanup, even by sanitizers: these do some before each call of a _Noreturn function, so
// this is none, though it never returns.
void os_exit_now(int code);
