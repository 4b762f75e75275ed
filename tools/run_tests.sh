#!/bin/sh
# run_tests.sh COMMAND...: runs test programs, with their arguments, two at a time (AT_A_TIME), and prints what each says in
# one piece: one that passes when it ends, one that fails last of all. After a failure no further one begins.
set -eu
outputs=$(mktemp -d)
trap 'rm -rf "$outputs"' EXIT
export outputs
run_one='
output=$outputs/$(basename "${1%% *}")
if $1 >"$output" 2>&1 </dev/null; then
    exec flock "$outputs" cat "$output"
fi
echo "$1 failed" >>"$output"
mv "$output" "$output.failed"
exit 255'
status=0
printf '%s\n' "$@" | xargs -d '\n' -P "${AT_A_TIME:-2}" -n 1 sh -c "$run_one" run_one 2>"$outputs/xargs" || status=1
for failed in "$outputs"/*.failed; do
    [ ! -f "$failed" ] || cat "$failed"
done
exit $status
