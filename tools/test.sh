#!/bin/sh
# test.sh MAKE: everything that must hold: the layers, a clean build by gcc and by clang, the tests in
# the release build, and again under AddressSanitizer and UndefinedBehaviorSanitizer.
set -eu
make=$1
jobs=$(nproc)
step() { printf '\n== %s\n' "$1"; }

step "layers"
$make --no-print-directory check-deps
step "clang builds without a warning"
$make --no-print-directory -j"$jobs" CONFIG=clang tests >/dev/null
step "tests"
$make --no-print-directory -j"$jobs" tests >/dev/null
$make --no-print-directory run-tests
step "tests under AddressSanitizer and UndefinedBehaviorSanitizer"
$make --no-print-directory -j"$jobs" CONFIG=asan tests >/dev/null
$make --no-print-directory CONFIG=asan run-tests
step "left out: the comparison with PyTorch and transformers (make test-peers)"
