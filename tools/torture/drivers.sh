#!/bin/bash
# drivers.sh [STEPMARK [SHIMS]]: makes every OpenCL function that stepmark calls fail, hang or crash, at its
# first call and at later ones. The program must end in time, every row must have a status and a reason, the cpu's row
# must be ok, and the exit code must tell whether a row failed.
#
# DRIVERS_CALLS: which calls ("1 7 40"). DRIVERS_ACTIONS: what they do ("hang crash -5 -6"). DRIVERS_FUNCTIONS: of which
# functions; all. DRIVERS_TIMEOUT: --timeout, in seconds (2).
# shellcheck disable=SC2086 # lists of flags
set -u
cd "$(dirname "$0")/../.." || exit 1
stepmark=${1:-build/release/stepmark}
shims=${2:-build/release/tests/shims}
timeout_s=${DRIVERS_TIMEOUT:-2}
functions=${DRIVERS_FUNCTIONS:-$(sed -n 's/^ *X(\(cl[A-Za-z]*\)).*/\1/p' backends/opencl/program/api.h)}
loader=$(ldconfig -p | sed -n 's/.*libOpenCL.so.1 .*=> //p' | head -n 1)
[ -n "$loader" ] || { echo "drivers: skipped: no OpenCL loader"; exit 0; }
[ -e "$shims/libOpenCL.so.1" ] || { echo "drivers: no $shims/libOpenCL.so.1: run make tests" >&2; exit 1; }
export OMP_WAIT_POLICY=passive # for a busy machine
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
work="run -m tiny -b 1 --seq-len 16 -w 1 -r 3 --no-peaks -o json"
"$stepmark" $work >"$folder/rows" 2>/dev/null # the driver's own cache is warm then
grep -q '"device": "opencl:' "$folder/rows" || { echo "drivers: skipped: no OpenCL device"; exit 0; }

# The rows of a run against what they must be; says what is wrong.
check_rows() {
    python3 - "$folder/rows" "$1" "$2" <<'END'
import json, sys
path, action, code = sys.argv[1], sys.argv[2], int(sys.argv[3])
rows = json.load(open(path))
for row in rows:
    if row["status"] not in ("ok", "oom", "timeout", "skipped", "error"):
        sys.exit(f"status {row['status']}")
    if row["status"] != "ok" and not row["reason"]:
        sys.exit(f"{row['status']} without a reason")
if [row["status"] for row in rows if row["backend"] == "cpu"] != ["ok"]:
    sys.exit("the cpu's row is not ok")
failed = [r for r in rows if r["status"] == "error" or r["status"] == "timeout" and not r["samples_ns"]]
if (code != 0) != bool(failed):
    sys.exit(f"exit code {code} with {len(failed)} failed rows")
END
}

n=0
n_wrong=0
for function in $functions; do
    for action in ${DRIVERS_ACTIONS:-hang crash -5 -6}; do
        for call in ${DRIVERS_CALLS:-1 7 40}; do
            begin=$(date +%s%N)
            STEPMARK_FAULT="$function $action $call" STEPMARK_OPENCL=$loader LD_LIBRARY_PATH=$shims \
                timeout -k 1 60 "$stepmark" $work --timeout "$timeout_s" >"$folder/rows" 2>"$folder/err"
            code=$?
            elapsed_ms=$((($(date +%s%N) - begin) / 1000000))
            # A hang may be met twice: while devices are looked for, and in the row; the rest takes a second or two.
            limit_ms=$((2 * timeout_s * 1000 + 6000))
            wrong=$(check_rows "$action" "$code" 2>&1) || true
            [ "$elapsed_ms" -le "$limit_ms" ] || wrong="$elapsed_ms ms, more than $limit_ms"
            n=$((n + 1))
            if [ -n "$wrong" ]; then
                n_wrong=$((n_wrong + 1))
                echo "$function $action $call: $wrong"
            fi
        done
    done
done
echo "drivers: $n faults, $n_wrong wrong"
[ "$n_wrong" = 0 ]
