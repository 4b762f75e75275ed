#!/bin/sh
# deps.sh: tests tools/deps.sh with stand-ins for apt: it installs missing packages by this release's names, one at
# a time, and waits for other installers.
set -eu
cd "$(dirname "$0")/../.."
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export folder PATH="$folder/bin:$PATH"
mkdir "$folder/bin"
n_passed=0

stand_in() {
    { echo '#!/bin/sh' && cat; } >"$folder/bin/$1"
    chmod +x "$folder/bin/$1"
}
stand_in id <<'END'
echo 0
END
stand_in dpkg-query <<'END'
for name; do :; done
! grep -qx "$name" "$folder/installed" || echo installed all
! grep -qx "$name" "$folder/foreign" || echo installed m68k
END
stand_in apt-cache <<'END'
! grep -qx "$2" "$folder/unknown" || exit 100
echo "Package: $2"
END
stand_in apt-get <<'END'
if ! mkdir "$folder/lock" 2>/dev/null; then
    echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (another)" >&2
    exit 100
fi
sleep 0.3
[ "$3" != install ] || for name; do echo "$name"; done | tail -n +4 >>"$folder/installed"
rmdir "$folder/lock"
[ ! -e "$folder/broken" ] || { echo "E: broken" >&2 && exit 100; }
END

fail() {
    echo "deps: $1" >&2
    cat "$folder/out" "$folder/installed" >&2
    exit 1
}
passed() { n_passed=$((n_passed + 1)); }
fresh() {
    : >"$folder/installed"
    : >"$folder/foreign"
    printf '%s\n' "$@" >"$folder/unknown"
}

fresh libmicrohttpd12 libclang-rt-14-dev
tools/deps.sh run dev >"$folder/one" 2>&1 &
tools/deps.sh run package >"$folder/out" 2>&1 || fail "the second of two side by side failed"
wait $! || fail "the first of two side by side failed"
[ -z "$(sort "$folder/installed" | uniq -d)" ] || fail "a package was installed twice"
! grep -q waiting "$folder/one" "$folder/out" || fail "the two got in each other's way"
for name in gcc libmicrohttpd12t64 libclang-rt-19-dev lintian; do
    grep -qx "$name" "$folder/installed" || fail "$name was not installed"
done
passed
[ -z "$(tools/deps.sh run dev package 2>&1)" ] || fail "something was said where nothing is missing"
passed
fresh
echo libhwloc-dev >"$folder/foreign"
tools/deps.sh run >"$folder/out" 2>&1 || fail "another processor's package is in the way"
grep -qx libhwloc-dev "$folder/installed" || fail "another processor's package was taken for this one's"
passed

fresh libmicrohttpd12t64
mkdir "$folder/lock"
(sleep 2 && rmdir "$folder/lock") &
tools/deps.sh run >"$folder/out" 2>&1 || fail "it did not wait for another program"
[ "$(grep -c "held by process 7" "$folder/out")" = 1 ] || fail "one line does not say whom it waits for"
grep -qx libmicrohttpd12 "$folder/installed" || fail "libmicrohttpd12 was not installed"
passed

fresh
: >"$folder/broken"
! tools/deps.sh run >"$folder/out" 2>&1 || fail "what apt-get could not do was taken for done"
grep -qx "E: broken" "$folder/out" || fail "what apt-get said is not shown"
passed
echo "deps: $n_passed passed, 0 failed"
