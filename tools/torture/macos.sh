#!/bin/sh
# macos.sh: links the program for macOS by Zig's C compiler, for ARCHS, and checks the file: Mach-O, signed, and nothing
# undefined but names of libSystem. Nobody has run it. The loops that replace OpenMP on macOS are tested here, with clang.
set -eu
cd "$(dirname "$0")/../.."
zig=$(tools/packages/zig.sh)
unset MAKEFLAGS MAKELEVEL
for arch in ${ARCHS:-aarch64}; do
    make CC="$zig cc -target $arch-macos" build
    program=build/release-$arch-macos/stepmark
    file $program | grep -E 'Mach-O 64-bit (arm64|x86_64) executable'
    [ "$(llvm-objdump --macho --dylibs-used $program | sed 1d | awk '{ print $1 }')" = /usr/lib/libSystem.B.dylib ]
    llvm-objdump --macho --private-headers $program | grep -q LC_CODE_SIGNATURE
    ! llvm-objdump --macho --bind --lazy-bind $program | awk 'NF > 5 && $1 ~ /^__/ && !/libSystem/' | grep .
done
tests="gradient gradient_check spot_check tokenizer init"
# shellcheck disable=SC2046,SC2086 # lists of names
make CONFIG=clang CC=clang ISAS=avx2 B=build/openmp CFLAGS="-O1 -isystem os/macos" LDFLAGS="-I. os/macos/openmp.c" \
    $(printf 'build/openmp/tests/test_%s ' $tests)
for test in $tests; do
    "build/openmp/tests/test_$test" >/dev/null
done
echo "macos: linked for ${ARCHS:-aarch64}, never run; OpenMP's part passed $tests"
