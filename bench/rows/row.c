// row.c: filling a result row. Its fields are described in row_fields.h.
#include "bench/rows/machine.h"
#include "bench/rows/read_rows.h"

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

void sm_row_init(sm_row *row) {
    memset(row, 0, sizeof(*row));
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        clear_field(row, &sm_row_table.columns[i]);
    }
    row->schema_version = SM_ROW_SCHEMA_VERSION;
    SM_ROW_TEXT(row->build_commit, sm_build.commit);
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc) != NULL) {
        strftime(row->test_time, sizeof(row->test_time), "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    row->warnings = json_array();
}

void sm_row_free(sm_row *row) {
    for (int i = 0; i < sm_row_table.n_columns; i++) {
        void *field = (char *)row + sm_row_table.columns[i].offset;
        switch (sm_row_table.columns[i].type) {
        case SM_COLUMN_INTEGERS: free(((sm_integers *)field)->values); break;
        case SM_COLUMN_REALS: free(((sm_reals *)field)->values); break;
        case SM_COLUMN_JSON: json_decref(*(json_t **)field); break;
        default: break;
        }
    }
    free(row->op_ns.values);
    free(row->op_least_ns.values);
    free(row->op_parts);
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

void sm_row_set_model(sm_row *row, const sm_model_config *config) {
    const sm_model_config told = sm_model_told(config);
#define SET_SIZE(column, member)     row->column = told.member;
#define SET_OPTIONAL(column, member) row->column = told.member > 0 ? told.member : SM_ABSENT;
#define SET_WORD(column, member)     sm_model_field_text(config, SM_MODEL_##member, row->column);
#define SET_SWITCH                   SET_SIZE
#define SET_REAL(column, member)
#define X(type, member, column, ...) SET_##type(column, member)
    SM_MODEL_FIELDS(X, X)
#undef X
}

void sm_row_set_device(sm_row *row, const char *backend, const sm_device_info *info) {
    SM_ROW_TEXT(row->backend_used, backend);
    SM_ROW_TEXT(row->device, info->id);
    SM_ROW_TEXT(row->isa, info->isa);
    SM_ROW_TEXT(row->tier, info->tier);
    SM_ROW_TEXT(row->products, info->products[0] != '\0' ? info->products : "own");
    SM_ROW_TEXT(row->own_kernels, info->own_kernels);
    row->own_call_ns = info->own_call_ns > 0 ? (int64_t)info->own_call_ns : SM_ABSENT;
    row->n_threads = info->n_threads > 0 ? info->n_threads : SM_ABSENT;
    SM_ROW_TEXT(row->binding, info->binding);
    SM_ROW_TEXT(row->gpu_info, info->is_host_processor ? "" : info->name);
    for (int i = 0; i < info->n_warnings && i < SM_MAX_WARNINGS; i++) {
        sm_row_warn(row, "%s", info->warnings[i]);
    }
    // Rows share the machine's facts; the device's are this row's own.
    json_t *context = row->context != NULL ? json_copy(row->context) : json_object();
    json_object_set_new(context, "device", sm_machine_device(info));
    json_decref(row->context);
    row->context = context;
}

void sm_row_fail(sm_row *row, sm_status status) {
    const char *message = sm_error_message();
    const bool is_skipped = status == SM_ERR_UNSUPPORTED || status == SM_ERR_INTERRUPTED;
    SM_ROW_TEXT(row->status, status == SM_OK            ? "ok"
                             : status == SM_ERR_OOM     ? "oom"
                             : status == SM_ERR_TIMEOUT ? "timeout"
                             : is_skipped               ? "skipped"
                                                        : "error");
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

#define ROW_NUMBER "row_number"

// The table of rows with their number in front, which no file holds.
static const sm_table *numbered_table(void) {
    enum { MOST_COLUMNS = 256 };
    static sm_column columns[MOST_COLUMNS] = {SM_INTEGER(ROW_NUMBER, "", "", .heading = "#", .rank = SM_RANK_ALWAYS)};
    static sm_table table = {.columns = columns};
    const int n = sm_row_table.n_columns < MOST_COLUMNS ? sm_row_table.n_columns : MOST_COLUMNS - 1;
    memcpy(columns + 1, sm_row_table.columns, (size_t)n * sizeof(columns[0]));
    table.name = sm_row_table.name;
    table.n_columns = n + 1;
    return &table;
}

sm_status sm_row_writer_open(sm_format format, FILE *out, sm_row_writer **writer) {
    return sm_record_writer_open(sm_format_is_read(format) ? numbered_table() : &sm_row_table, format, out, writer);
}

json_t *sm_row_numbered(json_t *row, size_t number) {
    if (number == 0) {
        return row;
    }
    json_t *copy = json_copy(row);
    json_decref(row);
    json_object_set_new(copy, ROW_NUMBER, json_integer((json_int_t)number));
    return copy;
}

sm_status sm_row_write_record(sm_row_writer *writer, json_t *row) {
    if (!sm_row_is_status(json_object_get(row, "status"))) {
        const char *reason = "internal error: the row says neither that it was measured nor why not";
        sm_json_put(row, {"status", json_string("error")}, {"reason", json_string(reason)});
    }
    return sm_record_write(writer, row);
}

void sm_row_writer_explain(sm_row_writer *writer) {
    static const sm_legend_line legend[] = {
        {"median_ts", "tokens/s: at the median step, and how far its 95% interval reaches."},
        {"mfu", "% of peak: floating-point work against the peak measured on this device."},
        {"median_ts", "ok: losses, gradients and update agree with the reference."},
        {"flops_per_s", "FLOP/s, bytes/s: of the equation, each operand read or written once."},
        {"flops_per_s", "ok: drawn numbers of the op agree with the reference."},
        {NULL, "`--wide` shows phases, efficiency, loss, and what each column means;\n"
               "  `stepmark profile` shows where a step's time goes, op by op."},
        {NULL, NULL},
    };
    sm_record_writer_explain(writer, legend);
}

void sm_row_write_legend(bool has_peaks, FILE *out) {
    fprintf(out,
            "\n"
            "- test: what one sample runs; b4s64 = 4 sequences of 64 tokens.\n"
            "- forward, backward, optimizer: time of each phase in a separate, instrumented step;\n"
            "  unaccounted: the share of that step outside of any operation;\n"
            "  timing overhead: how much slower the instrumented step was.\n"
            "- step: median of the plain, uninstrumented samples ± their median absolute deviation.\n"
            "%s- memory: peak resident memory of the process, or the bytes allocated\n"
            "  on a device with memory of its own.\n"
            "- loss: that of the first step; a row is ok only if drawn losses and operations agree\n"
            "  with the reference, the gradients with differences of the loss, the updates with\n"
            "  the reference's rule, and timed steps come out the same when they are repeated,\n"
            "  unless a warning says what could not be checked.\n",
            has_peaks ? "- % of peak: floating-point work of the step against the device's measured peak.\n"
                        "- efficiency: shortest possible time (work at peak speed, then the optimizer's memory\n"
                        "  traffic at peak bandwidth) against the step's time.\n"
                      : "");
}
