#!/bin/sh
# minimal.sh: the first command on a minimal Debian that has make and no compiler, as root: a user without sudo is told in
# one line what to install, and each target that installs works at its first call, of root and of a user with sudo.
#   SUITES="bookworm trixie"   which releases
#   TARGETS="root:bench"       which targets, each in a Debian of its own: user:TARGET is called by a user with sudo
set -eu
cd "$(dirname "$0")/../.."
[ "$(id -u)" = 0 ] || { echo "minimal: only root can make a minimal Debian: left out" && exit; }
tools/deps.sh package >&2
unset MAKEFLAGS MAKELEVEL MFLAGS
failed=

# try SUITE USER TARGET: in a fresh Debian, in a subshell.
try() (
    suite=$1
    . tools/packages/minimal_debian.sh
    fail() {
        echo "minimal: $suite: $1:" >&2
        tail -5 "$root/out" >&2
        exit 1
    }
    # as USER COMMAND: in the tree's copy; the output is in out.
    as() { inside su "$1" -c "cd /home/user/stepmark && $2" >"$root/out" 2>&1; }

    inside useradd -m user
    git clone -q --depth 1 "file://$PWD" "$root/home/user/stepmark"
    git diff --name-only --diff-filter=d HEAD | tar -cT - | tar -xC "$root/home/user/stepmark"
    inside chown -R "$2" /home/user
    if [ "$3" = lines ]; then
        # shellcheck disable=SC2016 # make's own
        for target in $(sed -n 's/^$(call installs,\(.*\),.*/\1/p' Makefile) build check pages format tidy check-deps check-cl; do
            ! as user "make $target" || fail "make $target passes without a compiler"
            [ "$(wc -l <"$root/out")" = 1 ] || fail "make $target says more or less than one line"
        done
        as user "make && make help" || fail "make help"
        as user "make bench" || true
        # The line is right: what it names is enough.
        as root "$(sed "s/.*'\(.*\)'.*/\1/" "$root/out")" || fail "the line's packages cannot be installed"
        as user "tools/deps.sh run" || fail "the line did not name all that the program needs"
    else
        [ "$2" = root ] || inside sh -c 'apt-get -qq update && apt-get -qq -y install sudo >/dev/null 2>&1 &&
            echo "user ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/user' || fail "sudo"
        as "$2" "make $3" || fail "make $3 as $2"
        tail -n 3 "$root/out"
    fi
    echo "$suite: $2: $3"
)

for suite in ${SUITES:-bookworm trixie}; do
    for case in user:lines ${TARGETS:-user:bench root:mpi root:deb user:wheel root:test-pages user:opencl-with root:fuzz}; do
        try "$suite" "${case%%:*}" "${case#*:}" & # not in the condition itself, where the shell forgets -e
        wait $! || failed="$failed $suite:$case"
    done
done
[ -z "$failed" ] || { echo "minimal: failed:$failed" && exit 1; }
echo "minimal: the first command works, and who may not install is told in one line"
