#!/bin/sh
# check_emulated.sh: family `tensor` on matrix units of AMD and Intel, emulated by their documented layouts on PoCL
# (tools/vendors/emulated.sh): what is tried before a unit is believed is right; every op and whole steps agree with the
# reference; each layout spoilt on purpose is noticed, so that the unit is not used; and so is a compiler that ends its
# process; and a second run builds nothing.
#   CARDS="gfx942 bmg"     which devices; not given: one of each unit
#   FILTER=matmul          which checks of `stepmark verify`; not given: all on the first card, and on the others those in which
#                          a unit multiplies: other ops run alike on all. MAX_ELEMS=20000: cases whose largest tensor is no larger
#   PRECISIONS=bf16        which formats; not given: those of the unit
. "$(dirname "$0")/../script.sh"
[ "$(uname -m)" = x86_64 ] || { echo "check-emulated: left out: not an x86-64 processor"; exit 0; }
stepmark=$(realpath "${STEPMARK:-build/release/stepmark}")
filter=${FILTER:-.}
n_noticed=0
n_passed=0

# The unit of a device that is tried again, with a cache of its own; $work/said has what came of it.
try_units() {
    rm -rf "$work/cache"
    STEPMARK_EMULATED_CACHE=$work/cache tools/vendors/emulated.sh "$1" "$stepmark" --helper opencl 0 try "$stepmark" 2>&1 | tail -n +2 >"$work/said"
    STEPMARK_EMULATED_CACHE=$work/cache tools/vendors/emulated.sh "$1" "$stepmark" devices -o csv | grep '^opencl' >"$work/devices"
}

# A step, on a platform that leaves it to stepmark to keep what it built.
measure() {
    STEPMARK_EMULATED_CACHE=$work/cache tools/vendors/emulated.sh "$card" "$stepmark" run --backend opencl --isa tensor -m tiny -b 1 \
        --seq-len 32 --precision bf16 -w 1 -r 1 -o json
}

for card in ${CARDS:-gfx90a gfx942 gfx950 gfx1100 gfx1201 dg2 pvc bmg}; do
    case $card in
    gfx942) level=mfma formats=bf16,fp16,fp32,tf32,tf32x3 ;;
    gfx9*) level=mfma formats=bf16,fp16,fp32 ;;
    gfx1*) level=wmma formats=bf16,fp16 ;;
    dg2) level=dpas8 formats=bf16,fp16 ;;
    *) level=dpas16 formats=bf16,fp16,tf32,tf32x3 ;;
    esac
    # On a slow machine its time may be up before all is compiled; the next try finds what was compiled.
    for attempt in 1 2 3; do
        try_units "$card"
        ! grep -q 'took too long' "$work/said" || [ "$attempt" = 3 ] || continue
        break
    done
    ! grep -qv ': right$' "$work/said" || fail "$card: $(grep -v ': right$' "$work/said" | head -1)"
    grep -q ",$level," "$work/devices" || fail "$card: level $level is not used: $(cat "$work/devices")"
    for spoilt in ${SPOILS:-1 2 3 4 5 6 7}; do
        (export STEPMARK_SPOIL="$spoilt" && try_units "$card")
        grep -qE ",local,\"?no $level: " "$work/devices" && grep -q ' are wrong' "$work/said" ||
            fail "$card: spoilt layout $spoilt is not noticed"
        n_noticed=$((n_noticed + 1))
    done
    (export STEPMARK_CRASH=-DA_TRANSPOSED && try_units "$card")
    grep -qE ",local,\"?no $level: .*ended the process" "$work/devices" || fail "$card: a compiler that ends its process: $(cat "$work/devices")"
    try_units "$card"
    STEPMARK_EMULATED_CACHE=$work/cache tools/vendors/emulated.sh "$card" "$stepmark" verify --backend opencl --isa tensor -o csv \
        --precision "${PRECISIONS:-$formats}" --filter "$filter" --max-elems "${MAX_ELEMS:-20000}" >"$work/verify" ||
        fail "$card: $(grep -m1 ',failed,' "$work/verify")"
    passed=$(grep -c ',passed,' "$work/verify")
    [ "$passed" -gt 0 ] || fail "$card: nothing was compared"
    n_passed=$((n_passed + passed))
    filter=${FILTER:-matmul|flash_attention|step}
    (export STEPMARK_KEEPS=1 && try_units "$card" && measure) >"$work/rows" 2>&1 || fail "$card: $(tail -1 "$work/rows")"
    (export STEPMARK_KEEPS=1 STEPMARK_CRASH=-DUNIT && measure) >"$work/rows" 2>&1 || fail "$card: the second run: $(tail -1 "$work/rows")"
    for expected in '"status": "ok"' "\"tier\": \"$level\"" "products by $level"; do
        grep -q "$expected" "$work/rows" || fail "$card: the second run's row lacks $expected"
    done
    echo "$card: $level: $(wc -l <"$work/said") things tried are right, $passed comparisons passed"
done
echo "check-emulated: $n_passed comparisons passed, all of $n_noticed spoilt layouts were noticed"
