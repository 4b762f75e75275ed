#!/bin/sh
# check_cl.sh: every kernel file, with the prelude before it, is OpenCL C 1.2 without a warning, in the sizes
# that the tiers use and the formats that data is stored in.
set -eu
cd "$(dirname "$0")/.."
check() {
    file=$1
    shift
    clang -x cl -cl-std=CL1.2 -Wall -Wextra -Werror -fsyntax-only -Xclang -finclude-default-header \
        -include cl/prelude.cl "$@" "$file" || { echo "check-cl: $file with $*" >&2; exit 1; }
}
for file in cl/*.cl; do
    case $file in
    cl/prelude.cl | cl/tensor.cl) continue ;;
    *_local.cl | *tensor*) sizes="1" ;;
    *) sizes="1 4 8 16" ;;
    esac
    case $file in
    *matmul*) forms="-DLOAD=4 -DA_TRANSPOSED -DB_TRANSPOSED" ;;
    *) forms=-DPLAIN ;;
    esac
    case $file in
    *tensor*) names="-target nvptx64-nvidia-nvcl -include cl/tensor.cl" ;;
    *) names= ;;
    esac
    for size in $sizes; do
        for form in $forms; do
            for format in -DDATA_F32 -DDATA_BF16 -DDATA_F16 "-DDATA_BF16 -DC_REAL"; do
                # shellcheck disable=SC2086 # lists of options
                check "$file" "-DVECTOR=$size" "-DROW_ITEMS=$((size == 1 ? 128 : 1))" "$form" $format $names
            done
        done
    done
done
echo "check-cl: every kernel file is OpenCL C 1.2 without a warning"
