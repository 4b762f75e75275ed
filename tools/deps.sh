#!/bin/sh
# deps.sh SET...: installs the Debian packages of these sets (run, mpi, dev, browser, torture, slurm, package); says nothing when all are there.
set -eu
run="gcc make libc6-dev libopenblas-openmp-dev libjansson-dev libhwloc-dev libpcre2-dev libxxhash-dev libdnnl-dev opencl-headers ocl-icd-libopencl1"
dev="git libcmocka-dev python3 python3-venv python3-numpy python3-jsonschema clang clang-format clang-tidy libomp-dev sqlite3 pocl-opencl-icd libclang-rt-14-dev mandoc zsh fish"
mpi="libopenmpi-dev openmpi-bin pkgconf"
browser="chromium chromium-driver python3-selenium"
torture="valgrind oclgrind libllvmspirvlib15 libclc-15"
slurm="slurmctld slurmd slurm-client munge"
packaging="debhelper dpkg-dev lintian debootstrap"
packages=""
for set in "$@"; do
    case $set in
    run) packages="$packages $run" ;;
    mpi) packages="$packages $mpi" ;;
    dev) packages="$packages $dev" ;;
    browser) packages="$packages $browser" ;;
    torture) packages="$packages $torture" ;;
    package) packages="$packages $packaging" ;;
    slurm) packages="$packages $slurm" ;;
    esac
done
missing=""
for package in $packages; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -q '^installed$' || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ]; then
    as_root=""
elif command -v sudo >/dev/null 2>&1; then
    as_root="sudo"
else
    echo "stepmark needs packages that are not installed. As root, run:" >&2
    echo "    apt-get install -y$missing" >&2
    exit 1
fi
echo "installing:$missing" >&2
$as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
# shellcheck disable=SC2086 # a list of packages
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
