#!/bin/sh
# test.sh MAKE: runs all checks: the layers, clean builds by gcc and clang, the tests in the release build, and the
# tests of parsing, scheduling, memory and processes also under AddressSanitizer and UndefinedBehaviorSanitizer.
# STEPMARK_TEST_ALL=1: the long form of each, as in `make torture PARTS=suite`. A failing step does not stop the others;
# failed steps are listed at the end.
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

# Programs of make print too much where all is well.
quiet() { "$@" >/dev/null; }
builds() { quiet $make tests && quiet $make pages && quiet $make CONFIG=mpi build; }
# Many tests wait for clocks, pipes and other processes. These use the processor meanwhile.
sanitized_build="env -u MAKEFLAGS $make -j1 SAY=@: CONFIG=asan tests"
clang_warnings=$([ -n "$all" ] || echo tools/clang_syntax.sh)
tests() {
    release=build/release/stepmark
    AT_A_TIME=4 $make run-tests RUN_FIRST="'$sanitized_build' $clang_warnings \
            tools/tests/readme.sh tools/tests/mpi.sh 'tools/tests/step_page.py $release' \
            'tools/tests/report_page.py $release' tools/check_cl.sh" \
        RUN_LAST="tools/check_attention.sh 'tests/program/test_python.py $release' \
            'tools/tests/scaling_page.py build/mpi/stepmark' \
            'tools/packages/test_pages.sh $release build/release/pages' tools/tests/slurm_scripts.sh \
            tools/tests/deps.sh 'tools/tests/small_runs.sh $release' 'tools/vendors/check.sh clang-19'"
}
tests_sanitized() { $make CONFIG=asan run-tests RUN_FIRST="'tools/tests/small_runs.sh build/asan/stepmark'"; }

step "layers" tools/check_deps.sh
step "lines" tools/check_lines.sh
step "builds by gcc" builds
[ -z "$all" ] || step "clang compiles all without a warning" quiet $make CONFIG=clang tests
step "the build for sanitizers, warnings of clang, kernels, tests, the README's commands, pages in Chromium, several processes, manual pages, the scripts for Slurm" tests
step "tests under AddressSanitizer and UndefinedBehaviorSanitizer" tests_sanitized
printf '\n== %s\n' "left out: the long tests (make torture), PyTorch and transformers (make test-peers), a real Slurm (make test-slurm)"
[ -z "$failed" ] || printf 'failed:%s\n' "$failed"
[ -z "$failed" ]
