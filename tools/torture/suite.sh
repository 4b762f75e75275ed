#!/bin/sh
# suite.sh: the long form of `make test`: every test under sanitizers, with the kernels of every instruction
# set; a build of all instruction sets by clang; every mistake of an exercise in both languages; README.md's commands
# unchanged.
set -eu
cd "$(dirname "$0")/../.."
if STEPMARK_TEST_ALL=1 tools/test.sh "env -u MAKEFLAGS -u MAKELEVEL make"; then
    echo "suite: the long form of make test passed"
else
    echo "suite: FAILED" >&2
    exit 1
fi
