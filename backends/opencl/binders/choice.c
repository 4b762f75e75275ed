// choice.c: the way of a family that computes a product, if one was chosen by measurement.

#include "backends/opencl/binders/binders.h"

typedef struct opencl_choice {
    struct opencl_choice *next;
    char *name; // of the product
    int way;
} opencl_choice;

void opencl_name_product(const opencl_product *p, char name[OPENCL_PRODUCT_NAME_SIZE]) {
    const sm_dtype dtype = p->plan->tensors[p->a].dtype;
    const bool is_plain = dtype != SM_F32 || p->plan->products == SM_PRODUCTS_PLAIN;
    snprintf(name, OPENCL_PRODUCT_NAME_SIZE, "%s %c%c %lldx%lldx%lld %u%s",
             is_plain ? sm_dtype_name(dtype) : sm_products_name(p->plan->products), p->a_transposed ? 'T' : 'N',
             p->b_transposed ? 'T' : 'N', (long long)p->M, (long long)p->N, (long long)p->K, p->epilogue,
             p->add ? "+" : "");
}

static const opencl_choice *find_choice(const opencl_device *device, const char *name) {
    const opencl_choice *choice = device->choices;
    while (choice != NULL && strcmp(choice->name, name) != 0) {
        choice = choice->next;
    }
    return choice;
}

bool opencl_is_chosen(const opencl_device *device, const char *name) { return find_choice(device, name) != NULL; }

int opencl_way(const opencl_device *device, const sm_plan *plan, const opencl_product *product) {
    char name[OPENCL_PRODUCT_NAME_SIZE];
    if (device->trial != NULL) {
        return *device->trial;
    }
    if (!plan->tuned) {
        return 0;
    }
    opencl_name_product(product, name);
    const opencl_choice *choice = find_choice(device, name);
    return choice != NULL ? choice->way : 0;
}

void opencl_add_choice(opencl_device *device, const char *name, int way) {
    opencl_choice *choice = sm_malloc(sizeof *choice);
    *choice = (opencl_choice){.next = device->choices, .name = sm_strdup(name), .way = way};
    device->choices = choice;
}

void opencl_free_choices(opencl_device *device) {
    while (device->choices != NULL) {
        opencl_choice *choice = device->choices;
        device->choices = choice->next;
        free(choice->name);
        free(choice);
    }
}
