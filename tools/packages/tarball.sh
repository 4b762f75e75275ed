#!/bin/sh
# tarball.sh [MAKE]: build/stepmark-VERSION-linux-ARCH.tar.gz: program, manual pages, completions and documents in one folder that
# may lie anywhere. The program needs glibc 2.28 and nothing else: hwloc, jansson, PCRE2, zlib and libgomp are linked into it,
# OpenBLAS and OpenCL are looked for when it runs. It is linked by Zig's C compiler, which has that glibc's symbols,
# from a virtual environment outside of the tree (STEPMARK_ZIG names another folder for it).
set -eu
cd "$(dirname "$0")/../.."
make=${1:-make}
glibc=2.28
CC=${CC:-gcc} # for another processor: its compiler
triple=$($CC -dumpmachine)
arch=${triple%%-*}
B=build/portable-$arch
# tool NAME ARGUMENT...: of the compiler's own.
tool() {
    program=$($CC -print-prog-name="$1")
    shift
    "$program" "$@"
}
version=$(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog)
name=stepmark-$version-linux-$arch
venv=${STEPMARK_ZIG:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/zig}
if ! "$venv/bin/python" -m ziglang version >/dev/null 2>&1; then
    echo "setting up Zig in $venv" >&2
    python3 -m venv "$venv" >&2
    "$venv/bin/pip" install --quiet ziglang==0.13.0 >&2
fi
$make -s CC="$CC" B="$B" CFLAGS=-fPIC build pages

# An archive of the system's with our names for the standard streams (portable.c).
archives=
for library in libhwloc.a libjansson.a libpcre2-8.a libz.a libgomp.a libgcc.a; do
    tool objcopy --redefine-sym stdin=portable_stdin --redefine-sym stdout=portable_stdout --redefine-sym stderr=portable_stderr \
        --redefine-sym program_invocation_name=portable_program_name "$($CC -print-file-name=$library)" "$B/$library"
    archives="$archives $B/$library"
done
$CC -O2 -fPIC -D_GNU_SOURCE -c -o "$B/portable.o" os/portable.c
linked=$B/linked
mkdir -p "$linked"
# All of libgomp, which OpenBLAS, when it is loaded, then finds here: there is one pool of threads.
# shellcheck disable=SC2046,SC2086 # lists of files
ZIG_GLOBAL_CACHE_DIR="$venv/cache" ZIG_LOCAL_CACHE_DIR="$venv/cache" "$venv/bin/python" -m ziglang cc \
    -target "$arch-linux-gnu.$glibc" -pie -rdynamic -o $linked/stepmark $(find $B/cli -name '*.o') $B/portable.o \
    $B/libstepmark.a -Wl,--whole-archive $B/libgomp.a -Wl,--no-whole-archive $archives -lm -ldl -lpthread
newest=$(tool objdump -T "$linked/stepmark" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1)
[ "$(printf '%s\n' "GLIBC_$glibc" "$newest" | sort -V | tail -1)" = "GLIBC_$glibc" ] ||
    { echo "tarball: the program needs $newest" >&2 && exit 1; }
if tool readelf -rW "$linked/stepmark" | grep 'R_[A-Z0-9_]*_COPY'; then
    echo "tarball: the program has these variables of the C library in places of its own" >&2
    exit 1
fi
rm -rf "${B:?}/$name" "$linked/pages"
cp -r "$B/pages" "$linked/pages"
tool strip -g "$linked/stepmark"
DESTDIR=$B PREFIX=/$name tools/packages/install.sh install "$linked"
tar -C "$B" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$(git log -1 --format=%ct)" -czf "build/$name.tar.gz" "$name"
echo "build/$name.tar.gz: needs $newest and $(tool objdump -p "$linked/stepmark" | awk '/NEEDED/ { printf "%s ", $2 }')"
