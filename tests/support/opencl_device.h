// opencl_device.h: for tests of the opencl backend: the first usable device, or none and the reason.
#pragma once

#include "tests/support/test.h"
#include "backend.h"

static const sm_backend *backend;
static int usable = -1; // index of the device

static void check(sm_status status) { FAIL_IF(status != SM_OK, "%s", sm_error_message()); }

// A group's set-up.
static int find_device(SM_UNUSED void **state) {
    sm_device_info info;
    backend = sm_backend_find("opencl");
    assert_non_null(backend);
    for (int i = 0; i < backend->device_count() && usable < 0; i++) {
        check(backend->describe(i, &info));
        usable = info.available ? i : -1;
    }
    if (usable < 0) {
        print_message("opencl: skipped: %s\n", info.reason);
    } else {
        print_message("opencl: on %s, %s, %s\n", info.id, info.platform, info.name);
    }
    return 0;
}

// `family`: of kernels, or NULL for the device's own.
static sm_device *open_device(const char *family) {
    sm_device *device = NULL;
    SKIP_IF(usable < 0);
    check(backend->open(usable, &(sm_open_options){.isa = family}, &device));
    return device;
}
