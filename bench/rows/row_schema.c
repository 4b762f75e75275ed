// row_schema.c: the columns of a result row (row_fields.h), and their display in the Markdown table.
#include "bench/rows/identity.h"
#include "bench/rows/read_rows.h"

// "cpu avx512"
static void show_device(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *device = sm_rows_text(record, column->name);
    snprintf(text, size_bytes, "%s", device[0] != '\0' ? device : sm_rows_text(record, "backend"));
    sm_append_part(text, size_bytes, " ", sm_rows_text(record, "isa"));
    sm_append_part(text, size_bytes, " ", sm_rows_text(record, "tier"));
}

// "812.3 ± 0.4%"
static void show_step(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double median_ns = sm_json_number(record, column->name);
    double mad_ns = sm_json_number(record, "mad_ns");
    sm_text_ms(median_ns, text, size_bytes);
    sm_append_spread(median_ns > 0 ? 100 * mad_ns / median_ns : NAN, text, size_bytes);
}

// Phases that a pass type does not run have no time to show.
static void show_phase(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const double phase_ns = sm_json_number(record, column->name);
    sm_text_ms(phase_ns != 0 ? phase_ns : NAN, text, size_bytes);
}

static void show_accumulation(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double n_accum = sm_json_number(record, column->name);
    sm_text_count(n_accum != 1 ? n_accum : NAN, text, size_bytes);
}

static void show_unaccounted(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    double part_ns = sm_json_number(record, column->name);
    double whole_ns = sm_json_number(record, "attribution_ns");
    if (isfinite(part_ns) && whole_ns > 0) {
        snprintf(text, size_bytes, "%.1f%%", 100 * part_ns / whole_ns);
    }
}

// The memory allocated on a device with its own memory; otherwise the process's peak.
static void show_memory(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    bool own_memory = sm_rows_has(record, "gpu_info");
    sm_text_bytes(sm_json_number(record, own_memory ? "device_peak_bytes" : column->name), text, size_bytes);
}

// How its loss was checked; ops by themselves have none.
static void show_check(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    const char *check = sm_rows_text(record, sm_rows_has(record, "op") ? column->name : "loss_check");
    snprintf(text, size_bytes, "%s", sm_rows_is(record, "status", "ok") ? check : "");
}

// For a terminal.
static void show_nothing(SM_UNUSED const json_t *record, SM_UNUSED const sm_column *column, SM_UNUSED char *text,
                         SM_UNUSED size_t size_bytes) {}

// "ok", "ok, noisy" or "oom: 9.1 GiB needed, 6.0 GiB free"
static void show_status(const json_t *record, SM_UNUSED const sm_column *column, char *text, size_t size_bytes) {
    const char *status = sm_rows_text(record, "status");
    const char *reason = sm_rows_text(record, "reason");
    const char *noise = sm_rows_text(record, "noise_verdict");
    const bool ok = strcmp(status, "ok") == 0;
    const bool is_checked = sm_rows_has(record, sm_rows_text(record, "op")[0] != '\0' ? "spot_check" : "loss_check");
    const char *judged = !ok                             ? ""
                         : strcmp(noise, "noisy") == 0   ? ", noisy"
                         : strcmp(noise, "too few") == 0 ? ", few samples"
                                                         : "";
    const char *more = !ok ? reason : is_checked ? "" : "loss not checked";
    snprintf(text, size_bytes, "%s%s%s%s", status, judged, more[0] != '\0' ? ": " : "", more);
}

// The value of the field's flag in the row's command line; "" if it was not given.
static void show_flag(const json_t *record, const sm_column *column, char *text, size_t size_bytes) {
    static const char *const unlike[][2] = {{"n_warmup", "warmup"}, {"n_ctx", "context"}};
    char flag[64];
    snprintf(flag, sizeof(flag), "%s", column->name);
    for (size_t i = 0; i < SM_COUNT(unlike); i++) {
        if (strcmp(unlike[i][0], column->name) == 0) {
            snprintf(flag, sizeof(flag), "%s", unlike[i][1]);
        }
    }
    for (char *c = strchr(flag, '_'); c != NULL; c = strchr(c, '_')) {
        *c = '-';
    }
    const char *value = sm_rows_flag(sm_json_get(record, "run_args"), flag);
    snprintf(text, size_bytes, "%s", value != NULL ? value : "");
}

#define FIELD(member, column_type, its_unit, ...) \
    {.name = #member,                             \
     .type = column_type,                         \
     .unit = its_unit,                            \
     .offset = offsetof(sm_row, member),          \
     .size_bytes = sizeof(((sm_row *)0)->member), \
     .description = __VA_ARGS__},

#define INTEGER(member, unit_, ...)    FIELD(member, SM_COLUMN_INTEGER, unit_, __VA_ARGS__)
#define INTEGERS(member, unit_, ...)   FIELD(member, SM_COLUMN_INTEGERS, unit_, __VA_ARGS__)
#define REAL(member, unit_, ...)       FIELD(member, SM_COLUMN_REAL, unit_, __VA_ARGS__)
#define REALS(member, unit_, ...)      FIELD(member, SM_COLUMN_REALS, unit_, __VA_ARGS__)
#define BOOLEAN(member, ...)           FIELD(member, SM_COLUMN_BOOLEAN, "", __VA_ARGS__)
#define TEXT(member, size, ...)        FIELD(member, SM_COLUMN_TEXT, "", __VA_ARGS__)
#define JSON(member, ...)              FIELD(member, SM_COLUMN_JSON, "", __VA_ARGS__)
#define INTEGER_IN(group, member, ...) INTEGER(group.member, __VA_ARGS__)
#define REAL_IN(group, member, ...)    REAL(group.member, __VA_ARGS__)
#define TEXT_IN(group, member, ...)    TEXT(group.member, __VA_ARGS__)
#define JSON_IN(group, member, ...)    JSON(group.member, __VA_ARGS__)
#define GROUP(group)
#define END_GROUP(group)

#define SHOWN(title, function)  .heading = (title), .show = (function)
#define VARIED(title, function) .heading = (title), .view = SM_SHOWN_WHEN_VARIED, .show = (function)
#define SOME(title)             .heading = (title), .view = SM_SHOWN_WHEN_SOME
#define FLAG(title)             .heading = (title), .view = SM_SHOWN_IF_VARIED, .show = show_flag
#define SHOWN_AS_NOTES(title)   .heading = (title), .view = SM_SHOWN_AS_NOTES
#define FORMAT(of_real)         .format = (of_real)
#define RANK(which)             .rank = (which)
#define BRIEF(title, function)  .brief_heading = (title), .brief = (function)
#define IS(part)                .identity = (part)
#define ABSENT(value)           .absent = (value)
#define MAY_LACK                .may_lack = true
#define NEVER_UNKNOWN           .is_never_unknown = true
#define SPEED                   .is_speed = true

static const sm_column columns[] = {
#include "bench/rows/row_fields.h"
};

const sm_table sm_row_table = {
    .name = "results",
    .columns = columns,
    .n_columns = SM_COUNT(columns),
};

// Each type of a column has its types in JSON (bench/tables/record.c); the check asks for them. Any number is
// a whole one: other programs write 5.0.

static const char *const statuses[] = {"ok", "oom", "timeout", "skipped", "error"};
enum { N_STATUSES = SM_COUNT(statuses) };

json_t *sm_row_json_schema(void) {
    json_t *schema = sm_table_json_schema(&sm_row_table, "stepmark result row",
                                          "One row of stepmark's -o json and -o jsonl. Times are nanoseconds. Unknown "
                                          "values are null. Readers ignore fields that they do not know.");
    json_t *status = json_object_get(json_object_get(schema, "properties"), "status");
    json_t *values = json_array();
    for (int i = 0; i < N_STATUSES; i++) {
        json_array_append_new(values, json_string(statuses[i]));
    }
    json_object_set_new(status, "enum", values);
    json_object_set_new(status, "type", json_string("string"));
    return schema;
}

static bool are_numbers(const json_t *array) {
    bool all = json_is_array(array);
    SM_EACH(value, array) { all = all && (json_is_number(value) || json_is_null(value)); }
    return all;
}

static bool allows(const sm_column *column, const json_t *value) {
    if (value == NULL || json_is_null(value)) {
        return true;
    }
    switch (column->type) {
    case SM_COLUMN_INTEGER:
    case SM_COLUMN_REAL: return json_is_number(value);
    case SM_COLUMN_BOOLEAN: return json_is_boolean(value);
    case SM_COLUMN_TEXT: return json_is_string(value);
    case SM_COLUMN_INTEGERS:
    case SM_COLUMN_REALS: return are_numbers(value);
    case SM_COLUMN_JSON: return json_is_array(value) || json_is_object(value);
    case SM_COLUMN_TYPE_COUNT: break;
    }
    return false;
}

bool sm_row_is_status(const json_t *value) {
    bool is_one = false;
    for (int i = 0; i < N_STATUSES; i++) {
        is_one = is_one || (json_is_string(value) && strcmp(json_string_value(value), statuses[i]) == 0);
    }
    return is_one;
}

static bool is_null(const json_t *value) { return value == NULL || json_is_null(value); }

// `group`: "phases", for the members of that object; "" for those of the row.
static sm_status check_members(const json_t *object, const char *group) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)object, key, value) {
        char name[128];
        snprintf(name, sizeof(name), "%s%s%.60s", group, group[0] != '\0' ? "." : "", key);
        const int at = sm_table_find(&sm_row_table, name);
        const sm_column *column = at >= 0 ? &sm_row_table.columns[at] : NULL;
        SM_FAIL_IF(column != NULL && !allows(column, value), SM_ERR_FORMAT, "field %s: a value of the wrong type",
                   name);
        const bool is_group = group[0] == '\0' && sm_is_word_of(key, "phases sensors loop");
        SM_TRY(is_group ? check_members(value, key) : SM_OK);
    }
    return SM_OK;
}

sm_status sm_row_recognise(const json_t *object) {
    const json_t *status = json_object_get(object, "status");
    const bool timed = json_is_number(json_object_get(object, "median_ns")) ||
                       json_is_number(json_object_get(object, "avg_ns")) ||
                       json_array_size(json_object_get(object, "samples_ns")) > 0;
    SM_FAIL_IF(is_null(status) && !timed, SM_ERR_FORMAT, "it has neither a status nor a time");
    SM_FAIL_IF(!is_null(status) && !sm_row_is_status(status), SM_ERR_FORMAT,
               "its status is not one of ok, oom, timeout, skipped, error");
    SM_FAIL_IF(!timed && !json_is_integer(json_object_get(object, "schema_version")), SM_ERR_FORMAT,
               "it has neither a schema_version nor a time");
    return check_members(object, "");
}
