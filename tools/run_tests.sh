#!/bin/sh
# run_tests.sh COMMAND...: runs test programs, with their arguments, three at a time (AT_A_TIME), and prints each one's
# output in one piece: of passing programs when they end (BRIEF=1: only the name), of failing ones at the end, followed
# by their list. A failure does not stop the others.
set -eu
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
export outputs
run_one='
output=$outputs/$(basename "${1%% *}")
begun=$(date +%s)
code=0
$1 >"$output" 2>&1 </dev/null || code=$?
times >"$output.used" # of a processor, as other tests run next to this one
used=$(sed -n "2s/ /, of the system /p" "$output.used")
echo "$1: $(($(date +%s) - begun)) s, user $used" >>"$output"
[ $code = 0 ] && exec flock "$outputs" tail -n "${BRIEF:-+1}" "$output"
[ $code != 255 ] || code="255: a crash on another thread than the test; CMOCKA_TEST_ABORT=1 names the signal"
echo "$1 failed: exit code $code" | tee -a "$output" >>"$outputs/list"
mv "$output" "$output.failed"
exit 1'
status=0
printf '%s\n' "$@" | xargs -d '\n' -P "${AT_A_TIME:-3}" -n 1 sh -c "$run_one" run_one 2>"$outputs/xargs" || status=1
for failed in "$outputs"/*.failed; do
    [ ! -f "$failed" ] || cat "$failed"
done
cat "$outputs/xargs"
[ ! -f "$outputs/list" ] || sort "$outputs/list"
exit $status
