#!/bin/sh
# check_nvidia.sh: tests attention's kernels and the products by wgmma of cl/nvidia on the CPU, with emulated instructions
# of matrix units (tests/emulation). clang compiles the kernels; no GPU is needed.
# shellcheck disable=SC2086 # lists of flags
. "$(dirname "$0")/script.sh"
[ "$(uname -m)" = x86_64 ] || { echo "check-nvidia: left out: not an x86-64 processor"; exit 0; }
# kernel OBJECT FILE "OPTIONS", program NAME "OBJECTS" "OPTIONS": local memory lies below 4 GiB.
kernel() {
    clang -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -target x86_64-pc-linux-gnu -O1 -fno-pic -DVECTOR=1 \
        -include cl/philox.cl -include cl/prelude.cl -include tests/emulation/tensor.cl $3 -c -o "$work/$1.o" "cl/nvidia/$2"
}
program() {
    clang -O2 -Iinclude -Itests/emulation -fno-pic -static $3 -o "$work/$1" "tests/emulation/$1.c" \
        tests/emulation/warps.c $2 -lm -Wno-macro-redefined
}
# check "OPTIONS" HS WARPS FRAGMENTS TILE STEP IN_REGISTERS "B T NH NKV p"
check() {
    options="$1 -DHS=$2 -DWARPS=$3 -DFRAGMENTS=$4 -DTILE=$5 -DSTEP=$6 -DIN_REGISTERS=$7"
    options="$options -DSCALE=$(awk "BEGIN { printf \"%.9gf\", 1 / sqrt($2) }")"
    for part in 0 1 2; do
        kernel part$part attention_tensor.cl "$options -DPART=$part -include cl/heads.cl -include cl/nvidia/attention_tiles.cl"
    done
    program attention "$work/part0.o $work/part1.o $work/part2.o" "-DSPLIT=0 $options"
    "$work/attention" $8
}
check "-DDATA_BF16 -DDOCUMENTS=1"                      64 4 2 64 32 1 "2 300 2 1 0"
check "-DDATA_F16 -DDROPOUT=1"                         72 4 1 32 32 2 "1 67 2 2 0.1"
check "-DDATA_F32"                                     24 2 1 32 16 0 "2 37 4 2 0"
check "-DDATA_F32 -DSPLIT=1 -DDROPOUT=1 -DDOCUMENTS=1" 40 2 1 32 32 0 "1 167 3 1 0.2"
check "-DDATA_BF16 -DWGMMA=1"                          64 12 1 64 64 0 "1 340 2 1 0"
check "-DDATA_F16 -DWGMMA=1 -DDOCUMENTS=1 -DSTAGES=2" 128 4 1 64 64 0 "1 300 1 1 0"
# products "OPTIONS" "M N K PARTS GROUPS"
products() {
    kernel products matmul_wgmma.cl "-w $1 -include cl/nvidia/wgmma.cl -include tests/emulation/wgmma.cl"
    program products "$work/products.o" "-DCOLUMN_SUMS=0 -DSQUARES=0 -DBESIDE=0 $1"
    "$work/products" $2
}
products "-DDATA_BF16 -DTILE_N=192 -DBESIDE=2"                                                "200 264 136 1 2"
products "-DDATA_F16 -DTILE_N=64 -DBESIDE=6"                                                  "200 136 72 1 2"
products "-DDATA_BF16 -DTILE_N=128 -DBESIDE=8 -DB_TRANSPOSED"                                 "130 264 136 1 2"
products "-DDATA_BF16 -DTILE_N=128 -DBESIDE=8 -DB_TRANSPOSED -DC_REAL"                        "130 264 136 1 2"
products "-DDATA_BF16 -DTILE_N=256 -DSTAGES=3 -DA_TRANSPOSED -DC_REAL -DCOLUMN_SUMS=1"        "200 264 200 2 3"
products "-DDATA_F16 -DTILE_N=64 -DA_TRANSPOSED -DC_REAL -DSQUARES=1"                         "256 192 136 1 2"
# The long tests run each with documents and without.
if [ -n "${STEPMARK_TEST_ALL:-}" ]; then
    check "-DDATA_BF16"                             64 4 2 64 32 1 "1 140 2 1 0"
    check "-DDATA_F16 -DDROPOUT=1 -DDOCUMENTS=1"    72 4 1 32 32 2 "1 167 2 2 0.1"
    check "-DDATA_F32 -DDOCUMENTS=1"                24 2 1 32 16 0 "2 137 4 2 0"
    check "-DDATA_F32 -DSPLIT=1 -DDROPOUT=1"        40 2 1 32 32 0 "1 67 3 1 0.2"
    check "-DDATA_BF16 -DWGMMA=1 -DDOCUMENTS=1"     64 8 1 64 64 0 "1 440 2 1 0"
    check "-DDATA_F16 -DWGMMA=1"                   128 4 1 64 64 0 "1 100 1 1 0"
fi
echo "check-nvidia: the kernels compute products and attention as fp64 does"
