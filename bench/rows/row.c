// row.c: filling a result row. Its fields are described in row_schema.c.
#include "bench/rows/row.h"

#include "bench/rows/machine.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Removes a figure, or an array of them, from a row.
static void clear_field(sm_row *row, const sm_column *column) {
    void *field = (char *)row + column->offset;
    switch (column->type) {
    case SM_COLUMN_INTEGER: *(int64_t *)field = SM_ABSENT; break;
    case SM_COLUMN_REAL: *(double *)field = NAN; break;
    case SM_COLUMN_INTEGERS: ((sm_integers *)field)->n = 0; break;
    case SM_COLUMN_REALS: ((sm_reals *)field)->n = 0; break;
    case SM_COLUMN_TEXT: *(char *)field = '\0'; break;
    case SM_COLUMN_JSON:
        json_decref(*(json_t **)field);
        *(json_t **)field = NULL;
        break;
    default: break;
    }
}

static void set_absent(sm_row *row) {
    memset(row, 0, sizeof(*row));
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        clear_field(row, &sm_row_table.columns[i]);
    }
}

sm_status sm_row_init(sm_row *row) {
    set_absent(row);
    row->schema_version = SM_ROW_SCHEMA_VERSION;
    SM_ROW_TEXT(row->build_commit, sm_build_commit());
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL) {
        strftime(row->test_time, sizeof(row->test_time), "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    row->warnings = json_array();
    return row->warnings != NULL ? SM_OK : sm_fail(SM_ERR_OOM, "no memory for a result row");
}

void sm_row_free(sm_row *row) {
    free(row->warmup_samples_ns.values);
    free(row->samples_ns.values);
    free(row->samples_ts.values);
    free(row->samples_forward_ns.values);
    free(row->samples_backward_ns.values);
    free(row->losses.values);
    free(row->op_ns.values);
    free(row->op_least_ns.values);
    json_decref(row->run_args);
    json_decref(row->loop.samples);
    json_decref(row->loop.memory);
    json_decref(row->loop.ceilings);
    json_decref(row->utilisation);
    json_decref(row->warnings);
    json_decref(row->context);
    memset(row, 0, sizeof(*row));
}

void sm_row_copy_text(char *array, size_t size_bytes, const char *text) { snprintf(array, size_bytes, "%s", text); }

void sm_row_set_machine(sm_row *row, json_t *context) {
    json_t *before = row->context;
    row->context = json_incref(context);
    json_decref(before);
    const char *cpu = json_string_value(sm_json_get(context, "cpu.name"));
    SM_ROW_TEXT(row->cpu_info, cpu != NULL ? cpu : "");
}

sm_status sm_row_set_device(sm_row *row, const char *backend, const sm_device_info *info) {
    SM_ROW_TEXT(row->backend_used, backend);
    SM_ROW_TEXT(row->device, info->id);
    SM_ROW_TEXT(row->isa, info->isa);
    SM_ROW_TEXT(row->tier, info->tier);
    SM_ROW_TEXT(row->own_kernels, info->own_kernels);
    row->n_threads = info->n_threads > 0 ? info->n_threads : SM_ABSENT;
    SM_ROW_TEXT(row->binding, info->binding);
    SM_ROW_TEXT(row->gpu_info, info->is_host_processor ? "" : info->name);
    for (int i = 0; i < info->n_warnings && i < SM_MAX_WARNINGS; i++) {
        SM_TRY(sm_row_warn(row, "%s", info->warnings[i]));
    }
    // Rows share the machine's facts; the device's are this row's own.
    json_t *context = row->context != NULL ? json_copy(row->context) : json_object();
    if (json_object_set_new(context, "device", sm_machine_device(info)) != 0) {
        json_decref(context);
        return sm_fail(SM_ERR_OOM, "no memory for the facts of device %s", info->id);
    }
    json_decref(row->context);
    row->context = context;
    return SM_OK;
}

sm_status sm_row_warn(sm_row *row, const char *format, ...) {
    char text[SM_ROW_REASON_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    // Drops a repeated warning.
    for (size_t i = 0; i < json_array_size(row->warnings); i++) {
        if (strcmp(json_string_value(json_array_get(row->warnings, i)), text) == 0) {
            return SM_OK;
        }
    }
    if (json_array_append_new(row->warnings, sm_json_bytes(text)) != 0) {
        return sm_fail(SM_ERR_OOM, "no memory for a warning");
    }
    return SM_OK;
}

static const char *status_name(sm_status status) {
    switch (status) {
    case SM_OK: return "ok";
    case SM_ERR_OOM: return "oom";
    case SM_ERR_TIMEOUT: return "timeout";
    case SM_ERR_UNSUPPORTED:
    case SM_ERR_INTERRUPTED: return "skipped";
    case SM_ERR_USAGE:
    case SM_ERR_INVALID:
    case SM_ERR_IO:
    case SM_ERR_FORMAT:
    case SM_ERR_DEVICE:
    case SM_ERR_MISMATCH:
    case SM_ERR_REGRESSION:
    case SM_ERR_INTERNAL: break;
    }
    return "error";
}

void sm_row_fail(sm_row *row, sm_status status) {
    const char *message = sm_error_message();
    SM_ROW_TEXT(row->status, status_name(status));
    SM_ROW_TEXT(row->reason, message[0] != '\0' ? message : sm_status_text(status));
}

void sm_row_clear_speed(sm_row *row) {
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        if (sm_row_table.columns[i].is_speed) {
            clear_field(row, &sm_row_table.columns[i]);
        }
    }
    row->op_ns.n = 0;
    row->op_least_ns.n = 0;
}

json_t *sm_row_to_json(const sm_row *row) { return sm_record_from_struct(&sm_row_table, row); }
