#!/bin/sh
# The mistakes of every exercise in OpenCL C, as tests/learn/test_exercise.c makes them in C: what is said of each must be what
# it is. `make test` checks the right solutions of all, and the mistakes of three.
set -eu
cd "$(dirname "$0")/.."
make build build/release/tests/test_exercise >/dev/null
if STEPMARK_TEST_ALL=1 build/release/tests/test_exercise; then
    echo "exercises: every mistake in both languages is explained"
else
    echo "exercises: FAILED" >&2
    exit 1
fi
