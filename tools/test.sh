#!/bin/sh
# test.sh MAKE [sanitized]: runs all checks: the layers, clean builds by gcc and clang, the tests in the release build,
# and the tests of parsing, scheduling, memory and processes also under AddressSanitizer and UndefinedBehaviorSanitizer
# (sanitized: these alone). STEPMARK_TEST_ALL=1: the long form of each, as in `make torture PARTS=suite`. A failing step
# does not stop the others; failed steps are listed at the end.
set -u
make=$1
all=${STEPMARK_TEST_ALL:-}
export WANTED=1 # the module for pages (tools/wasm.sh)
failed=

# step WHAT COMMAND...
step() {
    what=$1
    shift
    printf '\n== %s\n' "$what"
    "$@" || failed="$failed
  $what"
}

# Programs of make print too much where all is well. ccache, if it is installed, shares objects among folders.
quiet() { "$@" >/dev/null; }
build() { PATH="/usr/lib/ccache:$PATH" CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 "$@"; }
builds() { quiet build $make tests && quiet build $make pages && quiet build $make CONFIG=mpi build; }
# Many tests wait for clocks, pipes and other processes. These use the processor meanwhile, and no core waits for the
# last of the others.
sanitized() {
    unset MAKEFLAGS
    build $make -j1 SAY=@: CONFIG=asan tests &&
        AT_A_TIME=2 $make CONFIG=asan run-tests RUN_LAST= RUN_FIRST="'tools/tests/small_runs.sh build/asan/stepmark'"
}
clang_warnings=$([ -n "$all" ] || echo tools/clang_syntax.sh)
tests() {
    release=build/release/stepmark
    AT_A_TIME=4 $make run-tests RUN_FIRST="'$0 $make sanitized' $clang_warnings \
            tools/tests/readme.sh tools/tests/mpi.sh 'tools/tests/step_page.py $release' \
            'tools/tests/report_page.py $release' tools/check_cl.sh" \
        RUN_LAST="tools/check_nvidia.sh 'tests/program/test_python.py $release' \
            'tools/packages/test_pages.sh $release build/release/pages' tools/tests/slurm_scripts.sh \
            tools/tests/deps.sh 'tools/tests/small_runs.sh $release' 'tools/vendors/check.sh clang-19'"
}

[ "${2:-}" != sanitized ] || { sanitized && exit; exit 1; }
step "layers" tools/check_deps.sh
step "lines" tools/check_lines.sh
step "builds by gcc" builds
[ -z "$all" ] || step "clang compiles all without a warning" quiet $make CONFIG=clang tests
step "warnings of clang, kernels, tests, the README's commands, pages in Chromium, several processes, manual pages, the scripts for Slurm; and build and tests under AddressSanitizer and UndefinedBehaviorSanitizer" tests
printf '\n== %s\n' "left out: the long tests (make torture), PyTorch and transformers (make test-peers), a real Slurm (make test-slurm)"
[ -z "$failed" ] || printf 'failed:%s\n' "$failed"
[ -z "$failed" ]
