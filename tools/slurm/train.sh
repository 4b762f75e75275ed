#!/bin/bash
# train.sh: the common part of this folder's sbatch scripts, which source it. Trains in a run folder, resumes where the
# job ended before, and puts the job back into the queue when Slurm's warning ended it.
#
#   sbatch tools/slurm/train_2.sbatch --data tokens [FLAGS OF TRAIN]
#
# The flags given after the script follow the ones below, and win. Another command in their place is only started:
#
#   sbatch tools/slurm/train_2_nodes.sbatch run --op all_reduce,broadcast --bytes 1M-1G*4 --output-file rows.jsonl
#
# From the environment:
#
#   STEPMARK   the program; not given: build/mpi/stepmark (`make mpi`), else build/release/stepmark, for one process
#   RUN_DIR    the run folder; not given: runs/NAME-ID of the job. The same after a requeue
#   LAUNCH     what starts the processes; not given: srun with PMIx, or mpirun where this Slurm has no PMIx
#
# For devices: sbatch --gpus-per-task=1 ..., and --backend opencl after the script.
set -u
cd "${SLURM_SUBMIT_DIR:-.}" || exit 1
if [ -z "${STEPMARK:-}" ]; then
    STEPMARK=build/mpi/stepmark
    [ -x "$STEPMARK" ] || STEPMARK=build/release/stepmark
fi
RUN_DIR=${RUN_DIR:-runs/$SLURM_JOB_NAME-$SLURM_JOB_ID}
if [ -z "${LAUNCH:-}" ]; then
    LAUNCH="mpirun --bind-to none"
    if srun --mpi=list 2>&1 | grep -q pmix; then
        LAUNCH="srun --mpi=pmix --kill-on-bad-exit=1"
    fi
fi
case ${1:-} in
[a-z]*) exec $LAUNCH "$STEPMARK" "$@" ;;
esac
mkdir -p "$(dirname "$RUN_DIR")"

# The fixed work: 3,561 steps of 16 sequences of 512 tokens, whatever the number of processes; by the settings of the
# published runs.
work=(-m small --seq-len 512 -b 4 --global-batch 16 --steps 3561 --save-every 500 --keep 2
    --order sequential --schedule constant --warmup-steps 0 --grad-clip 0 --beta2 0.999 --lr 1e-3)

# Without exec: this shell stays, to put the job back. Slurm's SIGTERM is for the processes, which then write a
# checkpoint and leave with 143.
trap ':' TERM
# shellcheck disable=SC2086 # a command with its flags
$LAUNCH "$STEPMARK" train --run "$RUN_DIR" --resume auto "${work[@]}" "$@" &
launched=$!
status=0
wait "$launched" || status=$?
while [ "$status" -gt 128 ] && kill -0 "$launched" 2>/dev/null; do # it was this shell's wait that the signal ended
    wait "$launched" && status=0 || status=$?
done
if [ "$status" = 0 ] && [ ! -e "$RUN_DIR/RUN_COMPLETE.txt" ]; then
    status=1 # srun may say 0 where it could not start the processes
fi
echo "train ended with $status"
if [ "$status" = 143 ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
