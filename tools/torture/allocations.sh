#!/bin/sh
# allocations.sh: makes every allocation of a dozen commands fail in turn, or every ALLOCATION_STEP-th, and
# prints how many failures end badly; exit code 1 if any. ALLOCATION_COMMAND="report": only commands with this
# beginning.
set -eu
cd "$(dirname "$0")/../.."
program="${B:-build/${CONFIG:-release}}/tests/test_allocations"
make "$program" "${program%/tests/*}/stepmark" >/dev/null
ALLOCATION_STEP="${ALLOCATION_STEP:-1}" exec "$program"
