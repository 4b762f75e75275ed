// json_schema.c: each type of a column has its types in JSON; the schema writes them down.
#include "bench/tables/record.h"

#include <string.h>

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

// The object that holds the property of a dotted name, made on the way.
static json_t *properties_for(json_t *properties, const char **name) {
    const char *dot = strchr(*name, '.');
    if (dot == NULL) {
        return properties;
    }
    json_t *inner = json_object_getn(properties, *name, (size_t)(dot - *name));
    if (inner == NULL) {
        inner = json_pack("{s:[ss], s:{}}", "type", "object", "null", "properties");
        json_object_setn_new(properties, *name, (size_t)(dot - *name), inner);
    }
    *name = dot + 1;
    return properties_for(json_object_get(inner, "properties"), name);
}

// Every record has every column: all properties are required, also those of the objects that dotted names lie in.
static void require_all(json_t *object) {
    json_t *properties = json_object_get(object, "properties");
    json_t *names = json_array();
    const char *name;
    json_t *property;
    json_object_foreach(properties, name, property) {
        json_array_append_new(names, json_string(name));
        if (json_object_get(property, "properties") != NULL) {
            require_all(property);
        }
    }
    json_object_set_new(object, "required", names);
}

json_t *sm_table_json_schema(const sm_table *table, const char *title, const char *description) {
    json_t *properties = json_object();
    for (int i = 0; i < table->n_columns; i++) {
        const sm_column *column = &table->columns[i];
        const char *unit = column->unit;
        const char *name = column->name;
        json_t *place = properties_for(properties, &name);
        json_t *property = type_of(column);
        json_object_set_new(property, "description",
                            json_sprintf("%s%s%s%s", column->description, unit[0] != '\0' ? " [" : "", unit,
                                         unit[0] != '\0' ? "]" : ""));
        json_object_set_new(place, name, property);
    }
    json_t *schema =
        json_pack("{s:s, s:s, s:s, s:s, s:n, s:o}", "$schema", "https://json-schema.org/draft/2020-12/schema", "title",
                  title, "description", description, "type", "object", "required", "properties", properties);
    require_all(schema);
    return schema;
}
