#!/bin/sh
# tsan.sh: finds data races with ThreadSanitizer, and archer, which knows OpenMP's synchronisation: in ops and
# whole steps, in every instruction set and format of this processor, and in a run.
#   THREADS=4   how many
set -eu
cd "$(dirname "$0")/../.."
threads=${THREADS:-4}
env -u MAKEFLAGS -u MAKELEVEL make CONFIG=tsan build/tsan/stepmark >/dev/null
folder=build/torture/tsan
mkdir -p "$folder"
archer=$(find /usr/lib/llvm-*/lib /usr/lib/x86_64-linux-gnu -name 'libarcher.so*' 2>/dev/null | head -1)
[ -n "$archer" ] || { echo "tsan: libarcher.so is not there; install libomp-dev" && exit 1; }
# Of libraries that are not built for the sanitizer it sees neither locks nor threads, and so leaves them out.
export OMP_TOOL_LIBRARIES="$archer" ARCHER_OPTIONS=verbose=0 OMP_NUM_THREADS="$threads" OPENBLAS_NUM_THREADS=1
export TSAN_OPTIONS="ignore_noninstrumented_modules=1:exitcode=66"
n=0
failed=""
check() {
    n=$((n + 1))
    echo "stepmark $*"
    nice build/tsan/stepmark "$@" >"$folder/$n.txt" 2>&1 || failed="$failed $folder/$n.txt"
}
for isa in ${ISAS:-baseline avx2 avx512}; do
    check verify --backend cpu -t "$threads" --isa "$isa" --precision fp32,bf16,fp16 --max-elems 20000
done
check run --backend cpu -t "$threads" -m tiny -b 2 --seq-len 16 -r 3 --mode naive,fused --no-peaks
check train --backend cpu -t "$threads" -m tiny -b 2 --seq-len 16 --steps 3
rm -rf "$folder/run"
check train --backend cpu -t "$threads" -m tiny -b 2 --seq-len 16 --steps 40 --save-every 3 --val-data README.md --run "$folder/run"
reports=$(cat "$folder"/[0-9]*.txt | grep -c 'WARNING: ThreadSanitizer' || true)
if [ -n "$failed" ] || [ "$reports" != 0 ]; then
    echo "tsan: $n commands with $threads threads, $reports reports; see$failed"
    exit 1
fi
echo "tsan: $n commands with $threads threads, no report"
