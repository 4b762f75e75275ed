// opencl_ops.h: for tests of the opencl backend: its ops against the reference.
#pragma once

#include "tests/support/opencl_device.h"
#include "tests/support/whole.h"

// Every op of the family against the reference, in cases of up to `max_elems` elements (0: all). A device that is a
// processor compiles products for each way of tiling, attention for each head size and kind of mask, half a second
// each. Outside of the long tests all cases of products, and most of attention, run in fp32 in the device's own family
// alone; elsewhere some that the steps of models do not have.
static int check_ops(sm_precision precision, const char *family, int64_t max_elems) {
#define OTHER_KINDS "^([^abfm]|a[^t]|b[^l]|f[^l]|m[^a])|vocab="
    static const char own[] = OTHER_KINDS "|^matmul|^flash.*(NH=3( |$)|T=100 )|^attention.*(C=15 NH=3 p=|docs=100)";
    static const char other[] = OTHER_KINDS "|^matmul_forward.*F=65 bias=1 gelu=1$|^matmul_backward[^=]*=17 C=33 F=65( "
                                            "[^w]*)?$|^flash.*C=15 NH=3 [pd]|^attention.*C=15 NH=3 p=";
    const char *few = precision.dtype == SM_F32 && family == NULL ? own : other;
    tally t = {0};
    SM_OWN(sm_pattern) *pattern = NULL;
    check(sm_pattern_new(few, &pattern));
    SM_OWN(sm_device) *device = open_device(family);
    const sm_verify_filter filter = {.pattern = runs_all() ? NULL : pattern, .max_elems = max_elems};
    check(sm_verify_ops(device, precision, &filter, show_row, &t));
    assert_int_equal(t.n_skipped, 0);
    return t.n_rows;
}
