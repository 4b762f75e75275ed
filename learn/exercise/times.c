// times.c: turns, and the calls of one.
#include "learn/exercise/judge.h"

#include "clock.h"
#include "src/plan/own_process.h"
#include "src/processes/process.h"

enum { N_CALLS = 6 }; // of a turn; the first, which loads pages, does not count
static const double most_turn_ns = 5e8;

// *ns: its time; *all_ns: on a device, with what gives operands and takes results.
static void call(sm_exercise_case *c, const sm_own_kernel *kernel, bool is_on_device, double *ns, double *all_ns) {
    static int64_t before_ns; // of a process, since its last call
    void **in = c->addresses, **out = c->addresses + SM_MAX_IN;
    int64_t waiting_ns;
    const int64_t first_ns = sm_now_ns();
    sm_own_process_give(kernel, c->plan, c->op, in, out, 0, 1);
    for (int step = 0; is_on_device && step < SM_OWN_STEPS; step++) {
        const int64_t begin_ns = sm_now_ns();
        sm_own_process_call(&kernel[step], 0, 1);
        *ns = step == SM_OWN_RUNS ? (double)(sm_now_ns() - begin_ns) : *ns;
    }
    if (!is_on_device) {
        sm_own_process_call(kernel, 0, 1);
        const int64_t busy_ns = sm_own_process_busy_ns(&waiting_ns);
        *ns = (double)(busy_ns - before_ns);
        before_ns = busy_ns;
    }
    sm_own_process_take(kernel, c->plan, c->op, in, out, 0, 1);
    *all_ns = (double)(sm_now_ns() - first_ns);
}

// SM_ERR_MISMATCH: a result is wrong.
static sm_status time_calls(sm_exercise_case *c, sm_device *reference, const sm_own_kernel *own, sm_timed_kernel *k) {
    double seen_ns[N_CALLS] = {0};
    double all_ns, least_ns = INFINITY;
    int n = 0;
    for (double total_ns = 0; n == 0 || (n < N_CALLS && total_ns < most_turn_ns); n++) {
        uint64_t seed = (uint64_t)sm_now_ns();
        (void)os_draw(&seed, sizeof seed);
        SM_TRY(sm_case_renew(c, reference, seed));
        call(c, own, k->device != NULL, &seen_ns[n], &all_ns);
        SM_TRY(sm_own_process_state(own->process));
        SM_TRY(sm_case_expect(c, reference));
        SM_TRY(sm_case_compare(c) ? SM_OK : SM_ERR_MISMATCH);
        total_ns += n > 0 ? seen_ns[n] : 0;
        least_ns = n > 0 ? fmin(least_ns, all_ns) : least_ns;
    }
    const sm_stats stats = sm_stats_of_reals(seen_ns + (n > 1), n - (n > 1));
    k->all_ns[k->time->n] = least_ns;
    k->time->ns[k->time->n++] = k->device != NULL ? stats.min : stats.median; // others may keep a driver waiting
    return SM_OK;
}

static sm_status start(const sm_exercise_case *c, const sm_timed_kernel *k, char *folder,
                       sm_own_kernel own[SM_OWN_STEPS], sm_own_process **process) {
    const bool is_on_device = k->device != NULL;
    const sm_own_process_options how = {.n_threads = 1,
                                        .most_bytes = (size_t)(is_on_device ? 4 : 1) << 30,
                                        .sleeps = !is_on_device,
                                        .size_bytes = sm_own_process_bytes(c->plan, c->op),
                                        .timeout_s = k->left_s};
    SM_TRY(is_on_device ? sm_kernel_folder_make("time", folder) : SM_OK);
    const char *const words[3 * SM_OWN_STEPS] = {sm_op_name(c->kind),
                                                 is_on_device ? SM_OWN_DEVICE : k->library,
                                                 is_on_device || k->report == NULL ? c->text : k->path,
                                                 is_on_device ? k->device : "",
                                                 folder,
                                                 k->report != NULL ? k->library : "",
                                                 "",
                                                 "",
                                                 ""};
    for (int i = 0; i < SM_OWN_STEPS; i++) {
        own[i] = (sm_own_kernel){.kind = c->kind};
    }
    SM_TRY(sm_own_process_start(words, &how, own, is_on_device ? SM_OWN_STEPS : 1, process));
    return sm_own_process_fits(*process, c->plan, c->op, 1);
}

// One turn of one kernel.
static sm_status take_turn(sm_exercise_case *c, sm_device *reference, sm_timed_kernel *k, double *call_ns) {
    sm_own_process *process = NULL;
    sm_own_kernel own[SM_OWN_STEPS];
    char folder[PATH_MAX] = "";
    const int64_t begin_ns = sm_now_ns();
    sm_status status = start(c, k, folder, own, &process);
    status = status == SM_OK ? time_calls(c, reference, own, k) : status;
    if (status == SM_OK && k->report == NULL) { // code of ours: it counts its calls rightly
        const double seen_ns =
            k->device != NULL ? sm_own_process_call_ns(process) : sm_own_process_call_cpu_ns(process);
        *call_ns = *call_ns > 0 && *call_ns < seen_ns ? *call_ns : seen_ns;
    }
    sm_own_process_end(process);
    if (folder[0] != '\0') {
        sm_remove_tree(folder);
    }
    const double took_s = (double)(sm_now_ns() - begin_ns) * 1e-9;
    k->left_s -= k->report != NULL ? took_s : 0;
    k->longest_s = took_s > k->longest_s ? took_s : k->longest_s;
    if (status != SM_OK) {
        k->is_out = true;
        k->time->n = 0;
    }
    if (k->report != NULL && status == SM_ERR_MISMATCH) {
        sm_exercise_judge_call(c, k->report);
        return SM_OK;
    }
    if (k->report != NULL && status != SM_OK && status != SM_ERR_OOM) {
        k->report->right = false;
        snprintf(k->report->wrong, sizeof k->report->wrong, "case %s, when it was timed: %s", c->text,
                 sm_error_message());
        return SM_OK;
    }
    return k->report == NULL && status == SM_ERR_FORMAT ? SM_OK : status; // a smaller build lacks an instruction set
}

// Code that a processor's driver compiles could answer before it is done, or begin while operands are copied. So a call
// took at least its time with its copies, less the longest time of our kernel's copies. Ours come last.
static void count_hidden_work(sm_timed_kernel *kernels, int n) {
    double copies_ns = 0;
    for (int i = n * SM_EXERCISE_TURNS - 1; i >= 0; i--) {
        const sm_timed_kernel *k = &kernels[i / SM_EXERCISE_TURNS];
        const int turn = i % SM_EXERCISE_TURNS;
        double *ns = &k->time->ns[turn];
        if (k->device != NULL && turn < k->time->n) {
            copies_ns = k->report == NULL ? fmax(copies_ns, k->all_ns[turn] - *ns) : copies_ns;
            *ns = k->report == NULL ? *ns : fmax(*ns, k->all_ns[turn] - copies_ns);
        }
    }
}

static void shuffle(int *order, int n) {
    for (int i = n - 1; i > 0; i--) {
        uint32_t drawn = 0;
        (void)os_draw(&drawn, sizeof drawn);
        const int other = (int)(drawn % (uint32_t)(i + 1));
        const int kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

sm_status sm_exercise_time_all(sm_exercise_cases *cases, const sm_exercise_options *options, sm_timed_kernel *kernels,
                               int n, double *call_ns) {
    sm_exercise_case *c = &cases->list[cases->timed];
    SM_FREED int *order = sm_calloc((size_t)n, sizeof *order);
    for (int i = 0; i < n; i++) {
        order[i] = i;
    }
    for (int turn = 0; turn < SM_EXERCISE_TURNS; turn++) {
        shuffle(order, n);
        for (int i = 0; i < n; i++) {
            sm_timed_kernel *k = &kernels[order[i]];
            k->is_out |= k->report != NULL && turn > 0 && k->left_s < 2 * k->longest_s;
            const sm_status status = k->is_out ? SM_OK : take_turn(c, cases->reference, k, call_ns);
            SM_TRY(options->interrupted != NULL && *options->interrupted ? SM_ERR_INTERRUPTED : status);
        }
    }
    count_hidden_work(kernels, n);
    return SM_OK;
}
