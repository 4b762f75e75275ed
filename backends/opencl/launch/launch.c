// launch.c: begins a launch, and ends it with its size.

#include "backends/opencl/launch/launch.h"

const char *opencl_data_option(sm_dtype dtype) {
    return dtype == SM_BF16 ? " -DDATA_BF16" : dtype == SM_F16 ? " -DDATA_F16" : "";
}

void opencl_begin(opencl_binder *b, const char *stem, const char *options, const char *kernel) {
    enum { OPTIONS_SIZE = 384 };
    char all_options[OPTIONS_SIZE];
    b->launch = (opencl_launch){0};
    b->n_args = 0;
    b->row_items = b->e->device->sizes.row_items;
    b->group_rows = 1;
    b->vector = b->e->device->sizes.vector;
    if (b->status == SM_OK) {
        snprintf(all_options, sizeof all_options, "%s%s", options, opencl_data_option(b->e->base.plan->dtype));
        if (b->e->wanted != NULL) {
            opencl_want(b->e->wanted, stem, all_options);
            return;
        }
        b->status = opencl_get_kernel(b->e->device, stem, all_options, kernel, &b->launch.kernel);
    }
}

void opencl_begin_own(opencl_binder *b, const sm_own_kernel *own) {
    b->launch = (opencl_launch){0};
    b->n_args = 0;
    b->status = b->status != SM_OK ? b->status : opencl_get_own_kernel(b->e->device, own, &b->launch.kernel);
}

// Appends the launch; the executable then owns its kernel.
static void append(opencl_binder *b) {
    opencl_executable *e = b->e;
    if (e->wanted != NULL) {
        return;
    }
    if (b->status == SM_OK && e->n_launches == e->cap_launches) {
        e->cap_launches = e->cap_launches > 0 ? 2 * e->cap_launches : 256;
        e->launches = sm_realloc(e->launches, (size_t)e->cap_launches * sizeof *e->launches);
    }
    if (b->status == SM_OK) {
        e->launches[e->n_launches++] = b->launch;
    } else {
        opencl_release_kernel(b->launch.kernel);
    }
}

static size_t round_up(int64_t n, size_t step) { return ((size_t)n + step - 1) / step * step; }

static void end(opencl_binder *b, cl_uint n_dims, int64_t n_x, int64_t n_y, size_t local_x, size_t local_y) {
    b->launch.n_dims = n_dims;
    b->launch.local[0] = local_x;
    b->launch.local[1] = local_y;
    b->launch.global[0] = round_up(n_x, local_x);
    b->launch.global[1] = round_up(n_y, local_y);
    append(b);
}

void opencl_launch_items(opencl_binder *b, int64_t n_items) {
    end(b, 1, n_items, 1, (size_t)b->e->device->sizes.group, 1);
}

void opencl_launch_vecs(opencl_binder *b, int64_t n_elems) {
    opencl_launch_items(b, (n_elems + b->vector - 1) / b->vector);
}

void opencl_launch_rows(opencl_binder *b, int64_t n_rows) {
    enum { ROWS_A_GROUP = 4 }; // if a row has one item
    const int row_items = b->row_items;
    end(b, 1, n_rows * row_items, 1, row_items > 1 ? (size_t)(row_items * b->group_rows) : ROWS_A_GROUP, 1);
}

void opencl_launch_grid(opencl_binder *b, int64_t n_cols, int64_t n_rows) {
    enum { GROUP_ROWS = 4 };
    end(b, 2, (n_cols + b->vector - 1) / b->vector, n_rows, (size_t)b->e->device->sizes.group / GROUP_ROWS, GROUP_ROWS);
}

void opencl_launch_lanes(opencl_binder *b, int64_t n_cols, int64_t n_sums, int n_lanes) {
    const opencl_sizes *sizes = &b->e->device->sizes;
    const int lanes = sizes->row_items > 1 ? n_lanes : 1;
    end(b, 2, (n_cols + b->vector - 1) / b->vector, n_sums * lanes, (size_t)(sizes->group / lanes), (size_t)lanes);
}

void opencl_launch_parts(opencl_binder *b, int64_t n_parts) {
    end(b, 1, n_parts * b->row_items, 1, (size_t)(b->row_items * b->group_rows), 1);
}

void opencl_launch_tiles(opencl_binder *b, int64_t n_x, int64_t n_y, size_t local_x, size_t local_y) {
    end(b, 2, n_x, n_y, local_x, local_y);
}

void opencl_launch_groups(opencl_binder *b, int64_t n_x, int64_t n_y, size_t n_items) {
    end(b, 2, n_x * (int64_t)n_items, n_y, n_items, 1);
}
