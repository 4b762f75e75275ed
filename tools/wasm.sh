#!/bin/sh
# wasm.sh OUTPUT SOURCE...: compiles sources to one module for browsers, which is embedded in the program for pages to
# compute with. Where clang for wasm32 is not there, or fails, the module is empty, and pages say so; WANTED=1 fails
# instead.
# Functions that a page never calls (JSON, exchange with other processes) are left to the page, which refuses them.
set -eu
output=$1
shift
mkdir -p "$(dirname "$output")"
target="--target=wasm32-wasi -lwasi-emulated-mman"
flags="-std=c11 -O2 -mexec-model=reactor -D_GNU_SOURCE -D_WASI_EMULATED_MMAN -Iinclude -I."
is_there() {
    # shellcheck disable=SC2086 # a list of flags
    printf '#include <omp.h>\n#include <stdio.h>\nint main(void) { return 0; }\n' |
        clang -x c - $target -o "$output.new" 2>"$output.why" ||
        { echo "wasm.sh: clang cannot make programs for wasm32 here: make wasm installs what is missing" >>"$output.why" && false; }
}
# shellcheck disable=SC2086
if ! is_there || ! clang $flags "$@" $target -Wl,--gc-sections,--allow-undefined,--strip-all -o "$output.new" 2>"$output.why"; then
    [ "${WANTED:-0}" != 1 ] || { cat "$output.why" >&2 && exit 1; }
    : >"$output.new"
fi
mv "$output.new" "$output"
rm -f "$output.why"
