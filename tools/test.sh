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
step "manual pages and completions"
$make test-pages
step "pages in Chromium"
tools/test_report_page.py build/release/stepmark
tools/test_step_page.py build/release/stepmark
step "several processes"
$make CONFIG=mpi build >/dev/null
tools/test_mpi.sh
step "the README's commands"
tools/test_readme.sh
step "the scripts for Slurm"
tools/test_slurm_scripts.sh
step "tests under AddressSanitizer and UndefinedBehaviorSanitizer"
$make CONFIG=asan tests >/dev/null
$make CONFIG=asan run-tests
step "left out: the comparison with PyTorch and transformers (make test-peers), a real Slurm (make test-slurm)"
