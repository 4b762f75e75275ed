#!/bin/sh
# exercises.sh: makes the mistakes of every exercise in OpenCL C, as tests/learn/test_exercise.c does in C, and
# checks that each is recognised. `make test` checks all right solutions, and the mistakes of three exercises.
set -eu
cd "$(dirname "$0")/../.."
make build build/release/tests/test_exercise >/dev/null
if STEPMARK_TEST_ALL=1 build/release/tests/test_exercise; then
    echo "exercises: every mistake in both languages is explained"
else
    echo "exercises: FAILED" >&2
    exit 1
fi
