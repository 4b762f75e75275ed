#!/bin/sh
# torture.sh [PART...]: runs the long tests tools/torture/PART.sh; default: all. Prints the last line of each, and
# writes all output to build/torture/PART.log. Each script names the variables that set its duration. Uses
# build/release/stepmark as it is; `make torture` builds it first.
set -u
cd "$(dirname "$0")/.."
logs=build/torture
mkdir -p "$logs"
if [ $# = 0 ]; then
    for script in tools/torture/*.sh; do
        part=${script#tools/torture/}
        set -- "$@" "${part%.sh}"
    done
fi
n_failed=0
for part in "$@"; do
    if [ ! -x "tools/torture/$part.sh" ]; then
        echo "torture: there is no tools/torture/$part.sh" >&2
        exit 2
    fi
    begin=$(date +%s)
    result=passed
    "tools/torture/$part.sh" >"$logs/$part.log" 2>&1 || result=FAILED
    [ "$result" = passed ] || n_failed=$((n_failed + 1))
    printf '%-12s %s in %4d s: %s\n' "$part" "$result" $(($(date +%s) - begin)) "$(grep -v '^$' "$logs/$part.log" | tail -1)"
done
echo "torture: $# parts, $n_failed failed; what each said is in $logs"
[ "$n_failed" = 0 ]
