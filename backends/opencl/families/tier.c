// tier.c: chooses a tier. The order below is that of preference; a tier of kernels for one kind of
// hardware (tensor cores, matrix engines) comes before the general ones, with a test of its own in `suits`.
#include <stdio.h>
#include <string.h>

#include "backends/opencl/families/tier.h"

static const opencl_tier *const tiers[] = {&opencl_tier_tensor, &opencl_tier_local, &opencl_tier_registers};

enum { N_TIERS = sizeof tiers / sizeof tiers[0] };

static sm_status fail_unknown(const char *name, const char *device_id) {
    char names[128] = "";
    for (int i = 0; i < N_TIERS; i++) {
        size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, "%s%s", i > 0 ? ", " : "", tiers[i]->name);
    }
    return sm_fail(SM_ERR_UNSUPPORTED, "%s: no family of kernels is called '%s'; there are: %s", device_id, name,
                   names);
}

static sm_status check_lacks(const opencl_tier *tier, const opencl_facts *facts, const char *device_id) {
    const char *lacks = tier->lacks != NULL ? tier->lacks(facts) : "";
    return lacks[0] == '\0' ? SM_OK
                            : sm_fail(SM_ERR_UNSUPPORTED, "%s: family '%s' does not run here: %s; leave --isa out",
                                      device_id, tier->name, lacks);
}

sm_status opencl_choose_tier(const opencl_facts *facts, const char *name, const char *device_id,
                             const opencl_tier **tier) {
    for (int i = 0; i < N_TIERS; i++) {
        if (name == NULL ? tiers[i]->suits(facts) : strcmp(name, tiers[i]->name) == 0) {
            *tier = tiers[i];
            return check_lacks(tiers[i], facts, device_id);
        }
    }
    return fail_unknown(name == NULL ? "" : name, device_id);
}
