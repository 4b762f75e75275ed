// devices.c: lists the devices, with a reason for those that cannot run here.

#include "bench/tables/show.h"
#include "cli/setup/setup.h"
#include "os/os.h"

// In sm_device_info 0 means unknown or none.
static int64_t known(size_t value) { return value > 0 ? (int64_t)value : SM_ABSENT; }

// X(name, type, unit, description, value, further members of the column)
#define COLUMN_LIST(X)                                                                                              \
    X("device", TEXT, "", "id, as --backend takes it", info->id, .heading = "device", .rank = SM_RANK_ALWAYS)       \
    X("backend", TEXT, "", "backend that drives it", backend->name, .heading = NULL)                                \
    X("available", BOOLEAN, "", "can be used here", info->available, .heading = "usable", .show = sm_show_yes_no,   \
      .rank = SM_RANK_ALWAYS)                                                                                       \
    X("name", TEXT, "", "of the processor or card", info->name, .heading = "name", .rank = SM_RANK_ALWAYS)          \
    X("n_units", INTEGER, "", "cores or compute units", known((size_t)info->n_units), .heading = "units")           \
    X("n_threads", INTEGER, "", "threads used by default", known((size_t)info->n_threads), .heading = "threads",    \
      .rank = 5)                                                                                                    \
    X("binding", TEXT, "", "where they run by default", info->binding, .heading = "binding")                        \
    X("isa", TEXT, "", "instruction set that the kernels use", info->isa, .heading = "instructions", .rank = 7)     \
    X("blas_core", TEXT, "", "core that the BLAS library chose", info->blas_core, .heading = "BLAS core")           \
    X("tier", TEXT, "", "family of kernels", info->tier, .heading = "kernels", .rank = 7)                           \
    X("tier_reason", TEXT, "", "why that family", info->tier_reason, .heading = NULL)                               \
    X("platform", TEXT, "", "OpenCL platform", info->platform, .heading = "platform")                               \
    X("features", TEXT, "", "instructions or features of the OpenCL device", info->features, .heading = "features") \
    X("clock_mhz", INTEGER, "MHz", "highest clock, as the driver tells", known((size_t)info->clock_mhz),            \
      .heading = NULL)                                                                                              \
    X("local_bytes", INTEGER, "bytes", "local memory of an OpenCL work-group", known(info->local_bytes),            \
      .heading = "local memory", .show = sm_show_bytes)                                                             \
    X("memory_bytes", INTEGER, "bytes", "memory in all", known(info->memory_bytes), .heading = "memory", .rank = 6, \
      .show = sm_show_bytes)                                                                                        \
    X("free_bytes", INTEGER, "bytes", "memory available now", known(info->free_bytes), .heading = "free",           \
      .show = sm_show_bytes)                                                                                        \
    X("max_alloc_bytes", INTEGER, "bytes", "largest single allocation", known(info->max_alloc_bytes),               \
      .heading = "largest allocation", .show = sm_show_bytes)                                                       \
    X("driver", TEXT, "", "library or driver and version", info->driver, .heading = "driver")                       \
    X("summary", TEXT, "", "what the backend is", backend->summary, .heading = NULL)                                \
    X("reason", TEXT, "", "why it cannot be used", info->reason, .heading = "reason", .rank = SM_RANK_ALWAYS)       \
    X("warnings", JSON, "", "causes of slowness on this machine", cli_device_warnings(info), .heading = "warning",  \
      .view = SM_SHOWN_AS_NOTES)

CLI_LISTED_TABLE(cli_devices_table, "devices", COLUMN_LIST)

// Tests every device's matrix units again that a compiler or driver could fail at.
static void try_units(void) {
    for (int b = 0; b < sm_backend_count(); b++) {
        const sm_backend *backend = sm_backend_at(b);
        for (int i = 0; backend->help != NULL && i < backend->device_count(); i++) {
            char index[16];
            char *words[] = {index, (char *)"try", (char *)os_program()};
            snprintf(index, sizeof index, "%d", i);
            if (backend->help(3, words) != SM_OK) {
                cli_note("%s", sm_error_message());
            }
        }
    }
}

sm_status cli_devices(const cli_options *options) {
    SM_OWN(json_t) *records = json_array();
    if (options->probe) {
        try_units();
    }
    for (int b = 0; b < sm_backend_count(); b++) {
        const sm_backend *backend = sm_backend_at(b);
        const int n = cli_count_devices(backend);
        const int first = cli_backend_failure(backend) != SM_OK ? -1 : 0; // its failure stands for its devices
        for (int i = first; i < n; i++) {
            sm_device_info facts;
            const sm_device_info *info = &facts;
            json_t *record = json_object();
            SM_TRY(cli_describe((cli_device){backend, i}, &facts));
            COLUMN_LIST(SM_LISTED_VALUE)
            json_array_append_new(records, record);
        }
    }
    return sm_record_write_all(&cli_devices_table, (sm_format)options->out.format, stdout, records);
}
