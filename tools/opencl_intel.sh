#!/bin/sh
# opencl_intel.sh PROGRAM...: runs a program with Intel's OpenCL runtime for processors as the only platform: a
# second implementation, independent of PoCL. Sets the runtime up in a virtual environment outside the tree.
set -eu
venv=${STEPMARK_INTEL:-${XDG_CACHE_HOME:-$HOME/.cache}/stepmark/opencl-intel}
library() { find "$venv" -name libintelocl.so 2>/dev/null | head -1; }
if [ -z "$(library)" ]; then
    echo "setting up Intel's OpenCL runtime in $venv" >&2
    python3 -m venv "$venv"
    "$venv/bin/pip" install --quiet intel-opencl-rt intel-cmplr-lib-rt
fi
[ -n "$(library)" ] || { echo "opencl-intel: the packages hold no libintelocl.so" >&2; exit 1; }
mkdir -p "$venv/vendors"
library >"$venv/vendors/intel.icd"
export OCL_ICD_VENDORS="$venv/vendors"
LD_LIBRARY_PATH="$(dirname "$(library)"):$venv/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export LD_LIBRARY_PATH
exec "$@"
