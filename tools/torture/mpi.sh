#!/bin/sh
# mpi.sh: the long form of tools/tests/mpi.sh: 2, 3 and 4 processes, on both backends, every way to share, 100 steps.
#
#   PROCESSES, STEPS, BACKENDS, WAYS, ALSO as in tools/tests/mpi.sh
set -eu
cd "$(dirname "$0")/../.."
make mpi >/dev/null
export PROCESSES="${PROCESSES:-2 3 4}" STEPS="${STEPS:-100}" BACKENDS="${BACKENDS:-cpu opencl}" ALSO="${ALSO:-narrow pair blocks cards}"
export WAYS="${WAYS:---transport,auto --shard,optimizer --transport,messages --transport,messages,--shard,optimizer}"
exec tools/tests/mpi.sh build/mpi/stepmark
