#!/bin/sh
# archive.sh [MAKE]: the program in one folder that may lie anywhere, with documents: build/stepmark-VERSION-linux-ARCH.tar.gz,
# -windows-ARCH.zip or -macos-ARCH-never-run.tar.gz, as CC compiles. Libraries are linked into it, OpenBLAS and OpenCL are
# looked for when it runs. On Linux it needs glibc 2.28: Zig's C compiler links it, which has that glibc's symbols, from a
# virtual environment outside of the tree (STEPMARK_ZIG names another folder for it).
. "$(dirname "$0")/../script.sh"
make=${1:-make}
. tools/packages/target.sh
# tool NAME ARGUMENT...: of the compiler's own.
tool() {
    program=$($CC -print-prog-name="$1")
    shift
    "$program" "$@"
}

link_for_linux() {
    glibc=2.28
    ziglang=$(tools/packages/zig.sh)
    $make -s CC="$CC" B="$B" CFLAGS=-fPIC build
    # An archive of the system's with our names for the standard streams (portable.c).
    archives=
    for library in libhwloc.a libjansson.a libpcre2-8.a libz.a libgomp.a libgcc.a; do
        tool objcopy --redefine-sym stdin=portable_stdin --redefine-sym stdout=portable_stdout --redefine-sym stderr=portable_stderr \
            --redefine-sym program_invocation_name=portable_program_name "$($CC -print-file-name=$library)" "$B/$library"
        archives="$archives $B/$library"
    done
    $CC -O2 -fPIC -D_GNU_SOURCE -c -o "$B/portable.o" os/portable.c
    # All of libgomp, which OpenBLAS, when it is loaded, then finds here: there is one pool of threads.
    # shellcheck disable=SC2046,SC2086 # lists of files
    $ziglang cc -target "$arch-linux-gnu.$glibc" -pie -rdynamic -o $linked/stepmark $(find $B/cli -name '*.o' | LC_ALL=C sort) \
        $B/portable.o $B/libstepmark.a -Wl,--whole-archive $B/libgomp.a -Wl,--no-whole-archive $archives -lm -ldl -lpthread
    needs=$(tool objdump -T "$linked/stepmark" | grep -oE 'GLIBC_[0-9.]+' | sort -Vu | tail -1)
    [ "$(printf '%s\n' "GLIBC_$glibc" "$needs" | sort -V | tail -1)" = "GLIBC_$glibc" ] || fail "the program needs $needs"
    ! tool readelf -rW "$linked/stepmark" | grep 'R_[A-Z0-9_]*_COPY' ||
        fail "the program has these variables of the C library in places of its own"
    tool strip -g "$linked/stepmark"
    needs="$needs and $(tool objdump -p "$linked/stepmark" | awk '/NEEDED/ { printf "%s ", $2 }')"
}

link_for_windows() {
    $make -s CC="$CC" B="$B" LDFLAGS=-s build
    cp "$B/stepmark.exe" "$linked"
    needs=$(tool objdump -p "$linked/stepmark.exe" | awk '/DLL Name/ { printf "%s ", $3 }')
    # shellcheck disable=SC2086 # a list of names
    ! printf '%s\n' $needs | grep -viE '^(advapi32|kernel32|msvcrt|shell32|api-ms-win-core-.*)\.dll$' ||
        fail "the program needs these, which are no part of Windows"
    [ "$(stat -c %s "$linked/stepmark.exe")" -le 15000000 ] || fail "the program has more than 15 MB"
}

mkdir -p "$linked"
name=stepmark-$version-$system-$arch
case $system in
linux) link_for_linux ;;
windows) link_for_windows ;;
macos)
    $make -s CC="$CC" B="$B" LDFLAGS=-s build
    cp "$B/stepmark" "$linked"
    needs="macOS: compiled, never run"
    name=$name-never-run
    ;;
esac
rm -rf "${B:?}/$name" "$linked/pages"
if [ $system = windows ]; then
    mkdir "$B/$name"
    cp "$linked/stepmark.exe" "$B/$name"
    cp --parents README.md docs/*.md docs/*.json docs/course/* "$B/$name"
    python3 - "$B" "$name" <<'END'
import os, pathlib, sys, time, zipfile
base, name = sys.argv[1:]
date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
with zipfile.ZipFile(f"build/{name}.zip", "w") as archive:
    for path in sorted(pathlib.Path(base, name).rglob("*")):
        if path.is_file():
            entry = zipfile.ZipInfo(path.relative_to(base).as_posix(), date)
            entry.external_attr = 0o100644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
END
    archive=build/$name.zip
else
    # The program prints its pages: for another processor, this machine's.
    here=build/portable-linux-$(uname -m)
    [ "$B" = "$here" ] || unset CC
    $make -s ${CC:+CC="$CC"} B="$here" CFLAGS=-fPIC pages
    cp -r "$here/pages" "$linked/pages"
    DESTDIR=$B PREFIX=/$name tools/packages/install.sh install "$linked"
    archive=build/$name.tar.gz
    tar -C "$B" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" |
        gzip -9n >"$archive"
fi
echo "$archive: needs $needs"
