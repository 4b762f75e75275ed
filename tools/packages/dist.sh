#!/bin/sh
# dist.sh [MAKE]: build/dist: files to download, made from one tree: for each system an archive and a wheel, SHA256SUMS, and
# index.md, which says of each what it needs and how it was tried. Each program measures a checked step here, where it can;
# one whose compiler is not installed is left out. The same sources always give the same bytes.
. "$(dirname "$0")/../script.sh"
make=${1:-make}
zig=$(tools/packages/zig.sh)
dist=build/dist
rm -rf $dist
mkdir -p $dist
export WINEPREFIX="$work/prefix" WINEDEBUG=-all
end() {
    wineserver -k 2>/dev/null || true # of this prefix
    rm -rf "$work"
}
trap end EXIT

# try_step WORD...: whether this program measures a step, with its checks.
try_step() {
    "$@" run -m tiny -b 1 --seq-len 16 -r 2 --no-peaks --backend cpu -o jsonl </dev/null >"$work/row" 2>"$work/said" &&
        grep -q '"status": "ok"' "$work/row" || { cat "$work/row" "$work/said" >&2 && return 1; }
}

# what runs programs of SYSTEM-ARCH here, and the words for it; nothing: nothing does.
runner() {
    case $1 in
    linux-"$(uname -m)") echo "env|on this kind of processor" ;;
    linux-*) ! command -v "qemu-${1#linux-}-static" >/dev/null || echo "qemu-${1#linux-}-static|under QEMU, which is no such processor" ;;
    windows-*) ! command -v wine >/dev/null || echo "wine|under wine, which is not Windows: nobody has run it on Windows" ;;
    esac
}

cat >$dist/index.md <<END
# stepmark $(sed -n '1s/.*(\(.*\)).*/\1/p' debian/changelog), commit ${BUILD_COMMIT:-$(git rev-parse --short=12 HEAD)}

An archive is a folder that may lie anywhere; a wheel is for \`pip install\`, and needs Python 3.9 or newer. Nothing else is
needed; OpenCL and OpenBLAS are used where the system has them. SHA256SUMS: \`sha256sum -c SHA256SUMS\`.
docs/portability.md in each archive says how the sources were tested.

| file | system | tried |
|---|---|---|
END
# SYSTEM-ARCH|COMPILER|SYSTEM IN WORDS
while IFS='|' read -r target cc system; do
    if ! $cc -dumpmachine >/dev/null 2>&1; then
        echo "$target is left out: $cc is not installed" | tee -a "$work/left_out"
        continue
    fi
    if ! CC=$cc CONTENTS=contents tools/packages/wheel.sh "$make" >"$work/made"; then
        tail -20 "$work/made" >&2
        [ "${target%%-*}" = macos ] || exit 1
        echo "$target is left out: it does not build here" | tee -a "$work/left_out"
        continue
    fi
    runs=$(runner "$target")
    tried="compiled, never run"
    if [ -n "$runs" ]; then
        try_step "${runs%%|*}" build/portable-"$target"/linked/stepmark*
        tried="a step with its checks, ${runs#*|}"
    fi
    for file in $(sed -n 's,^build/\(stepmark-[^: ]*\).*,\1,p' "$work/made"); do
        mv "build/$file" $dist
        echo "| $file | $system | $tried |" >>$dist/index.md
    done
done <<END
linux-x86_64|x86_64-linux-gnu-gcc|Linux on x86-64, glibc 2.28 or newer (2018: Debian 10, RHEL 8, Ubuntu 18.10)
linux-aarch64|aarch64-linux-gnu-gcc|Linux on 64-bit Arm, glibc 2.28 or newer
windows-x86_64|x86_64-w64-mingw32-gcc|Windows 10 or newer on x86-64
macos-aarch64|$zig cc -target aarch64-macos|macOS 11 or newer on 64-bit Arm
END
cd $dist
[ ! -e "$work/left_out" ] || { echo && cat "$work/left_out"; } >>index.md
{ [ ! -e "$work/left_out" ] || sed 's/^/# /' "$work/left_out"; sha256sum -- *; } >"$work/sums"
mv "$work/sums" SHA256SUMS
cat SHA256SUMS
