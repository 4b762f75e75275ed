#!/bin/sh
# build_kernels.sh SOURCE LIBRARY TO OPTION...: kernels of cl/units as a library of this processor's, for
# tests/emulation/device.c: LIBRARY has what tests/emulation/units.cl declares.
set -eu
source=$1 library=$2 to=$3
shift 3
names=
for option in "$@"; do
    case $option in -D*) names="$names $option" ;; esac
done
here=$(dirname "$0")
# shellcheck disable=SC2086 # a list of options
clang -x cl -cl-std=CL1.2 -cl-denorms-are-zero -Xclang -finclude-default-header -target x86_64-pc-linux-gnu -O1 -fPIC -w $names \
    -include "$here/units.cl" -c -o "$source.o" "$source" >"$source.log" 2>&1
cc -shared -o "$source.so" "$source.o" "$library" -lm >>"$source.log" 2>&1
mv "$source.so" "$to"
rm -f "$source" "$source.o" "$source.log"
