#!/bin/bash
# limits.sh [STEPMARK]: runs stepmark with limits on memory, stack, open files and processors, with far too many
# threads, and without /proc. It must end in time, by itself, with one of its exit codes (0, 1, 2), and a message "oom"
# must state the available memory.
set -u
cd "$(dirname "$0")/../.." || exit 1
stepmark=$(realpath "${1:-build/release/stepmark}")
export stepmark
export work="run -m tiny -b 1 --seq-len 16 -w 1 -r 2 --no-peaks -o jsonl --timeout 10"
n=0
n_wrong=0

# check NAME COMMAND: a line of bash.
check() {
    output=$(timeout -k 1 40 bash -c "$2" 2>&1)
    code=$?
    n=$((n + 1))
    reason=""
    [ "$code" -le 2 ] || reason="exit code $code"
    case $output in *" 0 available"* | *"0.00 GiB available"* | *'"status": null'*) reason="unknown told as 0" ;; esac
    if [ -n "$reason" ]; then
        n_wrong=$((n_wrong + 1))
        echo "$1: $reason: $(printf '%s' "$output" | tail -n 1 | cut -c 1-200)"
    fi
}

for kib in 100000 200000 400000 1000000 4000000; do
    check "ulimit -v $kib" "ulimit -v $kib; \$stepmark \$work"
    check "ulimit -v $kib, naive" "ulimit -v $kib; \$stepmark \$work --backend cpu --mode naive"
done
for kib in 64 128 256 512 1024 unlimited; do
    for mode in naive fused tuned; do
        check "ulimit -s $kib, $mode" "ulimit -s $kib; \$stepmark \$work --mode $mode"
    done
done
for files in 4 5 6 8 12 16 32; do
    check "ulimit -n $files" "ulimit -n $files; \$stepmark \$work"
done
for threads in 1 2 3 7 16 33 64 256 4096; do
    check "-t $threads" "\$stepmark \$work --backend cpu -t $threads"
    check "-t $threads on one processor" "taskset -c 0 \$stepmark \$work --backend cpu -t $threads"
done
check "one processor" "taskset -c 0 \$stepmark \$work"
check "ulimit -u 1" "ulimit -u 1; \$stepmark \$work"
if unshare -m true 2>/dev/null; then
    for backend in cpu opencl reference all; do
        check "no /proc, $backend" "unshare -m sh -c 'mount -t tmpfs none /proc && exec \$stepmark \$work --backend $backend'"
    done
    check "no /proc, devices" "unshare -m sh -c 'mount -t tmpfs none /proc && exec \$stepmark devices'"
fi
echo "limits: $n cases, $n_wrong wrong"
[ "$n_wrong" = 0 ]
