// record.c: a profile as records.
#include "bench/profile/profile.h"

#include "bench/tables/show.h"

// --- records ------------------------------------------------------------------------------

static const sm_column columns[] = {
    SM_COLUMN_OF_MODEL,
    SM_COLUMN_OF_TEST,
    SM_SHARED_COLUMN("mode", "naive, fused or tuned", "mode"),
    SM_COLUMNS_OF_DEVICE,
    SM_TEXT("line", "the ops of this line; unaccounted: time outside of any; total: the step", .heading = "op",
            .rank = SM_RANK_ALWAYS),
    SM_TEXT("kind", "kind of op, where there is one"),
    SM_INTEGER("layer", "", "block, where there is one"),
    SM_TEXT("phase", "phase, where there is one"),
    SM_INTEGER("self_ns", "ns", "time in these ops", .heading = "self ms", .show = sm_show_ms, .rank = SM_RANK_ALWAYS),
    SM_REAL("share", "", "of the step's wall clock", .heading = "share", .show = sm_show_percent, .rank = 8),
    SM_INTEGER("calls", "", "ops executed", .heading = "calls", .rank = 3),
    SM_REAL("flops", "FLOP", "their work", .heading = "work", .show = sm_show_scaled),
    SM_REAL("bytes", "B", "bytes that an ideal machine moves for them", .heading = "traffic", .show = sm_show_scaled),
    SM_REAL("flops_per_s", "FLOP/s", "flops / self time", .heading = "speed", .show = sm_show_scaled, .rank = 5),
    SM_REAL("bytes_per_s", "B/s", "bytes / self time", .heading = "rate", .show = sm_show_scaled, .rank = 4),
    SM_TEXT("bound", "what limits most of it: compute, memory or overhead", .heading = "bound", .rank = 7),
    SM_REAL("roofline_ns", "ns", "shortest possible time, with operands in memory"),
    SM_REAL("roofline_share", "", "roofline_ns / self_ns; more than 1: operands in a cache", .heading = "of roofline",
            .show = sm_show_percent, .rank = 7),
    SM_REAL("above_ns", "ns", "self_ns - roofline_ns", .heading = "above ms", .show = sm_show_ms, .rank = 6),
    SM_REAL("waiting", "", "share of the threads' time in these ops in which they wait for others",
            .heading = "waiting", .show = sm_show_percent, .rank = 5),
    SM_REAL("imbalance", "", "time of the slowest thread's part, above the mean, over the mean", .heading = "imbalance",
            .show = sm_show_percent, .rank = 5),
    SM_INTEGER("wall_ns", "ns", "total: wall clock of the step with every op timed"),
    SM_INTEGER("headline_ns", "ns", "total: median of the plain steps, without these clocks"),
    SM_REAL("peak_flops", "FLOP/s", "peak of the roofline"),
    SM_REAL("peak_bandwidth", "B/s", "bandwidth of the roofline"),
    SM_TEXT("peak_source", "how the ceilings were measured"),
    SM_JSON("verdict", "total: the step's bound, and what to look at first", .heading = "verdict",
            .view = SM_SHOWN_BELOW),
    SM_JSON("warnings", "disturbances of the figures", .heading = "warning", .view = SM_SHOWN_AS_NOTES),
};

const sm_table sm_profile_table = {"profile", columns, (int)SM_COUNT(columns)};

// A record with the context's members, and `self_ns` as a share of the wall-clock time.
static json_t *start_record(const sm_profile *profile, json_t *context, const char *line, int64_t self_ns) {
    return sm_json_put(json_copy(context), {"line", sm_json_text(line)}, {"self_ns", sm_json_integer(self_ns)},
                       {"share", sm_json_real((double)self_ns / (double)profile->wall_ns)});
}

// Adds the fields that depend on some ops' work and time.
static void add_work(json_t *record, const sm_profile_line *line, int64_t self_ns, sm_bound bound) {
    const double seconds = (double)self_ns * 1e-9;
    sm_json_put(record, {"calls", sm_json_integer(line->n_calls)}, {"flops", sm_json_real(line->flops)},
                {"bytes", sm_json_real(line->bytes)}, {"flops_per_s", sm_json_real(line->flops / seconds)},
                {"bytes_per_s", sm_json_real(line->bytes / seconds)}, {"roofline_ns", sm_json_real(line->roofline_ns)},
                {"roofline_share", sm_json_real(line->roofline_ns / (double)self_ns)},
                {"above_ns", sm_json_real((double)self_ns - line->roofline_ns)},
                {"bound", sm_json_text(sm_bound_name(bound))});
    const sm_op_parts *p = &line->parts;
    if (p->busy_ns > 0 && p->timed_ns > 0) {
        sm_json_put(record, {"waiting", sm_json_real(1 - (double)p->busy_ns / (double)p->timed_ns)},
                    {"imbalance", sm_json_real((double)p->slowest_ns / (double)p->busy_ns - 1)});
    }
}

json_t *sm_profile_records(const sm_profile *profile, json_t *context) {
    json_t *records = json_array();
    for (int i = 0; i < profile->n_lines; i++) {
        const sm_profile_line *line = &profile->lines[i];
        json_t *record = start_record(profile, context, line->name, line->self_ns);
        add_work(record, line, line->self_ns, line->bound);
        sm_json_put(record, {"kind", sm_json_text(line->kind != SM_OP_KIND_COUNT ? sm_op_name(line->kind) : "")},
                    {"layer", sm_json_integer(line->layer >= 0 ? line->layer : SM_ABSENT)},
                    {"phase", sm_json_text(line->phase != SM_PHASE_COUNT ? sm_phase_name(line->phase) : "")});
        json_array_append_new(records, record);
    }
    json_array_append_new(records, start_record(profile, context, "unaccounted", profile->unaccounted_ns));
    json_t *total = start_record(profile, context, "total", profile->wall_ns);
    add_work(total, &profile->total, profile->wall_ns, profile->bound);
    sm_json_put(total, {"wall_ns", sm_json_integer(profile->wall_ns)},
                {"headline_ns", sm_json_integer(profile->headline_ns)},
                {"verdict", json_pack("[o]", sm_json_text(profile->verdict))});
    json_array_append_new(records, total);
    return records;
}
