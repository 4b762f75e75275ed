// opencl_ops.h: for tests of the opencl backend: its ops against the reference.
#ifndef STEPMARK_TESTS_OPENCL_OPS_H
#define STEPMARK_TESTS_OPENCL_OPS_H

#include <regex.h>

#include "src/verify/verify.h"
#include "tests/support/opencl_device.h"
#include "tests/support/whole.h"

typedef struct {
    int n_rows;
    int n_skipped;
} tally;

static void show_row(const sm_verify_row *row, void *context) {
    tally *t = context;
    t->n_rows++;
    t->n_skipped += row->skipped;
    if (!row->ok || row->skipped) {
        print_message("%s %s: error %.2e, tolerance %.2e %s\n", row->check, row->subject, row->error, row->tolerance,
                      row->reason);
    }
}

// Every op of the family against the reference, in cases of up to `max_elems` elements (0: all). A device that is a
// processor compiles products for each way of tiling, attention for each head size and kind of mask: outside of the
// long tests only fp32 in the device's own family has all cases of these.
static int check_ops(sm_precision precision, const char *family, int64_t max_elems) {
    static const char other_kinds[] = "^([^abfm]|a[^t]|b[^l]|f[^l]|m[^a])";
    static const char few_cases[] = "NH=3( |$)|T=100 |F=65( |$)|F=200( |$)|vocab=";
    const bool is_long = runs_all() || (precision.dtype == SM_F32 && family == NULL);
    tally t = {0};
    regex_t pattern;
    char text[128];
    snprintf(text, sizeof text, "%s|%s", other_kinds, few_cases);
    assert_int_equal(regcomp(&pattern, text, REG_EXTENDED | REG_NOSUB), 0);
    sm_device *device = open_device(family);
    const sm_verify_filter filter = {.pattern = is_long ? NULL : &pattern, .max_elems = max_elems};
    check(sm_verify_ops(device, precision, &filter, show_row, &t));
    assert_int_equal(t.n_skipped, 0);
    backend->close(device);
    regfree(&pattern);
    return t.n_rows;
}

#endif
