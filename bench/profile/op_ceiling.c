// op_ceiling.c: measures peaks for an op's operands, and takes the larger of two times.
#include "bench/profile/op_ceiling.h"

#include <math.h>

static const sm_precision precision = {.dtype = SM_F32};

sm_status sm_op_ceiling_measure(sm_device *device, const sm_plan *plan, const sm_op *op, double seconds, bool by_itself,
                                sm_op_ceiling *ceiling) {
    const sm_backend *backend = device->backend;
    const double bytes = sm_op_bytes(plan, op);
    sm_peaks *peaks = &ceiling->peaks;
    *ceiling = (sm_op_ceiling){.ns = NAN};
    SM_TRY(by_itself && backend->measure_peaks_within != NULL
               ? backend->measure_peaks_within(device, precision, (size_t)bytes, seconds, peaks)
               : backend->measure_peaks(device, precision, seconds, peaks));
    const double compute_ns = peaks->flops > 0 ? sm_op_flops(plan, op) / peaks->flops * 1e9 : 0;
    const double memory_ns = peaks->bandwidth_bytes_per_s > 0 ? bytes / peaks->bandwidth_bytes_per_s * 1e9 : 0;
    ceiling->is_memory_bound = memory_ns > compute_ns;
    ceiling->ns = fmax(compute_ns, memory_ns);
    return SM_OK;
}
