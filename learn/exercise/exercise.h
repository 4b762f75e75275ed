// exercise.h: kernels for students to write: a first file, and a check that explains mistakes.
//
// The check runs the student's function in a separate process that may only compute (exercise/child.c), on the cases of
// verify, and compares with the reference backend. It compares wrong results with those of known mistakes
// (exercise/mistakes.c).
#pragma once

#include <signal.h>

#include "backend.h"

enum { SM_EXERCISE_HINTS = 3 };

typedef struct {
    sm_op_kind kind;
    const char *lesson;                   // in docs/course, "03-layernorm.md"
    const char *task;                     // one line
    const char *advice;                   // for the first file: lines of a comment, each ends with a newline
    const char *hints[SM_EXERCISE_HINTS]; // from the idea to the line that matters
} sm_exercise;

int sm_exercise_count(void);
const sm_exercise *sm_exercise_at(int index);
const sm_exercise *sm_exercise_find(const char *name); // NULL: none

// Writes DIR/NAME.c or DIR/NAME.cl; makes the folder if missing. Existing files are not replaced: SM_ERR_IO.
sm_status sm_exercise_write(const sm_exercise *exercise, sm_own_language language, const char *folder, char *path,
                            size_t path_bytes);

enum { SM_EXERCISE_TEXT = 1024, SM_EXERCISE_ROWS = 5, SM_EXERCISE_TURNS = 7 };

// One line of the table of times.
typedef struct {
    char who[64];
    double ns[SM_EXERCISE_TURNS]; // of one call, in each turn: all kernels are timed in the same turns
    int n;                        // turns
} sm_exercise_time;

typedef struct {
    bool right;
    bool is_limited; // access to files; false: this system has no Landlock
    int n_cases;
    int n_right;
    int64_t n_values;             // compared
    char *said;                   // by the compiler; "" or NULL: nothing
    char *printed;                // by the kernel; likewise
    char wrong[SM_EXERCISE_TEXT]; // the first error: case, output, index, expected, got; or how the process ended
    char where[SM_EXERCISE_TEXT]; // the wrong outputs and cases
    char why[SM_EXERCISE_TEXT];   // the known mistake with these results; "": none
    char suspect[SM_NAME_SIZE];   // the operand that this is about; "": unknown
    bool is_written;              // it is wrong as an output
    char look[SM_EXERCISE_TEXT];  // the line of the file to look at; "": none found

    char timed_on[SM_TEXT_SIZE]; // "one thread", or a device's name
    char timed_case[96];         // the case of the times
    double flops;
    double bytes;
    double ceiling_ns;    // NaN: unknown
    bool is_memory_bound; // which ceiling it is
    bool is_ceiling_ours; // it is the time of our fastest kernel, because the ceilings were measured too low
    double call_ns;       // of a call that does nothing, which the times include
    sm_exercise_time times[SM_EXERCISE_ROWS]; // the kernel's, then ours
    int n_times;
} sm_exercise_report;

typedef struct {
    double timeout_s; // for compiling, for all cases together, and for all timed calls
    bool without_times;
    uint64_t seed;      // of the cases' inputs; 0: those of verify, which a kernel could know
    const char *device; // for a kernel in OpenCL C: "opencl", or an id
    const volatile sig_atomic_t *interrupted;
} sm_exercise_options;

// Fills a report for each file, whatever its kernel does: all are checked, then those that are right are timed in
// turns. A file that cannot be read or compiled is wrong. Only the check itself can fail: no memory, no compiler, no
// way to confine a process.
sm_status sm_exercise_check(sm_op_kind kind, const char *const *paths, int n, const sm_exercise_options *options,
                            sm_exercise_report *reports);
void sm_exercise_report_free(sm_exercise_report *report);

// The median of a kernel's times; NaN: none.
double sm_exercise_median(const sm_exercise_time *time);
