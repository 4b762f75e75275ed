// tune.c: the ways of a family to compute the products of a plan, chosen by measurement (host/tune.h).
#include "backends/host/tune.h"
#include "backends/opencl/opencl.h"

static bool name_work(const sm_device *base, const sm_plan *plan, const sm_op *op, char name[HOST_WORK_SIZE]) {
    opencl_product p;
    const bool is_tuned = ((const opencl_device *)base)->own[op->kind] == NULL && opencl_is_product(plan, op, &p);
    if (is_tuned) {
        opencl_name_product(&p, name);
    }
    return is_tuned;
}

static bool name_way(const sm_device *base, const sm_plan *plan, const sm_op *op, int way, char text[HOST_WAY_SIZE]) {
    const opencl_device *device = (const opencl_device *)base;
    const opencl_product p = opencl_describe_product(plan, op);
    return device->family->matmul_way(&device->facts, &p, way, text, HOST_WAY_SIZE);
}

static void try_way(sm_device *base, SM_UNUSED const sm_plan *plan, const int *way) {
    ((opencl_device *)base)->trial = way;
}

static void choose(sm_executable *e, SM_UNUSED int i, const char *name, int way) {
    opencl_add_choice((opencl_device *)e->device, name, way);
}

sm_status opencl_tune(opencl_executable *e) {
    const opencl_device *device = e->device;
    const opencl_facts *f = &device->facts;
    char stem[OPENCL_PRODUCT_NAME_SIZE];
    char key[1024];
    snprintf(stem, sizeof stem, "matmul_%s", device->family->builds_apart ? "units" : device->family->name);
    snprintf(key, sizeof key, "opencl|%s|%s|%s|%s|%d|%s|%016llx", f->platform_name, f->name, f->version, f->driver,
             device->base.info.n_threads, device->family->name, (unsigned long long)opencl_hash_program(device, stem));
    return host_tune(&(host_tuner){.e = &e->base,
                                   .key = key,
                                   .n_rounds = 1,
                                   .n_runs = 6,
                                   .op_s = 20,
                                   .all_s = 20,
                                   .faster = 1,
                                   .tolerance = 1e-4, // two orders of summing 10^5 products differ by less
                                   .is_prepared_for_way = true,
                                   .progress = device->progress,
                                   .name_work = name_work,
                                   .name_way = name_way,
                                   .try_way = try_way,
                                   .choose = choose});
}
