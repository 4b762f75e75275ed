#!/bin/sh
# emulated.sh CARD PROGRAM...: runs a program with an OpenCL device that says it is CARD (gfx942, gfx1100, dg2, bmg, ...; see
# tests/emulation/device.c): PoCL's, with matrix units as their vendors document them.
set -eu
cd "$(dirname "$0")/../.."
here=$(pwd)
card=$1
shift
folder=$here/build/emulated
behind=$(cc -print-file-name=libOpenCL.so.1)
[ -e "$behind" ] || { echo "emulated: there is no libOpenCL.so.1" >&2; exit 1; }
behind=$(realpath "$behind")
mkdir -p "$folder/built"
library=$folder/libOpenCL.so.1
newest=$(ls -t tests/emulation/device.c tests/emulation/units.c tests/emulation/*.h "$library" 2>/dev/null | head -1)
if [ "$newest" != "$library" ]; then
    # The loader finds what the device lacks in the real library: by its path, as both have one name.
    echo | cc -shared -Wl,-soname,"$behind" -o "$folder/behind.$$.so" -xc -
    cc -O2 -shared -fPIC -Iinclude -Itests/emulation -Wl,-soname,libOpenCL.so.1 -o "$library.$$" tests/emulation/device.c \
        tests/emulation/units.c -Wl,--no-as-needed "$folder/behind.$$.so" -ldl -lm
    mv "$library.$$" "$library"
    rm -f "$folder/behind.$$.so"
fi
for file in units.cl build_kernels.sh; do
    cmp -s "tests/emulation/$file" "$folder/$file" || { cp "tests/emulation/$file" "$folder/$file.$$" && mv "$folder/$file.$$" "$folder/$file"; }
done
export STEPMARK_EMULATE="$card" STEPMARK_EMULATION="$folder" STEPMARK_OPENCL="$behind" LD_LIBRARY_PATH="$folder"
export XDG_CACHE_HOME="${STEPMARK_EMULATED_CACHE:-$folder/cache}"
export POCL_CACHE_DIR="${POCL_CACHE_DIR:-$folder/pocl}" # for all cards
mkdir -p "$POCL_CACHE_DIR"
exec "$@"
