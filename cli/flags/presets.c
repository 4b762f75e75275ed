// presets.c: sweeps with names. A line is a product of lists; CORES stands for the number of processors. A flag on the
// command line replaces the preset's, for instance to scale a sweep down to a small machine.
#include "cli/flags/flag.h"

typedef struct {
    const char *name, *lines;
} preset;

// The handout's sizes, small to xl and 10B.
#define CS336_SIZE(size) \
    size " --vocab 10000 --context 512 --seq-len 512 -b 4 -w 5 -r 10 --pass-type forward,separate,step\n"
#define CS336_SIZES         \
    CS336_SIZE("-m small")  \
    CS336_SIZE("-m medium") \
    CS336_SIZE("-m large")  \
    CS336_SIZE("-m 2.7B")   \
    CS336_SIZE("-m 2.7B --d-model 4608 --d-ff 12288 --n-layer 50 --n-head 36")

static const preset presets[] = {
    // The frozen work of docs/score.md, in fp32 and in the format of matrix units.
    {"score", "-m small --seq-len 1024 --fit 60 --precision fp32,bf16 -w 1 --max-noise 0.5 --min-samples 6 "
              "--max-samples 60 --min-time 5 --max-time 25 --no-phases\n"},
    // A macro benchmark: batch size by mode and precision, then attention, depth, heads and length.
    {"macro", "-m small --seq-len 512 -b 1-16*2 --mode naive,fused,tuned --precision fp32,bf16 -w auto -r 10\n"
              "-m small --seq-len 512 -b 1-16*2 --mode fused --without flash_attention -w auto -r 10\n"
              "-m small --seq-len 512 -b 4 --n-layer 6,12,24 --mode naive,fused -w auto -r 10\n"
              "-m small --seq-len 512 -b 4 --n-head 6,12,24 --mode naive,fused -w auto -r 10\n"
              "-m small --seq-len 128-1024*2 -b 4 --mode naive,fused -w auto -r 10\n"},
    // Model sizes at batch 4, context 512, by pass, precision and mode.
    {"sizes", "-m small,medium,large,xl,2.7B --seq-len 512 -b 4 -w 5 -r 10 --pass-type "
              "forward,backward,forward-backward,separate,step\n"
              "-m small,medium,large,xl,2.7B --seq-len 512 -b 4 -w 5 -r 10 --precision fp32,tf32,bf16\n"
              "-m small,medium,large,xl,2.7B --seq-len 512 -b 4 -w 5 -r 10 --mode naive,fused\n"},
    // Forward and backward separately, vocabulary 10,000, context 128; memory by context; no warm-up.
    {"fwdbwd",
     "-m small,medium,large,xl,2.7B --vocab 10000 --seq-len 128 -b 4 -w 5 -r 10 --pass-type "
     "forward,separate,forward-backward,step\n"
     "-m small,medium,large,xl,2.7B --vocab 10000 --seq-len 128-512*2 -b 4 -w 5 -r 10 --pass-type forward,step\n"
     "-m small,medium,large,xl,2.7B --vocab 10000 --seq-len 128 -b 4 -w 0 -r 10 --pass-type separate\n"},
    // The tables of an assignment of a systems course (CS336, assignment 2), in order of cost, with its sizes and its
    // vocabulary: attention by itself, memory by context, optimizer's share, modes and precision, warm-up,
    // recomputation, forward and backward by size. -m 2.7B is the handout's xl.
    {"cs336-2",
     "--op attention --attention naive,flash --n-head 1 --head-dim 16,32,64,128 -b 8 --seq-len 256-4096*2 -w 5 -r 20\n"
     "-m small --vocab 10000 --context 512 --seq-len 128-512*2 -b 4 -w 5 -r 10 --pass-type forward,step\n"
     "-m small --vocab 10000 --context 512 --seq-len 512 -b 4 -w 5 -r 10 --optimizer adamw,sgd,adamw8bit\n"
     "-m small --vocab 10000 --context 512 --seq-len 512 -b 4 -w 5 -r 10 --mode naive,fused,tuned --precision "
     "fp32,bf16\n"
     "-m small --vocab 10000 --context 512 --seq-len 512 -b 4 -w 0,1,2,5 -r 10 --pass-type separate\n"
     "-m small,medium --vocab 10000 --context 512 --seq-len 512 -b 4 -w 5 -r 10 --recompute "
     "light,block,block:2,block:4,block:6\n"
     "--op attention --attention naive,flash --n-head 1 --head-dim 16,32,64,128 -b 8 --seq-len 8192,16384 -w 1 -r "
     "5\n" CS336_SIZES},
    {"cs336-2-sizes", CS336_SIZES},
    // Its sections on several processes, for mpirun: exchanges by themselves; naive, flat and in buckets; sharded.
    {"cs336-2-exchange",
     "--op all_reduce,reduce_scatter,all_gather,broadcast --bytes 1M-64M*4 --place in,out -w 5 -r 20\n"
     "-m small --vocab 10000 --context 512 --seq-len 128 -b 2 -w 5 -r 10 --buckets 0,1M,25M,all\n"
     "-m small --vocab 10000 --context 512 --seq-len 128 -b 2 -w 5 -r 10 --buckets 25M --shard none,optimizer\n"},
    {"warmup", "-m small --seq-len 512 -b 4 -w 0,1,2,5,10,auto -r 10\n"},
    {"threads", "-m small --seq-len 256 -b 4 -t 1-CORES*2,CORES -w auto -r 10\n"},
    {"seq-len", "-m small --seq-len 64-1024*2 -b 4 --mode naive,fused -w auto -r 10\n"},
    {"batch", "-m small --seq-len 256 -b 1-64*2 -w auto -r 10\n"},
    {"precision", "-m small --seq-len 256 -b 4 --precision fp32,tf32,tf32x3,bf16x6,bf16,fp16 -w auto -r 10\n"},
    {"attention", "-m small --seq-len 128-1024*2 -b 4 --attention naive,flash -w auto -r 10\n"},
    {"padding", "-m small --seq-len 512 -b 4 -w auto -r 10\n"
                "-m small --seq-len 512 -b 4 --documents 20-512 --padding max,batch,bucket,packed -w auto -r 10\n"},
    // The time of a training loop: by mode, padding, and loader.
    {"micro", "-m small --seq-len 512 -b 4 --mode naive,fused --loader inline,threads:1,threads:2 -w auto -r 10\n"
              "-m small --seq-len 512 -b 4 --mode naive,fused --documents 20-512 --padding max,batch,bucket,packed "
              "--loader threads:1 -w auto -r 10\n"},
    {"modes", "-m small --seq-len 256 -b 4 --mode naive,fused,tuned -w auto -r 10\n"
              "-m small --seq-len 256 -b 4 --mode fused --without flash_attention -w auto -r 10\n"
              "-m small --seq-len 256 -b 4 --mode fused --without matmul_epilogue -w auto -r 10\n"
              "-m small --seq-len 256 -b 4 --mode fused --without residual_layernorm -w auto -r 10\n"
              "-m small --seq-len 256 -b 4 --mode fused --without loss_head -w auto -r 10\n"},
};

const char *cli_preset_at(int index) { return index < (int)SM_COUNT(presets) ? presets[index].name : NULL; }

// A preset in order of cost runs in that order, so that its first tables come soon.
bool cli_preset_is_ordered(const char *name) { return strncmp(name, "cs336-2", strlen("cs336-2")) == 0; }

const char *cli_preset_find(const char *name) {
    const char *lines = NULL;
    for (size_t i = 0; i < SM_COUNT(presets) && lines == NULL; i++) {
        lines = strcmp(presets[i].name, name) == 0 ? presets[i].lines : NULL;
    }
    return lines;
}
