#!/bin/sh
# test_reproducible.sh: builds the last commit twice, in folders with different names and depths, and another locale,
# time zone and umask, and compares program, manual pages and completions byte by byte. CONFIG and CFLAGS apply to both.
set -eu
cd "$(dirname "$0")/../.."
work=${WORK:-$(mktemp -d)}
[ -n "${WORK:-}" ] || trap 'rm -rf "$work"' EXIT
BUILD_COMMIT=$(git rev-parse --short=12 HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
BUILD_DIRTY=0
export BUILD_COMMIT SOURCE_DATE_EPOCH BUILD_DIRTY
unset MAKEFLAGS MFLAGS MAKELEVEL
export CCACHE_DISABLE=1 # an object that a cache hands to both would be compared with itself

# build FOLDER: its copy of the sources, built.
build() {
    mkdir -p "$1"
    git archive HEAD | tar -x -C "$1"
    make -C "$1" build pages >"$1/log" 2>&1 || {
        cat "$1/log" >&2
        exit 1
    }
    (cd "$1/build/release" && find stepmark pages -type f | LC_ALL=C sort | xargs sha256sum) >"$1/hashes"
}

(build "$work/one")
(
    umask 027
    export LC_ALL=C.UTF-8 TZ=Asia/Tokyo HOME=/nonexistent
    build "$work/another/folder-further-down"
)
cmp "$work/one/hashes" "$work/another/folder-further-down/hashes" || {
    diff "$work/one/hashes" "$work/another/folder-further-down/hashes" >&2 || true
    echo "test-reproducible: two builds of the same sources differ" >&2
    exit 1
}
echo "two builds, one hash: $(head -1 "$work/one/hashes" | cut -c1-64) stepmark, and $(($(wc -l <"$work/one/hashes") - 1)) pages"
