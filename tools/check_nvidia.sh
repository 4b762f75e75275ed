#!/bin/sh
# check_nvidia.sh: tests attention's kernels and the products by wgmma of cl/nvidia on the CPU, with emulated instructions
# of matrix units (tests/emulation). clang compiles the kernels; no GPU is needed.
# shellcheck disable=SC2086 # lists of flags
. "$(dirname "$0")/script.sh"
[ "$(uname -m)" = x86_64 ] || { echo "check-nvidia: left out: not an x86-64 processor"; exit 0; }
# kernel OBJECT FILE "OPTIONS" (of a file of cl/nvidia, or of one that `spoil` made), program NAME "OBJECTS" "OPTIONS": local memory lies below 4 GiB.
kernel() {
    clang -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -target x86_64-pc-linux-gnu -O1 -fno-pic -DVECTOR=1 \
        -include cl/philox.cl -include cl/prelude.cl -include tests/emulation/tensor.cl $3 -c -o "$work/$1.o" "${spoilt:-cl/nvidia/$2}"
}
spoilt=
# spoil FILE SCRIPT "COMMAND": with the file as sed's script changes it, the command must find wrong numbers.
spoil() {
    spoilt=$work/spoilt.cl
    sed "$2" "cl/nvidia/$1" > "$spoilt"
    if cmp -s "$spoilt" "cl/nvidia/$1" || $3 > "$work/log" || ! grep -q FAILED "$work/log"; then
        fail "$1 spoilt by $2: not found"
    fi
    spoilt=
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
    program products "$work/products.o" "-DCOLUMN_SUMS=0 -DSQUARES=0 -DBESIDE=0 -DCONSUMERS=2 $1"
    "$work/products" $2
}
products "-DDATA_BF16 -DTILE_N=192 -DBESIDE=2"                                                "200 264 136 1 2"
products "-DDATA_F16 -DTILE_N=64 -DBESIDE=6 -DCONSUMERS=1 -DSTAGES=8"                            "200 136 72 1 2"
products "-DDATA_BF16 -DTILE_N=128 -DBESIDE=8 -DB_TRANSPOSED -DC_REAL"                        "130 264 136 1 2"
products "-DDATA_BF16 -DTILE_N=64 -DBESIDE=8 -DB_TRANSPOSED -DCONSUMERS=1"                      "130 264 136 1 2"
products "-DDATA_BF16 -DTILE_N=256 -DSTAGES=3 -DA_TRANSPOSED -DC_REAL -DCOLUMN_SUMS=1"        "200 264 200 2 3"
products "-DDATA_F16 -DTILE_N=64 -DA_TRANSPOSED -DC_REAL -DSQUARES=1"                         "256 192 136 1 2"
products "-DDATA_BF16 -DFP8_A=e4m3 -DFP8_B=e4m3 -DTILE_N=128 -DBESIDE=6 -DB_TRANSPOSED"        "200 264 136 1 2"
products "-DDATA_BF16 -DFP8_A=e5m2 -DFP8_B=e4m3 -DTILE_N=192 -DBESIDE=8 -DB_TRANSPOSED"        "130 200 72 1 2"
products "-DDATA_BF16 -DFP8_A=e4m3 -DFP8_B=e5m2 -DTILE_N=128 -DSTAGES=3 -DC_REAL -DB_TRANSPOSED" "200 136 200 2 3"
# casts "OPTIONS" "ROWS COLUMNS"
casts() {
    kernel cast cast_fp8.cl "-w -DDATA_BF16 -Dfabs=__builtin_fabsf $1"
    program cast "$work/cast.o" "$1"
    "$work/cast" $2
}
bytes_of_odd_sizes() { casts "-DE5M2=1 -DSUMS=1" "176 304"; }
bytes_of_a_long_product() {
    products "-DDATA_BF16 -DFP8_A=e4m3 -DFP8_B=e5m2 -DTILE_N=128 -DSTAGES=6 -DC_REAL -DB_TRANSPOSED -DCAREFUL=1" "16 16 4096 1 1"
}
bytes_of_a_product() { products "-DDATA_BF16 -DFP8_A=e4m3 -DFP8_B=e5m2 -DTILE_N=64 -DB_TRANSPOSED" "130 72 72 1 1"; }
casts "-DE5M2=0 -DSUMS=0" "128 144"
bytes_of_odd_sizes
spoil cast_fp8.cl 's|eight ^ c / 8|eight|' bytes_of_odd_sizes
spoil cast_fp8.cl 's|exchange(sums.j., 16)|0|' bytes_of_odd_sizes
bytes_of_a_long_product
spoil matmul_wgmma.cl 's|!CAREFUL && k|k|; s|ADD_TO_TOTALS;|if (k + 1 == p.k_end) { ADD_TO_TOTALS; }|' bytes_of_a_long_product
spoil matmul_wgmma.cl 's|inverse_scale(scale_b|(scale_b|' bytes_of_a_product
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
