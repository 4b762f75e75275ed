// machine.h: facts of the machine and the build, for the nested context of a result: what a
// reader needs to judge a figure, or to repeat it. Linux. Unknown facts are null.
#pragma once

#include "backend.h"

#include <jansson.h>

// The build, by what the Makefile says.
typedef struct {
    const char *version, *commit;
    const char *date; // of the sources: "2026-11-22"
    const char *flags;
    const char *isas;     // of the cpu backend's kernels: "baseline avx2"
    const char *compiler; // "gcc 12.2.0"
    bool is_dirty, has_opencl, has_mpi;
} sm_build_facts;

extern const sm_build_facts sm_build;

// {host, os, kernel,
//  cpu {name, sockets, cores, threads, threads_allowed, quota, numa_nodes, isa [], governor,
//       hypervisor, caches [{level, type, size_bytes, count}]},
//  load [1, 5, 15 minutes], memory_bytes, memory_available_bytes, transparent_huge_pages,
//  compiler, compiler_flags, build_commit, build_dirty,
//  environment {OMP_*, OPENBLAS_*, ...}, argv []}
// The caller owns them.
json_t *sm_machine_facts(int argc, char *const argv[]);

// A device's part of the context: {id, name, driver, isa, blas_core, tier, n_units, n_threads, binding,
// memory_bytes, max_alloc_bytes}.
json_t *sm_machine_device(const sm_device_info *info);

// Resident memory of this process now; SM_ABSENT when /proc does not say.
int64_t sm_machine_rss_bytes(void);

// Largest resident memory of this process since the last reset, and of the process with own code since its start;
// SM_ABSENT when /proc does not say. The reset does nothing where the kernel refuses it; the peak is then since the start.
int64_t sm_machine_peak_rss_bytes(void);
void sm_machine_reset_peak_rss(void);
