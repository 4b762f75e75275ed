#!/bin/sh
# opencl_with.sh NAME PROGRAM...: runs a program with one OpenCL implementation as the only platform. Those that Debian
# would register for every program of the machine are set up in a folder outside the tree.
#   pocl       PoCL, from Debian
#   intel      Intel's runtime for processors, in a virtual environment
#   rusticl    Mesa's rusticl on llvmpipe, the processor, unpacked from Debian's package
#   oclgrind   Debian's simulator: a work-item at a time; says which access is out of bounds or races with another
set -eu
cache=${XDG_CACHE_HOME:-$HOME/.cache}/stepmark
fail() { echo "opencl_with: $*" >&2 && exit 1; }
[ $# -ge 2 ] || fail "give pocl, intel, rusticl or oclgrind, and a program with its arguments"
name=$1
shift
home=$cache/opencl-$name
mkdir -p "$home/vendors"

# find_library FOLDER FILE
find_library() { find "$1" -name "$2" 2>/dev/null | head -1; }

set_up_intel() {
    echo "setting up Intel's OpenCL runtime in $home" >&2
    python3 -m venv "$home"
    "$home/bin/pip" install --quiet intel-opencl-rt intel-cmplr-lib-rt
}

# Installed, the package would add two platforms to every program's.
set_up_rusticl() {
    echo "unpacking Mesa's rusticl to $home" >&2
    "$(dirname "$0")/deps.sh" torture
    folder=$(mktemp -d)
    (cd "$folder" && apt-get download -qq mesa-opencl-icd) 2>/dev/null || fail "apt-get cannot download mesa-opencl-icd"
    dpkg -x "$folder"/mesa-opencl-icd_*.deb "$home"
    rm -rf "$folder"
}

case $name in
pocl)
    library=$(find_library /usr/lib 'libpocl.so.2*')
    ;;
intel)
    [ -n "$(find_library "$home" libintelocl.so)" ] || set_up_intel
    library=$(find_library "$home" libintelocl.so)
    LD_LIBRARY_PATH="$(dirname "$library"):$home/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export LD_LIBRARY_PATH
    ;;
rusticl)
    [ -n "$(find_library "$home" libRusticlOpenCL.so.1)" ] || set_up_rusticl
    library=$(find_library "$home" libRusticlOpenCL.so.1)
    export RUSTICL_ENABLE=llvmpipe
    ;;
oclgrind)
    "$(dirname "$0")/deps.sh" torture
    library=$(find_library /usr/lib liboclgrind-rt-icd.so)
    # Its simulator does not know all that its optimising compiler makes, such as llvm.experimental.noalias.scope.decl.
    export OCLGRIND_BUILD_OPTIONS="${OCLGRIND_BUILD_OPTIONS--cl-opt-disable}"
    ;;
*)
    fail "no implementation '$name'; give pocl, intel, rusticl or oclgrind"
    ;;
esac
[ -n "$library" ] || fail "$name: its library is not there"
echo "$library" >"$home/vendors/$name.icd"
# Built programs of its own: what changes how a simulator builds them is not in their key.
export OCL_ICD_VENDORS="$home/vendors" XDG_CACHE_HOME="$home/cache"
exec "$@"
