// optimizer.c: launches the optimizer range's ops for which the rule of bind.c does not suffice.
#include "backends/opencl/binders/binders.h"

// On cards an item has one vec of a block, and a work-group as many blocks as fit (cl/optimizer/adamw8bit.cl).
void opencl_bind_adamw8bit(opencl_binder *b) {
    enum { CPU_BLOCKS = 4, BLOCK = 256 };
    const opencl_device *device = b->e->device;
    const int64_t n = sm_tensor_elems(out(b, SM_OUT(adamw8bit, p)));
    const bool is_cpu = device->sizes.row_items == 1;
    opencl_begin_rows(b, "adamw8bit", "adamw8bit", n);
    const size_t items = is_cpu ? 1 : (size_t)(BLOCK / b->vector);
    OPENCL_ARGS(b, arg_count(n), arg_uint(b->op->attr.decay));
    opencl_arg_operands(b);
    opencl_arg_optional(b);
    opencl_launch_tiles(b, (int64_t)items, sm_tensor_elems(out(b, SM_OUT(adamw8bit, m_max))), items,
                        is_cpu ? CPU_BLOCKS : (size_t)device->sizes.row_items / items);
}

// --- adafactor: kernels that hand each other sums by way of scratch (cl/optimizer/adafactor.cl)
// -----------------------

static void arg_matrix(opencl_binder *b, const char *kernel, int64_t R, int64_t C) {
    opencl_begin_rows(b, "adafactor", kernel, C);
    OPENCL_ARGS(b, arg_count(R), arg_count(C));
}

static void bind_adafactor_means(opencl_binder *b, int64_t R, int64_t C, int64_t n_strips) {
    arg_matrix(b, "adafactor_rows", R, C);
    OPENCL_ARGS(b, arg_in(b, SM_IN(adafactor, g)), arg_in(b, SM_IN(adafactor, hyper)),
                arg_in(b, SM_IN(adafactor, clip)), arg_out(b, SM_OUT(adafactor, row)));
    opencl_launch_rows(b, R);
    arg_matrix(b, "adafactor_column_strips", R, C);
    OPENCL_ARGS(b, arg_count(opencl_strip_rows(R, n_strips)), arg_in(b, SM_IN(adafactor, g)),
                arg_in(b, SM_IN(adafactor, clip)), arg_scratch(0));
    opencl_launch_lanes(b, C, n_strips, STRIP_LANES);
    opencl_begin_rows(b, "adafactor", "adafactor_columns", C);
    OPENCL_ARGS(b, arg_count(n_strips), arg_count(R), arg_count(C), arg_scratch(0), arg_in(b, SM_IN(adafactor, hyper)),
                arg_in(b, SM_IN(adafactor, clip)), arg_out(b, SM_OUT(adafactor, col)));
    opencl_launch_lanes(b, C, 1, SUM_LANES);
}

void opencl_bind_adafactor(opencl_binder *b) {
    const int64_t R = sm_tensor_rows(out(b, SM_OUT(adafactor, p)));
    const int64_t C = sm_tensor_cols(out(b, SM_OUT(adafactor, p)));
    const int64_t n_strips = opencl_count_strips(b->e->device, b->e->base.plan, R, C);
    const size_t squares_at = (size_t)(n_strips * C);
    bind_adafactor_means(b, R, C, n_strips);
    opencl_begin_rows(b, "adafactor", "adafactor_mean", 0);
    OPENCL_ARGS(b, arg_count(R), arg_out(b, SM_OUT(adafactor, row)), arg_in(b, SM_IN(adafactor, hyper)),
                arg_scratch(squares_at + 2 * (size_t)R));
    opencl_launch_rows(b, 1);
    arg_matrix(b, "adafactor_measure", R, C);
    opencl_arg_operands(b);
    OPENCL_ARGS(b, arg_scratch(squares_at));
    opencl_launch_rows(b, R);
    arg_matrix(b, "adafactor_step", R, C);
    OPENCL_ARGS(b, arg_in(b, SM_IN(adafactor, hyper)), arg_scratch(squares_at));
    opencl_launch_rows(b, 1);
    arg_matrix(b, "adafactor_move", R, C);
    OPENCL_ARGS(b, arg_uint(b->op->attr.decay));
    opencl_arg_operands(b);
    OPENCL_ARGS(b, arg_scratch(squares_at));
    opencl_arg_optional(b);
    opencl_launch_grid(b, C, R);
}

void opencl_bind_adafactor_vector(opencl_binder *b) {
    const int64_t n = sm_tensor_elems(out(b, SM_OUT(adafactor_vector, p)));
    opencl_begin_rows(b, "adafactor", "adafactor_vector", n);
    OPENCL_ARGS(b, arg_count(n));
    opencl_arg_operands(b);
    opencl_launch_rows(b, 1);
}

// --- gradient norm, and what follows from it ------------------------------------------------------------

void opencl_bind_grad_clip(opencl_binder *b) {
    opencl_launch_one_row(b, "grad_norm", "grad_clip", false);
    if (b->op->in[SM_IN(grad_clip, scaler)] != SM_NO_TENSOR) {
        opencl_begin(b, "scaler", "", "unscale_clip");
        OPENCL_ARGS(b, arg_in(b, SM_IN(grad_clip, hyper)), arg_in(b, SM_IN(grad_clip, scaler)),
                    arg_out(b, SM_OUT(grad_clip, norm)), arg_out(b, SM_OUT(grad_clip, clip)));
        opencl_launch_items(b, 1);
    }
}

void opencl_bind_scaler_update(opencl_binder *b) {
    opencl_begin(b, "scaler", "", "scaler_update");
    opencl_arg_operands(b);
    opencl_launch_items(b, 1);
}

// Parts of a sum of squares.
int64_t opencl_count_norm_parts(const opencl_device *device) {
    enum { CPU_PARTS = 64, GROUPS_A_UNIT = 16 };
    return (int64_t)(device->sizes.row_items == 1 ? CPU_PARTS : GROUPS_A_UNIT) * device->facts.n_units;
}

// Products may have left the squares of all but the first gradients, n of n_all elements.
void opencl_bind_grad_sqnorm(opencl_binder *b) {
    const opencl_device *device = b->e->device;
    const sm_plan *plan = b->e->base.plan;
    const sm_tensor *g = in(b, SM_IN(grad_sqnorm, g));
    const int64_t n_all = sm_tensor_elems(g);
    int64_t first = n_all;
    int64_t n_squared = 0;
    for (int i = 0; i < plan->n_ops; i++) {
        const sm_tensor *c = &plan->tensors[plan->ops[i].out[0]];
        if (opencl_leaves_squares(device, plan, &plan->ops[i]) && c->view_of == b->op->in[SM_IN(grad_sqnorm, g)]) {
            first = c->view_offset_elems < first ? c->view_offset_elems : first;
            n_squared += sm_tensor_elems(c);
        }
    }
    const int64_t n = first + n_squared == n_all ? first : n_all;
    const int64_t n_parts = opencl_count_norm_parts(device);
    opencl_begin_rows(b, "grad_norm", "grad_sqnorm_parts", n_all);
    OPENCL_ARGS(b, arg_count(n), arg_count(n_parts),
                arg_count((n + n_parts * b->vector - 1) / (n_parts * b->vector) * b->vector),
                arg_in(b, SM_IN(grad_sqnorm, g)), arg_count((n_all - n) / OPENCL_SQUARE_ELEMS),
                opencl_arg_squares(b, g, first), arg_scratch(0));
    opencl_launch_parts(b, n_parts);
    opencl_begin_rows(b, "grad_norm", "grad_sqnorm_sum", 0);
    OPENCL_ARGS(b, arg_count(n_parts), arg_scratch(0), arg_out(b, SM_OUT(grad_sqnorm, sqnorm)));
    opencl_launch_rows(b, 1);
}
