#!/bin/sh
# `make test` in its long form: every test under sanitizers, which have the kernels of every instruction set; a build by clang
# of all instruction sets; every mistake of an exercise in both languages; the commands of README.md as they stand.
set -eu
cd "$(dirname "$0")/.."
if STEPMARK_TEST_ALL=1 tools/test.sh "env -u MAKEFLAGS -u MAKELEVEL make"; then
    echo "suite: the long form of make test passed"
else
    echo "suite: FAILED" >&2
    exit 1
fi
