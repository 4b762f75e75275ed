#!/bin/sh
# torture.sh [PART...]: runs the long tests tools/torture/PART.sh, those of tools/torture/program.py, and the long forms of
# tests below; default: all. Prints the last line of each, and writes all output to build/torture/PART.log. Each part names
# the variables that set its duration. Uses build/release/stepmark as it is; `make torture` builds it first.
set -u
cd "$(dirname "$0")/.."
logs=build/torture
mkdir -p "$logs"
# The cases of run(), and the scripts.
parts=$(sed -n 's/^    \([a-z| ]*\)) .*/\1/p' tools/torture.sh | tr '|' ' ' && ls tools/torture | sed -n 's/[.]sh$//p')
# shellcheck disable=SC2086 # a list of names
[ $# -gt 0 ] || set -- $parts
build() { env -u MAKEFLAGS -u MAKELEVEL make "$@" >/dev/null; }
run() {
    tests=build/release/tests
    case $1 in
    allocations) # every allocation of a dozen commands fails in turn, or every ALLOCATION_STEP-th, of ALLOCATION_COMMAND
        build $tests/test_allocations && ALLOCATION_STEP="${ALLOCATION_STEP:-1}" $tests/test_allocations
        ;;
    cheats) # kernels and backends that cheat are caught TRIES times of as many; honest ones pass with HONEST seeds
        for test in cheats wall judge; do
            build "$tests/test_$test" && CHEATS=${TRIES:-20} HONEST=${HONEST:-500} "$tests/test_$test" || return 1
        done
        ;;
    emulated) tools/vendors/check_emulated.sh ;; # ops and steps on emulated matrix units
    exercises) # every mistake of every exercise in both languages
        build $tests/test_exercise && STEPMARK_TEST_ALL=1 $tests/test_exercise
        ;;
    mpi) # 2, 3 and 4 processes, on both backends, every way to share, 100 steps; variables as in tools/tests/mpi.sh
        ways="--transport,auto --shard,optimizer --transport,messages --transport,messages,--shard,optimizer"
        build mpi && PROCESSES="${PROCESSES:-2 3 4}" STEPS="${STEPS:-100}" BACKENDS="${BACKENDS:-cpu opencl}" \
            ALSO="${ALSO:-narrow pair blocks cards}" WAYS="${WAYS:-$ways}" tools/tests/mpi.sh build/mpi/stepmark
        ;;
    # Every test under sanitizers, with all kernels; all kernels by clang; README.md's commands unchanged.
    suite) STEPMARK_TEST_ALL=1 tools/test.sh "env -u MAKEFLAGS -u MAKELEVEL make" ;;
    vendors) # kernels by AMD's and Intel's own compilers; the static model of cards against what one measured
        tools/vendors/model_cards.py build/release/stepmark && tools/vendors/check.sh
        ;;
    drivers | files | limits | memcheck | opencl | processors | signals | train | tsan) tools/torture/program.py "$1" ;;
    *) "tools/torture/$1.sh" ;;
    esac
}
n_failed=0
for part in "$@"; do
    # shellcheck disable=SC2086 # likewise
    echo $parts | grep -qw -e "$part" || { echo "torture: there is no part $part" >&2 && exit 2; }
    begin=$(date +%s)
    result=passed
    run "$part" >"$logs/$part.log" 2>&1 || result=FAILED
    [ "$result" = passed ] || n_failed=$((n_failed + 1))
    printf '%-12s %s in %4d s: %s\n' "$part" "$result" $(($(date +%s) - begin)) "$(grep -v '^$' "$logs/$part.log" | tail -1)"
done
echo "torture: $# parts, $n_failed failed; what each said is in $logs"
[ "$n_failed" = 0 ]
