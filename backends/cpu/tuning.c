// tuning.c: the ways to compute a matmul on the cpu (host/tune.h): the default, OpenBLAS, and our own kernels with other
// blockings and grids of threads.
#include "backends/cpu/blas.h"
#include "backends/host/tune.h"

// Other blockings than the default; none needs more scratch (matmul/product.c).
static const cpu_blocking blockings[] = {
    {.slice_k = 512, .block_tiles = 32, .block_cols = 1152},
    {.slice_k = 384, .block_tiles = 48, .block_cols = 1152},
    {.slice_k = 768, .block_tiles = 24, .block_cols = 768},
};

enum { BY_OPENBLAS = 1, OTHER_BLOCKINGS, OTHER_GRIDS = OTHER_BLOCKINGS + SM_COUNT(blockings) };

// False: there is no such way. Products of narrow data, and those in parts, are our own kernels' alone.
static bool find_choice(const cpu_device *device, const sm_plan *plan, int way, cpu_choice *choice) {
    const bool packed = plan->dtype == SM_F32 && plan->products == SM_PRODUCTS_PLAIN &&
                        strcmp(device->isa->name, "baseline") != 0; // there OpenBLAS is the default
    const int n_threads = device->base.info.n_threads;
    *choice = (cpu_choice){.method = way == 0 ? CPU_BY_DEFAULT : way == BY_OPENBLAS ? CPU_BY_OPENBLAS : CPU_BY_PACKED};
    if (way <= BY_OPENBLAS) {
        return way == 0 || (packed && cpu_blas_load(device->keep_env));
    }
    if (way < OTHER_GRIDS) {
        choice->blocking = blockings[way - OTHER_BLOCKINGS];
        return packed;
    }
    choice->blocking = cpu_default_blocking();
    int nth = way - OTHER_GRIDS;
    for (int rows = 1; packed && n_threads > 1 && rows <= n_threads; rows++) {
        if (n_threads % rows == 0 && nth-- == 0) {
            choice->blocking.grid_rows = rows;
            return true;
        }
    }
    return false;
}

static bool name_way(const sm_device *device, const sm_plan *plan, SM_UNUSED const sm_op *op, int way,
                     char text[HOST_WAY_SIZE]) {
    cpu_choice choice;
    const bool is_there = find_choice((const cpu_device *)device, plan, way, &choice);
    const cpu_blocking *b = &choice.blocking;
    if (choice.method != CPU_BY_PACKED) {
        snprintf(text, HOST_WAY_SIZE, "%s", choice.method == CPU_BY_OPENBLAS ? "openblas" : "default");
    } else {
        snprintf(text, HOST_WAY_SIZE, "packed: slices of %d, blocks of %d tiles and %d columns, grid rows %d",
                 (int)b->slice_k, (int)b->block_tiles, (int)b->block_cols, (int)b->grid_rows);
    }
    return is_there;
}

// "matmul_forward 256x768 768x3072 -> 256x3072, bf16, transposed, 3 in, 2 out"
static bool name_work(const sm_device *device, const sm_plan *plan, const sm_op *op, char name[HOST_WORK_SIZE]) {
    if (!sm_op_is_matmul(op->kind) || ((const cpu_device *)device)->own[op->kind] != NULL) {
        return false;
    }
    const sm_tensor *a = &plan->tensors[op->in[0]];
    const sm_tensor *b = &plan->tensors[op->in[1]];
    const sm_tensor *c = &plan->tensors[op->out[0]];
    const bool is_plain = plan->products == SM_PRODUCTS_PLAIN;
    int n_in = 0, n_out = 0;
    for (int i = 0; i < SM_MAX_OPERANDS; i++) {
        *(i < SM_MAX_IN ? &n_in : &n_out) += op->operands[i] != SM_NO_TENSOR;
    }
    snprintf(name, HOST_WORK_SIZE, "%s %lldx%lld %lldx%lld -> %lldx%lld, %s%s%s%s%s, %d in, %d out",
             sm_op_name(op->kind), (long long)sm_tensor_rows(a), (long long)sm_tensor_cols(a),
             (long long)sm_tensor_rows(b), (long long)sm_tensor_cols(b), (long long)sm_tensor_rows(c),
             (long long)sm_tensor_cols(c), sm_dtype_name(a->dtype), is_plain ? "" : ", ",
             is_plain ? "" : sm_products_name(plan->products), op->attr.w_transposed ? ", transposed" : "",
             op->kind != SM_OP_MATMUL_BACKWARD_WEIGHT ? ""
             : op->attr.overwrites                    ? ", overwrites"
                                                      : ", adds",
             n_in, n_out);
    return true;
}

static void try_way(sm_device *base, const sm_plan *plan, const int *way) {
    cpu_device *device = (cpu_device *)base;
    device->is_trial = way != NULL && find_choice(device, plan, *way, &device->trial);
}

static void choose(sm_executable *e, int i, SM_UNUSED const char *name, int way) {
    (void)find_choice((const cpu_device *)e->device, e->plan, way, &((cpu_executable *)e)->choices[i]);
}

sm_status cpu_tune(cpu_device *device, cpu_executable *e) {
    const sm_device_info *info = &device->base.info;
    char key[4 * SM_TEXT_SIZE];
    snprintf(key, sizeof key, "cpu: %s, %s, %d threads (%s), %s %s", info->name, info->isa, e->n_threads, info->binding,
             info->driver, info->blas_core);
    e->choices = sm_calloc(2 * (size_t)e->base.plan->n_ops + 1, sizeof *e->choices);
    return host_tune(&(host_tuner){.e = &e->base,
                                   .key = key,
                                   .n_rounds = 5,
                                   .n_runs = 1,
                                   .op_s = 2,
                                   .all_s = 600,
                                   .faster = 0.97,
                                   .tolerance = 1e-5,
                                   .swept_bytes = (size_t)64 << 20,
                                   .progress = device->progress,
                                   .name_work = name_work,
                                   .name_way = name_way,
                                   .try_way = try_way,
                                   .choose = choose});
}
