// row_json_schema.c: each type of a column has its types in JSON (json_schema.c); the check asks for them. Any number is
// a whole one: other programs write 5.0.
#include "bench/rows/read_rows.h"

#include "bench/tables/record.h"

#include <string.h>

static const char *const statuses[] = {"ok", "oom", "timeout", "skipped", "error"};
enum { N_STATUSES = sizeof(statuses) / sizeof(statuses[0]) };

// --- schema ------------------------------------------------------------------------------

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

// --- check -------------------------------------------------------------------------------

static bool are_numbers(const json_t *array) {
    bool all = json_is_array(array);
    for (size_t i = 0; i < json_array_size(array); i++) {
        all = all && (json_is_number(json_array_get(array, i)) || json_is_null(json_array_get(array, i)));
    }
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
    for (int i = 0; i < N_STATUSES; i++) {
        if (json_is_string(value) && strcmp(json_string_value(value), statuses[i]) == 0) {
            return true;
        }
    }
    return false;
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
        const bool is_group = group[0] == '\0' && (strcmp(key, "phases") == 0 || strcmp(key, "sensors") == 0);
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
