// ci.c: rows for services that follow a speed over commits: Google Benchmark's JSON, and Bencher's own, with the interval.
#include "bench/tables/json_values.h"
#include "bench/tables/record.h"
#include "bench/tables/show.h"

#include <math.h>

enum { NAME_SIZE = 256 };

// "gpt2 small step b1s1024 cpu fused fp32": what tells a row from others of its file.
static void name_of(const json_t *record, char name[NAME_SIZE]) {
    static const char *const fields[] = {"model_arch", "model_type", "test", "device", "mode", "precision"};
    name[0] = '\0';
    for (size_t i = 0; i < SM_COUNT(fields); i++) {
        sm_append_part(name, NAME_SIZE, " ", sm_json_word(record, fields[i]));
    }
}

static json_t *google_record(const json_t *record, int64_t index, const char *name) {
    const double ns = sm_json_number(record, "median_ns");
    const double n_threads = sm_json_number(record, "n_threads");
    return sm_json_put(json_object(), {"name", json_string(name)}, {"family_index", json_integer(index)},
                       {"per_family_instance_index", json_integer(0)}, {"run_name", json_string(name)},
                       {"run_type", json_string("iteration")}, {"repetitions", json_integer(1)},
                       {"repetition_index", json_integer(0)},
                       {"threads", json_integer(n_threads > 0 ? (json_int_t)n_threads : 1)},
                       {"iterations", json_integer((json_int_t)json_array_size(sm_json_get(record, "samples_ns")))},
                       {"real_time", json_real(ns)}, {"cpu_time", json_real(ns)}, {"time_unit", json_string("ns")},
                       {"items_per_second", json_real(sm_json_number(record, "median_ts"))});
}

// A value; its bounds where there is an interval.
static json_t *measure(double value, double lower, double upper) {
    json_t *all = json_pack("{s:f}", "value", value);
    if (isfinite(lower) && isfinite(upper)) {
        json_object_set_new(all, "lower_value", json_real(lower));
        json_object_set_new(all, "upper_value", json_real(upper));
    }
    return all;
}

static json_t *bencher_record(const json_t *record) {
    const double ns = sm_json_number(record, "median_ns");
    const double lo = sm_json_number(record, "ci95_lo_ns");
    const double hi = sm_json_number(record, "ci95_hi_ns");
    const double rate = sm_json_number(record, "median_ts");
    return json_pack("{s:o, s:o}", "latency", measure(ns, lo, hi), "throughput",
                     measure(rate, rate * ns / hi, rate * ns / lo));
}

void sm_ci_write(const json_t *records, sm_format format, FILE *out) {
    const bool is_google = format == SM_FORMAT_GBENCH;
    json_t *list = json_array();
    SM_OWN(json_t) *by_name = json_object();
    for (size_t i = 0; i < json_array_size(records); i++) {
        const json_t *record = json_array_get(records, i);
        char name[NAME_SIZE];
        const double ns = sm_json_number(record, "median_ns");
        const double rate = sm_json_number(record, "median_ts");
        if (ns > 0 && rate > 0) { // what failed has no figure, and no place
            name_of(record, name);
            json_array_append_new(list, google_record(record, (int64_t)i, name));
            json_object_set_new(by_name, name, bencher_record(record));
        }
    }
    const json_t *first = json_array_get(records, 0);
    json_t *context =
        sm_json_put(json_object(), {"date", json_string(sm_json_word(first, "test_time"))},
                    {"host_name", json_string("")}, {"executable", json_string("stepmark")},
                    {"num_cpus", json_integer(json_integer_value(sm_json_get(first, "context.cpu.threads")))},
                    {"mhz_per_cpu", json_integer(0)}, {"cpu_scaling_enabled", json_false()}, {"caches", json_array()},
                    {"load_avg", json_array()}, {"library_version", json_string(sm_json_word(first, "build_commit"))},
                    {"library_build_type", json_string("release")}, {"json_schema_version", json_integer(1)});
    json_t *google = sm_json_put(json_object(), {"context", context}, {"benchmarks", list});
    json_dumpf(is_google ? google : by_name, out, SM_JSON_DUMP_FLAGS | JSON_INDENT(2));
    fputc('\n', out);
    json_decref(google);
}
