#!/bin/sh
# libraries.sh FOLDER TARGET COMPILER...: builds, into FOLDER, the libraries that a program for another system has inside
# (hwloc, jansson, PCRE2, zlib), from Debian's source packages. TARGET: x86_64-w64-mingw32, for which it installs the
# compiler (mingw-w64) and wine where they are missing, or ARCH-apple-darwin, for which COMPILER is Zig's C compiler.
set -eu
folder=$(mkdir -p "$1" && cd "$1" && pwd)
host=$2
shift 2
CC=$*
AR=ar RANLIB=ranlib
case $host in
*mingw*)
    command -v $host-gcc >/dev/null && command -v wine >/dev/null ||
        apt-get install -y -qq --no-install-recommends mingw-w64 wine wine64 libwine >&2
    ;;
*) AR="${CC% cc *} ar" RANLIB="${CC% cc *} ranlib" ;; # Debian's know no Mach-O
esac
export CC AR RANLIB
mkdir -p "$folder/apt/lists/partial" "$folder/include" "$folder/src"
. /etc/os-release
echo "deb-src http://deb.debian.org/debian ${VERSION_CODENAME:-sid} main" >"$folder/apt/sources.list"
from_source() {
    apt-get -qq -o Dir::Etc::sourcelist="$folder/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null \
        -o Dir::State::lists="$folder/apt/lists" -o APT::Get::List-Cleanup=0 "$@"
}
[ -n "$(ls "$folder/apt/lists" | grep Sources)" ] || from_source update
cd "$folder/src"
for package in jansson pcre2 hwloc zlib; do
    ls -d $package-*/ >/dev/null 2>&1 || from_source source $package >&2
done

# configured PACKAGE FLAG...
configured() {
    cd "$folder/src/$1"-*/
    shift
    [ -x configure ] || autoreconf -fi >&2
    CFLAGS="-O2 -ffile-prefix-map=$folder=." ./configure --quiet --host="$host" --prefix="$folder" --disable-shared --enable-static "$@" >&2
}
# Pages that a Mac runs code from are pages of another kind, which nobody has tried here.
jit=--enable-jit
[ "${host#*-apple-}" = "$host" ] || jit=--disable-jit
[ -f "$folder/lib/libjansson.a" ] || { configured jansson && make -C src -s install >&2; }
[ -f "$folder/lib/libpcre2-8.a" ] || { configured pcre2 $jit && make -s libpcre2-8.la >&2 &&
    make -s install-libLTLIBRARIES install-nodist_includeHEADERS >&2; }
[ -f "$folder/lib/libhwloc.a" ] || { configured hwloc --disable-libxml2 --disable-opencl --disable-io --disable-plugin-dlopen \
    --disable-readme --disable-doxygen && make -s -C hwloc install >&2 && make -s -C include install >&2; }
# shellcheck disable=SC2086 # a command and its words
[ -f "$folder/lib/libz.a" ] || { cd "$folder/src"/zlib-*/ &&
    $CC -O2 -Dfdopen=fdopen -c adler32.c compress.c crc32.c deflate.c inffast.c inflate.c inftrees.c trees.c uncompr.c zutil.c &&
    $AR qcs "$folder/lib/libz.a" ./*.o && cp zlib.h zconf.h "$folder/include"; }
# Headers alone.
cp /usr/include/xxhash.h "$folder/include"
cp -r /usr/include/CL "$folder/include"
case $host in *mingw*) ;; *) exit 0 ;; esac
# It would bring all of Windows' names, of which stepmark has some.
sed -i 's/^# *include <windows.h>/#include <stdint.h>/; s/DWORDLONG/uint64_t/; s/ HANDLE$/ void */' "$folder/include/hwloc/autogen/config.h"
# POSIX's headers that mingw lacks are empty: os/windows/posix.h has what they declare, and is always included.
mkdir -p "$folder/posix/sys"
for header in dirent dlfcn ftw glob poll spawn wordexp sys/file sys/ioctl sys/mman sys/resource sys/socket sys/statvfs sys/syscall \
    sys/un sys/utsname sys/wait; do
    : >"$folder/posix/$header.h"
done
