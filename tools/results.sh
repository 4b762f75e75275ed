#!/bin/sh
# results.sh STEPMARK NAME: measures GPT-2 small on every device of this machine, and keeps the rows as a bundle in
# bench/results/. The work is that of the other references, and what a machine with little memory can do.
set -eu
stepmark=$1
name=$2
rows=$(mktemp)
trap 'rm -f "$rows"' EXIT
for work in "-b 1 --seq-len 1024" "-b 4 --seq-len 128"; do
    for precision in fp32 tf32 bf16; do
        # A device without that number format has a row that says so; the others are measured.
        # shellcheck disable=SC2086
        "$stepmark" run -m small $work --precision "$precision" --output-file "$rows" -o jsonl >/dev/null || true
    done
done
grep '"status": *"ok"' "$rows" >"$rows.ok" || { rm -f "$rows.ok"; echo "results.sh: nothing could be measured" >&2; exit 1; }
"$stepmark" report "$rows.ok" --bundle "bench/results/$name.bundle"
rm -f "$rows.ok"
"$stepmark" report --rank "bench/results/$name.bundle" --no-reference
echo "Add a line to bench/results/README.md: machine, date, rows."
