#!/bin/sh
# check_cl.sh [FORMAT...]: checks that every kernel file, after the prelude, compiles as OpenCL C 1.2 without a warning,
# with the tiers' sizes and in these data formats. Default: fp32 and bf16, in turns where there are several sizes; with
# STEPMARK_TEST_ALL=1 all in every size. The OpenCL tests compile the others too.
set -eu
cd "$(dirname "$0")/.."
in_turns=$([ $# -gt 0 ] || echo "${STEPMARK_TEST_ALL:-in turns}")
case ${STEPMARK_TEST_ALL:+all}$# in
0) set -- -DDATA_F32 -DDATA_BF16 ;;
all0) set -- -DDATA_F32 -DDATA_BF16 -DDATA_F16 "-DDATA_BF16 -DC_REAL" ;;
esac
check() {
    file=$1
    shift
    clang -x cl -cl-std=CL1.2 -Wall -Wextra -Werror -fsyntax-only -Xclang -finclude-default-header -Xclang -fdeclare-opencl-builtins \
        -include cl/philox.cl -include include/activation.h -include cl/prelude.cl "$@" "$file" || { echo "check-cl: $file with $*" >&2; exit 1; }
}
for file in cl/*.cl cl/optimizer/*.cl cl/products/*.cl cl/nvidia/*.cl; do
    case $file in
    cl/philox.cl | cl/prelude.cl | cl/heads.cl | cl/nvidia/tensor.cl | cl/nvidia/tma.cl | cl/nvidia/wgmma.cl | cl/nvidia/attention_wgmma.cl | cl/nvidia/attention_tiles.cl) continue ;;
    *_local.cl | *tensor* | *wgmma* | *fp8*) sizes="4" ;;
    *) sizes="1 8 16 4" ;;
    esac
    cards=
    case $file in
    *wgmma*) forms="-DBESIDE=2 -DBESIDE=6 -DBESIDE=8 -DA_RAW=1 -DA_TRANSPOSED -DB_TRANSPOSED -DA_TRANSPOSED,-DC_REAL,-DCOLUMN_SUMS=1 -DFP8_A=e4m3,-DFP8_B=e5m2" ;;
    *fp8*) forms="-DE5M2=0,-DSUMS=0 -DE5M2=1,-DSUMS=1" ;;
    *operand*) forms="-DTRANSPOSE=1 -DSPLIT=1" ;;
    *matmul*) forms="-DLOAD=4 -DSUM_ONLY=1 -DA_TRANSPOSED -DB_TRANSPOSED -DBESIDE=6 -DBESIDE=8 -DBESIDE=8,-DLOAD=4" ;;
    *attention_tensor*) forms="-DPART=0 -DPART=1 -DPART=2 -DPART=0,-DDOCUMENTS=1 -DPART=1,-DDOCUMENTS=1 -DPART=2,-DDOCUMENTS=1 --include=cl/nvidia/tma.cl,--include=cl/nvidia/attention_wgmma.cl" ;;
    *attention_registers*) forms="-DPLAIN -DDOCUMENTS=1 -DDOCUMENTS=1,-DSTORED=1" ;;
    *attention_local*)
        forms="-DPLAIN -DDOCUMENTS=1 -DDOCUMENTS=1,-DSTORED=1
            -DFORWARD=0 -DFORWARD=0,-DDROPOUT=0,-DLOAD=4 -DFORWARD=0,-DDOCUMENTS=1,-DSTORED=1" ;;
    *_local.cl | *_registers.cl | *tensor*) forms=-DPLAIN ;;
    cl/norm.cl)
        forms="-DCENTRED=0 -DCENTRED=1" cards="-DWHOLE,-DCENTRED=0 -DWHOLE,-DCENTRED=1 -DWHOLE,-DROW_VECS=2,-DCENTRED=0 -DWHOLE,-DROW_VECS=2,-DCENTRED=1"
        ;;
    *) forms=-DPLAIN cards="-DWHOLE -DWHOLE,-DROW_VECS=2" ;;
    esac
    case $file in
    *tensor* | *wgmma* | *fp8*) names="-target nvptx64-nvidia-nvcl -Xclang -cl-ext=+all -DPACKS_BF16 -include cl/nvidia/tensor.cl" ;;
    *) names= ;;
    esac
    last=
    case $file in
    cl/nvidia/matmul_wgmma.cl | cl/nvidia/peaks_wgmma.cl) names="$names -include cl/nvidia/tma.cl -include cl/nvidia/wgmma.cl" ;;
    *attention_tensor*) names="$names -include cl/heads.cl" last="-include cl/nvidia/attention_tiles.cl" ;;
    esac
    for size in $sizes; do
        [ "$size" != 4 ] || forms="$forms $cards"
        for form in $forms; do
            for format in "$@"; do
                case $in_turns,$size$format,$form in
                "in turns,1-DDATA_F32"* | "in turns,8-DDATA_BF16"* | "in turns,16-DDATA_F32"*) continue ;;
                *-DDATA_F32,*-DCOLUMN_SUMS=1) continue ;;
                esac
                # shellcheck disable=SC2086,SC2046 # lists of options
                check "$file" $names "-DVECTOR=$size" "-DROW_ITEMS=$((size == 4 ? 128 : 1))" $(echo "$form" | tr , ' ') $last $format
            done
        done
    done
done
# Of the units of cl/units one that this compiler has; tools/vendors/check.sh compiles all.
for file in cl/units/*_units.cl; do
    for form in -DPART=0 -DPART=1 "-DPART=2 -DDOCUMENTS=1 -DDROPOUT=1" "-DA_TRANSPOSED" "-DB_TRANSPOSED -DBESIDE=6" -DSUM_ONLY=1; do
        for format in "$@"; do
            # shellcheck disable=SC2086 # lists of options
            check "$file" -target amdgcn-amd-amdhsa -mcpu=gfx90a -nogpulib -DVECTOR=4 -DROW_ITEMS=128 \
                -include cl/units/units.cl -include cl/heads.cl -Wno-unused-function -Wno-constant-logical-operand $form $format
        done
    done
done
echo "check-cl: every kernel file is OpenCL C 1.2 without a warning"
