// row_json_schema.c: each type of a column has its types in JSON; the schema writes them down, the
// check asks for them.
#include "row_json_schema.h"

#include <string.h>

static const char *const statuses[] = {"ok", "oom", "timeout", "skipped", "error"};
enum { N_STATUSES = sizeof(statuses) / sizeof(statuses[0]) };

// --- schema ------------------------------------------------------------------------------

static json_t *type_of(const sm_column *column) {
    switch (column->type) {
    case SM_COLUMN_INTEGER: return json_pack("{s:[ss]}", "type", "integer", "null");
    case SM_COLUMN_REAL: return json_pack("{s:[ss]}", "type", "number", "null");
    case SM_COLUMN_BOOLEAN: return json_pack("{s:[ss]}", "type", "boolean", "null");
    case SM_COLUMN_TEXT: return json_pack("{s:[ss]}", "type", "string", "null");
    case SM_COLUMN_INTEGERS:
        return json_pack("{s:[ss], s:{s:[ss]}}", "type", "array", "null", "items", "type", "integer", "null");
    case SM_COLUMN_REALS:
        return json_pack("{s:[ss], s:{s:[ss]}}", "type", "array", "null", "items", "type", "number", "null");
    case SM_COLUMN_JSON: return json_pack("{s:[sss]}", "type", "array", "object", "null");
    case SM_COLUMN_TYPE_COUNT: break;
    }
    return NULL;
}

static int describe(json_t *property, const sm_column *column) {
    const char *unit = column->unit != NULL ? column->unit : "";
    json_t *text =
        json_sprintf("%s%s%s%s", column->description, unit[0] != '\0' ? " [" : "", unit, unit[0] != '\0' ? "]" : "");
    return json_object_set_new(property, "description", text);
}

// The object that holds the property of a dotted name, made on the way.
static json_t *properties_for(json_t *properties, const char **name) {
    const char *dot = strchr(*name, '.');
    if (dot == NULL) {
        return properties;
    }
    json_t *inner = json_object_getn(properties, *name, (size_t)(dot - *name));
    if (inner == NULL) {
        inner = json_pack("{s:[ss], s:{}}", "type", "object", "null", "properties");
        if (json_object_setn_new(properties, *name, (size_t)(dot - *name), inner) != 0) {
            return NULL;
        }
    }
    *name = dot + 1;
    return properties_for(json_object_get(inner, "properties"), name);
}

static int add_column(json_t *properties, const sm_column *column) {
    const char *name = column->name;
    json_t *property = type_of(column);
    json_t *place = properties_for(properties, &name);
    int failed = describe(property, column);
    if (strcmp(name, "status") == 0 && failed == 0) {
        json_t *values = json_array();
        for (int i = 0; i < N_STATUSES; i++) {
            failed |= json_array_append_new(values, json_string(statuses[i]));
        }
        failed |= json_object_set_new(property, "enum", values);
        failed |= json_object_set_new(property, "type", json_string("string"));
    }
    // Takes the property over, also when it fails.
    return json_object_set_new(place, name, property) | failed;
}

json_t *sm_row_json_schema(void) {
    json_t *properties = json_object();
    int failed = properties == NULL;
    for (int i = 0; i < sm_row_table.n_columns && !failed; i++) {
        failed = add_column(properties, &sm_row_table.columns[i]);
    }
    if (failed) {
        json_decref(properties);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:[ss], s:o}", "$schema", "https://json-schema.org/draft/2020-12/schema",
                     "title", "stepmark result row", "description",
                     "One row of stepmark's -o json and -o jsonl. Times are nanoseconds. What is not known is null. "
                     "Readers ignore fields that they do not know.",
                     "type", "object", "required", "schema_version", "status", "properties", properties);
}

// --- check -------------------------------------------------------------------------------

static bool all_numbers(const json_t *array, bool integers) {
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *value = json_array_get(array, i);
        bool fits = integers ? json_is_integer(value) : json_is_number(value);
        if (!fits && !json_is_null(value)) {
            return false;
        }
    }
    return true;
}

static bool allows(const sm_column *column, const json_t *value) {
    if (value == NULL || json_is_null(value)) {
        return true;
    }
    switch (column->type) {
    case SM_COLUMN_INTEGER: return json_is_integer(value);
    case SM_COLUMN_REAL: return json_is_number(value);
    case SM_COLUMN_BOOLEAN: return json_is_boolean(value);
    case SM_COLUMN_TEXT: return json_is_string(value);
    case SM_COLUMN_INTEGERS: return json_is_array(value) && all_numbers(value, true);
    case SM_COLUMN_REALS: return json_is_array(value) && all_numbers(value, false);
    case SM_COLUMN_JSON: return json_is_array(value) || json_is_object(value);
    case SM_COLUMN_TYPE_COUNT: break;
    }
    return false;
}

static bool is_status(const json_t *value) {
    for (int i = 0; i < N_STATUSES; i++) {
        if (json_is_string(value) && strcmp(json_string_value(value), statuses[i]) == 0) {
            return true;
        }
    }
    return false;
}

sm_status sm_row_validate(const json_t *row) {
    if (!json_is_object(row)) {
        return sm_fail(SM_ERR_FORMAT, "a result row is no JSON object");
    }
    if (!json_is_integer(json_object_get(row, "schema_version"))) {
        return sm_fail(SM_ERR_FORMAT, "field schema_version: missing, or no whole number");
    }
    if (!is_status(json_object_get(row, "status"))) {
        return sm_fail(SM_ERR_FORMAT, "field status: missing, or none of ok, oom, timeout, skipped, error");
    }
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        const sm_column *column = &sm_row_table.columns[i];
        if (!allows(column, sm_json_get(row, column->name))) {
            return sm_fail(SM_ERR_FORMAT, "field %s: a value of the wrong type", column->name);
        }
    }
    return SM_OK;
}

// --- rows of others ------------------------------------------------------------------------

static bool is_null(const json_t *value) { return value == NULL || json_is_null(value); }

static bool has_time(const json_t *object) {
    return json_is_number(json_object_get(object, "median_ns")) || json_is_number(json_object_get(object, "avg_ns")) ||
           json_array_size(json_object_get(object, "samples_ns")) > 0;
}

static bool is_readable(const sm_column *column, const json_t *value) {
    if (column->type == SM_COLUMN_INTEGER && json_is_number(value)) {
        return true;
    }
    if (column->type == SM_COLUMN_INTEGERS && json_is_array(value)) {
        return all_numbers(value, false);
    }
    return allows(column, value);
}

// `group`: "phases", for the members of that object; "" for those of the row.
static sm_status check_members(const json_t *object, const char *group) {
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)object, key, value) {
        char name[128];
        snprintf(name, sizeof(name), "%s%s%.60s", group, group[0] != '\0' ? "." : "", key);
        int column = sm_table_find(&sm_row_table, name);
        if (column >= 0 && !is_readable(&sm_row_table.columns[column], value)) {
            return sm_fail(SM_ERR_FORMAT, "field %s: a value of the wrong type", name);
        }
        bool is_group = group[0] == '\0' && (strcmp(key, "phases") == 0 || strcmp(key, "sensors") == 0);
        if (is_group) {
            SM_TRY(check_members(value, key));
        }
    }
    return SM_OK;
}

sm_status sm_row_recognise(const json_t *object) {
    const json_t *status = json_object_get(object, "status");
    const bool timed = has_time(object);
    if (is_null(status) && !timed) {
        return sm_fail(SM_ERR_FORMAT, "it has neither a status nor a time");
    }
    if (!is_null(status) && !is_status(status)) {
        return sm_fail(SM_ERR_FORMAT, "its status is none of ok, oom, timeout, skipped, error");
    }
    if (!timed && !json_is_integer(json_object_get(object, "schema_version"))) {
        return sm_fail(SM_ERR_FORMAT, "it has neither a schema_version nor a time");
    }
    return check_members(object, "");
}
