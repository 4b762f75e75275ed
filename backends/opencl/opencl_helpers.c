// opencl_helpers.c: builds the programs of a plan in several processes at once, before they are needed.
//
// NVIDIA's driver builds one program after another in a process, whatever its threads do. So what is not in the cache
// is offered to this process, and to others, started anew, which do nothing but build into the cache: each takes the
// next program when it is done with one, and those that take longest come first. That pays where a program takes longer
// to build than a process to begin with the driver.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host_helper.h"
#include "host_memory.h"
#include "opencl_bind.h"
#include "opencl_tier.h"

// Fewer programs than LEAST are built sooner than another process has begun with the driver.
enum { MOST_PROGRAMS = 64, LEAST_PROGRAMS = 4, MOST_HELPERS = 7, NAME_SIZE = 32, OPTIONS_SIZE = 384, FIRST_WORDS = 5 };

static const double LIMIT_SECONDS = 30;

typedef struct {
    char name[NAME_SIZE];
    char options[OPTIONS_SIZE];
} named_program;

struct opencl_wanted {
    int n;
    named_program programs[MOST_PROGRAMS];
};

void opencl_want(opencl_wanted *wanted, const char *stem, const char *options) {
    const char *name = opencl_program_name(stem);
    for (int i = 0; i < wanted->n; i++) {
        if (strcmp(wanted->programs[i].name, name) == 0 && strcmp(wanted->programs[i].options, options) == 0) {
            return;
        }
    }
    if (wanted->n < MOST_PROGRAMS) {
        snprintf(wanted->programs[wanted->n].name, NAME_SIZE, "%s", name);
        snprintf(wanted->programs[wanted->n++].options, OPTIONS_SIZE, "%s", options);
    }
}

// Binds all ops for the names of their programs; what they count besides is as before.
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

static void drop_built(const opencl_device *device, opencl_wanted *wanted) {
    int n = 0;
    for (int i = 0; i < wanted->n; i++) {
        if (!opencl_is_built(device, wanted->programs[i].name, wanted->programs[i].options)) {
            wanted->programs[n++] = wanted->programs[i];
        }
    }
    wanted->n = n;
}

// How long a program takes to build, roughly, in tenths of a second on one card.
static int build_time(const named_program *p) {
    enum { USUAL = 3 };
    static const struct {
        const char *name, *option;
        int time;
    } known[] = {
        {"plain", "", 10},
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

static pid_t start(const opencl_device *device, opencl_wanted *wanted, int work) {
    char index[16];
    char *argv[FIRST_WORDS + 2 * MOST_PROGRAMS + 1];
    int n = 0;
    snprintf(index, sizeof index, "%d", device->index);
    argv[n++] = (char *)device->helper;
    argv[n++] = (char *)"--helper";
    argv[n++] = (char *)"opencl";
    argv[n++] = index;
    argv[n++] = (char *)device->tier->name;
    for (int i = 0; i < wanted->n; i++) {
        argv[n++] = wanted->programs[i].name;
        argv[n++] = wanted->programs[i].options;
    }
    argv[n] = NULL;
    return host_start_helper(argv, work);
}

// This process's share; a program that does not build is reported by who needs it.
static void build_share(opencl_device *device, const opencl_wanted *wanted, int work) {
    for (int i = host_take_work(work); i >= 0 && i < wanted->n; i = host_take_work(work)) {
        cl_program program;
        (void)opencl_get_program(device, wanted->programs[i].name, wanted->programs[i].options, &program);
    }
}

static void build_together(opencl_device *device, opencl_wanted *wanted) {
    pid_t helpers[MOST_HELPERS];
    int n = host_processors() - 1;
    n = n < wanted->n - 1 ? n : wanted->n - 1;
    n = n < MOST_HELPERS ? n : MOST_HELPERS;
    qsort(wanted->programs, (size_t)wanted->n, sizeof wanted->programs[0], compare_times);
    const int work = host_offer_work(wanted->n);
    if (work < 0) {
        return;
    }
    for (int i = 0; i < n; i++) {
        helpers[i] = start(device, wanted, work);
    }
    const int64_t deadline_ns = host_now_ns() + (int64_t)(LIMIT_SECONDS * 1e9);
    build_share(device, wanted, work);
    close(work);
    for (int i = 0; i < n; i++) {
        if (helpers[i] > 0) {
            (void)host_await_helper(helpers[i], deadline_ns);
        }
    }
}

void opencl_build_ahead(opencl_executable *e) {
    opencl_device *device = e->device;
    if (device->helper == NULL || device->facts.keeps_builds || device->part != NULL) {
        return;
    }
    opencl_wanted *wanted = calloc(1, sizeof *wanted);
    if (wanted == NULL) {
        return;
    }
    list_programs(e, wanted);
    drop_built(device, wanted);
    if (wanted->n >= LEAST_PROGRAMS) {
        build_together(device, wanted);
    }
    free(wanted);
}

// Words: the device's index, its family of kernels, then programs, name and options of each; which of them to build
// comes from standard input.
sm_status opencl_help(int n_words, char *const *words) {
    sm_device *device = NULL;
    sm_status status = SM_OK;
    if (n_words < 2) {
        return sm_fail(SM_ERR_USAGE, "opencl: a device and a family of kernels are missing");
    }
    SM_TRY(opencl_open(atoi(words[0]), &(sm_open_options){.isa = words[1]}, &device));
    const int n_programs = (n_words - 2) / 2;
    for (int i = host_take_work(STDIN_FILENO); i >= 0 && i < n_programs && status == SM_OK;
         i = host_take_work(STDIN_FILENO)) {
        cl_program program;
        status = opencl_get_program((opencl_device *)device, words[2 + 2 * i], words[3 + 2 * i], &program);
    }
    opencl_close(device);
    return status;
}
