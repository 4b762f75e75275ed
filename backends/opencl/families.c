// families.c: the list of families, and the choice for a device. In order of preference: kernels for special hardware
// (tensor cores, matrix engines) before the general ones.

#include "backends/opencl/nvidia/tensor.h"
#include "backends/opencl/opencl.h"
#include "backends/opencl/units/units.h"

static const opencl_family *const families[] = {&opencl_family_tensor,   &opencl_family_mfma,  &opencl_family_wmma,
                                                &opencl_family_dpas16,   &opencl_family_dpas8, &opencl_family_local,
                                                &opencl_family_registers};

enum { N_FAMILIES = sizeof families / sizeof families[0] };

static bool is_of_level(const opencl_family *family, const opencl_facts *facts) {
    return family->doubts != NULL && (family->suits(facts) || family->doubts(facts)[0] != '\0');
}

// "tensor" means any vendor's matrix units; other names are a family's level or its own name.
static bool is_named(const opencl_family *family, const opencl_facts *facts, const char *name) {
    if (strcmp(name, opencl_family_tensor.name) != 0) {
        return strcmp(name, family->name) == 0;
    }
    bool has_level = false;
    for (int i = 0; i < N_FAMILIES; i++) {
        has_level = has_level || is_of_level(families[i], facts);
    }
    return has_level ? is_of_level(family, facts) : family == &opencl_family_tensor;
}

sm_status opencl_choose_family(const opencl_facts *facts, const char *name, const char *device_id,
                               const opencl_family **family) {
    char names[128] = "";
    for (int i = 0; i < N_FAMILIES; i++) {
        if (name == NULL ? families[i]->suits(facts) : is_named(families[i], facts, name)) {
            const char *lacks = families[i]->lacks != NULL ? families[i]->lacks(facts) : "";
            *family = families[i];
            return lacks[0] == '\0'
                       ? SM_OK
                       : sm_fail(SM_ERR_UNSUPPORTED, "%s: family '%s' does not run here: %s; leave --isa out",
                                 device_id, families[i]->name, lacks);
        }
        sm_append_part(names, sizeof names, ", ", families[i]->name);
    }
    return sm_fail(SM_ERR_UNSUPPORTED, "%s: no family of kernels is called '%s'; there are: %s", device_id,
                   name == NULL ? "" : name, names);
}

size_t opencl_shown_local_bytes(const opencl_facts *facts) {
    size_t most = 0;
    for (int i = 0; i < N_FAMILIES; i++) {
        const size_t shown = families[i]->local_bytes != NULL ? families[i]->local_bytes(facts) : 0;
        most = shown > most ? shown : most;
    }
    return most;
}

void opencl_explain_family(const opencl_family *family, const opencl_facts *facts, char *text, size_t size_bytes) {
    snprintf(text, size_bytes, "%s", family->explain != NULL ? family->explain(facts) : family->why);
    for (int i = 0; i < N_FAMILIES; i++) {
        const char *doubts = families[i]->doubts != NULL ? families[i]->doubts(facts) : "";
        if (doubts[0] != '\0') {
            snprintf(text, size_bytes, "%s", doubts);
        }
    }
}

void opencl_try_units(const opencl_facts *facts, int index, const char *helper, bool again,
                      void (*say)(void *ctx, const char *line), void *ctx) {
    units_try(facts, index, helper, again, say, ctx);
}

static void print_line(SM_UNUSED void *ctx, const char *line) { fprintf(stderr, "%s\n", line); }

sm_status opencl_help_units(const opencl_facts *facts, int index, int n_words, char *const *words) {
    const bool tries = n_words == 2 && strcmp(words[0], "try") == 0;
    if (tries) {
        fprintf(stderr, "opencl:%d.%d, %s, %s, %s: %s\n", facts->platform_index, facts->device_index, facts->name,
                facts->driver, facts->version,
                units_of(facts) != NULL ? "its matrix units are tried"
                                        : "no matrix unit of AMD's or Intel's that is known");
        units_try(facts, index, words[1], true, print_line, NULL);
    } else if (strcmp(words[0], "units") == 0) {
        units_help(facts);
    } else if (strcmp(words[0], "programs") == 0) {
        units_list(facts);
    } else {
        return sm_fail(SM_ERR_USAGE, "opencl: no help is called '%s'", words[0]);
    }
    return SM_OK;
}
