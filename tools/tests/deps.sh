#!/bin/sh
# deps.sh: tests tools/deps.sh with stand-ins for apt: it installs missing packages by this release's names, one at
# a time, and waits for other installers. Then the first command on a machine that has make and no compiler: the targets
# that install, with stand-ins for sudo and gcc, too.
. "$(dirname "$0")/../script.sh"
export work PATH="$work/bin:$PATH"
mkdir "$work/bin"
n_passed=0

stand_in() {
    { echo '#!/bin/sh' && cat; } >"$work/bin/$1"
    chmod +x "$work/bin/$1"
}
stand_in id <<'END'
echo 0
END
stand_in dpkg-query <<'END'
for name; do :; done
! grep -qx "$name" "$work/installed" || echo installed all
! grep -qx "$name" "$work/foreign" || echo installed m68k
END
stand_in apt-cache <<'END'
! grep -qx "$2" "$work/unknown" || exit 100
echo "Package: $2"
END
stand_in apt-get <<'END'
if ! mkdir "$work/lock" 2>/dev/null; then
    echo "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (another)" >&2
    exit 100
fi
sleep 0.3
[ "$3" != install ] || for name; do echo "$name"; done | tail -n +4 >>"$work/installed"
rmdir "$work/lock"
[ ! -e "$work/broken" ] || { echo "E: broken" >&2 && exit 100; }
END

fail() {
    echo "deps: $1" >&2
    cat "$work/out" "$work/installed" >&2
    exit 1
}
passed() { n_passed=$((n_passed + 1)); }
fresh() {
    : >"$work/installed"
    : >"$work/foreign"
    printf '%s\n' "$@" >"$work/unknown"
}

fresh libclang-rt-14-dev
tools/deps.sh run dev >"$work/one" 2>&1 &
tools/deps.sh run package >"$work/out" 2>&1 || fail "the second of two side by side failed"
wait $! || fail "the first of two side by side failed"
[ -z "$(sort "$work/installed" | uniq -d)" ] || fail "a package was installed twice"
! grep -q waiting "$work/one" "$work/out" || fail "the two got in each other's way"
for name in gcc libclang-rt-19-dev lintian; do
    grep -qx "$name" "$work/installed" || fail "$name was not installed"
done
passed
[ -z "$(tools/deps.sh run dev package 2>&1)" ] || fail "something was said where nothing is missing"
passed
fresh
echo libhwloc-dev >"$work/foreign"
tools/deps.sh run >"$work/out" 2>&1 || fail "another processor's package is in the way"
grep -qx libhwloc-dev "$work/installed" || fail "another processor's package was taken for this one's"
passed

fresh
mkdir "$work/lock"
(sleep 2 && rmdir "$work/lock") &
tools/deps.sh run >"$work/out" 2>&1 || fail "it did not wait for another program"
[ "$(grep -c "held by process 7" "$work/out")" = 1 ] || fail "one line does not say whom it waits for"
grep -qx gcc "$work/installed" || fail "gcc was not installed"
passed

fresh
: >"$work/broken"
! tools/deps.sh run >"$work/out" 2>&1 || fail "what apt-get could not do was taken for done"
grep -qx "E: broken" "$work/out" || fail "what apt-get said is not shown"
passed
rm "$work/broken"

# A machine without compiler, headers and sudo, and a user.
git ls-files -z | xargs -0 cp --parents -t "$work" 2>/dev/null || true # one deleted in the working tree is none
cp -rs /usr/bin "$work/hidden"
rm -f "$work"/hidden/*gcc* "$work"/hidden/*clang* "$work"/hidden/*cc "$work"/hidden/c[89]9* "$work/hidden/sudo"
for name in apt-get apt-cache dpkg-query id; do
    mv -f "$work/bin/$name" "$work/hidden"
done
rmdir "$work/bin"
mv "$work/hidden" "$work/bin"
unset MAKEFLAGS MAKELEVEL MFLAGS WANTED
export PATH="$work/bin"
cd "$work"
stand_in id <<'END'
echo 1000
END

# one_line TARGET TEXT: it fails, says one line, which has the text, and leaves nothing.
one_line() {
    ! make "$1" >out 2>&1 || fail "make $1: passed"
    grep -q -- "$2" out || fail "make $1: does not say '$2'"
    [ "$(wc -l <out)" = 1 ] && [ ! -e build ] && return
    fail "make $1: does more than to say one line"
}
fresh
# shellcheck disable=SC2016 # make's own
targets=$(sed -n 's/^$(call installs,\(.*\),.*/\1/p' Makefile)
[ "$(echo "$targets" | wc -w)" -ge 20 ] || fail "targets that install were not found"
for target in $targets; do
    one_line "$target" "run as root: 'apt-get update && apt-get install -y [^ ]* .*'"
done
one_line bench ' gcc .* opencl-headers '
one_line build 'gcc is not installed.*make deps'
passed
make -n bench >/dev/null 2>&1 || true
[ ! -s installed ] || fail "make -n installed packages"
passed

# With sudo: all of it in one call.
stand_in sudo <<'END'
"$@"
END
# shellcheck disable=SC2016 # the stand-in's own
sed -i 's|^rmdir|[ "$3" != install ] \|\| ln -sf "$work/gcc" "$work/bin/gcc"\n&|' bin/apt-get
cat >gcc <<'END'
#!/bin/sh
case $* in
-dumpmachine) echo "$(uname -m)-linux-gnu" ;;
*-print-prog-name*) echo true ;;
*cmocka.h*) grep -qx libcmocka-dev "$work/installed" ;;
*-E*) cat >/dev/null && grep -qx opencl-headers "$work/installed" ;;
*)
    for word; do
        [ "${before:-}" != -o ] || out=$word
        before=$word
    done
    printf '#!/bin/sh\necho "$0 $*"\n' >"$out"
    chmod +x "$out"
    ;;
esac
END
chmod +x gcc
make ISAS=baseline bench >out 2>&1 || fail "the first make bench failed"
[ "$(tail -1 out)" = "build/release/stepmark score --output-file build/score.jsonl" ] || fail "the first make bench ran something else"
[ "$(ls build | tr "\n" " ")" = "release wasm " ] || fail "the first make bench built something else"
passed

# What the program does not need, and tests do.
! make check >out 2>&1 || fail "make check: passed without cmocka"
grep -q 'cmocka.h is not there: "make deps-dev"' out && [ "$(wc -l <out)" = 1 ] || fail "make check does not say what is missing"
passed
echo "deps: $n_passed passed, 0 failed"
