#!/bin/sh
# torture_allocations.sh: lets every allocation of a dozen commands fail in turn, or every ALLOCATION_STEP-th, and prints how
# many failures end badly; exit 1 when any does. ALLOCATION_COMMAND="report" takes the commands that begin so.
set -eu
cd "$(dirname "$0")/.."
program="${B:-build/${CONFIG:-release}}/tests/test_allocations"
make "$program" "${program%/tests/*}/stepmark" >/dev/null
ALLOCATION_STEP="${ALLOCATION_STEP:-1}" exec "$program"
