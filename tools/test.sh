#!/bin/sh
# test.sh MAKE: everything that must hold: the layers, a clean build by gcc and by clang, the tests in
# the release build, and again under AddressSanitizer and UndefinedBehaviorSanitizer.
set -eu
make=$1
step() { printf '\n== %s\n' "$1"; }

step "layers"
$make check-deps
step "kernels"
$make check-cl
$make check-attention
step "clang builds without a warning"
$make CONFIG=clang tests >/dev/null
step "tests"
$make tests >/dev/null
$make run-tests
step "the README's commands, pages in Chromium, several processes, manual pages and completions, the scripts for Slurm"
$make pages
$make CONFIG=mpi build >/dev/null
tools/run_tests.sh tools/test_readme.sh "tools/test_report_page.py build/release/stepmark" tools/test_mpi.sh \
    "tools/test_step_page.py build/release/stepmark" "tools/test_scaling_page.py build/mpi/stepmark" \
    "tools/test_pages.sh build/release/stepmark build/release/pages" tools/test_slurm_scripts.sh
step "tests under AddressSanitizer and UndefinedBehaviorSanitizer"
$make CONFIG=asan tests >/dev/null
$make CONFIG=asan run-tests
step "left out: the comparison with PyTorch and transformers (make test-peers), a real Slurm (make test-slurm)"
