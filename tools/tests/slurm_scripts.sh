#!/bin/bash
# slurm_scripts.sh: tests tools/slurm with stand-ins for Slurm's commands: the scripts are valid bash, each
# requests the processes in its name, and train.sh starts the program, reports its end and requeues the job after the
# warning. `make test-slurm` uses a real Slurm.
. "$(dirname "$0")/../script.sh"
root=$PWD
n_failed=0
fail() {
    n_failed=$((n_failed + 1))
    echo "failed: $1"
}

for script in tools/slurm/*.sbatch tools/slurm/train.sh tools/tests/slurm.sh; do
    bash -n "$script" || fail "$script: its syntax"
done
for n in 1 2 4; do
    grep -q "^#SBATCH --ntasks=$n\$" "tools/slurm/train_$n.sbatch" || fail "train_$n.sbatch: --ntasks=$n"
done
grep -q '^#SBATCH --nodes=2$' tools/slurm/train_2_nodes.sbatch || fail "train_2_nodes.sbatch: --nodes=2"
for script in tools/slurm/*.sbatch; do
    for line in --requeue --signal=TERM@ --open-mode=append; do
        grep -q "^#SBATCH $line" "$script" || fail "$script: #SBATCH $line"
    done
    if sinfo >/dev/null 2>&1; then
        sbatch --test-only --overcommit "$script" >"$work/log" 2>&1 || fail "$script: $(cat "$work/log")"
    fi
done

# Stand-ins: srun runs its command once; the program says its arguments and ends as it is told.
mkdir "$work/bin" "$work/tools"
ln -s "$root/tools/slurm" "$work/tools/slurm"
cat >"$work/bin/srun" <<'END'
#!/bin/bash
[ "$1" = --mpi=list ] && echo "$MPI_LIST" && exit 0
while [ "${1#--}" != "$1" ]; do shift; done
"$@"
END
cat >"$work/bin/mpirun" <<'END'
#!/bin/bash
echo "by mpirun $*"
touch "$RUN_DIR/RUN_COMPLETE.txt"
END
printf '#!/bin/bash\necho "$*" >>scontrol.log\n' >"$work/bin/scontrol"
cat >"$work/program" <<'END'
#!/bin/bash
echo "program $*"
mkdir -p "$RUN_DIR"
[ "$ENDS" = 0 ] && touch "$RUN_DIR/RUN_COMPLETE.txt"
[ "$ENDS" = term ] && { trap 'exit 143' TERM; kill -TERM $PPID; sleep 0.2; exit 143; }
exit "${ENDS#lost}"
END
chmod +x "$work"/bin/* "$work/program"

# run CODE ENDS: a job whose program ends so leaves with CODE.
run() {
    rm -rf "$work/scontrol.log" "$work/run"
    mkdir "$work/run"
    code=0
    (cd "$work" && PATH="$work/bin:$PATH" SLURM_SUBMIT_DIR=$work SLURM_JOB_ID=7 SLURM_JOB_NAME=j SLURM_NTASKS=2 \
        RUN_DIR=$work/run STEPMARK=$work/program ENDS=$2 MPI_LIST=${3-pmix} \
        bash tools/slurm/train_2.sbatch --data tokens --steps 5) >"$work/log" 2>&1 || code=$?
    [ "$code" = "$1" ] || fail "a program that ends with $2: the job leaves with $code, not $1: $(cat "$work/log")"
}
has() { grep -qe "$1" "$work/$2" 2>/dev/null || fail "$2 does not say '$1': $(cat "$work/$2")"; }

run 0 0
has "program train --run $work/run --resume auto .*--global-batch 16 --steps 3561 .*--data tokens --steps 5" log
[ ! -e "$work/scontrol.log" ] || fail "a job that ended well was put back"
run 1 lost0 # srun says 0, and the run is not complete
run 9 9
[ ! -e "$work/scontrol.log" ] || fail "a job that failed was put back"
run 143 143
has "^requeue 7$" scontrol.log
run 143 term # the signal reaches the job's shell, too
has "^requeue 7$" scontrol.log
run 0 0 none
has "by mpirun .*program train" log

[ "$n_failed" = 0 ] && echo "Slurm's scripts: passed"
[ "$n_failed" = 0 ]
