#!/bin/sh
# train.sh: kills a training at random moments with kill -9 and resumes it each time: weights, log and metrics
# must equal an undisturbed run's. Then trains on disks that are too small, at every size: with enough space the
# training must resume. About five minutes.
#
#     STEPMARK_KILLS=N         kill that often (50)
#     STEPMARK_DISK_STRIDE=N   every N-th size of the disk only, in steps of 64 KiB (1)
#     STEPMARK_SEED=N          of the moments (from the clock)
# shellcheck disable=SC2086 # lists of flags
set -eu
cd "$(dirname "$0")/../.."
make build/release/stepmark >/dev/null
stepmark=$PWD/build/release/stepmark
work=$(mktemp -d)
disk=$work/disk
mkdir "$disk"
trap 'umount "$disk" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
seed=${STEPMARK_SEED:-$(date +%s)}
echo "seed $seed"
seq 100000 | head -c 20000 >"$work/text"
seq 5000 9999 | head -c 2000 >"$work/val"

# Of a run of one to two seconds of steps.
flags="train -m tiny --backend reference -b 2 --seq-len 16 --global-batch 4 --steps 600 --save-every 20 --dropout 0.1
    --order shuffled --schedule cosine --data $work/text --data-format bytes --val-data $work/val --val-every 30"

train() { "$stepmark" $flags --run "$1" --resume auto >"$work/out" 2>"$work/err"; }

timeless() { sed 's/, "checked_ops": [0-9]*, "checks_ms": [^,}]*//; s/"[a-z_]*ms": *[^,}]*//g' "$1/log.jsonl"; }

# same DIR: its weights and its log but for times are the undisturbed run's.
same() {
    cmp "$work/whole/model/model.safetensors" "$1/model/model.safetensors" || return 1
    timeless "$1" >"$work/log" && cmp "$work/whole.log" "$work/log" || return 1
    "$stepmark" report --check "$1" >"$work/check" || return 1
}

# moment I: the I-th of the random moments, from before the first step to after the last.
moment() { awk -v seed="$seed" -v i="$1" 'BEGIN { srand(seed); while (i-- > 0) x = rand(); print x * 0.8 }'; }

# The number of different steps from which the run resumed.
places() { grep -o '"from_step": [0-9]*' "$work/killed/run.json" | sort -u | wc -l; }

kill_at_random() {
    n_kills=0
    n_starts=0
    n_ended=0
    n_places=0
    while [ "$n_kills" -lt "${STEPMARK_KILLS:-50}" ]; do
        n_starts=$((n_starts + 1))
        "$stepmark" $flags --run "$work/killed" --resume auto >"$work/out" 2>"$work/err" &
        process=$!
        sleep "$(moment "$n_starts")"
        kill -9 "$process" 2>/dev/null || true
        code=0
        wait "$process" 2>/dev/null || code=$?
        case $code in
        137) n_kills=$((n_kills + 1)) ;;
        0) # it was done before: a new one
            n_ended=$((n_ended + 1))
            n_places=$((n_places + $(places)))
            same "$work/killed" || return 1
            rm -r "$work/killed"
            ;;
        *)
            echo "exit code $code:"
            cat "$work/err"
            return 1
            ;;
        esac
        if [ -e "$work/killed/RUN_COMPLETE.txt" ]; then # killed after its last file
            n_ended=$((n_ended + 1))
            n_places=$((n_places + $(places)))
            same "$work/killed" || return 1
            rm -r "$work/killed"
        fi
    done
    n_ended=$((n_ended + 1))
    train "$work/killed" || return 1
    n_places=$((n_places + $(places)))
    same "$work/killed"
}

# On a full disk the run says so in lines of its own and keeps what it has; with room it resumes and reaches the same end.
fill_disks() {
    n_good=0
    n_disks=0
    for blocks in $(seq 1 "${STEPMARK_DISK_STRIDE:-1}" 40); do
        n_disks=$((n_disks + 1))
        mount -t tmpfs -o size=$((blocks * 64))k tmpfs "$disk"
        code=0
        train "$disk/run" || code=$?
        mount -o remount,size=64m "$disk"
        if [ "$code" -gt 1 ] || { [ "$code" = 1 ] && ! grep -q 'No space left' "$work/err"; }; then
            echo "a disk of $((blocks * 64)) KiB: exit code $code:"
            cat "$work/err"
        elif [ "$code" = 0 ] || train "$disk/run"; then
            if same "$disk/run"; then
                n_good=$((n_good + 1))
            else
                echo "a disk of $((blocks * 64)) KiB: another result"
            fi
        else
            echo "a disk of $((blocks * 64)) KiB: it does not resume:"
            cat "$work/err"
        fi
        umount "$disk"
    done
    echo "$n_good of $n_disks full disks left a run that resumes"
    [ "$n_good" = "$n_disks" ]
}

train "$work/whole" || {
    cat "$work/err"
    exit 1
}
timeless "$work/whole" >"$work/whole.log"
kill_at_random || {
    echo "a killed run differs, or does not resume (seed $seed):"
    cat "$work/err"
    exit 1
}
killed="$n_kills kills of $n_ended runs, which resumed from $n_places places, left the undisturbed run's weights and log"
fill_disks || exit 1
echo "$killed; $n_good of $n_disks full disks left a run that resumes"
