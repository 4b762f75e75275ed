#!/bin/sh
# results.sh STEPMARK NAME [SCORES]: measures GPT-2 small on every device of this machine, and keeps the rows as a bundle
# in bench/results/. The work is that of the other references, and what a machine with little memory can do.
# With SCORES, so many scores in a row instead, their spread, and a bundle scores-NAME; where STEPMARK_PEERS names a
# folder (tools/peers.sh), PyTorch at the same work, too, and where STEPMARK_LLMC names that of llm.c, its CPU trainer.
. "$(dirname "$0")/script.sh"
stepmark=$1
name=$2
scores=${3:-0}
rows=$work/rows

# A peer's command, without its weights and data.
measure_peer() {
    peers=build/score-peers
    mkdir -p "$peers"
    [ -d "$peers/model" ] || "$stepmark" train -m small --init --save "$peers/model"
    python3 -c "import sys; sys.stdout.buffer.write(bytes(b for c in open('src/io/text.txt', 'rb').read() for b in (c, 0)))" \
        >"$peers/text.bin"
    "$@" --weights "$peers/model" --data "$peers/text.bin" -b 1 --seq-len 1024 -w 1 -r 7 >>"$rows" ||
        echo "results.sh: no row: $*" >&2
}

if [ "$scores" -gt 0 ]; then
    echo "a score that does not count: the first after a start or a build may be 5% slower"
    "$stepmark" score --output-file "$rows.warm"
    for i in $(seq "$scores"); do
        echo "score $i of $scores"
        "$stepmark" score --output-file "$rows"
    done
    for mode in eager compile; do
        [ -z "${STEPMARK_PEERS:-}" ] || measure_peer "$(tools/peers.sh)" bench/peers/pytorch_step.py --mode $mode
    done
    [ -z "${STEPMARK_LLMC:-}" ] || measure_peer python3 bench/peers/llmc_step.py --source "$STEPMARK_LLMC"
    "$stepmark" report "$rows" -o csv --columns backend_used,precision,median_ts,noise_verdict |
        awk -F, 'NR > 1 && $3 > 0 { k = $1 " " $2; n[k]++; if (!(k in lo) || $3 < lo[k]) lo[k] = $3; if ($3 > hi[k]) hi[k] = $3 }
            END { for (k in n) printf "%s: %d, %.1f to %.1f tokens/s: %.1f%%\n", k, n[k], lo[k], hi[k], 100 * (hi[k] / lo[k] - 1) }'
    "$stepmark" report "$rows" -o jsonl | grep '"noise_verdict": *"steady"' >"$rows.ok" || fail "no row is steady: measure on an idle machine"
    "$stepmark" report "$rows.ok" --bundle "bench/results/scores-$name.bundle"
    echo "Add a line to bench/results/README.md: machine, date, spread."
    exit
fi
for size in "-b 1 --seq-len 1024" "-b 4 --seq-len 128"; do
    for precision in fp32 tf32 bf16; do
        # A device without that number format has a row that says so; the others are measured.
        # shellcheck disable=SC2086
        "$stepmark" run -m small $size --precision "$precision" --output-file "$rows" -o jsonl >/dev/null || true
    done
done
grep '"status": *"ok"' "$rows" >"$rows.ok" || fail "nothing could be measured"
"$stepmark" report "$rows.ok" --bundle "bench/results/$name.bundle"
"$stepmark" report --rank "bench/results/$name.bundle" --no-reference
echo "Add a line to bench/results/README.md: machine, date, rows."
