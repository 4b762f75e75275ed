// rows.c: programs for the shape of rows, and strips of rows for sums.

#include "backends/opencl/launch/launch.h"

// Elements of a vec in a program built with WHOLE: 16 bytes of data, as in cl/prelude.cl.
static int whole_vector(const sm_plan *plan) { return sm_dtype_is_narrow(plan->dtype) ? 8 : 4; }

// Whether all vecs of the op's rows of row_elems elements are whole and aligned: loaded at once (cl/prelude.cl).
static bool is_whole(const opencl_binder *b, int64_t row_elems) {
    const int vector = whole_vector(b->e->base.plan);
    bool whole = b->e->device->sizes.row_items > 1 && row_elems % vector == 0;
    for (int i = 0; whole && row_elems > 0 && i < SM_MAX_OPERANDS; i++) {
        const int tensor = b->op->operands[i];
        if (tensor != SM_NO_TENSOR) {
            const sm_tensor *t = &b->e->base.plan->tensors[tensor];
            const size_t vec_bytes = (size_t)vector * sm_dtype_size(t->dtype);
            whole = sm_tensor_elems(t) % row_elems != 0 || t->offset_bytes % vec_bytes == 0;
        }
    }
    return whole;
}

void opencl_begin_rows(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems) {
    const bool whole = is_whole(b, row_elems);
    const bool is_narrow = sm_dtype_is_narrow(b->e->base.plan->dtype);
    const bool of_floats = is_narrow && strcmp(stem, "optimizer") == 0; // 16 bytes of them: a warp's lie side by side
    opencl_begin(b, stem, whole && of_floats ? "-DWHOLE -DOF_FLOATS" : whole ? "-DWHOLE" : "", kernel);
    b->vector = whole && !of_floats ? whole_vector(b->e->base.plan) : b->vector;
}

enum { MOST_KEPT_ELEMS = 32 }; // of a row in an item's registers

static int64_t count_row_vecs(const opencl_binder *b, int64_t row_elems, int row_items) {
    const int64_t at_once = (int64_t)row_items * whole_vector(b->e->base.plan);
    return (row_elems + at_once - 1) / at_once;
}

// The same, if items keep their vecs of a row in registers, unless there are too many.
static void begin_kept(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems, int row_items,
                       int group_rows) {
    enum { OPTIONS_SIZE = 96 };
    const int64_t n_vecs = count_row_vecs(b, row_elems, row_items);
    const bool whole = is_whole(b, row_elems);
    char options[OPTIONS_SIZE] = "";
    if (whole) {
        snprintf(options, sizeof options, "-DWHOLE -DROW_VECS=%d",
                 n_vecs * whole_vector(b->e->base.plan) <= MOST_KEPT_ELEMS ? (int)n_vecs : 0);
        if (row_items != b->e->device->sizes.row_items) {
            sm_append(options, sizeof options, " -DROW_ITEMS_HERE=%d", row_items);
        }
        if (group_rows > 1) {
            sm_append(options, sizeof options, " -DGROUP_ROWS=%d", group_rows);
        }
    }
    opencl_begin(b, stem, options, kernel);
    b->vector = whole ? whole_vector(b->e->base.plan) : b->vector;
    b->row_items = whole ? row_items : b->row_items;
    b->group_rows = whole ? group_rows : 1;
}

// The fewest items that have no more vecs each than the largest group would: none is idle then.
void opencl_begin_kept(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems) {
    enum { ITEMS_STEP = 32 };
    const int most_items = b->e->device->sizes.row_items;
    const int64_t n_vecs = count_row_vecs(b, row_elems, most_items);
    int row_items = ITEMS_STEP;
    while (row_items < most_items && count_row_vecs(b, row_elems, row_items) > n_vecs) {
        row_items += ITEMS_STEP;
    }
    begin_kept(b, stem, kernel, row_elems, row_items < most_items ? row_items : most_items, 1);
}

// Items for a row, doubled from `least` on until none has more vecs than `most_vecs`.
static int double_items(const opencl_binder *b, int64_t row_elems, int least, int most_vecs) {
    const int most_items = b->e->device->sizes.row_items;
    int row_items = least;
    while (row_items < most_items && count_row_vecs(b, row_elems, row_items) > most_vecs) {
        row_items *= 2;
    }
    return row_items < most_items ? row_items : most_items;
}

// The same with few items for each row, but all of the row is loaded at once: a unit waits for many rows.
void opencl_begin_short(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems) {
    const int most_vecs = MOST_KEPT_ELEMS / whole_vector(b->e->base.plan);
    begin_kept(b, stem, kernel, row_elems, double_items(b, row_elems, 32, most_vecs), 1);
}

// A row has about one item for each of its vecs; at least 8 (ROW_SHARES of cl/prelude.cl).
void opencl_begin_several(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems) {
    const int row_items = double_items(b, row_elems, 8, 1);
    begin_kept(b, stem, kernel, row_elems, row_items, b->e->device->sizes.row_items / row_items);
}

void opencl_begin_twice(opencl_binder *b, const char *stem, const char *kernel, int64_t row_elems) {
    enum { MANY_ITEMS = 512 };
    const size_t most_items = b->e->device->facts.max_group;
    begin_kept(b, stem, kernel, row_elems, most_items < MANY_ITEMS ? (int)most_items : MANY_ITEMS, 1);
}

static int64_t at_most(int64_t n, int64_t most) { return n < most ? n : most; }

// Strips of rows for a sum over N rows of C columns: enough to keep the device busy.
int64_t opencl_count_strips(const opencl_device *device, const sm_plan *plan, int64_t N, int64_t C) {
    enum { LEAST_ROWS = 16, CPU_STRIPS = 4, GROUPS_A_UNIT = 8 };
    const opencl_sizes *sizes = &device->sizes;
    const int64_t group_cols = (int64_t)sizes->group / STRIP_LANES * whole_vector(plan); // or fewer
    const int64_t n_blocks = sizes->row_items == 1 ? 1 : (C + group_cols - 1) / group_cols;
    const int64_t wanted = (int64_t)(sizes->row_items == 1 ? CPU_STRIPS : GROUPS_A_UNIT) * device->facts.n_units;
    return at_most((wanted + n_blocks - 1) / n_blocks, (N + LEAST_ROWS - 1) / LEAST_ROWS);
}

int64_t opencl_count_row_strips(const opencl_device *device, int64_t N) {
    enum { LEAST_ROWS = 4, CPU_STRIPS = 4, GROUPS_A_UNIT = 4 }; // all at once: sums take many registers
    const int64_t of_unit = device->sizes.row_items == 1 ? CPU_STRIPS : GROUPS_A_UNIT;
    return at_most(of_unit * device->facts.n_units, (N + LEAST_ROWS - 1) / LEAST_ROWS);
}

int64_t opencl_strip_rows(int64_t N, int64_t n_strips) { return (N + n_strips - 1) / n_strips; }

void opencl_sum_strips(opencl_binder *b, int64_t offset_elems, int64_t n_strips, int64_t C, int to, bool add) {
    opencl_begin_rows(b, "bias", "bias_backward_sum", C);
    OPENCL_ARGS(b, arg_uint(add), arg_count(n_strips), arg_count(C), arg_scratch((size_t)offset_elems), arg_tensor(to));
    opencl_launch_lanes(b, C, 1, SUM_LANES);
}

void opencl_sum_rows(opencl_binder *b, int rows, int to, bool add) {
    enum { FEW_ROWS = 1024 }; // one launch: another costs more than is gained by sharing them out
    const int64_t N = sm_tensor_rows(&b->e->base.plan->tensors[rows]);
    const int64_t C = sm_tensor_cols(&b->e->base.plan->tensors[rows]);
    if (b->e->device->sizes.row_items > 1 && N <= FEW_ROWS) {
        opencl_begin_rows(b, "bias", "bias_backward", C);
        OPENCL_ARGS(b, arg_uint(add), arg_count(N), arg_count(C), arg_tensor(rows), arg_tensor(to));
        opencl_launch_lanes(b, C, 1, SUM_LANES);
        return;
    }
    const int64_t n_strips = opencl_count_strips(b->e->device, b->e->base.plan, N, C);
    opencl_begin_rows(b, "bias", "bias_backward_strips", C);
    OPENCL_ARGS(b, arg_count(N), arg_count(C), arg_count(opencl_strip_rows(N, n_strips)), arg_tensor(rows),
                arg_scratch(0));
    opencl_launch_lanes(b, C, n_strips, STRIP_LANES);
    opencl_sum_strips(b, 0, n_strips, C, to, add);
}

int64_t opencl_sum_rows_elems(const opencl_device *device, const sm_plan *plan, int rows) {
    const int64_t C = sm_tensor_cols(&plan->tensors[rows]);
    return opencl_count_strips(device, plan, sm_tensor_rows(&plan->tensors[rows]), C) * C;
}

void opencl_launch_one_row(opencl_binder *b, const char *stem, const char *kernel, bool by_vecs) {
    const int64_t n = sm_tensor_elems(in(b, 0));
    opencl_begin_rows(b, stem, kernel, by_vecs ? n : 0);
    OPENCL_ARGS(b, arg_count(n));
    opencl_arg_operands(b);
    opencl_launch_rows(b, 1);
}
