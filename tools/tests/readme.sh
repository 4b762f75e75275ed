#!/bin/sh
# readme.sh: runs every command that README.md and docs/tour.md show, but not `make test`, which runs this; `make bench`
# only prints its help. Unless STEPMARK_TEST_ALL=1, measurements and trainings are short, and only the first measures peaks.
set -eu
cd "$(dirname "$0")/../.."
unset MAKEFLAGS MFLAGS MAKELEVEL # a user's make is not part of this one
n_passed=0
n_failed=0

check() {
    status=0
    (eval "$1") >build/readme.log 2>&1 || status=$?
    # compare exits 3 when B is slower: that is a result.
    case "$status $1" in "3 build/release/stepmark compare"*) status=0 ;; esac
    if [ "$status" = 0 ]; then
        n_passed=$((n_passed + 1))
    else
        n_failed=$((n_failed + 1))
        echo "failed: $1: exit code $status"
        tail -40 build/readme.log
    fi
}

# Open MPI starts nothing as root, as in a container, nor more processes than cores, unless told to.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1

# Indented or fenced lines that begin with make, mpirun or the program. A backslash at the end continues a line; what
# follows " #" is a comment.
for file in README.md docs/tour.md; do
    sed -e ':again' -e '/\\$/{N;s/\\\n *//;b again' -e '}' $file |
        sed -n 's/^ *\(\(make [a-z-]*\|rm -r*f build\|mpirun \|build\/release\/stepmark \).*\)$/\1/p' | sed 's/  *#.*$//'
done >build/readme.commands
# A score, and a friend's: of the reference rows, as measuring one takes minutes.
[ -e build/score.jsonl ] || build/release/stepmark report bench/results/scores-*.bundle -o jsonl >build/score.jsonl
[ -e friend.txt ] || { build/release/stepmark score --share >friend.txt && trap 'rm -f friend.txt' EXIT; }
has_peaks=
while IFS= read -r command <&9; do
    case ${STEPMARK_TEST_ALL:-quick}${command#*/stepmark} in
    "quick compare --interleaved"*) command="$command --pairs 6" ;;
    "quick verify --backend cpu") command="$command --max-elems 2000" ;; # test_verify has all
    "quick "*" --steps 400 "*) command=$(echo "$command" | sed 's/--steps 400 --val-every 100/--steps 80 --val-every 20/') ;;
    "quick run "* | "quick loop "*)
        [ -z "$has_peaks" ] || command="$command --no-peaks"
        has_peaks=1
        ;;
    esac
    case $command in
    "make bench") [ -n "${STEPMARK_TEST_ALL:-}" ] && check "make bench" || check "make bench ARGS=--help" ;;
    "make test" | "make check") ;; # whose parts run by themselves
    *) check "$command" ;;
    esac
done 9<build/readme.commands
echo "the commands of README.md and docs/tour.md: $n_passed passed, $n_failed failed"
[ "$n_failed" = 0 ] && [ "$n_passed" -ge 33 ]
