// cli_flags.c: the table of flags. A flag whose default differs between subcommands has a row
// for each default.
#include "cli_flag.h"

#define ON(command) (1u << (command))
#define AT(field)   offsetof(cli_options, field)

enum {
    RUN = ON(CLI_RUN),
    TRAIN = ON(CLI_TRAIN),
    VERIFY = ON(CLI_VERIFY),
    WALK = ON(CLI_WALK),
    ESTIMATE = ON(CLI_ESTIMATE),
    INIT = ON(CLI_INIT),
    DEVICES = ON(CLI_DEVICES),
    MODELLED = RUN | TRAIN | WALK | ESTIMATE | INIT,
    STEPPED = RUN | TRAIN | WALK | ESTIMATE,
    ALL = (1u << CLI_COMMAND_COUNT) - 1,
};

// Largest values: each alone keeps a tensor's size within 64 bits; products are checked where
// they are made.
#define MAX_BATCH 1048576.0
#define MAX_DIM   16777216.0
#define MAX_SEED  9007199254740992.0 // 2^53: the largest that every JSON reader keeps

#define SIZES     "SIZE[,SIZE]"
#define SIZE_HELP "tiny, small, medium, large, xl, 2.7B, or 124M, 355M, 774M, 1558M"

static const cli_flag flags[] = {
    {"Model", "model-size", 'm', CLI_TEXTS, SIZES, "small", SIZE_HELP, RUN, AT(models), 0, 0},
    {"Model", "model-size", 'm', CLI_TEXTS, "SIZE", "tiny", SIZE_HELP, WALK, AT(models), 0, 0},
    {"Model", "model-size", 'm', CLI_TEXTS, "SIZE", "small", SIZE_HELP, TRAIN | INIT, AT(models), 0, 0},
    {"Model", "model-size", 'm', CLI_TEXTS, SIZES, "small,medium,large,xl,2.7B", SIZE_HELP, ESTIMATE, AT(models), 0, 0},
    {"Model", "vocab", 0, CLI_INT, "V", NULL, "vocabulary instead of the size's", MODELLED, AT(vocab), 1, MAX_DIM},
    {"Model", "context", 0, CLI_INT, "N", NULL, "positions that the model knows, at least the sequence length",
     MODELLED, AT(context), 1, MAX_DIM},
    {"Model", "n-layer", 0, CLI_INT, "L", NULL, "transformer blocks", MODELLED, AT(n_layer), 1, 10000},
    {"Model", "n-head", 0, CLI_INT, "NH", NULL, "attention heads; must divide d-model", MODELLED, AT(n_head), 1,
     MAX_DIM},
    {"Model", "d-model", 0, CLI_INT, "C", NULL, "width of the residual stream", MODELLED, AT(d_model), 1, MAX_DIM},
    {"Model", "d-ff", 0, CLI_INT, "F", NULL, "width inside the MLP; 4 x d-model when only d-model is given", MODELLED,
     AT(d_ff), 1, MAX_DIM},
    {"Model", "weights", 0, CLI_TEXT, "DIR", NULL, "folder with config.json and model.safetensors; instead of -m",
     RUN | TRAIN, AT(weights), 0, 0},

    {"Work", "batch-size", 'b', CLI_INTS, "B[,B]", NULL, "sequences a batch; not given: chosen by --fit", RUN,
     AT(batch_sizes), 1, MAX_BATCH},
    {"Work", "batch-size", 'b', CLI_INTS, "B", "4", "sequences a micro-batch", TRAIN, AT(batch_sizes), 1, MAX_BATCH},
    {"Work", "batch-size", 'b', CLI_INTS, "B", "1", "sequences a batch", WALK, AT(batch_sizes), 1, MAX_BATCH},
    {"Work", "batch-size", 'b', CLI_INTS, "B[,B]", "4", "sequences a batch", ESTIMATE, AT(batch_sizes), 1, MAX_BATCH},
    {"Work", "seq-len", 0, CLI_INTS, "T[,T]", NULL, "tokens a sequence; not given: chosen by --fit", RUN, AT(seq_lens),
     1, MAX_DIM},
    {"Work", "seq-len", 0, CLI_INTS, "T", "64", "tokens a sequence", TRAIN, AT(seq_lens), 1, MAX_DIM},
    {"Work", "seq-len", 0, CLI_INTS, "T", "8", "tokens a sequence", WALK, AT(seq_lens), 1, MAX_DIM},
    {"Work", "seq-len", 0, CLI_INTS, "T[,T]", NULL, "tokens a sequence; not given: the model's context", ESTIMATE,
     AT(seq_lens), 1, MAX_DIM},
    {"Work", "fit", 0, CLI_REAL, "SECONDS", "60",
     "without -b and --seq-len: the largest batch that fits memory and this time", RUN, AT(fit_s), 1, 86400},
    {"Work", "pass-type", 0, CLI_CHOICES, "forward|backward|forward-backward|step|separate", "step",
     "what is timed; separate: forward, then backward, apart", RUN, AT(passes), 0, 0},
    {"Work", "dropout", 0, CLI_REAL, "P", "0", "dropout probability", STEPPED, AT(dropout), 0, 0.999},
    {"Work", "accum", 0, CLI_INT, "N", "1", "micro-batches whose gradients one optimizer step sums", RUN | TRAIN,
     AT(accum), 1, 1e6},
    {"Work", "data", 0, CLI_TEXT, "FILE", NULL, "tokens to train on; not given: the embedded text, read as bytes",
     RUN | TRAIN, AT(data), 0, 0},
    {"Work", "data-format", 0, CLI_CHOICE, "auto|uint16|llmc|bytes", "auto",
     "raw uint16 ids, llm.c's header + uint16 ids, or text read as bytes", RUN | TRAIN, AT(data_format), 0, 0},
    {"Work", "seed", 0, CLI_INT, "N", "42", "of fresh weights and dropout masks", RUN | TRAIN | INIT | WALK | VERIFY,
     AT(seed), 0, MAX_SEED},

    {"Device", "backend", 0, CLI_TEXTS, "NAME[,NAME]", "all",
     "backends or devices (see `stepmark devices`); all: every one that is not the reference", RUN | VERIFY,
     AT(backends), 0, 0},
    {"Device", "backend", 0, CLI_TEXTS, "NAME", "cpu", "backend or device (see `stepmark devices`)", TRAIN,
     AT(backends), 0, 0},
    {"Device", "backend", 0, CLI_TEXTS, "NAME", "cpu", "device whose memory it must fit", ESTIMATE, AT(backends), 0, 0},
    {"Device", "threads", 't', CLI_INTS, "N[,N]", NULL, "threads; not given: one a core", RUN | VERIFY, AT(threads), 1,
     4096},
    {"Device", "threads", 't', CLI_INTS, "N", NULL, "threads; not given: one a core", TRAIN, AT(threads), 1, 4096},
    {"Device", "isa", 0, CLI_TEXT, "NAME", NULL,
     "instruction set of the cpu kernels: baseline, avx2 or avx512; not given: the best", RUN | TRAIN | VERIFY, AT(isa),
     0, 0},
    {"Device", "precision", 0, CLI_CHOICES, "fp32|tf32|bf16|fp16", "fp32",
     "number format; what cannot run is a row that says why", RUN | TRAIN, AT(precisions), 0, 0},
    {"Device", "mode", 0, CLI_CHOICES, "naive|fused|tuned", "fused",
     "the plan as built, with rewrites, or with kernels chosen by measurement", RUN | TRAIN | ESTIMATE, AT(modes), 0,
     0},
    {"Device", "mode", 0, CLI_CHOICES, "naive|fused|tuned", "naive", "the plan as built, or with rewrites", WALK,
     AT(modes), 0, 0},
    {"Device", "mode", 0, CLI_CHOICES, "naive|fused|tuned", "naive,fused", "the plan as built, or with rewrites",
     VERIFY, AT(modes), 0, 0},
    {"Device", "without", 0, CLI_TEXTS, "NAME[,NAME]", NULL, "rewrites of mode fused to leave out", STEPPED,
     AT(without), 0, 0},

    {"Measurement", "warmup", 'w', CLI_INT, "N", "2", "untimed steps before the timed ones", RUN, AT(warmup), 0, 1e6},
    {"Measurement", "repetitions", 'r', CLI_INT, "N", "7", "timed steps", RUN, AT(repetitions), 1, 1e6},
    {"Measurement", "delay", 0, CLI_REAL, "SECONDS", "0", "pause between rows, to cool down", RUN, AT(delay_s), 0,
     86400},
    {"Measurement", "timeout", 0, CLI_REAL, "SECONDS", "0", "longest time for a row; 0: none", RUN, AT(timeout_s), 0,
     1e9},

    {"Training", "steps", 0, CLI_INT, "N", "10", "optimizer steps", TRAIN, AT(steps), 1, 1e12},
    {"Training", "lr", 0, CLI_REAL, "LR", "1e-3", "learning rate after warm-up", TRAIN, AT(lr), 0, 1e6},
    {"Training", "warmup-steps", 0, CLI_INT, "N", "0", "steps over which the learning rate rises linearly from 0",
     TRAIN, AT(warmup_steps), 0, 1e12},
    {"Training", "schedule", 0, CLI_CHOICE, "constant|cosine", "constant",
     "after warm-up; cosine falls to a tenth of --lr at the last step", TRAIN, AT(schedule), 0, 0},
    {"Training", "beta1", 0, CLI_REAL, "X", "0.9", "AdamW: decay of the mean gradient", TRAIN, AT(beta1), 0, 0.9999999},
    {"Training", "beta2", 0, CLI_REAL, "X", "0.999", "AdamW: decay of the mean squared gradient", TRAIN, AT(beta2), 0,
     0.9999999},
    {"Training", "eps", 0, CLI_REAL, "X", "1e-8", "AdamW: added to the root", TRAIN, AT(eps), 0, 1},
    {"Training", "weight-decay", 0, CLI_REAL, "X", "0.01", "AdamW: decoupled decay, on matrices and embeddings only",
     TRAIN, AT(weight_decay), 0, 1e6},
    {"Training", "grad-clip", 0, CLI_REAL, "X", "0", "largest global gradient norm; 0: no clipping", TRAIN,
     AT(grad_clip), 0, 1e30},
    {"Training", "log", 0, CLI_TEXT, "FILE", NULL, "append a JSON line a step: step, loss, grad_norm, lr, ms, tokens",
     TRAIN, AT(log), 0, 0},
    {"Training", "save", 0, CLI_TEXT, "DIR", NULL,
     "write config.json, model.safetensors and optimizer.safetensors at the end", TRAIN, AT(save), 0, 0},
    {"Output", "save", 0, CLI_TEXT, "DIR", NULL, "folder to write config.json and model.safetensors to", INIT, AT(save),
     0, 0},

    {"Output", "layer", 0, CLI_INT, "N", NULL, "the block to print; not given: block 0", WALK, AT(layer), 0, 10000},
    {"Output", "all", 0, CLI_SWITCH, NULL, NULL, "print every block", WALK, AT(all), 0, 0},
    {"Output", "values", 0, CLI_SWITCH, NULL, NULL,
     "run it on the reference backend; print first entries and L2 norm of every output", WALK, AT(values), 0, 0},
    {"Output", "output", 'o', CLI_FORMAT, "md|csv|json|jsonl|sql", "md", "format on stdout",
     RUN | VERIFY | ESTIMATE | DEVICES | WALK, AT(output), 0, 0},
    {"Output", "progress", 0, CLI_SWITCH, NULL, NULL, "say on stderr what is being done", RUN | VERIFY, AT(progress), 0,
     0},
    {"Output", "list-devices", 0, CLI_SWITCH, NULL, NULL, "same as `stepmark devices`", RUN | TRAIN, AT(list_devices),
     0, 0},
    {"Output", "help", 'h', CLI_SWITCH, NULL, NULL, "this text", ALL, AT(help), 0, 0},
};

int cli_flag_count(void) { return (int)(sizeof(flags) / sizeof(flags[0])); }

const cli_flag *cli_flag_at(int index) { return &flags[index]; }
