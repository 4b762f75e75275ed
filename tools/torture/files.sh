#!/bin/sh
# files.sh: kills `train` and `init` at every one of their file calls, fails each call, and fills a small disk
# at every size; afterwards the old state or the new one must load. About five minutes.
#
#     STEPMARK_FAULT_STRIDE=N   every N-th file call only (1)
#     STEPMARK_DISK_STRIDE=N    every N-th size of the disk only, in steps of 4 KiB (1)
set -eu
cd "$(dirname "$0")/../.."
make build/release/stepmark build/release/tests/test_file_faults build/release/tests/shims/file_faults.so >/dev/null
stepmark=$PWD/build/release/stepmark
work=$(mktemp -d)
disk=$work/disk
mkdir "$disk"
trap 'umount "$disk" 2>/dev/null || true; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# Digest of what a folder loads as: of one more step's results, without the times, and of what that step saves.
state() {
    rm -rf "$work/probe"
    "$stepmark" train --backend reference --weights "$1" --save "$work/probe" -b 1 --seq-len 8 --steps 1 2>/dev/null |
        cut -d'|' -f1-4 >"$work/step" || return 1
    cat "$work/step" "$work"/probe/*.safetensors | sha256sum
}

fill_disks() {
    old=$(state "$work/old")
    new=$(state "$work/new")
    good=0
    total=0
    for blocks in $(seq 12 "${STEPMARK_DISK_STRIDE:-1}" 60); do
        total=$((total + 1))
        mount -t tmpfs -o size=$((blocks * 4))k tmpfs "$disk"
        if cp -r "$work/old" "$disk/m" 2>"$work/copy"; then
            code=0
            "$stepmark" train --backend reference --weights "$disk/m" --save "$disk/m" -b 1 --seq-len 8 --steps 1 \
                >"$work/out" 2>"$work/err" || code=$?
            now=$(state "$disk/m")
            left=$(find "$disk/m" -mindepth 1 | wc -l)
            case $code in
            0) [ "$now" = "$new" ] && [ "$left" = 3 ] && good=$((good + 1)) ;;
            1) [ "$now" = "$old" ] && [ "$left" = 3 ] && grep -q 'No space left on device' "$work/err" && good=$((good + 1)) ;;
            esac || echo "a disk of $((blocks * 4)) KiB: exit $code, $left names: $(cat "$work/err")"
        else
            total=$((total - 1)) # not even the old state fits
        fi
        umount "$disk"
    done
    echo "$good of $total full disks left the old or the new state"
    [ "$good" = "$total" ]
}

STEPMARK_FAULT_STRIDE=${STEPMARK_FAULT_STRIDE:-1} build/release/tests/test_file_faults
"$stepmark" train --init --n-layer 1 --n-head 2 --d-model 8 --vocab 256 --context 16 --save "$work/old" >/dev/null
for folder in old new; do
    "$stepmark" train --backend reference --weights "$work/old" --save "$work/$folder" -b 1 --seq-len 8 --steps 1 \
        >/dev/null 2>&1
done
if mount -t tmpfs -o size=4k tmpfs "$disk" 2>/dev/null; then
    umount "$disk"
    fill_disks
else
    echo "full disks: left out, as only root mounts them"
fi
