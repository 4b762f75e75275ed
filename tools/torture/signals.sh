#!/bin/bash
# signals.sh [STEPMARK]: sends SIGINT or SIGTERM at a random moment to every long-running subcommand. Each must
# end within the limit, with exit code 130 (143: a run in a folder; its own code if it had ended before), and leave no
# process and no temporary file.
#
# SIGNALS_ROUNDS: of all subcommands (5). SIGNALS_LIMIT_MS: for the end (2000). SIGNALS_SEED.
set -u
cd "$(dirname "$0")/../.." || exit 1
stepmark=$(realpath "${1:-build/release/stepmark}")
limit_ms=${SIGNALS_LIMIT_MS:-2000}
RANDOM=${SIGNALS_SEED:-$$}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder" || exit 1
"$stepmark" run -m tiny -b 1 --seq-len 8 -r 3 --no-peaks --backend cpu -o json >rows.json 2>/dev/null
"$stepmark" train --init -m tiny --save model >/dev/null 2>&1
"$stepmark" exercise residual --init mine >/dev/null 2>&1
sed -i 's|// Your code.|for (;;);|' mine/residual.c
seq 2000000 >text
"$stepmark" tokenize --vocab-size 300 --output tok text >/dev/null 2>&1

subcommands=(
    "devices"
    "run -m tiny -b 4 --seq-len 64 -r 100000 --no-peaks"
    "run -m small -b 1 --seq-len 64 -r 100"
    "profile -m tiny -b 4 --seq-len 64 -r 100000 --backend cpu"
    "advise -m tiny --seq-len 64 --mode fused -r 100000"
    "compare --without all -m tiny -b 4 --seq-len 64 -r 100000 --backend cpu"
    "devices --peaks --min-time 5"
    "train -m tiny -b 4 --seq-len 64 --steps 1000000 --save out --backend cpu"
    "verify"
    "verify --mode tuned"
    "walk -m medium --values"
    "estimate -m xl"
    "run -m tiny -b 1,2,4 --seq-len 8,16 -r 100000 --no-peaks"
    "compare --interleaved 'run -m tiny -r 100000' 'run -m tiny -r 100000'"
    "report rows.json"
    "train --init -m small --save fresh"
    "loop -m tiny -b 4 --seq-len 64 -r 100000 --no-peaks --loader threads:2"
    "train -m tiny -b 4 --seq-len 64 --steps 1000000 --run run --resume auto --save-every 100 --backend cpu"
    "page --output step.html"
    "ladder matmul --min-time 5"
    "exercise residual --check mine/residual.c --timeout 60"
    "tokenize --vocab-size 30000 --output fresh_tok text"
    "tokenize --tokenizer tok --output data text"
    "generate --weights model --prompt a --tokens 1000000"
)

n=0
n_wrong=0
wrong() {
    n_wrong=$((n_wrong + 1))
    echo "stepmark $line: $1"
}

for ((round = 0; round < ${SIGNALS_ROUNDS:-5}; round++)); do
    for line in "${subcommands[@]}"; do
        signal=$([ $((RANDOM % 2)) = 0 ] && echo INT || echo TERM)
        delay_ms=$((RANDOM % 1500))
        eval "set -- $line"
        # A job of its own, or the shell would have it ignore SIGINT.
        set -m
        "$stepmark" "$@" >out.txt 2>err.txt </dev/null &
        pid=$!
        set +m
        sleep "$(printf '0.%04d' $((delay_ms * 10 % 10000)))"
        [ "$delay_ms" -ge 1000 ] && sleep 1
        kill -s "$signal" "$pid" 2>/dev/null
        begin=$(date +%s%N)
        wait "$pid" 2>/dev/null
        code=$?
        elapsed_ms=$((($(date +%s%N) - begin) / 1000000))
        n=$((n + 1))
        [ "$elapsed_ms" -le "$limit_ms" ] || wrong "$elapsed_ms ms after SIG$signal at $delay_ms ms"
        # Before the program catches signals they end it as they end any. A run in a folder says by 143 that it was SIGTERM.
        case $code in 0 | 1 | 3 | 130) ;; 143) [ "$delay_ms" -lt 100 ] || [[ $line == *--run* ]] || wrong "exit code $code" ;; *) wrong "exit code $code: $(tail -n 1 err.txt)" ;; esac
        sleep 0.1
        [ -z "$(pgrep -g "$pid")" ] || wrong "left a process"
        left=$(find . -name '*.??????' -newer rows.json | grep -v -e '\.json$' | head -n 1)
        [ -z "$left" ] || wrong "left $left"
    done
done
echo "signals: $n signals, $n_wrong wrong"
[ "$n_wrong" = 0 ]
