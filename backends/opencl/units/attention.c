// attention.c: attention on matrix units (cl/units/attention_units.cl): which kernels run it, and in which sizes.
#include "backends/opencl/units/units.h"

void units_attention(opencl_binder *b, const opencl_attention *a) { opencl_family_local.attention(b, a); }
size_t units_attention_scratch_elems(const opencl_facts *facts, const sm_plan *plan, const opencl_attention *a) {
    return opencl_family_local.attention_scratch_elems(facts, plan, a);
}
