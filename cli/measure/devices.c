// devices.c: lists the devices, with a reason for those that cannot run here.
#include <stdio.h>

#include "bench/tables/show.h"
#include "cli/flags/options.h"
#include "cli/setup/session.h"

#define TEXT(field, text, head) \
    { .name = field, .type = SM_COLUMN_TEXT, .unit = "", .description = text, .heading = head }
#define BYTES(field, text, head)                                                                         \
    {                                                                                                    \
        .name = field, .type = SM_COLUMN_INTEGER, .unit = "bytes", .description = text, .heading = head, \
        .show = sm_show_bytes                                                                            \
    }

static const sm_column columns[] = {
    TEXT("device", "id, as --backend takes it", "device"),
    TEXT("backend", "backend that drives it", NULL),
    SM_BOOLEAN("available", "can be used here", .heading = "usable", .show = sm_show_yes_no),
    TEXT("name", "of the processor or card", "name"),
    SM_INTEGER("n_units", "", "cores or compute units", .heading = "units"),
    SM_INTEGER("n_threads", "", "threads used by default", .heading = "threads"),
    TEXT("binding", "where they run by default", "binding"),
    TEXT("isa", "instruction set that the kernels use", "instructions"),
    TEXT("blas_core", "core that the BLAS library chose", "BLAS core"),
    TEXT("tier", "family of kernels", "kernels"),
    TEXT("tier_reason", "why that family", NULL),
    TEXT("platform", "OpenCL platform", "platform"),
    TEXT("features", "instructions or features of the OpenCL device", "features"),
    SM_INTEGER("clock_mhz", "MHz", "highest clock, as the driver tells", .heading = NULL),
    BYTES("local_bytes", "local memory of an OpenCL work-group", "local memory"),
    BYTES("memory_bytes", "memory in all", "memory"),
    BYTES("free_bytes", "memory available now", "free"),
    BYTES("max_alloc_bytes", "largest single allocation", "largest allocation"),
    TEXT("driver", "library or driver and version", "driver"),
    TEXT("summary", "what the backend is", NULL),
    TEXT("reason", "why it cannot be used", "reason"),
    SM_JSON("warnings", "causes of slowness on this machine", .heading = "warning", .view = SM_SHOWN_AS_NOTES),
};

const sm_table cli_devices_table = {"devices", columns, (int)(sizeof(columns) / sizeof(columns[0]))};

// In sm_device_info 0 means unknown or none.
static json_t *known(size_t value) { return sm_json_integer(value > 0 ? (int64_t)value : SM_ABSENT); }

static json_t *make_record(const sm_backend *backend, const sm_device_info *info) {
    json_t *record = json_object();
    json_t *warnings = json_array();
    for (int i = 0; i < info->n_warnings; i++) {
        json_array_append_new(warnings, sm_json_text(info->warnings[i]));
    }
    sm_json_set_new(record, "device", sm_json_text(info->id));
    sm_json_set_new(record, "backend", sm_json_text(backend->name));
    sm_json_set_new(record, "available", json_boolean(info->available));
    sm_json_set_new(record, "name", sm_json_text(info->name));
    sm_json_set_new(record, "n_units", known((size_t)info->n_units));
    sm_json_set_new(record, "n_threads", known((size_t)info->n_threads));
    sm_json_set_new(record, "binding", sm_json_text(info->binding));
    sm_json_set_new(record, "isa", sm_json_text(info->isa));
    sm_json_set_new(record, "blas_core", sm_json_text(info->blas_core));
    sm_json_set_new(record, "tier", sm_json_text(info->tier));
    sm_json_set_new(record, "tier_reason", sm_json_text(info->tier_reason));
    sm_json_set_new(record, "platform", sm_json_text(info->platform));
    sm_json_set_new(record, "features", sm_json_text(info->features));
    sm_json_set_new(record, "clock_mhz", known((size_t)info->clock_mhz));
    sm_json_set_new(record, "local_bytes", known(info->local_bytes));
    sm_json_set_new(record, "memory_bytes", known(info->memory_bytes));
    sm_json_set_new(record, "free_bytes", known(info->free_bytes));
    sm_json_set_new(record, "max_alloc_bytes", known(info->max_alloc_bytes));
    sm_json_set_new(record, "driver", sm_json_text(info->driver));
    sm_json_set_new(record, "summary", sm_json_text(backend->summary));
    sm_json_set_new(record, "reason", sm_json_text(info->reason));
    sm_json_set_new(record, "warnings", warnings);
    return record;
}

static sm_status list_devices(sm_record_writer *writer) {
    for (int b = 0; b < sm_backend_count(); b++) {
        const sm_backend *backend = sm_backend_at(b);
        const int n = cli_count_devices(backend);
        sm_device_info info = {.reason = "a driver ended the process that asked for its devices"};
        for (int i = 0; i < n; i++) {
            SM_TRY(backend->describe(i, &info));
            SM_TRY(sm_record_write(writer, make_record(backend, &info)));
        }
        if (cli_is_lost(backend)) {
            snprintf(info.id, sizeof(info.id), "%s", backend->name);
            SM_TRY(sm_record_write(writer, make_record(backend, &info)));
        }
    }
    return SM_OK;
}

sm_status cli_devices(const cli_options *options) {
    sm_record_writer *writer = NULL;
    if (options->probe) {
        cli_try_units();
    }
    SM_TRY(sm_record_writer_open(&cli_devices_table, (sm_format)options->out.format, stdout, &writer));
    sm_status status = list_devices(writer);
    sm_status closed = sm_record_writer_close(writer);
    return status != SM_OK ? status : closed;
}
