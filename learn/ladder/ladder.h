// ladder.h: compares an op's rungs with the reference and measures them in turn: the gain of each change of a kernel,
// and the distance of the last one from the machine's ceiling.
#pragma once

#include <signal.h>

#include "backend.h"
#include "own_kernel.h"
#include "bench/profile/profile.h"
#include "bench/stats/stats.h"
#include "src/session/session.h"
#include "src/verify/op_cases.h"

// --- the ladders: for each op, its rungs from three loops up to the kernel that a step runs -------

// A rung is a user's kernel (own_kernel.h): a short source in learn/ladder/rungs or cl/ladder, which the backend runs
// instead of its own. The last rung has no source: it is the backend's own kernel. OpenBLAS's product has none either;
// it is left out if the library is not installed.

enum { SM_MOST_RUNGS = 8 }; // for a device

// Processors also run OpenCL, but have no separate local memory and few concurrent work-items: a change that helps
// cards may slow them down, and vice versa.
typedef enum {
    SM_RUNG_ANYWHERE,
    SM_RUNG_ON_CARDS,
    SM_RUNG_ON_PROCESSORS,
    SM_RUNG_BY_OPENBLAS // and not by the backend's own kernel
} sm_rung_place;

typedef struct {
    const char *name; // "blocked"; NULL ends the list
    const char *what; // the change, one line
    const char *file; // its source, "matmul_blocked.c"; NULL: the backend's own kernel
    sm_rung_place place;
} sm_rung;

typedef struct {
    const char *name;    // "matmul"
    const char *backend; // the backend that runs the kernels
    sm_op_kind kind;
    const char *shape;                // the default
    const char *card_shape;           // the default on a card, which needs more work; NULL: not for cards
    sm_rung rungs[SM_MOST_RUNGS + 1]; // for all devices
} sm_ladder;

int sm_ladder_count(void);
const sm_ladder *sm_ladder_at(int index);
const sm_ladder *sm_ladder_find(const char *name, const char *backend); // NULL: none
// The rungs for a device; their number.
int sm_ladder_rungs(const sm_ladder *ladder, bool on_card, const sm_rung *rungs[SM_MOST_RUNGS]);

// The kernel of a rung with a source, for a device with that instruction set.
sm_status sm_rung_kernel(const sm_ladder *ladder, const sm_rung *rung, const char *isa, sm_own_kernel *kernel);

// The source with that file name, embedded in the program. sm_ladder_print_text expands the ladder's includes: it
// writes a complete source. sm_ladder_text is for a file without includes, such as a .cl; NULL: no such file.
sm_status sm_ladder_print_text(const char *file, FILE *out);
const char *sm_ladder_text(const char *file);

// --- measuring one -------------------------------------------------------------------------------

enum { SM_RUNG_TEXT = 256 };

typedef struct {
    const sm_rung *rung;
    int n_cases;              // of verify; all right unless `wrong` names one
    char wrong[SM_RUNG_TEXT]; // ""; a wrong rung is not measured
    sm_stats ns;              // of one call; n = 0: not measured
    double times_before;      // speed relative to the rung before; NaN for the first
} sm_rung_result;

typedef struct {
    sm_device_info info; // as opened for the last rung
    char shape[SM_CASE_TEXT_SIZE];
    double flops;
    double bytes;
    sm_op_ceiling ceiling;
    sm_rung_result rungs[SM_MOST_RUNGS];
    int n_rungs;
    sm_rung_result step; // the last rung's kernel in a step (ladder.h)
} sm_ladder_result;

typedef struct {
    const sm_backend *backend;
    int index;                  // of the device
    const sm_open_options *how; // options for opening each rung's device
    bool on_card;               // the rungs are those for cards
    const char *shape;          // "N=96 C=768 F=768"
    double seconds; // of measuring, for all rungs together; each gets at least as many samples as an interval needs
    bool without_peaks;
    int64_t max_elems; // limit on a case's largest tensor, as in sm_verify_filter
    const volatile sig_atomic_t *interrupted;
    void (*say)(const char *text); // receives the current work; may be NULL
} sm_ladder_options;

// Fills a result, even if rungs are wrong. SM_ERR_USAGE: a shape that the op cannot have.
sm_status sm_ladder_measure(const sm_ladder *ladder, const sm_ladder_options *options, sm_ladder_result *result);

// Whether a rung's time bears a factor: measured, and not too noisy to use (bench/compare/compare.h).
bool sm_rung_is_usable(const sm_rung_result *rung);

// "3 of 8 rungs: too noisy to use: its 95% interval ...", from the first of those that are not usable, or else not
// steady; false: all are steady.
bool sm_ladder_noise(const sm_ladder_result *result, char *text, size_t size_bytes);
