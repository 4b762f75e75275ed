#!/bin/sh
# cheats.sh: kernels and backends that want a speed which they did not earn: each is caught TRIES times of as many (20),
# and honest ones are refused in none of HONEST seeds (500). `make test` tries each once.
set -eu
cd "$(dirname "$0")/../.."
tests="cheats wall judge"
for test in $tests; do
    make "build/release/tests/test_$test" >/dev/null
done
for test in $tests; do
    CHEATS=${TRIES:-20} HONEST=${HONEST:-500} "build/release/tests/test_$test"
done
echo "cheats: each caught ${TRIES:-20} times of ${TRIES:-20}, honest kernels refused 0 times of ${HONEST:-500}"
