// own_process.h: a process that runs kernels of the user's own (own_kernel.h). This one, the judge, starts it and asks
// for each call; it loads the libraries (learn/own_kernels/process.c), and knows neither clock, seed, results nor
// checks. The process may change anything in the shared memory at any time, so the judge believes nothing there but
// that a call is over; outputs are then checked like any others.
#pragma once

#include <stdatomic.h>

#include "own_kernel.h"

enum { SM_OWN_MESSAGE_SIZE = 1024 };

// Numbers of calls, each in a cache line of its own.
typedef struct {
    _Alignas(128) _Atomic uint32_t n;
    _Atomic uint32_t is_awaited; // by a thread that sleeps
} sm_own_count;

// For one thread of the process.
typedef struct {
    sm_own_count asked;
    sm_own_count answered;
    int kernel; // -1: none, a call to be timed
    int thread;
    int n_threads;
} sm_own_box;

typedef enum {
    SM_OWN_BEGINS,
    SM_OWN_CONFINED,   // no library is loaded yet
    SM_OWN_UNCONFINED, // likewise: this system has no filter of system calls
    SM_OWN_READY,
    SM_OWN_REFUSED, // `message` has the reason
} sm_own_stage;

// The beginning of the shared memory. Operands follow.
typedef struct {
    size_t size_bytes;  // of all of it
    size_t operands_at; // offset of the first operand
    char *base;         // where the process has it
    int n_threads;
    size_t most_bytes; // of its own memory; 0: no limit
    bool spins;
    sm_own_count stage;                 // sm_own_stage, by the process
    sm_own_count may_load;              // 1: by the judge
    bool has_threads[SM_OP_KIND_COUNT]; // by the kernels' numbers
    char message[SM_OWN_MESSAGE_SIZE];
    sm_own_args args; // with addresses of the process
    sm_own_box boxes[];
} sm_own_shared;

// Waits until a count is not `before`: spins, with `spins` for up to 1 ms, then sleeps, at most 20 ms if `is_limited`.
// Returns the count. spun_ns (NULL is fine): adds the time that it spun.
uint32_t sm_own_await(sm_own_count *count, uint32_t before, bool spins, bool is_limited, _Atomic int64_t *spun_ns);
void sm_own_tell(sm_own_count *count, uint32_t n);

typedef struct {
    int n_threads;
    size_t most_bytes; // of its own memory, of a kernel that is judged: it then says nothing; 0: no limit
    bool sleeps;       // between calls, so that its processor time is that of its calls
    size_t size_bytes; // of operands; 0: as much as the machine has
    double timeout_s;  // of its life, after which it is ended; 0: none
} sm_own_process_options;

// In place of a library: a backend's own kernel, "backend:NAME" or "backend:NAME:ISA", which runs as own kernels do, so
// that their times can be compared. The word for messages is then the text of a case (op_cases.h), the only one that it
// computes.
#define SM_OWN_BACKEND "backend:"

// On a device of the opencl backend the case has three kernels: the first gives the device the operands in the shared
// memory, the second runs the op, the third takes its outputs back. The words of the second are the device, the only
// folder that may be written to, and FILE.cl, or "" for the backend's own kernel; those of the third are not used.
#define SM_OWN_DEVICE "backend:opencl"
enum { SM_OWN_GIVES, SM_OWN_RUNS, SM_OWN_TAKES, SM_OWN_STEPS };

// The three words of a whole backend in place of kernels: this, its library, and the only folder that it may write to.
#define SM_OWN_BACKEND_LIBRARY "--backend-library"

// Starts it, this program again: three words for each kernel are its op, its library, and its file for messages. Fills `process`, `number` and `has_threads`. SM_ERR_FORMAT: a library is refused. It ends with this
// process, or by sm_own_process_end, which is needed after a failed start, too.
sm_status sm_own_process_start(const char *const *words, const sm_own_process_options *how, sm_own_kernel *kernels,
                               int n, sm_own_process **process);
void sm_own_process_end(sm_own_process *process); // NULL is fine

// Gives the operands of a plan's only op the memory that they have in a process, which begins at this address.
void sm_own_process_place(sm_plan *plan, char *memory);

// The shared memory after its beginning, and its size (NULL is fine); and a call of kernel 0 there, which whoever knows
// what lies in it fills in before. deadline_ns: by sm_now_ns, after which the process is ended; 0: none.
void *sm_own_process_memory(const sm_own_process *process, size_t *size_bytes);
sm_status sm_own_process_ask(sm_own_process *process, int64_t deadline_ns);

// False: this system has no filter of system calls.
bool sm_own_process_is_confined(const sm_own_process *process);

// The time of a call that does nothing: the median of many; and the processor time of the process for one: their mean.
double sm_own_process_call_ns(sm_own_process *process);
double sm_own_process_call_cpu_ns(sm_own_process *process);
