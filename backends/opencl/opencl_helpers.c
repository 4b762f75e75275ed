// opencl_helpers.c: builds the programs of a plan in several processes at once, before they are needed.
//
// NVIDIA's driver builds one program after another in a process, whatever its threads do. So what is not in the cache
// is dealt out: to this process, and to others, started anew, which do nothing but build their share into the cache.
// That pays where a program takes longer to build than a process to begin with the driver.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host_helper.h"
#include "host_memory.h"
#include "opencl_bind.h"
#include "opencl_tier.h"

// Fewer programs than LEAST are built sooner than another process has begun with the driver.
enum { MOST_PROGRAMS = 64, LEAST_PROGRAMS = 4, MOST_HELPERS = 7, NAME_SIZE = 32, OPTIONS_SIZE = 384, FIRST_WORDS = 5 };

static const double LIMIT_SECONDS = 30;

struct opencl_wanted {
    int n;
    struct {
        char name[NAME_SIZE];
        char options[OPTIONS_SIZE];
    } programs[MOST_PROGRAMS];
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
    for (int i = 0; i < e->base.plan->n_ops && status == SM_OK; i++) {
        status = opencl_bind_op(e, &e->base.plan->ops[i]);
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

// Every `step`-th program from `first` on.
static pid_t start(const opencl_device *device, opencl_wanted *wanted, int first, int step) {
    char index[16];
    char *argv[FIRST_WORDS + 2 * MOST_PROGRAMS + 1];
    int n = 0;
    snprintf(index, sizeof index, "%d", device->index);
    argv[n++] = (char *)device->helper;
    argv[n++] = (char *)"--helper";
    argv[n++] = (char *)"opencl";
    argv[n++] = index;
    argv[n++] = (char *)device->tier->name;
    for (int i = first; i < wanted->n; i += step) {
        argv[n++] = wanted->programs[i].name;
        argv[n++] = wanted->programs[i].options;
    }
    argv[n] = NULL;
    return host_start_helper(argv);
}

// This process's share; a program that does not build is reported by who needs it.
static void build_share(opencl_device *device, const opencl_wanted *wanted, int step) {
    for (int i = 0; i < wanted->n; i += step) {
        cl_program program;
        (void)opencl_get_program(device, wanted->programs[i].name, wanted->programs[i].options, &program);
    }
}

static void deal_out(opencl_device *device, opencl_wanted *wanted) {
    pid_t helpers[MOST_HELPERS];
    int n = host_processors() - 1;
    n = n < wanted->n - 1 ? n : wanted->n - 1;
    n = n < MOST_HELPERS ? n : MOST_HELPERS;
    for (int i = 0; i < n; i++) {
        helpers[i] = start(device, wanted, i + 1, n + 1);
    }
    const int64_t deadline_ns = host_now_ns() + (int64_t)(LIMIT_SECONDS * 1e9);
    build_share(device, wanted, n + 1);
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
        deal_out(device, wanted);
    }
    free(wanted);
}

// Words: the device's index, its family of kernels, then programs, name and options of each.
sm_status opencl_help(int n_words, char *const *words) {
    sm_device *device = NULL;
    sm_status status = SM_OK;
    if (n_words < 2) {
        return sm_fail(SM_ERR_USAGE, "opencl: a device and a family of kernels are missing");
    }
    SM_TRY(opencl_open(atoi(words[0]), &(sm_open_options){.isa = words[1]}, &device));
    for (int i = 2; i + 1 < n_words && status == SM_OK; i += 2) {
        cl_program program;
        status = opencl_get_program((opencl_device *)device, words[i], words[i + 1], &program);
    }
    opencl_close(device);
    return status;
}
