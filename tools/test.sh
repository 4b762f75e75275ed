#!/bin/sh
# test.sh MAKE: everything that must hold: the layers, a clean build by gcc and by clang, the tests in
# the release build, and again under AddressSanitizer and UndefinedBehaviorSanitizer. Every step runs, whatever fails before
# it, so that one log tells all; the steps that failed are listed at the end.
set -u
make=$1
failed=

# step WHAT COMMAND...
step() {
    what=$1
    shift
    printf '\n== %s\n' "$what"
    "$@" || failed="$failed
  $what"
}

kernels() { $make check-cl && $make check-attention; }
clang_builds() { $make CONFIG=clang tests >/dev/null; }
tests() { $make tests >/dev/null && $make run-tests; }
programs() {
    $make pages && $make CONFIG=mpi build >/dev/null &&
        tools/run_tests.sh tools/test_readme.sh "tools/test_report_page.py build/release/stepmark" tools/test_mpi.sh \
            "tools/test_step_page.py build/release/stepmark" "tools/test_scaling_page.py build/mpi/stepmark" \
            "tools/test_pages.sh build/release/stepmark build/release/pages" tools/test_slurm_scripts.sh tools/test_deps.sh
}
tests_sanitized() { $make CONFIG=asan tests >/dev/null && $make CONFIG=asan run-tests; }

step "layers" $make check-deps
step "kernels" kernels
step "clang builds without a warning" clang_builds
step "tests" tests
step "the README's commands, pages in Chromium, several processes, manual pages and completions, the scripts for Slurm" programs
step "tests under AddressSanitizer and UndefinedBehaviorSanitizer" tests_sanitized
printf '\n== %s\n' "left out: the comparison with PyTorch and transformers (make test-peers), a real Slurm (make test-slurm)"
[ -z "$failed" ] || printf 'failed:%s\n' "$failed"
[ -z "$failed" ]
