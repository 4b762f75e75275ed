// os.h: what operating systems differ in. os/linux/ has all of it; os/posix.c has what any Unix has, and says of the
// rest that it is not there. `make OS=posix` builds with the latter on Linux, too. Beside these: file_access.h,
// call_filter.h.
#ifndef STEPMARK_OS_OS_H
#define STEPMARK_OS_OS_H

#include <pthread.h>
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

// Those that the calling thread may run on. False: this system does not tell.
bool os_processors_allowed(os_processors *allowed);

static inline bool os_processors_has(const os_processors *set, int i) { return (set->bits[i / 64] >> i % 64 & 1) != 0; }

// How many these are; where the system does not tell, how many the machine has. At least 1.
int os_n_processors(void);

// Threads of these attributes run on those; without effect where they cannot be bound.
void os_bind_thread(pthread_attr_t *attributes, const os_processors *processors);

// Of the machine, and of it what can be had without swapping; 0: not told.
void os_memory(uint64_t *total_bytes, uint64_t *available_bytes);

// Advice on memory that was just mapped: large pages; no copy for processes that are started.
void os_use_large_pages(void *memory, size_t size_bytes);
void os_keep_from_children(void *memory, size_t size_bytes);

// Sleeps while *word is `value`, until os_wake or, with `most`, for so long. False: the time is over. Wakes for no
// reason, too. `is_shared`: between processes.
bool os_sleep_while(_Atomic uint32_t *word, uint32_t value, const struct timespec *most, bool is_shared);
void os_wake(_Atomic uint32_t *word, bool is_shared);

// How often the calling thread has lost its processor to others; 0: it has not, or this is not told.
long os_n_preemptions(void);

// --- files -----------------------------------------------------------------------------------------

// A file of what the system tells of itself, "/proc/cpuinfo"; `root` stands in front of it: "" but for tests. NULL:
// none.
FILE *os_open_facts(const char *root, const char *path);

// What follows `key` and a colon in its first line that begins so, "model name\t: AMD EPYC 9654", without the blanks
// around it. False: there is none.
bool os_read_fact(const char *root, const char *path, const char *key, char *value, size_t size_bytes);

// A file without a name, which is closed where a program is started. -1 with errno: none.
int os_open_nameless(void);

// Both ends, which are closed where a program is started.
bool os_open_pipe(int ends[2]);

// The system's random numbers, without waiting for them; false: none.
bool os_draw(void *bytes, size_t n_bytes);

// --- processes -------------------------------------------------------------------------------------

// First in main. What this program is started by again: os_program(), a path that stays the same program, or a link to
// it; "" where nobody knows.
void os_begin(const char *argv0);
const char *os_program(void);

// A descriptor that can be read once this child has ended; -1: there is none, one looks in short intervals.
int os_watch(pid_t child);

// This process is killed when the one that started it ends; without effect where the system has no such thing.
void os_end_with_parent(void);

// The first that is killed where memory runs out; leaves no core file.
void os_die_first(void);
void os_leave_no_core(void);

// Of this descriptor and those after it.
void os_close_from(int first);

// Ends the process with nothing done before, not even by sanitizers.
_Noreturn void os_exit_now(int code);

#endif
