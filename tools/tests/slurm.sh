#!/bin/bash
# slurm.sh: sets up a Slurm cluster of two nodes on this machine, from Debian's packages, in a separate folder;
# submits the scripts of tools/slurm, waits, and checks the runs: their metrics, the scheduler's facts in them, and that
# warned, preempted or killed jobs resumed correctly. Needs root, for munge and slurmd; removes everything afterwards.
# slurm.sh PART... runs some parts: another, fixed_work, warned, preempted, killed.
# shellcheck disable=SC2086 # lists of flags
set -eu
cd "$(dirname "$0")/../.."
unset OMPI_MCA_btl
stepmark=build/release/stepmark
[ -x build/mpi/stepmark ] && stepmark=build/mpi/stepmark
if [ "$(id -u)" != 0 ]; then
    echo "test-slurm: munge and slurmd run as root; run it as root" >&2
    exit 1
fi
work=$(mktemp -d /tmp/stepmark-slurm-XXXXXX)
n_failed=0

# --- the cluster ---------------------------------------------------------------------------------

down() {
    for name in slurmd-one slurmd-two slurmctld munged; do
        [ -e "$work/$name.pid" ] && kill "$(cat "$work/$name.pid")" 2>/dev/null
    done
    for _ in $(seq 50); do
        pgrep -F "$work/munged.pid" >/dev/null 2>&1 || pgrep -F "$work/slurmctld.pid" >/dev/null 2>&1 || break
        sleep 0.1
    done
    rm -rf "$work"
}
trap down EXIT
trap 'exit 130' INT TERM

# cred_expire is how long a job that was put back waits before it starts again; two minutes by default.
# Two slurmd of one host. Jobs of partition urgent push those of batch aside, which get 10 s to end.
configure() {
    host=$(hostname -s)
    mkdir -p "$work/state" "$work/spool" "$work/tmp-one" "$work/tmp-two"
    chmod 755 "$work"
    dd if=/dev/urandom of="$work/munge.key" bs=128 count=1 2>/dev/null
    chmod 400 "$work/munge.key"
    cat >"$work/slurm.conf" <<END
ClusterName=stepmark
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
TmpFS=$work/tmp-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=bf_interval=1,batch_sched_delay=0,sched_interval=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
SlurmdParameters=config_overrides
NodeName=one NodeHostname=$host NodeAddr=127.0.0.1 Port=16821 CPUs=2
NodeName=two NodeHostname=$host NodeAddr=127.0.0.1 Port=16822 CPUs=2
PartitionName=batch Nodes=one,two Default=YES MaxTime=10 State=UP PriorityTier=1 GraceTime=10
PartitionName=urgent Nodes=one,two MaxTime=10 State=UP PriorityTier=10 PreemptMode=OFF
END
}

up() {
    configure
    munged --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
        --log-file="$work/munged.log" --seed-file="$work/munge.seed"
    export SLURM_CONF=$work/slurm.conf
    slurmctld -c -f "$SLURM_CONF"
    slurmd -N one -f "$SLURM_CONF"
    slurmd -N two -f "$SLURM_CONF"
    for _ in $(seq 100); do
        [ "$(sinfo -h -p batch -t idle -o %D 2>/dev/null)" = 2 ] && return 0
        sleep 0.1
    done
    tail -n 5 "$work"/*.log >&2
    echo "test-slurm: the cluster did not come up" >&2
    exit 1
}

# --- jobs ----------------------------------------------------------------------------------------

fail() {
    n_failed=$((n_failed + 1))
    echo "failed: $1"
    shift
    for file in "$@"; do
        tail -n 12 "$file" 2>/dev/null || true
    done
}

state_of() { squeue -h -j "$1" -t all -o %T 2>/dev/null || echo GONE; }

# Waits until the job is in one of these states.
wait_for() {
    job=$1
    shift
    for _ in $(seq 300); do
        state=$(state_of "$job")
        for wanted in "$@"; do
            [ "$state" = "$wanted" ] && return 0
        done
        sleep 0.2
    done
    return 1
}

# submit NAME SCRIPT [SBATCH'S FLAGS] -- FLAGS OF TRAIN: the job's number.
submit() {
    name=$1
    script=$2
    shift 2
    of_sbatch=""
    while [ "$1" != -- ]; do
        of_sbatch="$of_sbatch $1"
        shift
    done
    shift
    RUN_DIR="$work/$name" STEPMARK=$stepmark OMP_NUM_THREADS=1 XDG_CACHE_HOME="$work" sbatch --parsable \
        --output="$work/$name.out" $of_sbatch "tools/slurm/$script" -m tiny --seq-len 32 -b 1 --global-batch 4 \
        --data README.md --backend cpu -t 1 "$@"
}

# expect NAME FIELD PATTERN: what the metrics of a run say, where it has any (that is told by finish).
expect() {
    [ -e "$work/$1/training_metrics.json" ] || return 0
    value=$(python3 -c '
import json, sys
value = json.load(open(sys.argv[1]))
for key in sys.argv[2].split("."):
    value = len(value) if key == "n" else value[int(key)] if isinstance(value, list) else value[key]
print(value)' "$work/$1/training_metrics.json" "$2" 2>&1) || true
    case $value in
    $3) ;;
    *) fail "$1: $2 is '$value', not $3" ;;
    esac
}

# finish NAME JOB: it ends well and its run is valid.
finish() {
    wait_for "$2" COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL || true
    [ "$state" = COMPLETED ] || fail "$1: job $2 is $state" "$work/$1.out"
    $stepmark report --check "$work/$1" >"$work/check" 2>&1 || fail "$1: check-run" "$work/check"
    expect "$1" scheduler.name slurm
    expect "$1" scheduler.job_id "$2"
    expect "$1" completion.completed True
}

# Waits until a run has logged this many steps.
wait_for_steps() {
    for _ in $(seq 300); do
        [ "$(grep -c '^{"step"' "$work/$1/log.jsonl" 2>/dev/null || true)" -ge "$2" ] 2>/dev/null && return 0
        sleep 0.1
    done
    fail "$1: no $2 steps within 30 s" "$work/$1.out"
}

# --- what must hold ------------------------------------------------------------------------------

# One process; and 2, 4 and 2 nodes, where this program is built with MPI: the same work.
fixed_work() {
    runs=$work/n1
    job=$(submit n1 train_1.sbatch -- --steps 20)
    finish n1 "$job"
    expect n1 scheduler.partition batch
    expect n1 scheduler.n_nodes 1
    expect n1 summary.steps 20
    if [ "$stepmark" != build/mpi/stepmark ]; then
        echo "left out: more than one process: build/mpi/stepmark is not there (make mpi)"
        return 0
    fi
    for n in 2 4 2_nodes; do
        job=$(submit "n$n" "train_$n.sbatch" --overcommit -- --steps 20)
        finish "n$n" "$job"
        expect "n$n" training_config.n_processes "${n%_nodes}"
        runs="$runs $work/n$n"
    done
    expect n2_nodes scheduler.n_nodes 2
    $stepmark report --scaling $runs >"$work/scaling" 2>&1 || fail "scaling" "$work/scaling"
    cat "$work/scaling"
}

# A long run, once it has a checkpoint and is beyond it: `job`.
begin() {
    job=$(submit "$1" train_1.sbatch -- --steps 2000 --save-every 50)
    wait_for_steps "$1" 120
}

# It resumed where it was, and did the whole work.
ends_whole() {
    finish "$1" "$job"
    expect "$1" summary.steps 2000
    expect "$1" scheduler.restart_count 1
    expect "$1" starts.n 2
}

# Slurm's warning before the time limit: the job writes a checkpoint, leaves with 143, is queued again and resumes.
warned() {
    begin warned
    scancel --signal=TERM "$job.0" || true
    ends_whole warned
    expect warned starts.0.end.reason signal
}

# A job of higher priority takes both nodes; this one makes room, and resumes afterwards.
preempted() {
    begin preempted
    urgent=$(sbatch --parsable -p urgent --nodes=2 --exclusive --output=/dev/null --wrap "sleep 1")
    held=$job
    wait_for "$urgent" COMPLETED || fail "preempted: the urgent job did not run"
    job=$held
    ends_whole preempted
}

# A kill without a warning: the job is queued again by hand, as after a dead node, and resumes from its last checkpoint.
killed() {
    begin killed
    scancel --signal=KILL "$job.0" || true
    wait_for "$job" FAILED COMPLETED || true
    scontrol requeue "$job" || true
    ends_whole killed
}

# Another command than train, as it is.
another() {
    job=$(STEPMARK=$stepmark XDG_CACHE_HOME="$work" sbatch --parsable --output="$work/another.out" \
        tools/slurm/train_2_nodes.sbatch run --op all_reduce,broadcast --bytes 64K -r 3 -w 1 --output-file "$work/rows.jsonl")
    wait_for "$job" COMPLETED FAILED CANCELLED TIMEOUT NODE_FAIL || true
    [ "$(grep -c '"status": "ok"' "$work/rows.jsonl")" = 2 ] || fail "another: not two rows" "$work/another.out"
}

up
for part in ${*:-another fixed_work warned preempted killed}; do
    "$part"
    echo "test-slurm: $part: $n_failed failed so far"
done
[ "$n_failed" = 0 ]
