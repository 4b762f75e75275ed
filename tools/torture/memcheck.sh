#!/bin/sh
# memcheck.sh: runs steps of a tiny model under valgrind's memcheck, which finds uses of uninitialised values
# and accesses out of bounds, with the instruction sets that valgrind knows.
set -eu
cd "$(dirname "$0")/../.."
stepmark=${STEPMARK:-build/release/stepmark}
folder=build/torture/memcheck
mkdir -p "$folder"
export OPENBLAS_CORETYPE=Haswell OMP_NUM_THREADS=2
n=0
failed=""
check() {
    n=$((n + 1))
    echo "stepmark $*"
    nice valgrind -q --error-exitcode=66 --exit-on-first-error=no --num-callers=30 "$stepmark" "$@" \
        >"$folder/$n.txt" 2>&1 || failed="$failed $folder/$n.txt"
}
for isa in baseline avx2; do
    check run --keep-env --backend cpu --isa "$isa" -t 2 -m tiny -b 2 --seq-len 8 -w 1 -r 1 --mode naive,fused --no-peaks
    check verify --keep-env --backend cpu --isa "$isa" -t 2 --max-elems "${MAX_ELEMS:-2000}"
done
if [ -n "$failed" ]; then
    echo "memcheck: $n commands; see$failed"
    exit 1
fi
echo "memcheck: $n commands, no report"
