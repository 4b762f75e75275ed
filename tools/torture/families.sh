#!/bin/sh
# families.sh: the cpu backend's kernels for other processors, cross-compiled and run by QEMU: operations and steps
# against the reference, the same bits of a repeated training, the losses of this processor's training within rounding;
# and what their hot loops are compiled to. That says how many instructions a loop has, not how fast they are.
#   FAMILIES="aarch64 riscv64"   which; RISC-V's libraries come from Debian unstable (tools/elsewhere.sh), as root
#   MOST_ELEMS=20000             of a tensor that is verified
#   LLVM_MCA_CORES="neoverse-n1,..."  also print multiply-adds a cycle by llvm-mca's models of these cores
. "$(dirname "$0")/../script.sh"
here=build/release/stepmark
n=0
left_out=""

# Runs the program of $stepmark on a processor of QEMU's.
emulated() {
    cpu=$1
    shift
    n=$((n + 1))
    timeout "$LONGEST_S" "$qemu" -L "$sysroot" -cpu "$cpu" "$stepmark" "$@" >"$work/out" 2>&1 || { cat "$work/out" >&2 && fail "$cpu: $*"; }
}

# training NAME ARGUMENT...: what 50 steps' losses are, in $work/NAME.losses
flags="-m tiny -b 2 --seq-len 16 --steps 50 --data README.md --seed 3"
losses_of() { sed -n 's/.*"loss": \([-0-9.e+]*\).*/\1/p' "$1"; }

# near NAME NAME TOLERANCE: two trainings have the same losses but for this
near() {
    paste "$work/$1.losses" "$work/$2.losses" | awk -v most="$3" '
        { d = $1 - $2; d = d < 0 ? -d : d; if (!(d <= most * $2)) { print "step " NR ": " $1 " and " $2; bad = 1 } }
        END { exit NR == 50 && !bad ? 0 : 1 }' >&2 || fail "losses of $1 and $2 differ"
}

# check ISA CPU: all that is checked of an instruction set's kernels
check() {
    isa=$1
    cpu=$2
    echo "$isa on $cpu"
    for precision in fp32 bf16 fp16; do
        emulated "$cpu" verify --backend cpu --isa "$isa" -t 2 --filter "$OPERATIONS" --max-elems "$MOST_ELEMS" --precision $precision
        emulated "$cpu" run -m tiny -b 1 --seq-len 16 -r 2 -w 0 -t 1 --no-peaks --backend cpu --isa "$isa" --mode naive,fused \
            --precision $precision
    done
    emulated "$cpu" loop -m tiny -b 1 --seq-len 16 -t 1 --isa "$isa" -r 2 --backend cpu --no-peaks
    for precision in fp32 bf16; do
        most=$([ $precision = fp32 ] && echo 1e-5 || echo 1e-2)
        for turn in 2 2.again 1; do # threads
            log=$work/$cpu.$isa.$precision.$turn
            # shellcheck disable=SC2086 # a list of flags
            emulated "$cpu" train $flags --precision $precision -t "${turn%.*}" --isa "$isa" --log "$log.jsonl"
            losses_of "$log.jsonl" >"$log.losses"
            near "$cpu.$isa.$precision.$turn" here.$precision "$most"
        done
        cmp "$work/$cpu.$isa.$precision.2.losses" "$work/$cpu.$isa.$precision.2.again.losses" ||
            fail "$isa, $precision: the same training has other losses when it is repeated"
    done
}

# loops ISA FILE FUNCTION LIMIT...: of a kernel's object
loops() {
    object=$build/backends/cpu/kernels/$2
    isa=$1
    shift 2
    # shellcheck disable=SC2046,SC2086 # flags
    tools/hot_loops.py ${LLVM_MCA_CORES:+--mca $LLVM_MCA_CORES} "$objdump" "$object" "$@" || fail "hot loops of $isa"
}

OPERATIONS='^(matmul_|flash_attention_|layernorm_|crossentropy_|gelu_|swiglu_|adamw|grad_sqnorm)'
MOST_ELEMS=${MOST_ELEMS:-20000}
LONGEST_S=3600 # of a run
for precision in fp32 bf16; do
    # shellcheck disable=SC2086 # a list of flags
    $here train $flags --precision $precision -t 1 --log "$work/here.$precision.jsonl" >"$work/out" 2>&1 || { cat "$work/out" >&2 && fail "training here"; }
    losses_of "$work/here.$precision.jsonl" >"$work/here.$precision.losses"
done
for family in ${FAMILIES:-aarch64 riscv64}; do
    prefix=$family-linux-gnu
    qemu=qemu-$family-static
    objdump=$prefix-objdump
    build=build/release-$family
    sysroot=/
    if command -v "$qemu" >/dev/null &&
        echo 'int main(void) { return 0; }' | "$prefix-gcc" -x c -o "$work/linked" - -lhwloc -ljansson 2>/dev/null; then
        env -u MAKEFLAGS -u MAKELEVEL make CC="$prefix-gcc" B="$build" build >"$work/build" 2>&1 || { tail -20 "$work/build" >&2 && fail "$family: build"; }
    elif [ "$family" = riscv64 ] && [ "$(id -u)" = 0 ]; then
        sysroot=${ELSEWHERE:-/var/tmp/stepmark-elsewhere}/sid
        T=none tools/elsewhere.sh sid riscv64 || fail "$family: build"
        build=$sysroot/root/stepmark/$build
        qemu=$sysroot/usr/bin/qemu-riscv64
        objdump=llvm-objdump
    else
        echo "families: $family: left out: $qemu, $prefix-gcc or its libraries are missing (tools/deps.sh torture cross-arm64)"
        left_out="$left_out $family"
        continue
    fi
    stepmark=$build/stepmark
    case $family in
    aarch64)
        loops neon matmul/product.neon.f32.o cpu_tile_3 "mla>=48" "loads<=20" "moves<=0" "stack<=0"
        loops neon matmul/product_bf16.neon.bf16.o cpu_product_tile "mla>=24" "loads<=5" "moves<=0" "stack<=0"
        loops neon_bf16 matmul/product_bf16.neon_bf16.bf16.o cpu_product_tile "mla>=24" "loads<=10" "moves<=0" "stack<=0"
        for function in multiply_scores multiply_to_rows multiply_to_keys; do
            loops neon attention/flash_attention.neon.f32.o $function "mla>=8" "loads<=6" "moves<=0" "stack<=0"
        done
        loops neon matmul/peaks.neon.f32.o cpu_peak_flops_neon "mla>=24" "loads<=0" "moves<=0" "stack<=0"
        loops neon_bf16 matmul/peaks_dot.neon_bf16.bf16.o cpu_peak_flops_bf16_neon_bf16 "mla>=24" "loads<=0" "moves<=0" "stack<=0"
        for data in f32 bf16; do
            loops sme matmul/product_bf16.sme.$data.o cpu_product_tile "mla>=4" "loads<=4" "moves<=0" "stack<=0"
        done
        loops sme matmul/peaks_dot.sme.f32.o cpu_peak_flops_sme "mla>=4" "loads<=0" "moves<=0" "stack<=0"
        loops sme matmul/peaks_dot.sme.bf16.o cpu_peak_flops_bf16_sme "mla>=4" "loads<=0" "moves<=0" "stack<=0"
        check neon cortex-a72
        check neon neoverse-n1
        check neon_bf16 max
        check sme max,sme512=on,sme_fa64=off
        for bits in 128 256 1024; do # of ZA's rows
            for precision in fp32 bf16; do
                emulated "max,sme$bits=on,sme_fa64=off" verify --backend cpu --isa sme -t 2 --filter '^matmul_' \
                    --max-elems "$MOST_ELEMS" --precision $precision
            done
        done
        ;;
    riscv64)
        check scalar rv64
        for bits in 128 256 512; do
            check rvv$bits rv64,v=true,vlen=$bits
        done
        ;;
    esac
done
echo "families: $n runs agree${left_out:+; left out:$left_out}"
