#!/bin/sh
# prove.sh STEPMARK SLOWED [CLAIM...]: measures the claims of the documents on this machine, and prints a line
# for each; exit code 1 if one does not hold. SLOWED is a build with
# -DSM_TEST_SLOWDOWN=0.03. Claims (default: all):
#   same       A against itself, AA (200) interleaved comparisons: at most 5% see a difference
#   slower     SLOWED against STEPMARK, SLOW (50) comparisons: at least 90% see it
#   kill       a sweep of 30 rows, killed with SIGKILL at KILLS (10) random moments: the rows of an undisturbed one
#   memory     the estimate against the measured peak, for every size that fits: within 5%
#   phases     the attribution pass adds up to its wall clock within 1%
#   overhead   the harness takes less than 0.1% of a 124M step
#
# RUN is what the comparisons run. JOBS comparisons run side by side, each on THREADS processors of its own (1 job:
# all processors). RESULTS keeps what was measured (a fresh folder under /tmp).
set -eu
stepmark=$1
slowed=$2
shift 2
: "${AA:=200}" "${SLOW:=50}" "${KILLS:=10}" "${JOBS:=1}" "${THREADS:=2}" "${SIZES:=small medium large xl}"
: "${RUN:=run -m tiny -b 4 --seq-len 64 --backend cpu --no-peaks}"
: "${RESULTS:=$(mktemp -d /tmp/stepmark-prove.XXXXXX)}"
mkdir -p "$RESULTS"
failed=0

# conclude CLAIM HOLDS TEXT
conclude() {
    test "$2" = 1 && word=holds || { word=FAILS; failed=1; }
    printf '%-9s %s: %s\n' "$1" "$word" "$3"
}

# The processors that this process may use, a line each.
processors() {
    awk '/Cpus_allowed_list/ {
        n = split($2, part, ",")
        for (i = 1; i <= n; i++) {
            m = split(part[i], end, "-")
            for (c = end[1]; c <= end[m]; c++) print c
        }
    }' /proc/self/status
}

# mask_of WORKER: its processors, as flags; all of them where there is one worker.
mask_of() {
    test "$JOBS" = 1 && return
    list=$(processors | sed -n "$(($1 * THREADS + 1)),$((($1 + 1) * THREADS))p" | paste -sd, -)
    echo "-t $THREADS --cpu-mask $list"
}

# compare PROGRAM INDEX WORKER NAME: one comparison; its verdict is in the file.
compare() {
    mask=$(mask_of "$3")
    "$stepmark" compare --interleaved "$stepmark $RUN $mask" "$1 $RUN $mask" -o json \
        >"$RESULTS/$4-$2.json" 2>"$RESULTS/$4-$2.log" || test $? = 3 || tail -1 "$RESULTS/$4-$2.log" >&2
}

# compare_all PROGRAM N NAME: N comparisons, JOBS at a time.
compare_all() {
    worker=0
    while [ "$worker" -lt "$JOBS" ]; do
        (
            index=$worker
            while [ "$index" -lt "$2" ]; do
                compare "$1" "$index" "$worker" "$3"
                index=$((index + JOBS))
            done
        ) &
        worker=$((worker + 1))
    done
    wait
}

# count NAME VERDICT: comparisons whose verdict, the whole object's, is this one.
count() { grep -l "^  \"verdict\": \"$2\"" "$RESULTS/$1"-*.json 2>/dev/null | wc -l; }

prove_same() {
    compare_all "$stepmark" "$AA" same
    same=$(count same no-difference)
    wrong=$(($(count same slower) + $(count same faster)))
    conclude same $((same + wrong == AA && 20 * wrong <= AA)) \
        "A against itself: $wrong of $AA comparisons saw a difference (at most 5%), $same saw none"
}

prove_slower() {
    compare_all "$slowed" "$SLOW" slower
    found=$(count slower slower)
    conclude slower $((10 * found >= 9 * SLOW)) "a slowdown of 3%: $found of $SLOW comparisons found it (at least 90%)"
}

keys() { sed -n 's/.*"sweep_key": *"\([^"]*\)".*/\1/p' "$1" | sort; }

prove_kill() {
    sweep="run -m tiny -b 1,2,3,4,5 --seq-len 16,32,64 --mode naive,fused --backend cpu --no-peaks -r 20 --order-seed 1"
    start=$(date +%s%N)
    "$stepmark" $sweep --output-file "$RESULTS/undisturbed.jsonl" >/dev/null 2>&1
    lasted_ms=$((($(date +%s%N) - start) / 1000000))
    kill=0
    while [ "$kill" -lt "$KILLS" ]; do
        "$stepmark" $sweep --output-file "$RESULTS/killed.jsonl" --resume >/dev/null 2>&1 &
        random=$(od -An -N4 -tu4 /dev/urandom)
        sleep "$(awk "BEGIN { print $random / 4294967296 * $lasted_ms / 1000 / $KILLS * 2 }")"
        kill -9 $! 2>/dev/null || true
        wait $! 2>/dev/null || true
        kill=$((kill + 1))
    done
    "$stepmark" $sweep --output-file "$RESULTS/killed.jsonl" --resume >/dev/null 2>&1
    keys "$RESULTS/undisturbed.jsonl" >"$RESULTS/undisturbed.keys"
    keys "$RESULTS/killed.jsonl" >"$RESULTS/killed.keys"
    rows=$(wc -l <"$RESULTS/killed.keys")
    cmp -s "$RESULTS/undisturbed.keys" "$RESULTS/killed.keys" && equal=1 || equal=0
    conclude kill $((equal == 1 && rows == 30)) \
        "a sweep killed $KILLS times has $rows rows, an undisturbed one 30: the sets are $(test $equal = 1 || echo not )equal"
}

# field NAME FILE: the value of a number in a file of one row.
field() { sed -n "s/^ *\"$1\": *\([-0-9.e+]*\).*/\1/p" "$2"; }

# memory_of DEVICE SIZE MODE: how far the estimate is from the peak, in percent: of the process, or of what is allocated
# on a device with memory of its own.
memory_of() {
    file="$RESULTS/memory-$(echo "$1-$2-$3" | tr -c 'a-z0-9\n-' _).json"
    "$stepmark" run -m "$2" --mode "$3" --backend "$1" -b 1 --seq-len 64 -w 0 -r 1 --no-peaks -o json >"$file" 2>/dev/null || return 0
    estimate=$(field estimated_rss_bytes "$file")
    peak=$(field peak_rss_bytes "$file")
    test -n "$estimate" || { estimate=$(field estimated_bytes "$file"); peak=$(field device_peak_bytes "$file"); }
    awk "BEGIN { printf \"%.2f\n\", 100 * ($estimate / $peak - 1) }" | tee "$file.percent"
}

prove_memory() {
    n=0
    worst=0
    for device in $("$stepmark" devices -o csv | awk -F, 'NR > 1 && $1 != "reference" && $3 == "true" { print $1 }'); do
        for size in $SIZES; do
            for mode in naive fused; do
                off=$(memory_of "$device" "$size" "$mode")
                test -n "$off" || continue
                n=$((n + 1))
                worst=$(awk "BEGIN { a = ($off < 0 ? -($off) : $off); print (a > $worst ? a : $worst) }")
            done
        done
    done
    conclude memory "$(awk "BEGIN { print ($n > 0 && $worst <= 5) }")" \
        "$n configurations that fit: the estimate is off by $worst% of the measured peak at most (5%)"
}

prove_step() {
    file="$RESULTS/small.json"
    test -s "$file" || "$stepmark" run -m small -b 4 --seq-len 64 --backend cpu --no-peaks -o json >"$file" 2>/dev/null
    wall=$(field attribution_ns "$file")
}

prove_phases() {
    prove_step
    sum=$(sed -n 's/.*"phases": *{\(.*\)}.*/\1/p' "$file" | tr ',' '\n' | sed '/unaccounted/d; s/.*: *//' | awk '{ s += $1 } END { printf "%d", s }')
    conclude phases "$(awk "BEGIN { print ($sum <= $wall && $wall - $sum <= 0.01 * $wall) }")" \
        "124M, one attribution step: operations take $sum ns of $wall ns; it lasts $(field attribution_percent "$file")% longer than a plain one"
}

prove_overhead() {
    prove_step
    own=$(field harness_ns "$file")
    step=$(field median_ns "$file")
    conclude overhead "$(awk "BEGIN { print ($own < 0.001 * $step) }")" \
        "124M: sensors, losses and limits take $own ns a step of $step ns"
}

for claim in ${*:-same slower kill memory phases overhead}; do
    "prove_$claim"
done
exit $failed
