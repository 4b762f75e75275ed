#!/bin/sh
# test_reproducible.sh [dist]: builds the last commit twice, in folders with different names and depths, and another locale,
# time zone and umask, and compares program, manual pages and completions byte by byte, or all files to download. CONFIG
# and CFLAGS apply to both.
. "$(dirname "$0")/../script.sh"
folder=${WORK:-$work}
BUILD_COMMIT=$(git rev-parse --short=12 HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
BUILD_DIRTY=0
XDG_CACHE_HOME=${XDG_CACHE_HOME:-$HOME/.cache} # tools lie there
export BUILD_COMMIT SOURCE_DATE_EPOCH BUILD_DIRTY XDG_CACHE_HOME
unset MAKEFLAGS MFLAGS MAKELEVEL
export CCACHE_DISABLE=1 # an object that a cache hands to both would be compared with itself

what=${1:-build pages}
# build FOLDER: its copy of the sources, built.
build() {
    mkdir -p "$1"
    git archive HEAD | tar -x -C "$1"
    # shellcheck disable=SC2086 # targets
    make -C "$1" $what >"$1/log" 2>&1 || { cat "$1/log" >&2 && exit 1; }
    if [ "$what" = dist ]; then
        cp "$1/build/dist/SHA256SUMS" "$1/hashes"
    else
        (cd "$1/build/release" && find stepmark pages -type f | LC_ALL=C sort | xargs sha256sum) >"$1/hashes"
    fi
}

(build "$folder/one")
(
    umask 027
    export LC_ALL=C.UTF-8 TZ=Asia/Tokyo HOME=/nonexistent
    build "$folder/another/folder-further-down"
)
cmp "$folder/one/hashes" "$folder/another/folder-further-down/hashes" || {
    diff "$folder/one/hashes" "$folder/another/folder-further-down/hashes" >&2 || true
    echo "test-reproducible: two builds of the same sources differ" >&2
    exit 1
}
echo "two builds, equal bytes of $(wc -l <"$folder/one/hashes") files:"
grep -v ' pages/' "$folder/one/hashes"
