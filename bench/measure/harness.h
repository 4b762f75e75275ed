// harness.h: the protocol of a measurement, the same for every device and program.
//
//   first step   run once, timed by itself: it includes all work that happens only once
//   check        its gradients and update are checked, and a second step in pieces (step.h). If a check fails, here or
//                later, the measurement ends: the row says error and has no speed
//   warm-up      n_warmup steps; or, automatically, until three in a row are no faster than the
//                fastest before them (stats.h), at most 50 of them and 30 s
//   headline     n_repetitions samples; or, with max_noise_percent, as many as it takes (see
//                sm_protocol). The machine's sensors are read before and after. A sample is one whole step, from the
//                settings and the upload of its first batch to the synchronisation after its last op; between these
//                edges nothing waits, nothing is timed and nothing is allocated by the harness. The loss of each is
//                read after its clock has stopped
//                Drawn samples are repeated up to their update after their clock has stopped
//   attribution  a few steps with every op timed apart. The phases reported are those of the
//                step of median length, so that they and the unaccounted share add up to its
//                wall clock exactly. It is slower than the headline: ops wait for each other
//
//   last check   the last step of attribution runs in pieces, and is checked, of other ops and sequences; one more step
//                where there is no such pass, in a loop, and after a limit or an interruption. And the losses of all
//                steps. Without it there is no figure of speed
//
// A sample, by pass type (a step has n_accum micro-batches):
//   forward           the forward range
//   forward-backward  zero-grad, forward and backward ranges
//   step              all of these, then the optimizer
//   backward          forward-backward with ops timed apart; the sum of the backward phase's ops
//   separate          likewise; forward ops plus backward ops, and each sum by itself
// So forward and backward of `separate` add up to its samples, and the backward follows a
// forward that keeps its activations, as in training.
//
// All times are CLOCK_MONOTONIC, in nanoseconds.
#pragma once

#include "bench/measure/step.h"
#include "bench/stats/stats.h"

#include <signal.h>

// X(code, name of --pass-type, short name in `test`)
#define SM_PASS_LIST(X)                                        \
    X(SM_PASS_FORWARD, "forward", "fwd")                       \
    X(SM_PASS_BACKWARD, "backward", "bwd")                     \
    X(SM_PASS_FORWARD_BACKWARD, "forward-backward", "fwd+bwd") \
    X(SM_PASS_STEP, "step", "step")                            \
    X(SM_PASS_SEPARATE, "separate", "fwd,bwd")

typedef enum { SM_PASS_LIST(SM_CODE) SM_PASS_COUNT } sm_pass_type;

const char *sm_pass_name(sm_pass_type pass);
unsigned sm_pass_phases(sm_pass_type pass); // SM_RUN_* of that pass type

enum { SM_WARMUP_AUTO = -1 };

// X(code, name)
#define SM_STAGE_LIST(X)                   \
    X(SM_STAGE_FIRST_STEP, "first step")   \
    X(SM_STAGE_CHECK, "loss check")        \
    X(SM_STAGE_WARMUP, "warm-up")          \
    X(SM_STAGE_HEADLINE, "measuring")      \
    X(SM_STAGE_ATTRIBUTION, "attribution") \
    X(SM_STAGE_LAST_CHECK, "the last check")

typedef enum { SM_STAGE_LIST(SM_CODE) } sm_stage;

const char *sm_stage_name(sm_stage stage);

typedef struct {
    int n_warmup;      // SM_WARMUP_AUTO: until steady
    int n_repetitions; // >= 1; not used with max_noise_percent

    // Above 0: sampling continues until the 95% interval of the median reaches no further than this from it, but for at
    // least min_samples and min_time_s, and at most max_samples and max_time_s (0: no limit). Testing the interval
    // after every sample would find a lucky moment, so it is tested whenever the samples have grown by an eighth.
    double max_noise_percent;
    int min_samples, max_samples;
    double min_time_s, max_time_s;

    uint64_t check_seed; // seed of the checks' draws

    int n_attribution; // 0: no attribution pass
    int n_accum;       // micro-batches a step, >= 1
    sm_pass_type pass;
    double timeout_s; // tested between steps; 0 = none. The current step then has another second, or half as long again
                      // as the longest so far, before the device counts as hung
    int64_t begin_ns; // time of sm_now_ns at which the limit began to count; 0 = at the first step

    // Set by a signal handler; tested between steps. NULL is fine.
    const volatile sig_atomic_t *interrupted;

    // Called before step `done` (0, 1, ...) of `total` of a stage, while no clock runs. NULL is fine.
    void (*progress)(void *ctx, sm_stage stage, int done, int total);
    void *progress_ctx;
} sm_protocol;

// Tokens of one sample, in all processes, without padding.
double sm_pass_tokens(const sm_plan *plan, int n_accum);

// FLOPs of one sample: the sum of sm_op_flops over the ops in its time.
double sm_pass_flops(const sm_plan *plan, sm_pass_type pass, int n_accum);

// Lower bound on the time of a sample: FLOPs / peak, plus, for the optimizer, the traffic of its update
// (sm_op_is_update; the sum of sm_op_bytes) at peak bandwidth. NaN if a peak is unknown (NaN or 0). The optimizer has
// its default settings. Of ops by themselves: the sum of what the longer of both ceilings allows each.
double sm_pass_ideal_ns(const sm_plan *plan, sm_pass_type pass, int n_accum, double peak_flops, double peak_bandwidth);

// Sets pass_type, test ("step b4s1024"), n_batch, n_seq and n_accum of a row, also of a session that did not open.
void sm_row_set_test(sm_row *row, sm_pass_type pass, int64_t B, int64_t T, int n_accum);

// Measures, and fills the row. The row was initialised by sm_row_init; the caller sets what only
// it knows (model, mode, machine, startup times) and the peaks, from which mfu and
// step_efficiency come. The session must be at its initial state.
//
// SM_OK: status ok. Any other code: the row says what happened, too (status, reason):
//   SM_ERR_TIMEOUT      status timeout; figures come from the samples so far
//   SM_ERR_INTERRUPTED  likewise, with status ok and stop_reason interrupted; skipped when there
//                       was no sample yet
//   others              oom, error or skipped; no speed
// A failure of the attribution pass alone is a warning: the samples are complete.
sm_status sm_harness_measure(sm_session *session, const sm_protocol *protocol, const sm_workload *workload,
                             sm_row *row);

// --- two ways in turn -----------------------------------------------------------------------------

// Two ways to do the same step, measured in turn: A B B A, round after round. Drift (clock, neighbours)
// affects both alike and cancels in a round's ratio.

// One of the two: a session at its initial state, with whole steps of one micro-batch and the optimizer's default
// settings. It counts its steps over several comparisons. The caller closes it (sm_stepper_close).
sm_stepper sm_paired_side(sm_session *session, const sm_workload *workload, uint64_t check_seed);

typedef struct {
    sm_stats a_ns;  // of 2 n_rounds steps
    sm_stats b_ns;  // likewise
    sm_stats ratio; // b / a, of n_rounds rounds; its ci95 is NaN below six
} sm_paired_result;

// Checks the first steps of a side that has run none, as the harness does; then runs n_warmup steps of each, n_rounds
// rounds, repeating each side's second step in a drawn round, and a checked step of each. No micro-batches are
// accumulated. Tests *interrupted (NULL is fine) before every step: SM_ERR_INTERRUPTED, with *result from the rounds so
// far; without a round its ratio.n is 0.
sm_status sm_paired_measure(sm_stepper *a, sm_stepper *b, int n_warmup, int n_rounds,
                            const volatile sig_atomic_t *interrupted, sm_paired_result *result);

// --- figures from times --------------------------------------------------------------------------

// Computes a row's figures from the harness's raw times. Part of the harness.

// Whether a sample is a sum of op times, not a stretch of wall-clock time.
bool sm_pass_is_op_time(sm_pass_type pass);

// Sums op_ns (plan->n_ops entries) by the ops' phases.
void sm_pass_phase_sums(const sm_plan *plan, const int64_t *op_ns, int64_t by_phase_ns[SM_PHASE_COUNT]);

// Sets attribution_ns, phases and op_ns of a row from the step with median wall-clock time (the lower of two). op_ns
// has n_steps x plan->n_ops entries. Does nothing if n_steps is 0.
void sm_pass_attribute(sm_row *row, const sm_plan *plan, const int64_t *walls_ns, const int64_t *op_ns, int n_steps);

// Fills all figures that depend on samples_ns and the peaks: statistics, tokens/s, FLOPs, mfu, efficiency.
void sm_pass_summarize(sm_row *row, const sm_plan *plan, sm_pass_type pass, int n_accum);

// Facts about a sample that show how far to rely on its median. Part of the harness.

// Percentiles that a sample can show: p of n samples if n (1 - p) >= 1, so that at least one sample is expected beyond
// it: p95 from 20 samples on, p99 from 100.
enum { SM_P95_MIN_SAMPLES = 20, SM_P99_MIN_SAMPLES = 100 };

// Fills noise_percent, p95_ns, p99_ns, drift_percent, drift_p and bimodality of a row with samples; `stats` are theirs.
// Warns of drift (2% or more over the sample, p < 0.01), of two modes, of outliers (3 or more, and a tenth of the
// sample), and of noise.
void sm_judge_samples(sm_row *row, const sm_stats *stats);

// Compares the losses of the measured steps with those of the checked ones among them: the first two and the last.
// SM_ERR_MISMATCH if one is further outside of their range than that is wide and than losses vary from batch to batch.
sm_status sm_judge_losses(const sm_row *row);

// Warns if a row's mfu is above 1: no step exceeds the device's peak, so other load disturbed the peak's measurement.
void sm_judge_peak(sm_row *row);

// --- ops by themselves ---------------------------------------------------------------------------

// Measuring ops by themselves adds operands, cold runs and memory to the harness's protocol.

// Operands are drawn from a text of sizes, "N=64 C=768" (src/verify/op_cases.h), and a seed.
typedef struct {
    const char *text;
    uint64_t seed; // before each checked step others are drawn, so that no result of earlier ones will do
} sm_op_operands;

// The harness's workload; the operands must outlive it.
sm_workload sm_op_workload(sm_op_operands *operands);

// Fills operand_bytes and kept_bytes.
void sm_op_set_memory(const sm_plan *plan, sm_row *row);

// Runs the ops of a measured row again, as often as it has samples but at most 20 times and about 10 s, with caches
// that hold nothing of their operands. Fills the row's cold_* fields, or warns why it could not.
sm_status sm_op_measure_cold(sm_session *session, const sm_protocol *protocol, sm_row *row);

// --- exchanges by themselves ---------------------------------------------------------------------

// Exchanges among processes by themselves, as workloads of the harness: `mpirun -n N stepmark run --op
// all_reduce`. They travel as those of a step do (src/session/session.h). A broadcast, which no step has, is a gather
// in which the last process has all, and the others nothing.
//
// Sizes and bandwidths are nccl-tests': the size S is that of the whole buffer, the algorithm's bandwidth S / time. The
// bus's is what each process sends, over the time, at the least that the exchange needs:
//
//   all_reduce                  2 (N-1)/N S / time
//   reduce_scatter, all_gather    (N-1)/N S / time
//   broadcast                             S / time
//
// In bf16 half as many bytes travel, and count for the bus.
//
// Out of place the device copies the operands first, as all ways to exchange are in place. Operands are whole numbers,
// so small that every order of a sum gives the same bits in bf16, too.

// X(code, name)
#define SM_COLLECTIVE_OP_LIST(X)                 \
    X(SM_ALONE_ALL_REDUCE, "all_reduce")         \
    X(SM_ALONE_REDUCE_SCATTER, "reduce_scatter") \
    X(SM_ALONE_ALL_GATHER, "all_gather")         \
    X(SM_ALONE_BROADCAST, "broadcast")

typedef enum { SM_COLLECTIVE_OP_LIST(SM_CODE) SM_ALONE_COUNT } sm_collective_op;

// SM_ALONE_COUNT: none has that name.
sm_collective_op sm_collective_op_find(const char *name);

// One to be measured.
typedef struct {
    sm_comm *comm;
    sm_collective_op op;
    int64_t size_bytes;
    uint64_t seed; // of the operands
} sm_collective_work;

// Its plan; `is_apart`: out of place. SM_ERR_UNSUPPORTED: a single process; SM_ERR_USAGE: no whole floats.
sm_status sm_collective_plan(sm_collective_op op, int64_t size_bytes, bool is_apart, sm_processes processes,
                             sm_plan **plan);

// Its operands are drawn before each checked step, and all results are compared afterwards, in every process.
sm_workload sm_collective_workload(sm_collective_work *work);

// Fills the row's bandwidths, once it has a time.
void sm_collective_set_rates(const sm_collective_work *work, const sm_session *session, sm_row *row);
