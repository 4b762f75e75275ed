// judge.h: how a student's kernel is judged: on cases, in a process of its own, by its results and its times.
#pragma once

#include "bench/profile/profile.h"
#include "learn/exercise/exercise.h"
#include "learn/own_kernels/kernel_library.h"
#include "src/verify/op_cases.h"

// --- cases (case.c): those of verify in memory that a separate process can share -----------------------

// Initial value of outputs that must be written: not a result of any case.
#define SM_EXERCISE_POISON (-1024.0F)

// An operand of the op under test. Its memory lies between two guard pages and ends at the second.
typedef struct {
    const sm_operand_info *info; // NULL: the op does not have this operand here
    const sm_tensor *tensor;
    bool is_output;
    int out; // index of an output; -1 for an input
    int64_t n_elems;
    size_t size_bytes;
    char *map; // guard page, pages, guard page
    size_t map_bytes;
    size_t page_bytes; // of one guard
    char *data;
    void *before;          // a copy of what the kernel gets
    void *expected;        // of outputs: the right result; NULL: not computed yet
    float *got;            // of outputs: the kernel's result, likewise
    int64_t wrong;         // of outputs: the first wrong element of it, -1: none (sm_case_compare)
    double tolerance;      // of outputs: largest error relative to the largest value
    double mean_tolerance; // of matrix products: largest mean square of errors, relative to that of values; 0: none
    bool is_shared;        // an output in the place of an input
} sm_case_operand;

enum { SM_CASE_OPERANDS = SM_MAX_IN + SM_MAX_OUT };

typedef struct {
    sm_op_kind kind;
    int index;     // op_cases.h
    uint64_t seed; // of its inputs
    char text[SM_CASE_TEXT_SIZE];
    sm_plan *plan;
    const sm_op *op;
    sm_case_operand operands[SM_CASE_OPERANDS]; // inputs, then outputs
    void *addresses[SM_CASE_OPERANDS];          // of their data
    sm_own_args args;
    bool is_right; // after the comparison
} sm_exercise_case;

typedef struct {
    sm_exercise_case *list;
    int n;
    int timed;            // index of the case with the most work
    sm_device *reference; // computes what is right
} sm_exercise_cases;

// All cases of the kind that a plan of mode naive can have, with the operands before the op under test. The right
// results are computed later: they must not exist while an unknown kernel runs. `seed`: of the first case's inputs.
sm_status sm_exercise_cases_open(sm_op_kind kind, uint64_t seed, sm_exercise_cases *cases);

// Computes them with the reference, and keeps the kernel's.
sm_status sm_exercise_cases_expect(sm_exercise_cases *cases);
void sm_exercise_cases_close(sm_exercise_cases *cases);

// The operand's tensor: all plans of a case have the same ones.
static inline int sm_case_tensor(const sm_exercise_case *c, const sm_case_operand *o) {
    return (int)(o->tensor - c->plan->tensors);
}

// Whether an output lies in the place of this input.
bool sm_case_is_overwritten(const sm_exercise_case *c, const sm_case_operand *input);

// Other inputs for a case: of the next seed, with what comes before its op; and then, once the operands hold a kernel's
// results, the right ones.
sm_status sm_case_renew(sm_exercise_case *c, sm_device *reference, uint64_t seed);
sm_status sm_case_expect(sm_exercise_case *c, sm_device *reference);

// The least time that the device's measured ceilings allow the case's op. A kernel took `seen_ns`: if the ceilings
// allow no less, they are measured again, as the machine may have been busy.
sm_status sm_case_ceiling(const sm_exercise_case *c, sm_device *device, double seen_ns, sm_op_ceiling *ceiling);

// Whether the memory next to an operand's data is unchanged.
bool sm_case_is_intact(const sm_case_operand *operand);

// --- a run (child.c) ---------------------------------------------------------------------------------

// A student's function runs on all cases in a process that may only compute and print: it may read files, but not write
// them, and use no other processes and no network. It always ends, and can damage only the memory of its cases.

typedef enum {
    SM_CHILD_DONE,    // all cases ran
    SM_CHILD_REFUSED, // the library could not be loaded: `message` says why
    SM_CHILD_SIGNAL,  // a signal ended it
    SM_CHILD_SYSCALL, // it made a system call that a kernel does not need
    SM_CHILD_EXIT,    // it ended the process
    SM_CHILD_TIMEOUT,
} sm_child_end;

typedef struct {
    sm_child_end end;
    int signal_number;
    int syscall_number;
    bool has_address;    // a memory access failed at `address`
    const void *address; // may be NULL
    int case_index;      // the current case
    char message[512];
    char *printed; // the beginning of its output; the caller frees it
} sm_child_result;

// Runs every case once. SM_ERR_UNSUPPORTED: this system cannot
// confine a process. SM_ERR_INTERRUPTED: *interrupted was set.
sm_status sm_exercise_child_run(const char *path, sm_kernel_file *file, const sm_exercise_cases *cases,
                                const sm_exercise_options *how, sm_child_result *result);

// --- on a device (device.c): in a process of its own, as drivers do not survive a fork ----------------

// Runs every case on the device with that id, or the backend's first ("opencl"), into the operands' memory; *case_index
// is the current one. SM_ERR_FORMAT: the source does not build. SM_ERR_MISMATCH: it wrote outside of its outputs.
sm_status sm_exercise_device_run(const sm_own_kernel *kernel, const char *device, const sm_exercise_cases *cases,
                                 volatile int *case_index);

// --- its results (explain.c) -------------------------------------------------------------------------

// A kernel's results are compared with the right ones, and the difference is explained. Typical mistakes of students,
// such as a missing or confused step of the equation, are edits of the reference's text, which is compiled only where a
// kernel is wrong.

// A kind's mistakes, compiled for the first wrong kernel of a check; all zero: not yet.
typedef struct {
    bool is_there;
    char folder[PATH_MAX], path[PATH_MAX];
    sm_kernel_file file;
} sm_known_mistakes;

void sm_known_mistakes_close(sm_known_mistakes *known);

// After the kernel ran: fills right, n_right, n_values, wrong, where and why. `how`: to run known mistakes. SM_ERR_OOM,
// SM_ERR_INTERRUPTED.
sm_status sm_exercise_judge(const sm_exercise_cases *cases, const sm_exercise_options *how, sm_known_mistakes *known,
                            sm_exercise_report *report);

// Compares a case's results with the right ones, sm_case_expect; whether they are right.
bool sm_case_compare(sm_exercise_case *c);

// After it was right, and wrong in a timed call, whose results the case has.
void sm_exercise_judge_call(const sm_exercise_case *c, sm_exercise_report *report);

// After the kernel ended abnormally: fills wrong and why.
void sm_exercise_tell_end(const sm_exercise_cases *cases, const sm_child_result *result, double timeout_s,
                          sm_exercise_report *report);

// --- typical mistakes (mistakes.c) ------------------------------------------------------------------

enum { SM_MOST_EDITS = 4, SM_MOST_MISTAKES = 20 };

typedef struct {
    const char *says;
    struct {
        const char *find, *replace; // everywhere
    } edits[SM_MOST_EDITS];
    sm_op_kind kind, also; // in the table's rows of kinds
} sm_mistake;

// The mistakes of a kind, from 0 on; NULL: no more.
const sm_mistake *sm_mistake_at(sm_op_kind kind, int index);

// Writes a kernel in C that makes mistake number args->thread. SM_ERR_FORMAT: an edit's text is not in the reference.
sm_status sm_mistakes_write(sm_op_kind kind, const char *path);

// --- its times (times.c) -----------------------------------------------------------------------------

// In turns. Each turn starts a process (src/plan/own_process.h) for each kernel, in an order that is drawn, and calls
// it a few times. Every call has inputs of its own, drawn after the process has loaded the kernel, and every result is
// compared, so a kernel gains nothing by results that it remembers, leaves for later, or computes only when checked.
// The time of a call in C is the processor time that its process used since the call before, as the system counts it:
// the kernel cannot change it, and gains nothing by work between its calls. On a device it lasts from the request to a
// part of the result, by this process's clock; the shortest of a turn counts.

typedef struct {
    const char *library; // or a backend's kernel (SM_OWN_BACKEND), or FILE.cl
    const char *path;    // for messages
    const char *device;  // that it runs on; NULL: a thread of a process
    sm_exercise_time *time;
    sm_exercise_report *report;       // of a kernel that may be wrong; NULL: a backend's
    double left_s;                    // for all of its turns
    double longest_s;                 // of them so far
    double all_ns[SM_EXERCISE_TURNS]; // on a device: of a call with copies of operands and results, in each turn
    bool is_out;
} sm_timed_kernel;

// Fills the times; a kernel that is wrong, or does not end, is out, and its report says why. One
// whose time runs out between its turns has fewer. call_ns: the time of a call that does nothing. SM_ERR_INTERRUPTED.
sm_status sm_exercise_time_all(sm_exercise_cases *cases, const sm_exercise_options *options, sm_timed_kernel *kernels,
                               int n, double *call_ns);
