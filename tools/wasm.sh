#!/bin/sh
# wasm.sh OUTPUT SOURCE...: compiles sources to one module for browsers, which is embedded in the program for pages to
# compute with. Without clang for wasm32 the module is empty, and pages say so; WANTED=1 fails instead.
# Functions that a page never calls (JSON, exchange with other processes) are left to the page, which refuses them.
set -eu
output=$1
shift
mkdir -p "$(dirname "$output")"
flags="--target=wasm32-wasi -std=c11 -O2 -mexec-model=reactor -D_GNU_SOURCE -D_WASI_EMULATED_MMAN -Iinclude -I. -Ios/none"
if ! printf '#include <omp.h>\n#include <stdio.h>\nint main(void) { return 0; }\n' |
    clang --target=wasm32-wasi -x c - -o "$output.try" -lwasi-emulated-mman 2>"$output.why"; then
    if [ "${WANTED:-0}" = 1 ]; then
        cat "$output.why" >&2
        echo "wasm.sh: clang cannot make programs for wasm32 here: make wasm installs what is missing" >&2
        exit 1
    fi
    : >"$output"
else
    # shellcheck disable=SC2086 # a list of flags
    clang $flags -Wl,--gc-sections,--allow-undefined,--strip-all \
        -o "$output.new" "$@" -lwasi-emulated-mman
    mv "$output.new" "$output"
fi
rm -f "$output.try" "$output.why"
