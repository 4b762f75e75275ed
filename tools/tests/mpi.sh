#!/bin/sh
# mpi.sh [STEPMARK]: trains with several processes, started by mpirun on this machine, and compares with one.
#
#   PROCESSES="3"        how many
#   STEPS=10             of each training
#   BACKENDS="cpu"       cpu, opencl
#   WAYS="..."           flags to try, with commas for spaces
#   ALSO="narrow pair blocks cards"  more to compare: narrow formats; two processes by shared memory and by messages;
#                        states in blocks of 8 bits, shared out; cards that exchange by links and NCCL, in every way
# The losses of N processes are those of one within 1e-5, those of a run again are the same bits; a process that dies or
# stops ends all, and arguments, files and builds that differ are refused, each with one line that names the rank or the
# flag. Fresh weights are rank 0's for all, whatever another machine computes.
# shellcheck disable=SC2046,SC2086 # lists of flags
. "$(dirname "$0")/../script.sh"
stepmark=${1:-build/mpi/stepmark}
processes=${PROCESSES:-3}
steps=${STEPS:-10}
ways=${WAYS:---transport,auto --shard,optimizer,--transport,messages}
backends=${BACKENDS:-cpu}
command -v mpirun >/dev/null 2>&1 || { echo "test-mpi: left out: there is no mpirun (make mpi installs it)"; exit 0; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export STEPMARK_TEST_MPI=$$ # by which whatever was started here is found

# However this script ends, nothing that it started keeps running: mpirun ends its processes, and the rest is killed.
# Jobs run in the background and the shell waits for them, so that it handles a signal at once.
job=
leave() {
    [ -z "$job" ] || kill "$job" 2>/dev/null || true
    for _ in $(seq 50); do
        kill -0 "$job" 2>/dev/null || break
        sleep 0.1
    done
    for process in $(grep -lzx "STEPMARK_TEST_MPI=$$" /proc/[0-9]*/environ 2>/dev/null); do
        process=${process#/proc/}
        kill -KILL "${process%/environ}" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap leave EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
sizes="-m small --n-layer 2 --n-head 2 --d-model 48 --d-ff 96 --vocab 256 --context 32"
common="--seq-len 32 --lr 3e-4 --seed 7"
n_checks=0

fail() {
    cat "$work/err" >&2
    echo "test-mpi: $*" >&2
    exit 1
}

# start COMMAND...: in the background, and finish: its exit code.
start() {
    : >"$work/out" # of the one before it
    "$@" >"$work/out" 2>"$work/err" </dev/null &
    job=$!
}

finish() {
    code=0
    wait "$job" || code=$?
    job=
    return "$code"
}

# train NAME N ARGUMENTS...: NAME.jsonl is the log of N processes.
train() {
    log=$work/$1.jsonl
    count=$2
    shift 2
    rm -f "$log"
    start timeout 120 mpirun -n "$count" "$stepmark" train $common --log "$log" "$@"
    finish || fail "$count processes, $*: exit code $?"
}

# agree A B TOLERANCE: the losses of two logs, relative; 0: and norms, the same bits.
agree() {
    python3 - "$work/$1.jsonl" "$work/$2.jsonl" "$3" <<'PYTHON' || fail "$1 and $2 differ"
import json, sys
first, second = ([json.loads(line) for line in open(name)] for name in sys.argv[1:3])
limit = float(sys.argv[3])
assert len(first) == len(second) > 0
for a, b in zip(first, second):
    if limit == 0:
        assert (a["loss"], a["grad_norm"]) == (b["loss"], b["grad_norm"]), (a, b)
    assert abs(a["loss"] - b["loss"]) <= limit * abs(a["loss"]), (a, b)
    assert a["tokens"] == b["tokens"]
PYTHON
    n_checks=$((n_checks + 1))
}

# as NAME TOLERANCE N ARGUMENTS...: a training of N processes, now.jsonl, has NAME's losses.
as() {
    name=$1
    tolerance=$2
    shift 2
    train now "$@"
    agree "$name" now "$tolerance"
}

# on BACKEND: the flags of a training of all steps there.
on() { echo "$sizes --backend $1 --steps $steps -b 2 $([ "$1" != cpu ] || echo --threads 1)"; }

compare_with_one() {
    n=$2
    train one 1 $(on "$1") --accum $((2 * n))
    for way in $ways; do
        as one 1e-5 "$n" $(on "$1") --accum 2 $(echo "$way" | tr , ' ')
    done
    mv "$work/now.jsonl" "$work/many.jsonl"
    as many 0 "$n" $(on "$1") --accum 2 $(echo "$way" | tr , ' ')
    as one 1e-2 "$n" $(on "$1") --accum 2 --gradient-format bf16
}

# The loss scale, which halves for all where one process's gradients are not finite; narrow copies of sharded weights;
# scales of fp8, by the numbers of all.
compare_narrow() {
    for precision in fp16 bf16; do
        train one 1 $(on cpu) --precision $precision --accum 2
        train many 2 $(on cpu) --precision $precision
        agree one many 2e-3
        as many 1e-4 2 $(on cpu) --precision $precision --shard optimizer
    done
    train one 1 $(on reference) --precision fp8 --accum 2
    as one 2e-3 2 $(on reference) --precision fp8
    as one 2e-3 2 $(on reference) --precision fp8 --shard optimizer
}

# Two processes add two numbers, whoever does it and however they travel: the same bits.
compare_pair() {
    for backend in $backends; do
        for way in "" "--shard optimizer" "--gradient-format bf16"; do
            train shared 2 $(on $backend) --accum 2 $way --backend $backend,$backend
            as shared 0 2 $(on $backend) --accum 2 $way --transport messages
        done
    done
}

# States in blocks with a scale each: slices keep them whole.
compare_blocks() {
    for backend in $backends; do
        for n in $processes; do
            train one 1 $(on $backend) --optimizer adamw8bit --accum "$n"
            train many "$n" $(on $backend) --optimizer adamw8bit --shard optimizer
            agree one many 1e-4
            as many 0 "$n" $(on $backend) --optimizer adamw8bit --shard optimizer
        done
    done
}

# Documents: a step's loss and gradient are means over all its real tokens, whichever process or micro-batch has them.
compare_documents() {
    for padding in max bucket; do
        train one 1 $(on cpu) --documents 3-32 --padding $padding --accum 4
        as one 1e-5 2 $(on cpu) --documents 3-32 --padding $padding --accum 2 --loader inline
    done
    train wide 1 $(on cpu) -b 4 --documents 3-32 --padding max --accum 2
    as wide 1e-5 2 $(on cpu) -b 1 --documents 3-32 --padding max --accum 4
}

# A sharded state is saved as any other is: any number of processes resumes from it.
compare_resumed() {
    going_on="--threads 1 --steps $steps --weights $work"
    train first 2 $sizes --threads 1 --steps 3 -b 3 --shard optimizer --save "$work/state"
    train two 2 $going_on/state -b 3
    as two 1e-5 3 $going_on/state -b 2 --shard optimizer
    train first 2 $sizes --threads 1 --steps 3 -b 3 --shard optimizer --optimizer adamw8bit --save "$work/blocks"
    train one 1 $going_on/blocks -b 2 --accum 3 --optimizer adamw8bit
    as one 1e-4 3 $going_on/blocks -b 2 --shard optimizer --optimizer adamw8bit # rounding may take a number's next code
}

# worker RANK: the process that works for that rank, under the one that mpirun started.
worker() {
    for process in /proc/[0-9]*; do
        parent=$(awk '{ print $4 }' "$process/stat" 2>/dev/null) || continue
        if grep -qzx "OMPI_COMM_WORLD_RANK=$1" "$process/environ" 2>/dev/null &&
            grep -qzx "STEPMARK_TEST_MPI=$$" "$process/environ" 2>/dev/null &&
            [ "$(cat "/proc/$parent/comm" 2>/dev/null)" = "$(cat "$process/comm")" ]; then
            basename "$process"
            return
        fi
    done
}

# lose SIGNAL LINE [FLAGS]: one of three processes is killed, or stopped; the others end within seconds, on a busy machine
# within half a minute, and say which.
lose() {
    signal=$1
    said=$2
    shift 2
    [ $# -gt 0 ] || set -- $sizes --threads 1
    start timeout 120 mpirun -n 3 "$stepmark" train $common "$@" --steps 100000000 --comm-timeout 3
    for _ in $(seq 600); do
        [ "$(grep -c '^step' "$work/out")" -gt 5 ] && break
        sleep 0.1
    done
    victim=$(worker 1)
    [ -n "$victim" ] || fail "no process of rank 1"
    begun=$(date +%s)
    kill -"$signal" "$victim"
    ! finish || fail "SIG$signal to rank 1: exit code 0"
    [ $(($(date +%s) - begun)) -le 30 ] || fail "SIG$signal to rank 1: it took $(($(date +%s) - begun)) s to end"
    [ "$(grep -c -- "$said" "$work/err")" = 1 ] || fail "SIG$signal to rank 1: not one line says '$said'"
    n_checks=$((n_checks + 1))
}

refuse() {
    said=$1
    shift
    start timeout 60 mpirun "$@"
    ! finish || fail "$*: exit code 0"
    [ "$(grep -c -- "$said" "$work/err")" = 1 ] || fail "not one line says '$said'"
    n_checks=$((n_checks + 1))
}

prepare() {
    start "$@"
    finish || fail "$*: exit code $code"
}

# Processes with folders of their own, as hosts have them, and the same names in these.
prepare_hosts() {
    program=$(realpath "$stepmark")
    # shellcheck disable=SC2016 # the launcher's variable
    printf '#!/bin/sh\ncd "%s/host$OMPI_COMM_WORLD_RANK" && exec "$@"\n' "$work" >"$work/host"
    chmod +x "$work/host"
    mkdir "$work/host0"
    head -c 30000 docs/measurement.md >"$work/host0/text"
    head -c 9000 docs/training.md >"$work/host0/val"
    prepare "$program" tokenize --vocab-size 280 --output "$work/host0/words" README.md
    prepare "$program" train $sizes $common --threads 1 --steps 2 --save "$work/host0/weights"
}

# two_hosts ARGUMENTS...: what two processes on the hosts' folders are started by.
two_hosts() { echo "-n 2 $work/host $program train $* --threads 1 --steps 2"; }

# differ FLAG CHANGE ARGUMENTS...: with CHANGE done in rank 1's folder nothing begins.
differ() {
    flag=$1
    change=$2
    shift 2
    rm -rf "$work/host1"
    cp -r "$work/host0" "$work/host1"
    (cd "$work/host1" && eval "$change" >/dev/null 2>&1)
    refuse "$flag: is .* for rank 1 and .* for rank 0; give all processes the same" $(two_hosts "$@")
    [ "$code" = 2 ] || fail "$flag differs: exit code $code"
    [ ! -s "$work/out" ] || fail "$flag differs, and steps were done"
}

compare_files() {
    data="$common --data text --data-format bytes"
    words="-m tiny --vocab 300 $common --data text --tokenizer words"
    cp -r "$work/host0" "$work/host1"
    prepare timeout 60 mpirun $(two_hosts $data --val-data val --weights weights --shard optimizer)
    prepare timeout 60 mpirun $(two_hosts $words)
    differ --data "echo >>text" $sizes $data
    differ --val-data "tr e E <val >v; mv v val" $sizes $data --val-data val
    differ --tokenizer "\"$program\" tokenize --vocab-size 279 --output words text" $words
    differ "--weights: model.safetensors" "\"$program\" train --init $sizes --seed 8 --save weights" $data --weights weights
    differ "--weights: optimizer.safetensors" "rm weights/optimizer.safetensors" $data --weights weights --shard optimizer
    cp "$program" "$work/stepmark"
    echo >>"$work/stepmark"
    refuse "the build: is commit .* for rank 1 and .* for rank 0" -n 1 "$program" train $sizes $common : -n 1 "$work/stepmark" train $sizes $common
    rm "$work/host1/text"
    refuse "rank 1: text: cannot open" $(two_hosts $sizes $data)
}

# have_cards: from here on OpenCL's processor is a card with NCCL in the host's memory (tests/shims).
have_cards() {
    mkdir -p "$work/card"
    for library in opencl_faults:libOpenCL.so.1 cuda:libcuda.so.1 nccl:libnccl.so.2; do
        ${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -I include -shared -fPIC -o "$work/card/${library#*:}" "tests/shims/${library%:*}.c" -ldl
    done
    STEPMARK_OPENCL=$(ldconfig -p | sed -n 's/.*libOpenCL.so.1 .*=> //p' | head -n 1)
    export STEPMARK_OPENCL STEPMARK_CARD=1 LD_LIBRARY_PATH="$work/card"
    cards="-m tiny -b 1 --seq-len 16 --backend opencl" # whose kernels other tests build, too
}

have_none() { unset STEPMARK_OPENCL STEPMARK_CARD STEPMARK_CARD_LACKS LD_LIBRARY_PATH; }

# A /dev/shm without room, where this user may mount one.
few_shared() {
    # shellcheck disable=SC2016 # the inner shell expands it; a list of flags
    prepare unshare -m sh -c 'mount -t tmpfs -o size=64k none /dev/shm && exec timeout 60 mpirun --mca btl self,tcp -n 2 "$@"' - \
        "$stepmark" train $sizes $common --steps 3 -b 2
    grep -q "shared memory would be faster: /dev/shm has 0.1 MiB left" "$work/err" || fail "a small /dev/shm is not told"
}

# Kernels of linked cards and NCCL's streams exchange the same as the host: for two processes, to the bit.
compare_few_cards() {
    have_cards
    train host 2 $cards --steps "$steps" --transport memory --shard optimizer
    as host 0 2 $cards --steps "$steps" --shard optimizer --save "$work/shards"
    grep -q "gradients travel by the cards' own links" "$work/err" || fail "auto: no links"
    lose KILL "rank 1 has died" $cards
    for way in p2p nccl memory; do exchange --op all_reduce,reduce_scatter,all_gather,broadcast --bytes 64K,8M --backend opencl --transport $way; done
    for way in p2p nccl memory; do exchange $cards --no-peaks --buckets 0,all --shard optimizer --transport $way; done # some slices are empty
    exchange --op all_reduce,reduce_scatter --bytes 8M --backend opencl --gradient-format bf16 --transport p2p
    export STEPMARK_CARD_LACKS=link
    as host 0 2 $cards --steps "$steps" --shard optimizer
    grep -q "gradients travel by NCCL .*, Ring, Simple; ordered by a flag" "$work/err" || fail "auto: no NCCL"
    # Each process reads what its own checks of the last step draw, amid exchanges that all hand over together.
    for _ in 1 2 3; do train nccl 2 $cards --steps 1 --shard optimizer; done
    have_none
}

compare_cards() {
    have_cards
    for lacks in "" flag; do
        export STEPMARK_CARD_LACKS=$lacks
        for way in "" "--shard optimizer" "--gradient-format bf16" "--shard optimizer --gradient-format bf16 --precision bf16"; do
            train host 2 $cards --accum 2 --steps "$steps" --transport memory $way
            as host 0 2 $cards --accum 2 --steps "$steps" --transport nccl $way
            train host 3 $cards --steps "$steps" --transport memory $way
            train nccl 3 $cards --steps "$steps" --transport nccl $way
            agree host nccl 1e-4
            as nccl 0 3 $cards --steps "$steps" --transport nccl $way
            for n in 2 3; do
                train host $n $cards --accum 2 --steps "$steps" --transport memory $way
                as host 0 $n $cards --accum 2 --steps "$steps" --transport p2p $way
            done
        done
        for transport in p2p nccl; do
            lose KILL "rank 1 has died" $cards --transport $transport
            lose STOP "rank 1 did not answer for 3 s" $cards --transport $transport
        done
    done
    train first 2 $cards --steps 3 --transport nccl --shard optimizer --save "$work/cards"
    going_on="--backend opencl -b 2 --steps $steps --weights $work/cards"
    train host 3 $going_on --transport memory
    for transport in p2p nccl; do
        as host 1e-5 3 $going_on --transport $transport --shard optimizer
    done
    export STEPMARK_CARD_LACKS=link STEPMARK_NCCL_FAULT="join 1" # as for two processes on one card
    refuse "rank 0: --transport p2p: .* cuMemImportFromShareableHandle" -n 2 "$stepmark" train $common $cards --transport p2p
    refuse "rank 0: --transport nccl: .* ncclCommInitRank: NCCL: internal error" -n 2 "$stepmark" train $common $cards --transport nccl
    train auto 2 $cards --steps 3
    grep -q "NCCL would be faster: .* ncclCommInitRank" "$work/err" || fail "auto: no word of why NCCL is not used"
    unset STEPMARK_NCCL_FAULT
    have_none
}

# begin_run FOLDER: two processes train there from step 2 to 6, and again from 4, with whole weights, though only their
# copies are gathered in a step; what it leaves is what a run leaves that was killed after step 4.
begin_run() {
    cd "$work/$1"
    for time in first again; do
        prepare timeout 60 mpirun -n 2 "$program" train $going_on --precision bf16 --val-data val --keep-best --prompt a
        mv run/model $time
        rm -r run/RUN_COMPLETE.txt run/training_metrics.json run/checkpoints/step-6
    done
    cmp first/model.safetensors again/model.safetensors || fail "a run that resumes has other weights"
    cd "$here"
}

# A run that resumes, but the second process has another checkpoint of the same run and step.
compare_checkpoints() {
    going_on="--run run --resume auto --weights weights --data text --data-format bytes $common -b 1 --threads 1 --steps 4 --save-every 2 --sample-every 3 --shard optimizer"
    here=$PWD
    begin_run host0
    cp -r "$work/host0" "$work/other"
    rm -r "$work/other/run/checkpoints/step-4"
    prepare "$program" train --init $sizes --seed 8 --save "$work/other/weights"
    begin_run other
    rm -r "$work/host1"
    cp -r "$work/host0" "$work/host1"
    rm -r "$work/host1/run"
    cp -r "$work/other/run" "$work/host1"
    refuse "the checkpoint of step 4: is .* for rank 1 and .* for rank 0; give all processes the same run folder" \
        -n 2 "$work/host" "$program" train $going_on
    [ "$code" = 2 ] || fail "another checkpoint: exit code $code"
}

# Fresh weights are rank 0's: the second process would draw others.
compare_fresh() {
    ${CC:-cc} -shared -fPIC -o "$work/trigonometry.so" tests/shims/trigonometry.c -lm
    for way in "" "--shard optimizer"; do
        flags="$sizes $common --threads 1 --steps 3 -b 2 $way"
        train alike 2 $flags
        rm -f "$work/mixed.jsonl"
        prepare timeout 60 mpirun -n 1 "$stepmark" train $flags --log "$work/mixed.jsonl" : \
            -n 1 env LD_PRELOAD="$work/trigonometry.so" "$stepmark" train $flags --log "$work/mixed.jsonl"
        agree alike mixed 0
    done
}

for backend in $backends; do
    for n in $processes; do
        compare_with_one "$backend" "$n"
    done
done
for part in ${ALSO:-}; do
    "compare_$part"
done
compare_documents
compare_resumed
prepare_hosts
compare_files
compare_checkpoints
compare_fresh
# Its checks repeat a step, for which the tokens of all are gathered again, and times decide how many steps there are.
for way in memory messages; do prepare timeout 60 mpirun -n 2 "$stepmark" loop $sizes --seq-len 32 -b 2 -t 1 --no-peaks --transport $way; done
prepare timeout 60 mpirun -n 2 "$stepmark" loop $sizes --seq-len 32 -b 2 -t 1 --no-peaks --backend cpu,reference -r 2 -o jsonl
grep -q '"devices": "cpu .*, reference"' "$work/out" || fail "a row does not say that its devices differ"
# Exchanges by themselves, and of steps: each row is checked, and a file has them all.
exchange() {
    rm -f "$work/rows.jsonl"
    prepare timeout 60 mpirun -n 2 "$stepmark" run -r 3 -w 1 --output-file "$work/rows.jsonl" "$@"
    failed=$(grep -v '"status": "ok"' "$work/rows.jsonl" | grep -o '"\(status\|reason\)": "[^"]*"') || true
    [ -z "$failed" ] || fail "$*: $failed"
    ! grep -q '"bus_bandwidth": null, .*"op": "all' "$work/rows.jsonl" || fail "$*: a row has no bandwidth"
    n_checks=$((n_checks + 1))
}
for way in memory messages; do exchange --op all_reduce,reduce_scatter,all_gather,broadcast --bytes 64K-1M*16 --transport $way; done
exchange --op all_reduce,broadcast --bytes 300004 --gradient-format bf16 --place in,out
rm "$work/rows.jsonl"
prepare env SLURM_SUBMIT_DIR=. LAUNCH="mpirun -n 2" SLURM_JOB_NAME=exchange SLURM_JOB_ID=1 STEPMARK="$stepmark" \
    bash tools/slurm/train_2_nodes.sbatch run --op all_reduce --bytes 300004 -r 3 -w 1 --gradient-format bf16 --output-file "$work/rows.jsonl"
prepare timeout 60 mpirun -n 2 "$stepmark" run -r 3 -w 1 --output-file "$work/rows.jsonl" --op all_reduce --bytes 300004,64K --gradient-format bf16 --resume
[ "$(wc -l <"$work/rows.jsonl")" = 2 ] || fail "--resume: not one more row"
prepare timeout 60 mpirun -n 2 "$stepmark" run -r 2 -w 0 --output-file "$work/rows.csv" --op all_reduce --bytes 4K,8K
[ "$(wc -l <"$work/rows.csv")" = 3 ] || fail "a file that is written as a whole has not each row"
exchange $sizes -b 2 --seq-len 32 -t 1 --no-peaks --buckets 0,16K,all --shard none,optimizer
[ "$(grep -c '"headline_hidden_ns": [0-9]' "$work/rows.jsonl")" = 6 ] || fail "a row does not say what is hidden"
exchange $sizes -b 2 --seq-len 32 -t 1 --no-peaks --shard optimizer,none --accum 2
rm "$work/rows.jsonl" # a preset's flags for ops alone are not for its loops
prepare timeout 60 mpirun -n 2 "$stepmark" run --preset cs336-2-exchange $sizes --bytes 64K -w 1 -r 2 --seq-len 32 --output-file "$work/rows.jsonl"
grep -q 'Exchanges of a step' "$work/rows.tex" && grep -q ' N=2 out & shared memory' "$work/rows.tex" || fail "the exchanges' preset has no tables"
refuse "needs several processes" -n 1 "$stepmark" run --op all_reduce
compare_few_cards
! unshare -m true 2>/dev/null || few_shared
lose KILL "rank 1 has died"
lose STOP "rank 1 did not answer for 3 s"
refuse "lr: is 0.1 for rank 1 and 3e-4 for rank 0" -n 1 "$stepmark" train $sizes $common : -n 1 "$stepmark" train $sizes $common --lr 0.1
refuse "muon cannot be" -n 2 "$stepmark" train $sizes $common --shard optimizer --optimizer muon
refuse "run measures with one process" -n 2 "$stepmark" run -m tiny --no-peaks
refuse "cannot open" -n 2 "$stepmark" train $sizes $common --data "$work/missing"
echo "test-mpi: $n_checks comparisons and failures of $processes processes hold"
