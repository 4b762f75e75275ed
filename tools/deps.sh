#!/bin/sh
# deps.sh SET...: installs the Debian packages of these sets (run, check, mpi, dev, wasm, browser, torture, elsewhere, slurm,
# package; cross-arm64: for `make CC=aarch64-linux-gnu-gcc check`, likewise others; SET?: a line says so if this one cannot
# be installed); says nothing when all are there. If it cannot install, one line on stdout says what to do. One at a time,
# as several builds may install side by side; and while another program installs packages it waits.
# ONE|OTHER: the names of the same package in Debian 12 and in later releases.
# shellcheck disable=SC2086 # lists of flags
set -eu
run="gcc make libc6-dev libjansson-dev libhwloc-dev libpcre2-dev zlib1g-dev libxxhash-dev opencl-headers libopenblas0-openmp ocl-icd-libopencl1"
check="git libcmocka-dev clang pocl-opencl-icd"
wasm="lld wasi-libc libclang-rt-dev-wasm32 libomp-dev"
dev="$check python3 python3-venv python3-numpy python3-jsonschema clang-format clang-tidy libclang-rt-14-dev|libclang-rt-19-dev mandoc zsh fish nodejs $wasm"
mpi="libopenmpi-dev openmpi-bin pkgconf"
browser="chromium chromium-driver python3-selenium"
torture="valgrind qemu-user-static|qemu-user oclgrind libllvmspirvlib15|libllvmspirvlib19.1 libclc-15|libclc-19"
elsewhere="debootstrap qemu-user-static|qemu-user-binfmt"
# Of another processor: what is linked, and what is loaded at run time.
libraries="libc6-dev libjansson-dev libhwloc-dev libpcre2-dev zlib1g-dev libxxhash-dev libopenblas0-openmp ocl-icd-libopencl1 libcmocka-dev"
slurm="slurmctld slurmd slurm-client munge"
package="git python3 python3-venv debhelper dpkg-dev lintian debootstrap"
longest_wait_s=600
packages=""
optional=""
foreign=""

# names PACKAGE...: each by the name that apt knows here, or that this release has where apt knows none yet.
names() {
    release=$(sed -n 's/^VERSION_ID="\(.*\)"/\1/p' /etc/os-release 2>/dev/null)
    for package in "$@"; do
        name=${package#*|}
        [ "$release" != 12 ] || name=${package%|*}
        [ "$name" = "$package" ] || for known in "${package%|*}" "${package#*|}"; do
            ! apt-cache show "$known" 2>/dev/null | grep -q . || { name=$known && break; }
        done
        printf ' %s' "$name"
    done
}

# lacks WHY PACKAGE...
lacks() {
    why=$1
    shift
    echo "packages are missing$why: 'apt-get update && apt-get install -y$(names "$@")'"
    exit 1
}

# add_cross ARCH: a compiler for this processor, and its libraries; this machine's own are not needed.
add_cross() {
    arch=$1
    packages="$packages git make clang opencl-headers"
    case $arch in
    amd64) packages="$packages gcc-x86-64-linux-gnu" ;;
    arm64) packages="$packages gcc-aarch64-linux-gnu" ;;
    *) packages="$packages gcc-$arch-linux-gnu" ;;
    esac
    for library in $libraries; do
        packages="$packages $library:$arch"
    done
    foreign="$foreign $arch"
}

for set in "$@"; do
    case $set in
    *\?) optional="$optional ${set%?}" ;;
    cross-*) add_cross "${set#cross-}" ;;
    wasm) packages="$packages clang $wasm" ;;
    run | check | dev | mpi | browser | torture | elsewhere | slurm | package) eval "packages=\"\$packages \$$set\"" ;;
    esac
done
command -v apt-get >/dev/null 2>&1 ||
    lacks ", and this system has no apt-get: install what they are called here, then 'make build'; on Debian" $packages
native=$(dpkg --print-architecture)

# Another processor's package of the same name does not count: not all of them can be installed side by side.
is_installed() {
    for name in $(echo "$1" | tr '|' ' '); do
        case $name in *:*) of=${name#*:} ;; *) of=$native ;; esac
        ! dpkg-query -W -f '${db:Status-Status} ${Architecture}\n' "$name" 2>/dev/null | grep -qE "^installed ($of|all)$" ||
            return 0
    done
    return 1
}

# install_by WORD...: apt-get, after any other program that holds its locks, of which one line tells.
install_by() {
    waited_s=0
    until said=$($as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -y -qq "$@" 2>&1 >/dev/null 9<&-); do
        case $said in
        *"Could not get lock"*) ;;
        *) waited_s=$longest_wait_s ;;
        esac
        if [ "$waited_s" -ge "$longest_wait_s" ]; then
            echo "$said" >&2
            lacks ", and apt-get failed" $missing
        fi
        [ "$waited_s" -gt 0 ] || echo "waiting for another program that installs packages: ${said%%
*}" >&2
        sleep 1
        waited_s=$((waited_s + 1))
    done
}

exec 9<"$0"
flock 9 2>/dev/null || true # not every network's file system has it; apt has locks of its own
missing=""
for package in $packages; do
    is_installed "$package" || missing="$missing $package"
done
if [ -z "$missing" ] || [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1 && sudo true; then
    as_root="sudo"
else
    lacks "; run as root" $missing
fi
if [ -n "$missing" ]; then
    for arch in $foreign; do
        $as_root dpkg --add-architecture "$arch"
    done
    install_by update
    missing=$(names $missing)
    echo "installing:$missing" >&2
    install_by install $missing
fi
exec 9<&- # these lock it themselves
for set in $optional; do
    "$0" "$set" >&2 || echo "without the packages of '$set': what needs them is left out" >&2
done
