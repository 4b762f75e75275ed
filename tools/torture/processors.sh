#!/bin/sh
# processors.sh: runs tests as on other processors: CPUID reports fewer features, since Linux can trap it on
# Intel processors since Ivy Bridge (tests/shims/processor.c).
#   PROCESSORS="zen3 icelake unknown baseline"   which
#   TESTS="..."                         of tests/*/test_*.c
set -eu
cd "$(dirname "$0")/../.."
if ! grep -qw cpuid_fault /proc/cpuinfo; then
    echo "processors: left out: CPUID cannot be made to fault on this processor"
    exit 0
fi
env -u MAKEFLAGS -u MAKELEVEL make tests >/dev/null
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tests=${TESTS:-advise again cli cpu_math cpu_memory cpu_product cpu_topology bf16 bf16_training course exercise generate golden
    gradient ladder loop_program machine opencl opencl_narrow optimizers plan recompute run_outputs same_bits screens sweep
    tensor_attention trainer verify}
for processor in ${PROCESSORS:-zen3 icelake unknown baseline}; do
    for name in $tests; do
        echo "env XDG_CACHE_HOME=$folder/$processor PROCESSOR=$processor LD_PRELOAD=$PWD/build/release/tests/shims/processor.so" \
            "build/release/tests/test_$name"
    done
done >"$folder/commands"
n=$(wc -l <"$folder/commands")
n_failed=0
while read -r command <&9; do
    $command >"$folder/out" 2>&1 </dev/null && continue
    n_failed=$((n_failed + 1))
    cat "$folder/out"
    echo "failed: $command"
done 9<"$folder/commands"
echo "processors: $((n - n_failed)) of $n tests passed"
[ "$n_failed" = 0 ]
