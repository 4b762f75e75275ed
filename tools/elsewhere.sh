#!/bin/sh
# elsewhere.sh SUITE ARCH [COMPILER...]: builds and checks stepmark in a Debian of another release (bookworm, trixie, sid) and
# for another processor (amd64, arm64, riscv64), and says in the end what failed. The Debian lies outside of the tree, in
# ELSEWHERE=/var/tmp/stepmark-elsewhere, and is kept; its compiler builds for ARCH, and QEMU runs what it built where the
# processor is another. Further names are compilers (clang-19, or all-clang: every version there is): each of them
# compiles all sources without a warning. As root; mirror and proxy are those of this machine's apt (MIRROR=URI: another).
# T="plan gradient": these tests alone, as for `make check`; T=none: it is only built.
set -eu
cd "$(dirname "$0")/.."
if [ $# -lt 2 ]; then
    echo "usage: tools/elsewhere.sh SUITE ARCH [COMPILER...]" >&2
    exit 2
fi
[ "$(id -u)" = 0 ] || { echo "elsewhere: only root can install a Debian into a folder; use sudo" >&2 && exit 1; }
suite=$1
arch=$2
shift 2
native=$(dpkg --print-architecture)
root=${ELSEWHERE:-/var/tmp/stepmark-elsewhere}/$suite
copy=$root/root/stepmark
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -1)}
proxy=$(apt-config dump --format '%v' Acquire::http::Proxy)
failed=

# inside COMMAND...: in that Debian; what is mounted there vanishes with the command.
inside() {
    # shellcheck disable=SC2016 # the inner shell's own
    unshare --mount env -i PATH=/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
        DEBIAN_FRONTEND=noninteractive CCACHE_DIR=/root/ccache ${QEMU_CPU:+QEMU_CPU="$QEMU_CPU"} \
        ${http_proxy:+http_proxy="$http_proxy"} sh -c '
            mount -t proc proc "$0/proc" && mount --rbind /sys "$0/sys" && mount --rbind /dev "$0/dev" &&
            exec chroot "$0" sh -c '\''cd "${0%/*}" && exec "$@"'\'' /root/stepmark/. "$@"' "$root" "$@"
}

# step WHAT COMMAND...
step() {
    what=$1
    shift
    echo "== $suite $arch: $what" >&2
    inside "$@" || failed="$failed
  $suite $arch: $what"
}

# QEMU runs the programs of another processor: the kernel is told so until the machine is started again.
run_by_qemu() {
    machine=$1
    registered=/proc/sys/fs/binfmt_misc
    [ -e $registered/register ] || mount -t binfmt_misc binfmt_misc $registered
    [ -e "$registered/qemu-$machine" ] || cat "/usr/lib/binfmt.d/qemu-$machine.conf" >$registered/register
}

# In Debian unstable a library may be of another day for ARCH than for this processor, and then apt installs only one of
# the two: here those of ARCH are unpacked.
unpack() {
    echo "elsewhere: $suite $arch: unpacking libraries that cannot be installed next to this processor's" >&2
    # shellcheck disable=SC2016 # the inner shell's own
    inside sh -c '
        apt-get -qq update && apt-get -qq -y install make git opencl-headers "gcc-$0-linux-gnu" >/dev/null &&
        rm -rf /tmp/unpacked && mkdir /tmp/unpacked && cd /tmp/unpacked &&
        for name in libc6 libc6-dev libgcc-s1 libgomp1 libjansson4 libjansson-dev libhwloc15 libhwloc-dev libudev1 libcap2 \
            libpcre2-8-0 libpcre2-dev zlib1g zlib1g-dev libxxhash0 libxxhash-dev libcmocka0 libcmocka-dev; do
            apt-get -qq download "$name:$0" || exit 1
        done
        for package in *.deb; do dpkg -x "$package" / || exit 1; done' "$arch"
}

tools/deps.sh elsewhere
if [ ! -e "$root/complete" ]; then
    echo "== $suite: making a fresh Debian" >&2
    rm -rf "$root"
    mkdir -p "$root"
    ${proxy:+env http_proxy="$proxy"} debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail -3 "$root.log" >&2 && exit 1; }
    apt-config dump Acquire::http::Proxy Acquire::Check-Valid-Until >"$root/etc/apt/apt.conf.d/90host"
    touch "$root/complete"
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"

# The tracked files as they are here; what was built there before is kept.
[ -d "$copy" ] || mkdir -p "$copy"
[ -d "$copy/.git" ] || git init -q "$copy"
git -C "$copy" fetch -q --depth 1 "file://$PWD" HEAD
git -C "$copy" checkout -qf FETCH_HEAD
git diff --name-only --diff-filter=d HEAD | tar -cT - | tar -xC "$copy"

case $arch in
"$native") cc=gcc ;;
amd64) cc=x86_64-linux-gnu-gcc machine=x86_64 ;;
arm64) cc=aarch64-linux-gnu-gcc machine=aarch64 ;;
*) cc=$arch-linux-gnu-gcc machine=$arch ;;
esac
inside dpkg --configure -a >/dev/null 2>&1 || true # after a run that was interrupted
inside apt-get -qq -y install git ccache >/dev/null 2>&1 || { echo "elsewhere: apt-get cannot install git" >&2 && exit 1; }
if [ "$arch" = "$native" ]; then
    inside tools/deps.sh run check
else
    run_by_qemu "$machine"
    inside tools/deps.sh "cross-$arch" || unpack || {
        inside dpkg --remove-architecture "$arch" 2>/dev/null || true # else apt-get update fails for the others, too
        echo "elsewhere: $suite $arch: the mirror's packages cannot be installed; try again later, or another MIRROR" >&2
        exit 1
    }
    # A QEMU that tells programs of RISC-V's vectors (8.2 and later).
    [ "$arch" != riscv64 ] || inside apt-get -qq -y --no-install-recommends install qemu-user >/dev/null 2>&1
fi
step "make build" make CC="$cc" build >/dev/null
[ "${T:-}" = none ] || step "make check" make CC="$cc" ${T:+T="$T"} check
case " $* " in
*" all-clang "*)
    # shellcheck disable=SC2046 # a list of packages
    set -- $(inside apt-cache search --names-only '^clang-[0-9]+$' | awk '{ print $1 }' | sort -V)
    ;;
esac
for compiler in "$@"; do
    inside apt-get -qq -y --no-install-recommends install "$compiler" "libomp-${compiler#*-}-dev" >/dev/null 2>&1 ||
        { failed="$failed
  $suite: $compiler cannot be installed" && continue; }
    step "$compiler compiles all without a warning" make -s CONFIG=clang CC="$compiler" B="build/$compiler" objects >/dev/null
done
if [ -n "$failed" ]; then
    echo "failed:$failed"
    exit 1
fi
echo "elsewhere: $suite $arch${*:+ $*}: all passed"
