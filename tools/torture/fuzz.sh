#!/bin/sh
# fuzz.sh: runs every fuzzer (tests/fuzz) under AddressSanitizer and UndefinedBehaviorSanitizer: no crash, no
# leak, no input that takes more than ten seconds, and no input of twice the length that takes three times as long.
#   SECONDS_EACH=30   time for each fuzzer
#   RUNS=N            instead: inputs for each fuzzer
#   FUZZERS="a b"     some of them; not given: all
#   FOUND=DIR         where inputs that reach new code are kept from one run to the next, and what crashes is put
set -eu
cd "$(dirname "$0")/../.."
found=${FOUND:-build/fuzz/found}
fuzzers=${FUZZERS:-$(ls tests/fuzz/corpus)}
binaries=""
for name in $fuzzers; do
    binaries="$binaries build/fuzz/tests/fuzz/fuzz_$name"
done
# shellcheck disable=SC2086 # a list of files
env -u MAKEFLAGS -u MAKELEVEL make CONFIG=fuzz $binaries >/dev/null
if [ -n "${RUNS:-}" ]; then
    limit="-runs=$RUNS"
else
    limit="-max_total_time=${SECONDS_EACH:-30}"
fi
# The leak checker's guess at thread-local memory of libraries loaded at run time crashes it now and then.
export ASAN_OPTIONS=detect_leaks=1:intercept_tls_get_addr=0 SM_FUZZ_TIMES=1
total=0
failed=""
for name in $fuzzers; do
    mkdir -p "$found/$name"
    log="$found/$name.log"
    status=0
    "build/fuzz/tests/fuzz/fuzz_$name" "$limit" -timeout=10 -rss_limit_mb=2048 -max_len="${MAX_LEN:-4096}" \
        -print_final_stats=1 -artifact_prefix="$found/$name-" "$found/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1 || status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    total=$((total + ${runs:-0}))
    printf '%-14s %10s inputs %8s a second  %s\n' "$name" "${runs:-0}" "${rate:-?}" "$([ "$status" = 0 ] && echo ok || echo "FAILED: see $log")"
    [ "$status" = 0 ] || failed="$failed $name"
done
if [ -n "$failed" ]; then
    echo "fuzz: $total inputs; these failed:$failed"
    exit 1
fi
echo "fuzz: $total inputs, no crash, no leak, none too slow"
