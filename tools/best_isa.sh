#!/bin/sh
# best_isa.sh CC: prints the best instruction set of the cpu backend's kernels that this processor and this compiler
# support; CONFIG=dev builds only that one.
set -eu
# is_best NAME "FLAGS OF THE PROCESSOR" COMPILER_FLAG...
is_best() {
    name=$1
    needed=$2
    shift 2
    for flag in $needed; do
        grep -qm1 "^flags.*[[:space:]]$flag\( \|$\)" /proc/cpuinfo || return 1
    done
    echo | $cc "$@" -x c -fsyntax-only - 2>/dev/null && echo "$name"
}
cc=$1
avx512="avx2 fma f16c avx512f avx512bw avx512dq avx512vl"
is_best amx "$avx512 avx512_bf16 amx_tile amx_bf16" -mavx512bf16 -mamx-tile -mamx-bf16 ||
    is_best avx512_bf16 "$avx512 avx512_bf16" -mavx512bf16 ||
    is_best avx512 "$avx512" -mavx512f -mavx512bw -mavx512dq -mavx512vl ||
    is_best avx2 "avx2 fma f16c" -mavx2 -mfma -mf16c || case $($cc -dumpmachine) in
    aarch64-*)
        case "$(sed -n 's/^Features.*:\(.*\)/\1 /p;/^Features/q' /proc/cpuinfo)" in
        *" bf16 "*" sme "*) echo sme ;;
        *" bf16 "*) echo neon_bf16 ;;
        *) echo neon ;;
        esac
        ;;
    riscv64-*) echo scalar ;;
    *) echo baseline ;;
    esac
