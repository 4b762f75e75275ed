// helpers.c: builds the programs of a plan in several processes at once, before they are needed.
//
// NVIDIA's driver builds one program after another in a process, whatever its threads do. So what is not in the cache
// is offered to this process, and to new ones, which only build into the cache: each takes the
// next program when it is done with one, and those that take longest come first. That pays where a program takes longer
// to build than a process to begin with the driver. Where nothing is known of a device yet, they begin with it while
// this process tries its matrix units and makes the plan.
//
//   this process     work: programs ->   helpers
//                    <- done: a byte each; the end of a helper, when nobody reads there
#include <unistd.h>

#include "backends/host/helper.h"
#include "backends/host/memory.h"
#include "backends/opencl/opencl.h"
#include "os/os.h"

// With fewer programs than LEAST, building here is faster than starting another process with the driver.
enum { LEAST_PROGRAMS = 4, MOST_HELPERS = 7 };

static const double LIMIT_SECONDS = 30, APART_LIMIT_SECONDS = 600; // of all of a plan, where this process builds none

// The running helpers.
static struct {
    int device; // index
    int n;
    os_child helpers[MOST_HELPERS];
    host_pipe work, done;
} team = {.work = {-1, -1}, .done = {-1, -1}};

static const char *foreseen; // path of a helper, if a plan will run; NULL: none

// Binds all ops to get the names of their programs; other counts do not change.
static void list_programs(opencl_executable *e, opencl_wanted *wanted) {
    sm_status status = SM_OK;
    e->wanted = wanted;
    for (int i = 0; i < 2 * e->base.plan->n_ops && status == SM_OK; i++) {
        sm_op op;
        status = opencl_op_at(e->base.plan, i, &op) ? opencl_bind_op(e, &op) : SM_OK;
    }
    e->wanted = NULL;
    e->n_on_units = 0;
    e->n_beside_units = 0;
}

// `own_only`: drops programs that are not the family's own, too.
static void drop_built(const opencl_device *device, opencl_wanted *wanted, bool own_only) {
    int n = 0;
    for (int i = 0; i < wanted->n; i++) {
        const opencl_named_program *p = &wanted->programs[i];
        if (!opencl_is_built(device, p->name, p->options) &&
            (!own_only || opencl_find_own_recipe(device, p->name) != NULL)) {
            wanted->programs[n++] = *p;
        }
    }
    wanted->n = n;
}

// Rough time of building a program, in tenths of a second on one card.
static int build_time(const opencl_named_program *p) {
    enum { USUAL = 3 };
    static const struct {
        const char *name, *option;
        int time;
    } known[] = {
        {"plain", "", 7},
        {"ends", "", 7},
        {"attention", "", 7},
        {"matmul_tensor", "-DSUM_ONLY", 1},
        {"matmul_wgmma", "-DBESIDE=8", 6}, // GELU's derivative
        {"matmul_wgmma", "-DBESIDE=6", 6}, // GELU
        {"layernorm", "", 5},
        {"rmsnorm", "", 5},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strncmp(p->name, known[i].name, strlen(known[i].name)) == 0 &&
            strstr(p->options, known[i].option) != NULL) {
            return known[i].time;
        }
    }
    return USUAL;
}

static int compare_times(const void *a, const void *b) { return build_time(b) - build_time(a); }

// --- the team -------------------------------------------------------------------------------------------

static int count_helpers(int n_programs) {
    int n = os_n_processors() - 1;
    n = n < n_programs - 1 ? n : n_programs - 1;
    return n < MOST_HELPERS ? n : MOST_HELPERS;
}

static void start_team(const char *helper, int device, int n) {
    char index[16];
    snprintf(index, sizeof index, "%d", device);
    char *const argv[] = {(char *)helper, (char *)"--helper", (char *)"opencl", index, NULL};
    if (!host_open_pipe(&team.work) || !host_open_pipe(&team.done)) {
        return;
    }
    team.device = device;
    for (int i = 0; i < n; i++) {
        team.n += host_start_helper(argv, team.work.take, team.done.put, &team.helpers[team.n]);
    }
    sm_close_at(&team.done.put);
}

// They end by themselves when there is no more work and nobody reads.
static void end_team(void) {
    const int64_t deadline_ns = host_now_ns() + (int64_t)(LIMIT_SECONDS * 1e9);
    sm_close_at(&team.work.put);
    sm_close_at(&team.work.take);
    sm_close_at(&team.done.take);
    sm_close_at(&team.done.put);
    for (int i = 0; i < team.n; i++) {
        (void)host_await_helper(&team.helpers[i], deadline_ns);
    }
    team.n = 0;
}

static bool begin_early(const opencl_facts *facts) {
    const char *reason;
    const int n_devices = opencl_n_devices(&reason);
    for (int i = 0; i < n_devices && foreseen != NULL && team.n == 0; i++) {
        if (opencl_device_facts(i)->id == facts->id) {
            start_team(foreseen, i, count_helpers(OPENCL_MOST_WANTED));
        }
    }
    return foreseen != NULL;
}

void opencl_foresee(const char *helper, bool exchanges) {
    foreseen = helper;
    opencl_begin_early = begin_early;
    if (helper == NULL && opencl_peers_await()) {
        (void)opencl_n_devices(&(const char *){NULL}); // their list began with them
    } else if (exchanges) {
        opencl_begin_listing();
        opencl_peers_foresee();
    }
}

void opencl_dismiss_helpers(const opencl_device *device) {
    if (team.device == device->index) {
        sm_close_at(&team.work.put);
        sm_close_at(&team.done.take);
    }
}

void opencl_end_dismissed(const opencl_device *device) {
    if (team.n > 0 && team.device == device->index && team.done.take < 0) {
        end_team();
    }
}

void opencl_end_helpers(const opencl_device *device) {
    if (team.n > 0 && team.device == device->index) {
        end_team();
    }
}

// --- building -----------------------------------------------------------------------------------------

// Waits until n are done, or no helper is left.
static void await_others(int n, double limit_s) {
    const int64_t deadline_ns = host_now_ns() + (int64_t)(limit_s * 1e9);
    char done;
    while (n > 0 && host_await_record(team.done.take, deadline_ns) && host_take(team.done.take, &done, sizeof done)) {
        n--;
    }
}

static void build_together(opencl_device *device, opencl_wanted *wanted) {
    if (team.n == 0) {
        const int n = count_helpers(wanted->n);
        start_team(device->helper, device->index, device->family->builds_apart && n < 1 ? 1 : n);
    }
    qsort(wanted->programs, (size_t)wanted->n, sizeof wanted->programs[0], compare_times);
    if (host_put(team.work.put, wanted->programs, (size_t)wanted->n * sizeof wanted->programs[0])) {
        sm_close_at(&team.work.put);
        if (device->family->builds_apart) {
            sm_close_at(&team.work.take); // a helper that ends must not be waited for
            await_others(wanted->n, APART_LIMIT_SECONDS);
        } else {
            opencl_named_program p;
            int n_here = 0; // this process's share; a program that does not build is reported when it is needed
            for (; host_take(team.work.take, &p, sizeof p); n_here++) {
                cl_program program;
                (void)opencl_get_program(device, p.name, p.options, &program);
            }
            await_others(wanted->n - n_here, LIMIT_SECONDS);
        }
    }
}

sm_status opencl_build_ahead(opencl_executable *e) {
    opencl_device *device = e->device;
    const sm_plan *plan = e->base.plan;
    const bool apart = device->family->builds_apart;
    if (device->helper == NULL || device->facts.keeps_builds || device->part != NULL) {
        return SM_OK;
    }
    opencl_wanted *wanted = sm_calloc(1, sizeof *wanted);
    wanted->family = device->family->name;
    list_programs(e, wanted);
    drop_built(device, wanted, false);
    if (wanted->n >= (apart ? 1 : LEAST_PROGRAMS)) {
        if (team.n > 0 && (team.device != device->index || team.work.put < 0)) {
            end_team(); // of another device, or another plan
        }
        build_together(device, wanted);
    }
    sm_close_at(&team.work.put);
    const size_t n_bytes = sm_plan_memory(plan, NULL) + e->base.device->backend->working_bytes(&device->base, plan);
    if (n_bytes > device->facts.memory_bytes / 2) {
        end_team(); // helpers that are about to end still hold memory
    }
    sm_status status = SM_OK;
    if (apart) {
        drop_built(device, wanted, true);
        if (wanted->n > 0) { // a program that may end the compiler's process is not built in this process
            status = sm_fail(
                SM_ERR_DEVICE,
                "%s: %d programs, first '%s %s', were not built by another process: the driver's compiler ended it or "
                "reports an error, or built programs cannot be kept; --isa local does without them",
                id_of(device), wanted->n, wanted->programs[0].name, wanted->programs[0].options);
        }
    }
    free(wanted);
    return status;
}

// The word is the device's index; program names come from standard input. The end of a process delays others that call
// the driver, so this one waits until it is not needed.
sm_status opencl_help(int n_words, char *const *words) {
    opencl_device device;
    const char *reason;
    SM_FAIL_IF(n_words < 1, SM_ERR_USAGE, "opencl: the index of a device is missing");
    const int index = atoi(words[0]);
    SM_FAIL_IF(index < 0 || index >= opencl_n_devices(&reason), SM_ERR_USAGE, "opencl: there is no device %d", index);
    if (n_words > 1) {
        return opencl_help_units(opencl_device_facts(index), index, n_words - 1, words + 1);
    }
    SM_TRY(opencl_open_to_build(opencl_device_facts(index), &device));
    opencl_named_program p;
    while (host_take(STDIN_FILENO, &p, sizeof p)) {
        cl_program program;
        const opencl_family *family = NULL;
        if (opencl_choose_family(&device.facts, p.family, id_of(&device), &family) == SM_OK) {
            opencl_set_family(&device, family);
            (void)opencl_get_program(&device, p.name, p.options, &program);
        }
        (void)host_put(STDOUT_FILENO, "", 1);
    }
    (void)host_await_record(STDOUT_FILENO, host_now_ns() + (int64_t)(LIMIT_SECONDS * 1e9));
    opencl_free_programs(&device);
    opencl.clReleaseContext(device.context);
    return SM_OK;
}
