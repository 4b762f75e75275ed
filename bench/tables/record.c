// record.c: writes records as json, jsonl and csv.
#include "bench/tables/record.h"

#include "bench/tables/layout.h"
#include "bench/tables/screen.h"
#include "bench/tables/show.h"

#include <ctype.h>
#include <errno.h>
#include <strings.h>

struct sm_record_writer {
    const sm_table *table;
    sm_format format;
    FILE *out;
    int64_t n_records;
    json_t *kept;                 // md, text: an array of the records so far, laid out at the end
    const sm_legend_line *legend; // likewise; NULL: none
};

SM_WORDS(sm_format_name, sm_format, SM_FORMAT_LIST)

bool sm_format_is_read(sm_format format) { return format == SM_FORMAT_MARKDOWN || format == SM_FORMAT_TEXT; }

bool sm_format_parse(const char *name, sm_format *format) {
    static const char *const others[SM_FORMAT_COUNT] = {
        [SM_FORMAT_MARKDOWN] = "markdown", [SM_FORMAT_LATEX] = "tex", [SM_FORMAT_TYPST] = "typ"};
    for (int i = 0; i < SM_FORMAT_COUNT; i++) {
        if (strcasecmp(name, sm_format_name((sm_format)i)) == 0 ||
            (others[i] != NULL && strcasecmp(name, others[i]) == 0)) {
            *format = (sm_format)i;
            return true;
        }
    }
    return false;
}

const char *sm_ending(const char *path) {
    const char *end = path + strlen(path), *first = end;
    while (first > path && isalpha((unsigned char)first[-1])) {
        first--;
    }
    return first > path && first[-1] == '.' ? first : end;
}

bool sm_has_ending(const char *path, const char *endings) {
    char ending[16];
    snprintf(ending, sizeof(ending), "%s", sm_ending(path));
    for (char *at = ending; *at != '\0'; at++) {
        *at = (char)tolower((unsigned char)*at);
    }
    return sm_is_word_of(ending, endings);
}

bool sm_format_of_file(const char *path, sm_format *format) { return sm_format_parse(sm_ending(path), format); }

int sm_table_find(const sm_table *table, const char *name) {
    static _Thread_local int next; // most are asked for in the order of the table
    for (int i = 0; i < table->n_columns; i++) {
        const int at = (next + i) % table->n_columns;
        if (strcmp(table->columns[at].name, name) == 0) {
            next = at + 1;
            return at;
        }
    }
    return -1;
}

// --- chosen columns ------------------------------------------------------------------------

enum { HEADING_SIZE = 64 };

// As csv writes it.
static bool is_flat_name(const char *flat, const char *name) {
    while (*name != '\0' && (*flat == *name || (*flat == '_' && *name == '.'))) {
        flat++;
        name++;
    }
    return *flat == *name;
}

static sm_column shown_alone(const sm_column *column, char heading[HEADING_SIZE]) {
    sm_column c = *column;
    const bool is_number = c.type == SM_COLUMN_INTEGER || c.type == SM_COLUMN_REAL;
    const size_t length = strlen(c.name);
    c.view = SM_SHOWN;
    c.rank = SM_RANK_ALWAYS;
    c.heading = c.heading != NULL ? c.heading : c.name;
    c.brief_heading = NULL;
    c.brief = NULL;
    if (is_number && length > 3 && strcmp(c.name + length - 3, "_ns") == 0) {
        snprintf(heading, HEADING_SIZE, "%.*s ms", (int)length - 3, c.name);
        c.heading = heading;
        c.show = strstr(c.name, "avg_ns") != NULL ? sm_show_mean : sm_show_ms;
    } else if (is_number && c.show == NULL) {
        c.show = strcmp(c.unit, "bytes") == 0 ? sm_show_bytes : c.type == SM_COLUMN_REAL ? sm_show_real : sm_show_count;
    }
    return c;
}

sm_status sm_table_choose(const sm_table *table, const char *const *names, int n, sm_table *chosen) {
    sm_column *columns = sm_calloc((size_t)n, sizeof(*columns) + HEADING_SIZE);
    char *headings = (char *)(columns + n);
    *chosen = (sm_table){.name = table->name, .columns = columns};
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < table->n_columns && !is_flat_name(names[i], table->columns[k].name)) {
            k++;
        }
        if (k == table->n_columns) {
            free(columns);
            return sm_fail(SM_ERR_USAGE, "--columns: no column is named '%s'; -o csv shows the names of all", names[i]);
        }
        columns[chosen->n_columns++] = shown_alone(&table->columns[k], headings + (size_t)i * HEADING_SIZE);
    }
    return SM_OK;
}

json_t *sm_records_chosen(const sm_table *chosen, const json_t *records) {
    json_t *all = json_array();
    SM_EACH(whole, records) {
        json_t *record = json_object();
        for (int k = 0; k < chosen->n_columns; k++) {
            sm_json_set_new(record, chosen->columns[k].name, json_incref(sm_json_get(whole, chosen->columns[k].name)));
        }
        json_array_append_new(all, record);
    }
    return all;
}

// --- struct -> record ------------------------------------------------------------------

static json_t *field_to_json(const sm_column *column, const void *base) {
    const void *field = (const char *)base + column->offset;
    json_t *json = NULL;
    switch (column->type) {
    case SM_COLUMN_INTEGER: return sm_json_integer(*(const int64_t *)field);
    case SM_COLUMN_REAL: return sm_json_real(*(const double *)field);
    case SM_COLUMN_BOOLEAN: return json_boolean(*(const bool *)field);
    case SM_COLUMN_TEXT: return sm_json_text(field);
    case SM_COLUMN_INTEGERS:
        return sm_json_integers(((const sm_integers *)field)->values, ((const sm_integers *)field)->n);
    case SM_COLUMN_REALS: return sm_json_reals(((const sm_reals *)field)->values, ((const sm_reals *)field)->n);
    case SM_COLUMN_JSON: json = *(json_t *const *)field; return json != NULL ? json_incref(json) : json_null();
    case SM_COLUMN_TYPE_COUNT: break;
    }
    return json;
}

json_t *sm_record_from_struct(const sm_table *table, const void *base) {
    json_t *record = json_object();
    for (int i = 0; i < table->n_columns; i++) {
        const sm_column *column = &table->columns[i];
        sm_json_set_new(record, column->name, field_to_json(column, base));
    }
    return record;
}

// check_stream detects a failed write.
static void dump(const sm_record_writer *w, const json_t *value) { json_dumpf(value, w->out, SM_JSON_DUMP_FLAGS); }

static void json_record(const sm_record_writer *w, json_t *record) {
    const char *key = NULL;
    json_t *value = NULL;
    fputs(w->n_records > 0 ? ",\n  {" : "\n  {", w->out);
    const char *separator = "\n    ";
    json_object_foreach(record, key, value) {
        SM_OWN(json_t) *name = json_string(key);
        fputs(separator, w->out);
        dump(w, name);
        fputs(": ", w->out);
        dump(w, value);
        separator = ",\n    ";
    }
    fputs("\n  }", w->out);
}

// --- csv ----------------------------------------------------------------------------

static bool is_number(const char *text) {
    char *end;
    strtod(text, &end);
    return end != text && *end == '\0';
}

// Spreadsheets run texts that begin like this as formulas; an apostrophe before them prevents it. Numbers are safe.
static bool is_formula(const char *text) {
    return text[0] != '\0' && strchr("=+-@\t\r", text[0]) != NULL && !is_number(text);
}

// Terminal control characters become spaces; line ends and tabs are part of a cell.
static void put_csv(FILE *out, const char *text, bool quoted) {
    const bool formula = is_formula(text);
    fputs(quoted ? "\"" : "", out);
    fputs(formula ? "'" : "", out);
    while (*text != '\0') {
        int n_control = sm_control_length(text);
        if (*text == '"') {
            fputc('"', out);
        }
        if (n_control > 0 && strchr("\n\r\t", *text) == NULL) {
            fputc(' ', out);
            text += n_control;
        } else {
            fputc(*text++, out);
        }
    }
    fputs(quoted ? "\"" : "", out);
}

static void put_csv_text(FILE *out, const char *text) {
    const size_t length = strlen(text);
    put_csv(out, text,
            length == 0 || is_formula(text) || strpbrk(text, ",\"\r\n") != NULL || text[0] == ' ' ||
                text[length - 1] == ' ');
}

void sm_csv_quoted(FILE *out, const char *text) { put_csv(out, text, true); }

// Arrays and objects are written as texts of their JSON.
static void csv_record(const sm_record_writer *w, const json_t *record) {
    for (int i = 0; i < w->table->n_columns; i++) {
        const json_t *value = sm_json_get(record, w->table->columns[i].name);
        fputs(i > 0 ? "," : "", w->out);
        if (json_is_boolean(value)) {
            fputs(json_is_true(value) ? "true" : "false", w->out);
        } else if (json_is_string(value)) {
            put_csv_text(w->out, json_string_value(value));
        } else if (json_is_number(value)) {
            dump(w, value);
        } else if (value != NULL && !json_is_null(value)) {
            SM_FREED char *text = sm_json_dump(value);
            put_csv_text(w->out, text);
        }
    }
    fputs("\n", w->out);
}

// --- writer --------------------------------------------------------------------------------

// All others are laid out when all records are there.
static bool is_kept(const sm_record_writer *w) {
    return w->format != SM_FORMAT_JSON && w->format != SM_FORMAT_JSONL && w->format != SM_FORMAT_CSV;
}

static sm_status check_stream(sm_record_writer *w) {
    SM_FAIL_IF(fflush(w->out) != 0 || ferror(w->out), SM_ERR_IO, "cannot write the results: %s", strerror(errno));
    return SM_OK;
}

sm_status sm_record_writer_open(const sm_table *table, sm_format format, FILE *out, sm_record_writer **writer) {
    const bool is_of_services = format == SM_FORMAT_GBENCH || format == SM_FORMAT_BMF; // which take times alone
    const bool is_of_papers = format == SM_FORMAT_LATEX || format == SM_FORMAT_TYPST;
    bool has_form = is_of_services ? sm_table_find(table, "samples_ns") >= 0 : !is_of_papers;
    for (int i = 0; i < table->n_columns && is_of_papers; i++) {
        has_form = has_form || table->columns[i].heading != NULL;
    }
    SM_FAIL_IF(!has_form, SM_ERR_USAGE, "-o %s: there is no such form of %s; give md, csv, json or jsonl",
               sm_format_name(format), table->name);
    sm_record_writer *w = sm_calloc(1, sizeof(*w));
    *w = (sm_record_writer){.table = table, .format = format, .out = out};
    *writer = NULL;
    if (is_kept(w)) {
        w->kept = json_array();
    } else if (format == SM_FORMAT_JSON) {
        fputs("[", out);
    } else if (format == SM_FORMAT_CSV) {
        for (int i = 0; i < w->table->n_columns; i++) {
            fputs(i > 0 ? "," : "", w->out);
            for (const char *c = w->table->columns[i].name; *c != '\0'; c++) {
                fputc(*c == '.' ? '_' : *c, w->out);
            }
        }
        fputs("\n", w->out);
    }
    const sm_status status = check_stream(w);
    if (status != SM_OK) {
        json_decref(w->kept);
        free(w);
        return status;
    }
    *writer = w;
    return SM_OK;
}

sm_status sm_record_write(sm_record_writer *w, json_t *record) {
    for (int i = 0; i < w->table->n_columns; i++) {
        const char *name = w->table->columns[i].name;
        if (sm_json_get(record, name) == NULL) {
            sm_json_set_new(record, name, json_null());
        }
    }
    if (is_kept(w)) {
        json_array_append(w->kept, record);
    } else if (w->format == SM_FORMAT_JSON) {
        json_record(w, record);
    } else if (w->format == SM_FORMAT_JSONL) {
        dump(w, record);
        fputs("\n", w->out);
    } else {
        csv_record(w, record);
    }
    w->n_records++;
    json_decref(record);
    return check_stream(w);
}

void sm_record_writer_explain(sm_record_writer *writer, const sm_legend_line *legend) { writer->legend = legend; }

sm_status sm_record_writer_close(sm_record_writer *w, sm_status before) {
    if (w == NULL) {
        return before;
    }
    if (w->format == SM_FORMAT_JSON) {
        fputs(w->n_records > 0 ? "\n]\n" : "]\n", w->out);
    } else if (w->format == SM_FORMAT_MARKDOWN) {
        sm_markdown_write(w->table, w->kept, w->legend, w->out);
    } else if (w->format == SM_FORMAT_TEXT) {
        sm_text_write(w->table, w->kept, w->legend, w->out);
    } else if (w->format == SM_FORMAT_GBENCH || w->format == SM_FORMAT_BMF) {
        sm_ci_write(w->kept, w->format, w->out);
    } else if (is_kept(w)) {
        sm_typeset_write(w->table, w->kept, w->format, w->out);
    }
    const sm_status status = check_stream(w);
    json_decref(w->kept);
    free(w);
    return before != SM_OK ? before : status;
}

sm_status sm_record_write_all(const sm_table *table, sm_format format, FILE *out, const json_t *records) {
    sm_record_writer *writer = NULL;
    sm_status status = SM_OK;
    SM_TRY(sm_record_writer_open(table, format, out, &writer));
    SM_EACH(record, records) { status = status == SM_OK ? sm_record_write(writer, json_incref(record)) : status; }
    return sm_record_writer_close(writer, status);
}

// --- JSON Schema: each type of a column has its types in JSON -------------------------------------

static json_t *type_of(const sm_column *column) {
    static const char *const names[] = {
        [SM_COLUMN_INTEGER] = "integer", [SM_COLUMN_REAL] = "number",      [SM_COLUMN_BOOLEAN] = "boolean",
        [SM_COLUMN_TEXT] = "string",     [SM_COLUMN_INTEGERS] = "integer", [SM_COLUMN_REALS] = "number",
        [SM_COLUMN_JSON] = NULL,
    };
    const char *name = names[column->type];
    return column->type == SM_COLUMN_JSON ? json_pack("{s:[sss]}", "type", "array", "object", "null")
           : column->type == SM_COLUMN_INTEGERS || column->type == SM_COLUMN_REALS
               ? json_pack("{s:[ss], s:{s:[ss]}}", "type", "array", "null", "items", "type", name, "null")
               : json_pack("{s:[ss]}", "type", name, "null");
}

// Every record has every column: all properties are required, also those of the objects that dotted names lie in.
static void require_all(json_t *object) {
    json_t *names = json_array();
    const char *name;
    json_t *property;
    json_object_foreach(json_object_get(object, "properties"), name, property) {
        json_array_append_new(names, json_string(name));
        if (json_object_get(property, "properties") != NULL) {
            require_all(property);
        }
    }
    json_object_set_new(object, "required", names);
}

json_t *sm_table_json_schema(const sm_table *table, const char *title, const char *description) {
    json_t *schema =
        json_pack("{s:s, s:s, s:s, s:s, s:n, s:{}}", "$schema", "https://json-schema.org/draft/2020-12/schema", "title",
                  title, "description", description, "type", "object", "required", "properties");
    for (int i = 0; i < table->n_columns; i++) {
        const sm_column *column = &table->columns[i];
        const char *dot = strchr(column->name, '.');
        char path[256];
        snprintf(path, sizeof(path), "properties.%s", column->name);
        if (dot != NULL) {
            const char *outer = SM_TEXT_IN(128, "properties.%.*s", (int)(dot - column->name), column->name);
            sm_json_set_new(schema, SM_TEXT_IN(128, "%s.type", outer), json_pack("[ss]", "object", "null"));
            snprintf(path, sizeof(path), "%s.properties%s", outer, dot);
        }
        json_t *property = type_of(column);
        json_object_set_new(property, "description",
                            column->unit[0] != '\0' ? json_sprintf("%s [%s]", column->description, column->unit)
                                                    : json_string(column->description));
        sm_json_set_new(schema, path, property);
    }
    require_all(schema);
    return schema;
}
