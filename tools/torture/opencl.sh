#!/bin/sh
# opencl.sh: compares every op, in every portable family of kernels and format, on several OpenCL
# implementations (tools/opencl_with.sh) with the reference; for small cases, Oclgrind's simulator also finds accesses
# out of bounds and data races.
#   IMPLEMENTATIONS="pocl rusticl oclgrind"   which
#   PRECISIONS=fp32,bf16,fp16            which formats
#   MAX_ELEMS=2000                       in the simulator: cases whose largest tensor is no larger
set -eu
cd "$(dirname "$0")/../.."
stepmark=${STEPMARK:-build/release/stepmark}
folder=build/torture/opencl
mkdir -p "$folder"
n_passed=0
failed=""
for implementation in ${IMPLEMENTATIONS:-pocl rusticl oclgrind}; do
    for family in local registers; do
        # Whole steps take the simulator minutes.
        filter="."
        [ "$implementation" = oclgrind ] && filter=" .*=" && export OCLGRIND_DATA_RACES=1
        said="$folder/$implementation-$family"
        status=0
        # shellcheck disable=SC2046 # a flag and its argument
        timeout -k 10 "${TIMEOUT:-2700}" tools/opencl_with.sh "$implementation" "$stepmark" verify --backend opencl \
            --isa "$family" --precision "${PRECISIONS:-fp32,bf16,fp16}" --filter "$filter" -o csv \
            $([ "$implementation" = oclgrind ] && echo --max-elems "${MAX_ELEMS:-2000}") >"$said.csv" 2>"$said.txt" || status=$?
        passed=$(grep -c ',passed,' "$said.csv" || true)
        reports=$(grep -cE '^(Invalid|Data race|Work-group divergence|Read-write|Write-write|OCLGRIND)' "$said.txt" || true)
        echo "$implementation, $family: $passed comparisons passed, $reports reports"
        n_passed=$((n_passed + passed))
        [ "$status" = 0 ] && [ "$reports" = 0 ] && [ "$passed" -gt 0 ] || failed="$failed $said.txt"
    done
done
if [ -n "$failed" ]; then
    echo "opencl: $n_passed comparisons passed; see$failed"
    exit 1
fi
echo "opencl: $n_passed comparisons passed on ${IMPLEMENTATIONS:-pocl rusticl oclgrind}, no report of the simulator's"
