// version.c: what this program is.
#include "backend.h"
#include "bench/rows/machine.h"
#include "cli/flags/overview.h"

static const char *yes_no(bool is_so) { return is_so ? "yes" : "no"; }

void cli_version_print(FILE *stream) {
    fprintf(stream, "stepmark %s\n", sm_build_version());
    fprintf(stream, "commit: %s, of %s%s\n", sm_build_commit(), sm_build_date(),
            sm_build_is_dirty() ? ", with changes" : "");
    fprintf(stream, "compiler: %s\n", sm_build_compiler());
    fprintf(stream, "flags: %s\n", sm_build_flags());
    fprintf(stream, "instruction sets: %s\n", sm_build_isas());
    fprintf(stream, "backends:");
    for (int i = 0; i < sm_backend_count(); i++) {
        fprintf(stream, " %s", sm_backend_at(i)->name);
    }
    fprintf(stream, "\nOpenCL: %s\nMPI: %s\n", yes_no(sm_build_has_opencl()), yes_no(sm_build_has_mpi()));
}
