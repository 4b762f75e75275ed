#!/bin/sh
# test_deb.sh [PACKAGE]: tests the Debian package: lintian reports no errors or warnings; in a minimal Debian it is
# installed, used with only its dependencies, then with its recommendations and an OpenCL implementation (POCL=0:
# without), removed and purged, and leaves no files. Run it as root.
set -eu
cd "$(dirname "$0")/../.."
package=${1:-$(ls build/deb/stepmark_*_"$(dpkg --print-architecture)".deb)}
suite=${SUITE:-bookworm}
. tools/packages/minimal_debian.sh

fail() {
    echo "test-deb: $1" >&2
    exit 1
}

# says TEXT COMMAND...: it succeeds, and its output has the text.
says() {
    text=$1
    shift
    said=$(inside "$@" 2>&1) || fail "$*: exit $?: $said"
    case $said in
    *"$text"*) ;;
    *) fail "$*: does not say '$text': $said" ;;
    esac
}

lintian --fail-on error,warning "$package" 2>/dev/null || fail "lintian has complaints"

cp "$package" "$root/stepmark.deb"
inside apt-get -qq update
inside apt-get -qq install -y --no-install-recommends /stepmark.deb >/dev/null 2>&1 || fail "it cannot be installed"

says "stepmark $(dpkg-deb -f "$package" Version)" stepmark --version
says "cpu" stepmark devices
says "OpenCL" stepmark devices
says '"status": "ok"' stepmark run -m tiny --backend cpu -b 2 --seq-len 16 -r 3 -w 1 -o json
says ' 0 failed' stepmark verify --backend cpu --filter '^bias' --max-elems 1000
says "loss" stepmark train -m tiny -b 1 --seq-len 8 --steps 2 --save /model
[ ! -e "$root/usr/share/man/man1" ] || [ -e "$root/etc/dpkg/dpkg.cfg.d/excludes" ] ||
    ls "$root/usr/share/man/man1/stepmark-run.1.gz" >/dev/null || fail "no manual page"

if [ "${POCL:-1}" = 1 ]; then
    inside apt-get -qq install -y /stepmark.deb pocl-opencl-icd >/dev/null 2>&1 || fail "what it recommends cannot be installed"
    # shellcheck disable=SC2046 # a list of packages
    inside apt-get -qq install -y --no-install-recommends $(dpkg-deb -f "$package" Recommends | tr ',' '\n' |
        sed 's/|.*//') >/dev/null 2>&1 || fail "what it recommends cannot be installed"
    says '"backend_used": "opencl"' stepmark run -m tiny --backend opencl -b 2 --seq-len 16 -r 3 -w 1 -o json
    says '"status": "ok"' stepmark run -m tiny --backend cpu --mode tuned -b 2 --seq-len 16 -r 3 -w 1 -o json
fi

inside apt-get -qq remove -y stepmark >/dev/null 2>&1 || fail "it cannot be removed"
inside dpkg --purge stepmark >/dev/null 2>&1 || fail "it cannot be purged"
left=$(find "$root/usr" "$root/etc" "$root/var/lib/dpkg" -name '*stepmark*')
[ -z "$left" ] || fail "not removed: $left"
echo "$package: lintian has no errors and no warnings; installed in a fresh Debian $suite, used, removed, purged: nothing left"
