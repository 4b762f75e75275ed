// choice.c: the way of a family that computes a product, if one was chosen by measurement.

#include "backends/opencl/binders/binders.h"

void opencl_name_product(const opencl_product *p, char name[OPENCL_PRODUCT_NAME_SIZE]) {
    const sm_dtype dtype = p->plan->tensors[p->a].dtype;
    const bool is_plain = dtype != SM_F32 || p->plan->products == SM_PRODUCTS_PLAIN;
    snprintf(name, OPENCL_PRODUCT_NAME_SIZE, "%s %c%c %lldx%lldx%lld %u%s",
             is_plain ? sm_dtype_name(dtype) : sm_products_name(p->plan->products), p->a_transposed ? 'T' : 'N',
             p->b_transposed ? 'T' : 'N', (long long)p->M, (long long)p->N, (long long)p->K, p->epilogue,
             p->add ? "+" : "");
}

int opencl_way(const opencl_device *device, const sm_plan *plan, const opencl_product *product) {
    char name[OPENCL_PRODUCT_NAME_SIZE];
    if (device->trial != NULL) {
        return *device->trial;
    }
    if (!plan->tuned) {
        return 0;
    }
    opencl_name_product(product, name);
    return (int)json_integer_value(json_object_get(device->choices, name));
}

void opencl_add_choice(opencl_device *device, const char *name, int way) {
    device->choices = device->choices != NULL ? device->choices : json_object();
    json_object_set_new(device->choices, name, json_integer(way));
}
