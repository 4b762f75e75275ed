#!/bin/sh
# small_runs.sh STEPMARK: runs each backend from end to end, in seconds: the cpu backend's operations on small shapes
# in every format, steps and ops of each backend, a training, advice. The release build checks results; sanitizer builds check
# memory.
. "$(dirname "$0")/../script.sh"
stepmark=$1
n=0
check() {
    n=$((n + 1))
    "$stepmark" "$@" >"$work/out" 2>&1 || { echo "failed: $stepmark $*" >&2 && cat "$work/out" >&2 && exit 1; }
    ! grep "warnings* generated" "$work/out" || { echo "failed: $stepmark $*: a driver's compiler warns of our kernels" >&2 && exit 1; }
}
# Whole steps follow: of shapes by the hundred they take minutes.
check verify --backend cpu --filter '^[^s]|^s[^t]' --max-elems 2000 --precision fp32,bf16,fp16
for arch in gpt2 "gpt2 --activation relu2" llama; do
    check run --arch $arch -m tiny -b 1 --seq-len 8 -r 2 -w 0 --no-peaks --backend cpu --mode naive,fused --precision fp32,bf16
    check run --arch $arch -m tiny -b 1 --seq-len 8 -r 2 -w 0 --no-peaks --backend reference,opencl
done
check run -m tiny -b 1 --seq-len 8 -r 2 -w 0 --no-peaks --op matmul,gelu,attention
check train -m tiny -b 2 --seq-len 16 --steps 6 --save-every 3 --val-data README.md --run "$work/run"
check exercise gelu_forward --init "$work"
check advise -m tiny --seq-len 8 -b 1 --accum 1 --mode fused --recompute light -t 1 -r 2 --output-file "$work/advice.jsonl"
echo "$stepmark: $n small runs passed"
