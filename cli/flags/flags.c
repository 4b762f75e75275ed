// flags.c: the table of flags. A flag whose default differs between subcommands has a row
// for each default.
#include "cli/flags/flag.h"

#include <string.h>

#include "own_kernel.h"
#include "bench/measure/harness.h"
#include "bench/profile/profile.h"
#include "src/documents/collate.h"
#include "src/io/tokens.h"
#include "src/models/model.h"
#include "src/rewrites/rewrite.h"
#include "src/runs/data_order.h"
#include "src/runs/run_folder.h"
#include "src/session/schedule.h"
#include "src/train/loader.h"

#define ON(command)          (1u << (command))
#define AT(field)            offsetof(cli_options, field)
#define WITHIN(least, most)  .min = (least), .max = (most)
#define ONE_OF(list)         .choices = (list)
#define NO_RANGE             .choices = NULL // neither a number nor a choice
#define NOT_ADVISE(commands) ((commands) & ~(unsigned)ADVISE)

enum {
    SWEEP = ON(CLI_SWEEP),
    ADVISE = ON(CLI_ADVISE),
    ADVISED = ADVISE | CLI_LISTED, // of its own: what it tries where the flag is not given
    RECOMMEND = ON(CLI_RECOMMEND),
    RUN = ON(CLI_RUN) | SWEEP | ADVISE, // in a sweep: one value for the whole
    SWEPT = RUN | CLI_LISTED,           // in a sweep: a list, each entry a configuration
    TRAIN = ON(CLI_TRAIN),
    VERIFY = ON(CLI_VERIFY),
    WALK = ON(CLI_WALK),
    PAGE = ON(CLI_PAGE),
    WALKED = WALK | PAGE,
    EXERCISE = ON(CLI_EXERCISE),
    LADDER = ON(CLI_LADDER),
    ESTIMATE = ON(CLI_ESTIMATE),
    INIT = ON(CLI_INIT),
    DEVICES = ON(CLI_DEVICES),
    PROFILE = ON(CLI_PROFILE),
    LOOP = ON(CLI_LOOP),
    ABLATE = ON(CLI_ABLATE),
    PEAKS = ON(CLI_PEAKS),
    MODELLED = SWEPT | PROFILE | LOOP | ABLATE | TRAIN | WALKED | ESTIMATE | INIT,
    STEPPED = SWEPT | PROFILE | LOOP | ABLATE | TRAIN | WALKED | ESTIMATE,
    FED = SWEPT | PROFILE | LOOP | ABLATE | TRAIN,             // with data
    OPENED = FED | PEAKS | VERIFY | LADDER | ON(CLI_GENERATE), // open a device
    COMPARE = ON(CLI_COMPARE),
    AGAIN = ON(CLI_AGAIN),
    REPORT = ON(CLI_REPORT),
    CHECK_RUN = ON(CLI_CHECK_RUN),
    SCALING = ON(CLI_SCALING),
    TOKENIZER = ON(CLI_TOKENIZER),
    TOKENIZE = ON(CLI_TOKENIZE),
    GENERATE = ON(CLI_GENERATE),
    ALL = (1u << CLI_COMMAND_COUNT) - 1,
};

// Largest values: each alone keeps a tensor's size within 64 bits; products are checked where
// they are made.
#define MAX_BATCH 1048576.0
#define MAX_DIM   16777216.0
#define MAX_SEED  9007199254740992.0 // 2^53: the largest that every JSON reader keeps

// --- choices -----------------------------------------------------------------------------------

enum {
#define X(name) ARCH_##name,
    SM_MODEL_LIST(X)
#undef X
};

enum {
#define X(name) OPTIMIZER_##name,
    SM_OPTIMIZER_LIST(X)
#undef X
};

static const cli_choice languages[] = {{"c", SM_OWN_C}, {"cl", SM_OWN_OPENCL}, {NULL, 0}};

static const cli_choice passes[] = {
#define X(code, name, short_name) {name, code},
    SM_PASS_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice data_formats[] = {
#define X(code, name) {name, code},
    SM_TOKENS_FORMAT_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice profile_lines[] = {
#define X(code, name) {name, code},
    SM_PROFILE_BY_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice profile_orders[] = {
#define X(code, name, field) {name, code},
    CLI_PROFILE_ORDER_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice precisions[] = {
#define X(code, word, dtype, products) {word, code},
    CLI_PRECISION_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice modes[] = {
    {"naive", SM_MODE_NAIVE},
    {"fused", SM_MODE_FUSED},
    {"tuned", SM_MODE_TUNED},
    {NULL, 0},
};

static const cli_choice recomputes[] = {
    {"none", SM_RECOMPUTE_NONE},
    {"light", SM_RECOMPUTE_LIGHT},
    {"block", SM_RECOMPUTE_BLOCK},
    {NULL, 0},
};

static const cli_choice attentions[] = {
    {"naive", SM_ATTENTION_NAIVE},
    {"blocked", SM_ATTENTION_BLOCKED},
    {"flash", SM_ATTENTION_FLASH},
    {NULL, 0},
};

static const cli_choice paddings[] = {
#define X(code, name) {name, code + 1},
    SM_PADDING_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice long_documents[] = {
#define X(code, name) {name, code},
    SM_LONG_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice schedules[] = {
#define X(code, name) {name, code},
    SM_SCHEDULE_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice data_orders[] = {
#define X(code, name) {name, code},
    SM_ORDER_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice resumes[] = {
#define X(code, name) {name, code},
    SM_RESUME_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice shards[] = {{"none", 0}, {"optimizer", 1}, {NULL, 0}};
static const cli_choice gradient_formats[] = {{"fp32", 0}, {"bf16", 1}, {NULL, 0}};
static const cli_choice transports[] = {{"auto", 0}, {"messages", 1}, {NULL, 0}};

static const cli_choice orders[] = {{"random", CLI_ORDER_RANDOM}, {"given", CLI_ORDER_GIVEN}, {NULL, 0}};

static const cli_choice report_formats[] = {
    {"auto", CLI_REPORT_AUTO},
    {"html", CLI_REPORT_HTML},
    {"md", CLI_REPORT_MARKDOWN},
    {NULL, 0},
};

// Index in the list, from 1: 0 is a flag that was not given.
static const cli_choice archs[] = {
#define X(name) {#name, ARCH_##name + 1},
    SM_MODEL_LIST(X)
#undef X
        {NULL, 0},
};

static const cli_choice optimizers[] = {
#define X(name) {#name, OPTIMIZER_##name},
    SM_OPTIMIZER_LIST(X)
#undef X
        {NULL, 0},
};

// --- the table ---------------------------------------------------------------------------------

#define LIST      "[,...]" // behind the words of a choice: several may be given
#define SIZES     "SIZE[,SIZE]"
#define SIZE_HELP "tiny, small, medium, large, xl, 2.7B, or 124M, 355M, 774M, 1558M"
#define MODE_HELP "naive: the plan as built; fused: with rewrites; tuned: also with kernels chosen by measurement"
#define PRECISION_HELP                                                                                             \
    "number format; bf16, fp16: of data and of what is multiplied, the rest stays fp32; tf32, tf32x3: fp32 data, " \
    "multiplied on matrix units; bf16x6: likewise on AMX, as exact as fp32"
#define RECOMPUTE_HELP \
    "what backward computes again instead of keeping: nothing, what is cheap, or all of a block but its input"
#define BACKEND_HELP "backend or device (see `stepmark devices`)"
#define ACCUM_HELP   "micro-batches whose gradients one optimizer step sums"
#define THREADS_HELP "threads; not given: one a core"

static const cli_flag flags[] = {
    {"Model", "arch", 0, CLI_CHOICE, NULL, NULL, "architecture, of the size that -m names; not given: gpt2", MODELLED,
     AT(arch), ONE_OF(archs)},
    {"Model", "model-size", 'm', CLI_TEXTS, SIZES, "small", SIZE_HELP, SWEPT, AT(models), NO_RANGE},
    {"Model", "model-size", 'm', CLI_TEXTS, "SIZE", "tiny", SIZE_HELP, WALKED, AT(models), NO_RANGE},
    {"Model", "model-size", 'm', CLI_TEXTS, "SIZE", "small", SIZE_HELP, PROFILE | LOOP | ABLATE | TRAIN | INIT,
     AT(models), NO_RANGE},
    {"Model", "model-size", 'm', CLI_TEXTS, SIZES, "small,medium,large,xl,2.7B", SIZE_HELP, ESTIMATE, AT(models),
     NO_RANGE},
    {"Model", "vocab", 0, CLI_INT, "V", NULL, "tokens of the vocabulary, instead of the size's own", MODELLED,
     AT(vocab), WITHIN(1, MAX_DIM)},
    {"Model", "context", 0, CLI_INT, "N", NULL, "positions that the model knows, at least the sequence length",
     MODELLED, AT(context), WITHIN(1, MAX_DIM)},
    {"Model", "n-layer", 0, CLI_INT, "L", NULL, "transformer blocks", MODELLED, AT(n_layer), WITHIN(1, 10000)},
    {"Model", "n-head", 0, CLI_INT, "NH", NULL, "attention heads; must divide d-model", MODELLED, AT(n_head),
     WITHIN(1, MAX_DIM)},
    {"Model", "n-kv-head", 0, CLI_INT, "NKV", NULL, "heads of keys and values, which others share; must divide n-head",
     MODELLED, AT(n_kv_head), WITHIN(1, MAX_DIM)},
    {"Model", "d-model", 0, CLI_INT, "C", NULL, "width of the residual stream", MODELLED, AT(d_model),
     WITHIN(1, MAX_DIM)},
    {"Model", "d-ff", 0, CLI_INT, "F", NULL, "width inside the MLP; 4 x d-model when only d-model is given", MODELLED,
     AT(d_ff), WITHIN(1, MAX_DIM)},
    {"Model", "weights", 0, CLI_TEXT, "DIR", NULL, "folder with config.json and model.safetensors; instead of -m",
     FED | WALK, AT(weights), NO_RANGE},
    {"Model", "weights", 0, CLI_TEXT, "DIR", NULL, "folder with config.json and model.safetensors; instead of -m", PAGE,
     AT(weights), NO_RANGE},
    {"Model", "run", 0, CLI_TEXT, "DIR", NULL, "a run of train: its model and its tokenizer; instead of -m", PAGE,
     AT(run), NO_RANGE},
    {"Model", "weights", 0, CLI_TEXT, "DIR", NULL, "folder with config.json and model.safetensors, or a run of train",
     GENERATE, AT(weights), NO_RANGE},

    {"Work", "prompt", 0, CLI_TEXT, "TEXT", NULL, "text to continue", GENERATE, AT(prompt), NO_RANGE},
    {"Work", "tokenizer", 0, CLI_TEXT, "DIR|bytes", NULL,
     "folder with the model's tokenizer; bytes: each byte is a token; not given: the tokenizer in the folder of "
     "--weights, or bytes if the model has 256 tokens",
     GENERATE, AT(tokenizer), NO_RANGE},
    {"Work", "tokens", 0, CLI_INT, "N", "100", "tokens to generate; fewer if <|endoftext|> comes", GENERATE,
     AT(n_tokens), WITHIN(1, 1e9)},
    {"Work", "temperature", 0, CLI_REAL, "X", "0",
     "0: always the most probable token; 1: draw with the model's own probabilities", GENERATE, AT(temperature),
     WITHIN(0, 1e3)},
    {"Work", "top-k", 0, CLI_INT, "K", "0", "draw from the K most probable tokens only; 0: from all", GENERATE,
     AT(top_k), WITHIN(0, MAX_DIM)},
    {"Work", "seed", 0, CLI_INT, "N", "42", "seed of the draws", GENERATE, AT(seed), WITHIN(0, MAX_SEED)},
    {"Work", "batch-size", 'b', CLI_INTS, "B[,B]", NULL, "sequences a batch; not given: chosen by --fit",
     NOT_ADVISE(SWEPT), AT(batch_sizes), WITHIN(1, MAX_BATCH)},
    {"Work", "batch-size", 'b', CLI_INTS, "B[,B]", "4,8,16,32",
     "sequences a batch, to try; the first value of each such list is the default, which every gain is against",
     ADVISED, AT(batch_sizes), WITHIN(1, MAX_BATCH)},
    {"Work", "batch-size", 'b', CLI_INTS, "B", "4", "sequences a micro-batch", PROFILE | LOOP | ABLATE | TRAIN,
     AT(batch_sizes), WITHIN(1, MAX_BATCH)},
    {"Work", "batch-size", 'b', CLI_INTS, "B", "1", "sequences a batch", WALKED, AT(batch_sizes), WITHIN(1, MAX_BATCH)},
    {"Work", "batch-size", 'b', CLI_INTS, "B[,B]", "4", "sequences a batch", ESTIMATE, AT(batch_sizes),
     WITHIN(1, MAX_BATCH)},
    {"Work", "seq-len", 0, CLI_INTS, "T[,T]", NULL, "tokens a sequence; not given: chosen by --fit", NOT_ADVISE(SWEPT),
     AT(seq_lens), WITHIN(1, MAX_DIM)},
    {"Work", "seq-len", 0, CLI_INTS, "T", "64", "tokens a sequence", ADVISED, AT(seq_lens), WITHIN(1, MAX_DIM)},
    {"Work", "seq-len", 0, CLI_INTS, "T", "64", "tokens a sequence", PROFILE | LOOP | ABLATE | TRAIN, AT(seq_lens),
     WITHIN(1, MAX_DIM)},
    {"Work", "seq-len", 0, CLI_INTS, "T", "8", "tokens a sequence", WALK, AT(seq_lens), WITHIN(1, MAX_DIM)},
    {"Work", "seq-len", 0, CLI_INTS, "T", "32", "tokens a sequence", PAGE, AT(seq_lens), WITHIN(1, MAX_DIM)},
    {"Work", "seq-len", 0, CLI_INTS, "T[,T]", NULL, "tokens a sequence; not given: the model's context", ESTIMATE,
     AT(seq_lens), WITHIN(1, MAX_DIM)},
    {"Work", "fit", 0, CLI_REAL, "SECONDS", "60",
     "without -b and --seq-len: take the largest batch that fits memory and lets all devices together end within this "
     "time",
     NOT_ADVISE(SWEPT), AT(fit_s), WITHIN(1, 86400)},
    {"Work", "pass-type", 0, CLI_CHOICES, LIST, "step", "what is timed; separate: forward and backward, a row each",
     SWEPT, AT(passes), ONE_OF(passes)},
    {"Work", "dropout", 0, CLI_REAL, "P", "0", "dropout probability", STEPPED, AT(dropout), WITHIN(0, 0.999)},
    {"Work", "optimizer", 0, CLI_CHOICE, NULL, "adamw", "rule by which the step updates the weights", STEPPED,
     AT(optimizer), ONE_OF(optimizers)},
    {"Work", "recompute", 0, CLI_CHOICE, NULL, NULL, RECOMPUTE_HELP "; not given: light, but none in mode naive",
     NOT_ADVISE(STEPPED), AT(recompute), ONE_OF(recomputes)},
    {"Work", "recompute", 0, CLI_CHOICE, NULL, NULL, RECOMPUTE_HELP "; not given: what the mode takes, then block",
     VERIFY, AT(recompute), ONE_OF(recomputes)},
    {"Work", "recompute", 0, CLI_CHOICE, NULL, "light,none,block", RECOMPUTE_HELP, ADVISED, AT(recompute),
     ONE_OF(recomputes)},
    {"Work", "attention", 0, CLI_CHOICE, NULL, "flash,blocked,naive",
     "what attention keeps of its weights for backward: nothing (flash), blocks of rows up to the diagonal (blocked), "
     "or the whole square (naive)",
     ADVISED, AT(attention), ONE_OF(attentions)},
    {"Work", "attention", 0, CLI_CHOICE, NULL, NULL,
     "what attention keeps of its weights for backward: the whole square (naive), blocks of rows up to the diagonal "
     "(blocked), or nothing (flash); not given: flash, but naive in mode naive",
     NOT_ADVISE(SWEPT) | PROFILE | LOOP | TRAIN | WALKED | ESTIMATE, AT(attention), ONE_OF(attentions)},
    {"Work", "documents", 0, CLI_TEXT, "MIN-MAX|ID|DIR", NULL,
     "fill rows with documents: MIN-MAX: parts of the data of random length; ID: what lies between tokens of this id; "
     "DIR: between the <|endoftext|> of this tokenizer (a folder, or its tokenizer.json)",
     SWEPT | PROFILE | LOOP | TRAIN, AT(documents), NO_RANGE},
    {"Work", "padding", 0, CLI_CHOICE, NULL, NULL,
     "how documents share rows: each fills its row (none), has a row (max), is padded to the longest of its batch "
     "(batch), stands with others of like length (bucket), or follows others in a row (packed); not given: packed",
     SWEPT | PROFILE | LOOP | TRAIN, AT(padding), ONE_OF(paddings)},
    {"Work", "long-documents", 0, CLI_CHOICE, NULL, "refuse",
     "refuse documents longer than a row, cut them off, or split them", SWEPT | PROFILE | LOOP | TRAIN,
     AT(long_documents), ONE_OF(long_documents)},
    {"Work", "tokenizer", 0, CLI_TEXT, "DIR", NULL,
     "read --data as text, a file or a folder of files, and make tokens of it with this folder's tokenizer while "
     "training",
     TRAIN | LOOP, AT(tokenizer), NO_RANGE},
    {"Work", "loader", 0, CLI_TEXT, "inline|threads[:N]", "threads:1",
     "inline: the training thread makes each step's batches when it needs them; threads: N other threads make them "
     "ahead",
     TRAIN | LOOP, AT(loader), NO_RANGE},
    {"Work", "queue-depth", 0, CLI_INT, "N", "0",
     "with --loader threads: steps whose batches are made ahead; 0: two a thread", TRAIN | LOOP, AT(queue_depth),
     WITHIN(0, SM_LOADER_MAX_DEPTH)},
    {"Work", "loader", 0, CLI_TEXT, "inline|threads[:N]", NULL,
     "measure each configuration with `loop` instead of `run`; inline: the training thread makes each step's batches "
     "when it needs them; threads: N other threads make them ahead",
     SWEEP | ADVISE | CLI_LISTED, AT(loader), NO_RANGE},
    {"Work", "queue-depth", 0, CLI_INT, "N", NULL, "with --loader threads: steps whose batches are made ahead",
     SWEEP | ADVISE | CLI_LISTED, AT(queue_depth), WITHIN(0, SM_LOADER_MAX_DEPTH)},
    {"Work", "tokenizer", 0, CLI_TEXT, "DIR", NULL,
     "with --loader: read --data as text, and make tokens of it with this folder's tokenizer during the loop",
     SWEEP | ADVISE | CLI_LISTED | CLI_WHOLE, AT(tokenizer), NO_RANGE},
    {"Work", "accum", 0, CLI_INT, "N", "1", ACCUM_HELP, NOT_ADVISE(SWEPT) | TRAIN | LOOP, AT(accum), WITHIN(1, 1e6)},
    {"Work", "accum", 0, CLI_INT, "N", "1,4", ACCUM_HELP, ADVISED, AT(accum), WITHIN(1, 1e6)},
    {"Work", "data", 0, CLI_TEXT, "FILE", NULL, "tokens to train on; not given: the embedded text, read as bytes",
     SWEPT | PROFILE | ABLATE, AT(data), NO_RANGE},
    {"Work", "data", 0, CLI_TEXT, "FILE|DIR", NULL,
     "tokens to train on, or a folder with train.bin and perhaps val.bin; not given: the embedded text, read as bytes",
     TRAIN | LOOP, AT(data), NO_RANGE},
    {"Work", "data", 0, CLI_TEXT, "FILE", NULL,
     "tokens whose first batch is walked; not given: random tokens, by --seed", WALK, AT(data), NO_RANGE},
    {"Work", "data", 0, CLI_TEXT, "FILE", NULL, "tokens whose first batch is walked, instead of a text", PAGE, AT(data),
     NO_RANGE},
    {"Work", "text", 0, CLI_TEXT, "TEXT", NULL,
     "text whose first tokens are walked: its bytes, or the tokens that the tokenizer of --weights makes of it", WALK,
     AT(text), NO_RANGE},
    {"Work", "text", 0, CLI_TEXT, "TEXT", NULL,
     "text whose first tokens are walked: its bytes, or the tokens that the model's tokenizer makes of it; not given: "
     "a sentence, or random tokens if the model has no tokenizer",
     PAGE, AT(text), NO_RANGE},
    {"Work", "data-format", 0, CLI_CHOICE, NULL, "auto",
     "raw uint16 ids, llm.c's header + 16- or 32-bit ids, or text read as bytes", FED | WALKED, AT(data_format),
     ONE_OF(data_formats)},
    {"Work", "seed", 0, CLI_INT, "N", "42", "seed of fresh weights and of dropout masks", FED | INIT | WALKED | VERIFY,
     AT(seed), WITHIN(0, MAX_SEED)},

    {"Work", "tokenizer", 0, CLI_TEXT, "DIR", NULL,
     "with show and convert: folder with tokenizer.json, or vocab.json and merges.txt", TOKENIZER, AT(tokenizer),
     NO_RANGE},
    {"Work", "tokenizer", 0, CLI_TEXT, "DIR", NULL, "folder with tokenizer.json, or vocab.json and merges.txt",
     TOKENIZE, AT(tokenizer), NO_RANGE},
    {"Work", "vocab-size", 0, CLI_INT, "N", NULL,
     "with train: tokens of the vocabulary, the 256 bytes and <|endoftext|> included", TOKENIZER, AT(vocab_size),
     WITHIN(257, MAX_DIM)},
    {"Work", "min-frequency", 0, CLI_INT, "N", "2", "with train: how often two tokens must be neighbours to become one",
     TOKENIZER, AT(min_frequency), WITHIN(1, 1e12)},
    {"Work", "val-percent", 0, CLI_REAL, "P", "0",
     "percentage of the documents kept for validation, chosen by their content; 0: train on all", TOKENIZE,
     AT(val_percent), WITHIN(0, 100)},
    {"Device", "backend", 0, CLI_TEXTS, "NAME[,NAME]", "all",
     "backends or devices (see `stepmark devices`); all: every one that is not the reference",
     NOT_ADVISE(SWEPT) | VERIFY, AT(backends), NO_RANGE},
    {"Device", "backend", 0, CLI_TEXTS, "NAME", "cpu", BACKEND_HELP, ADVISED, AT(backends), NO_RANGE},
    {"Device", "backend", 0, CLI_TEXTS, "NAME", "cpu", BACKEND_HELP,
     PROFILE | LOOP | ABLATE | PEAKS | TRAIN | GENERATE | LADDER, AT(backends), NO_RANGE},
    {"Device", "backend", 0, CLI_TEXTS, "NAME[,NAME]", "reference,all",
     "backends or devices to time the step on (see `stepmark devices`); none: no times", PAGE, AT(backends), NO_RANGE},
    {"Device", "backend", 0, CLI_TEXTS, "NAME", "cpu", "device whose memory it must fit", ESTIMATE, AT(backends),
     NO_RANGE},
    {"Device", "threads", 't', CLI_INTS, "N[,N]", NULL, THREADS_HELP, NOT_ADVISE(SWEPT) | VERIFY, AT(threads),
     WITHIN(1, 4096)},
    {"Device", "threads", 't', CLI_INTS, "N[,N]", NULL, THREADS_HELP ", and half of them", ADVISED, AT(threads),
     WITHIN(1, 4096)},
    {"Device", "threads", 't', CLI_INTS, "N", NULL, THREADS_HELP,
     PROFILE | LOOP | ABLATE | TRAIN | TOKENIZER | TOKENIZE | GENERATE | LADDER, AT(threads), WITHIN(1, 4096)},
    {"Device", "threads", 't', CLI_INTS, "N[,N]", NULL, "threads; not given: 1, 2, 4, ... up to one a core", PEAKS,
     AT(threads), WITHIN(1, 4096)},
    {"Device", "cpu-mask", 0, CLI_TEXT, "MASK|LIST", NULL,
     "processors to run on, 0x10f or 0-3,8: one thread a core where they fit", OPENED | CLI_WHOLE, AT(cpu_mask),
     NO_RANGE},
    {"Device", "keep-env", 0, CLI_SWITCH, NULL, NULL,
     "keep OPENBLAS_CORETYPE as it is, even if it makes OpenBLAS use kernels for an older processor", OPENED,
     AT(keep_env), NO_RANGE},
    {"Device", "isa", 0, CLI_TEXT, "NAME", NULL,
     "instruction set of the cpu kernels (baseline, avx2, avx512, avx512_bf16, amx) or family of the opencl kernels "
     "(tensor, local, registers); not given: what suits best",
     OPENED, AT(isa), NO_RANGE},
    {"Device", "backend-library", 0, CLI_TEXT, "FILE.so", NULL,
     "load your own backend, compiled against include/ (docs/adding.md), to be named by --backend", OPENED | DEVICES,
     AT(backend_library), NO_RANGE},
    {"Device", "kernel", 0, CLI_TEXT, "OP=FILE[,OP=FILE]", NULL,
     "run your own fp32 kernel for a kind of op: on the cpu backend from a C file (compiled by cc) or a shared "
     "library, on OpenCL devices from FILE.cl; `stepmark exercise` writes files to begin with",
     SWEPT | CLI_WHOLE | VERIFY | PROFILE | LOOP | TRAIN, AT(kernel), NO_RANGE},
    {"Device", "precision", 0, CLI_CHOICES, LIST, "fp32", PRECISION_HELP "; what cannot run is a row that says why",
     NOT_ADVISE(SWEPT), AT(precisions), ONE_OF(precisions)},
    {"Device", "precision", 0, CLI_CHOICES, NULL, "fp32,tf32,bf16",
     PRECISION_HELP "; what cannot run is a row that says why", ADVISED, AT(precisions), ONE_OF(precisions)},
    {"Device", "precision", 0, CLI_CHOICES, NULL, "fp32", PRECISION_HELP,
     PROFILE | LOOP | ABLATE | TRAIN | WALKED | GENERATE, AT(precisions), ONE_OF(precisions)},
    {"Device", "precision", 0, CLI_CHOICES, LIST, "fp32", PRECISION_HELP, ESTIMATE | VERIFY, AT(precisions),
     ONE_OF(precisions)},
    {"Device", "loss-scale", 0, CLI_TEXT, "dynamic|none|N", NULL,
     "factor on the loss that keeps small gradients in range; dynamic: halve it and skip the step when a gradient is "
     "not finite; not given: dynamic in fp16, else none",
     STEPPED, AT(loss_scale), NO_RANGE},
    {"Device", "loss-scale-interval", 0, CLI_INT, "N", "2000", "good steps until a dynamic loss scale is doubled",
     STEPPED, AT(loss_scale_interval), WITHIN(1, 1e6)},
    {"Device", "mode", 0, CLI_CHOICES, LIST, "fused", MODE_HELP, NOT_ADVISE(SWEPT) | ESTIMATE, AT(modes),
     ONE_OF(modes)},
    {"Device", "mode", 0, CLI_CHOICES, NULL, "fused,tuned", MODE_HELP, ADVISED, AT(modes), ONE_OF(modes)},
    {"Device", "mode", 0, CLI_CHOICES, NULL, "fused", MODE_HELP, PROFILE | LOOP | TRAIN | GENERATE, AT(modes),
     ONE_OF(modes)},
    {"Device", "mode", 0, CLI_CHOICES, NULL, "naive", "naive: the plan as built; fused: with rewrites", WALKED,
     AT(modes), ONE_OF(modes)},
    {"Device", "mode", 0, CLI_CHOICES, LIST, "naive,fused", "naive: the plan as built; fused: with rewrites", VERIFY,
     AT(modes), ONE_OF(modes)},
    {"Device", "without", 0, CLI_TEXTS, "NAME[,NAME]", NULL, "rewrites of mode fused to leave out", STEPPED | CLI_WHOLE,
     AT(without), NO_RANGE},

    {"Measurement", "warmup", 'w', CLI_COUNT, "N|auto", "auto",
     "untimed steps before the timed ones; auto: until three in a row are no faster than those before",
     NOT_ADVISE(SWEPT) | LOOP, AT(warmup), WITHIN(0, 1e6)},
    {"Measurement", "warmup", 'w', CLI_COUNT, "N|auto", "1",
     "untimed steps before the timed ones; auto: until three in a row are no faster than those before", ADVISED,
     AT(warmup), WITHIN(0, 1e6)},
    {"Measurement", "warmup", 'w', CLI_INT, "N", "2", "untimed steps before the timed ones", PROFILE | ABLATE,
     AT(warmup), WITHIN(0, 1e6)},
    {"Measurement", "repetitions", 'r', CLI_INT, "N", "7", "timed steps", NOT_ADVISE(SWEPT) | PROFILE | LOOP,
     AT(repetitions), WITHIN(1, 1e6)},
    {"Measurement", "repetitions", 'r', CLI_INT, "N", "4", "timed steps of a run", ADVISED, AT(repetitions),
     WITHIN(1, 1e6)},
    {"Measurement", "repetitions", 'r', CLI_INT, "N", "7", "rounds of four steps: with, without, without, with", ABLATE,
     AT(repetitions), WITHIN(1, 1e5)},
    {"Measurement", "check-seed", 0, CLI_INT, "N", NULL,
     "draw by N which steps, sequences, ops and rows are checked; not given: at random, and the row says N",
     RUN | PROFILE | LOOP | ABLATE, AT(check_seed), WITHIN(1, MAX_SEED)},
    {"Measurement", "min-time", 0, CLI_REAL, "SECONDS", "0.2", "time to measure each ceiling", PEAKS, AT(min_time_s),
     WITHIN(0, 3600)},
    {"Measurement", "min-time", 0, CLI_REAL, "SECONDS", "0.3", "measure all rungs in turn for this long", LADDER,
     AT(min_time_s), WITHIN(0, 3600)},
    {"Measurement", "shape", 0, CLI_TEXT, "N=64,F=3072", NULL,
     "sizes of the op, by their letters; sizes not given are the ladder's own", LADDER, AT(shape), NO_RANGE},
    {"Measurement", "max-noise", 0, CLI_REAL, "PERCENT", "0",
     "sample until the 95% interval of the median is within this; 0: just --repetitions", NOT_ADVISE(SWEPT) | LOOP,
     AT(max_noise), WITHIN(0, 100)},
    {"Measurement", "min-samples", 0, CLI_INT, "N", "10", "with --max-noise: at least", NOT_ADVISE(SWEPT) | LOOP,
     AT(min_samples), WITHIN(1, 1e6)},
    {"Measurement", "max-samples", 0, CLI_INT, "N", "1000", "with --max-noise: at most", NOT_ADVISE(SWEPT) | LOOP,
     AT(max_samples), WITHIN(1, 1e6)},
    {"Measurement", "min-time", 0, CLI_REAL, "SECONDS", "0", "with --max-noise: sample for at least",
     NOT_ADVISE(SWEPT) | LOOP, AT(min_time_s), WITHIN(0, 86400)},
    {"Measurement", "max-time", 0, CLI_REAL, "SECONDS", "60", "with --max-noise: sample for at most; 0: no limit",
     NOT_ADVISE(SWEPT) | LOOP, AT(max_time_s), WITHIN(0, 1e9)},
    {"Measurement", "no-peaks", 0, CLI_SWITCH, NULL, NULL, "do not measure the device's ceilings: no % of peak",
     SWEPT | LOOP | LADDER, AT(no_peaks), NO_RANGE},
    {"Measurement", "no-phases", 0, CLI_SWITCH, NULL, NULL,
     "leave out the instrumented steps: no times of forward, backward and optimizer", SWEPT | LOOP, AT(no_phases),
     NO_RANGE},

    {"Limits", "delay", 0, CLI_REAL, "SECONDS", "0", "pause between rows, to cool down", RUN, AT(delay_s),
     WITHIN(0, 86400)},
    {"Limits", "timeout", 0, CLI_REAL, "SECONDS", "0", "longest time for a row; 0: no limit",
     NOT_ADVISE(RUN) | PROFILE | LOOP, AT(timeout_s), WITHIN(0, 1e9)},
    {"Limits", "timeout", 0, CLI_REAL, "SECONDS", "120",
     "longest time for a run; what would take longer, judged by the default's speed, is not tried; 0: no limit", ADVISE,
     AT(timeout_s), WITHIN(0, 1e9)},
    {"Limits", "max-memory", 0, CLI_REAL, "GIB", "0",
     "most memory for a configuration's tensors; 0: nine tenths of what is available at the start", SWEEP | ADVISE,
     AT(max_memory_gib), WITHIN(0, 1e9)},

    {"Exercise", "init", 0, CLI_NEW_FOLDER, "DIR", NULL, "write DIR/NAME.c: arguments, equation, and an empty body",
     EXERCISE, AT(init), NO_RANGE},
    {"Exercise", "language", 0, CLI_CHOICE, NULL, "c",
     "language of that file: C for processors, or OpenCL C (DIR/NAME.cl) for all devices", EXERCISE, AT(language),
     ONE_OF(languages)},
    {"Exercise", "check", 0, CLI_TEXT, "FILE", NULL,
     "compile your kernel, run it on all cases in a process of its own, and say what is wrong, or how fast it is",
     EXERCISE, AT(check), NO_RANGE},
    {"Exercise", "backend", 0, CLI_TEXTS, "NAME", "opencl", "device that a FILE.cl is checked on", EXERCISE,
     AT(backends), NO_RANGE},
    {"Exercise", "timeout", 0, CLI_REAL, "SECONDS", "10", "longest time for all cases together", EXERCISE,
     AT(timeout_s), WITHIN(0.1, 3600)},
    {"Exercise", "no-peaks", 0, CLI_SWITCH, NULL, NULL, "do not measure times and ceilings", EXERCISE, AT(no_peaks),
     NO_RANGE},

    {"Sweep", "preset", 0, CLI_TEXT, "NAME", NULL,
     "macro, sizes, fwdbwd, warmup, threads, seq-len, batch, precision, attention, padding, micro or modes; a flag "
     "given beside it replaces the preset's",
     SWEEP, AT(preset), NO_RANGE},
    {"Sweep", "file", 0, CLI_TEXT, "FILE", NULL,
     "read flags from FILE: each line measures every combination of its lists", SWEEP, AT(sweep_file), NO_RANGE},
    {"Sweep", "output-file", 0, CLI_LOG_FILE, "FILE", NULL, "append each row (JSONL) as soon as it is measured",
     SWEEP | ADVISE, AT(output_file), NO_RANGE},
    {"Sweep", "resume", 0, CLI_SWITCH, NULL, NULL, "leave out what --output-file has already", SWEEP | ADVISE,
     AT(resume), NO_RANGE},
    {"Sweep", "dry-run", 0, CLI_SWITCH, NULL, NULL, "list the configurations and their memory, run nothing",
     SWEEP | ADVISE, AT(dry_run), NO_RANGE},
    {"Sweep", "pairs", 0, CLI_INT, "N", "6", "rounds in which the default and the fastest run one after the other",
     ADVISE, AT(pairs), WITHIN(1, 1000)},
    {"Sweep", "filter", 0, CLI_TEXT, "REGEX", NULL, "only configurations whose flags match", SWEEP, AT(filter),
     NO_RANGE},
    {"Checks", "filter", 0, CLI_TEXT, "REGEX", NULL,
     "only cases whose text matches: \"matmul_forward N=3 C=5 F=7 bias=1\" or \"step\"", VERIFY, AT(filter), NO_RANGE},
    {"Checks", "max-elems", 0, CLI_INT, "N", NULL,
     "of the cases of single ops, only those whose largest tensor has at most N elements", VERIFY, AT(max_elems),
     WITHIN(1, 1e12)},
    {"Checks", "max-elems", 0, CLI_INT, "N", "20000",
     "compare with the reference in verify's cases whose largest tensor has at most N elements", LADDER, AT(max_elems),
     WITHIN(1, 1e12)},
    {"Sweep", "order", 0, CLI_CHOICE, NULL, "random", "order of the configurations within a round", SWEEP, AT(order),
     ONE_OF(orders)},
    {"Sweep", "order-seed", 0, CLI_INT, "N", "1", "seed of the random order", SWEEP, AT(order_seed),
     WITHIN(0, MAX_SEED)},
    {"Sweep", "rounds", 0, CLI_INT, "N", "1", "measure all configurations this many times, one round after the other",
     SWEEP, AT(rounds), WITHIN(1, 10000)},
    {"Sweep", "find-batch", 0, CLI_SWITCH, NULL, NULL,
     "where no batch is given, or the batch does not fit: run the largest that fits", SWEEP, AT(find_batch), NO_RANGE},

    {"Comparison", "baseline", 0, CLI_TEXT, "ROWS", NULL,
     "rows of earlier loops (a file or a saved baseline): show each phase's change since the last of the same work",
     LOOP, AT(baseline), NO_RANGE},
    {"Comparison", "row", 0, CLI_INT, "N", NULL, "row of the file, from 1; not given: the only one", AGAIN, AT(row),
     WITHIN(1, 1e12)},
    {"Comparison", "allow-own-code", 0, CLI_SWITCH, NULL, NULL,
     "also run a row's --kernel and --backend-library, which are code of whoever measured it: look at these files "
     "first",
     AGAIN, AT(allow_own_code), NO_RANGE},
    {"Comparison", "interleaved", 0, CLI_SWITCH, NULL, NULL,
     "A and B are command lines, run in turn: \"run ...\" or \"PROGRAM run ...\"", COMPARE, AT(interleaved), NO_RANGE},
    {"Comparison", "pairs", 0, CLI_INT, "N", NULL,
     "with --interleaved: runs of each; not given: 20, then up to 100 until a change of twice the threshold can be "
     "seen",
     COMPARE, AT(pairs), WITHIN(1, 10000)},
    {"Comparison", "threshold", 0, CLI_REAL, "PERCENT", "1", "smallest change that is called faster or slower",
     COMPARE | AGAIN, AT(threshold_percent), WITHIN(0, 1000)},
    {"Comparison", "across", 0, CLI_TEXTS, "NAME[,NAME]", NULL,
     "what is compared and so may differ between A and B: machine, device, isa, tier, mode, precision, threads, loader",
     COMPARE, AT(across), NO_RANGE},
    {"Comparison", "save-baseline", 0, CLI_TEXT, "NAME", NULL,
     "keep the rows of B (or of the only file) under a name, to be given as A later", COMPARE, AT(save_baseline),
     NO_RANGE},
    {"Comparison", "seed", 0, CLI_INT, "N", NULL, "seed of the order of interleaved runs; not given: from the clock",
     COMPARE, AT(seed), WITHIN(1, MAX_SEED)},

    {"Comparison", "weak", 0, CLI_SWITCH, NULL, NULL,
     "weak scaling: the work of each process must agree, instead of the work of all together", CHECK_RUN, AT(weak),
     NO_RANGE},
    {"Comparison", "predict", 0, CLI_INTS, "N[,N]", "8-1024*2", "numbers of processes to predict from the model",
     SCALING, AT(predict), WITHIN(1, 1048576)},

    {"Processes", "processes", 0, CLI_INT, "N", "1", "processes that share the work, each with B sequences",
     WALK | ESTIMATE, AT(n_processes), WITHIN(1, 65536)},
    {"Processes", "shard", 0, CLI_CHOICE, NULL, "none",
     "optimizer: each process keeps its part of the optimizer's state and updates its part of the weights (ZeRO-1)",
     TRAIN | WALK | ESTIMATE, AT(shard), ONE_OF(shards)},
    {"Processes", "gradient-format", 0, CLI_CHOICE, NULL, "fp32", "format of the gradients that processes exchange",
     TRAIN | PROFILE | LOOP | WALK | ESTIMATE, AT(gradient_format), ONE_OF(gradient_formats)},
    {"Processes", "transport", 0, CLI_CHOICE, NULL, "auto",
     "auto: processes of one host share memory; messages: they send messages, as processes of several hosts do",
     TRAIN | PROFILE | LOOP, AT(transport), ONE_OF(transports)},
    {"Processes", "comm-timeout", 0, CLI_REAL, "SECONDS", "60",
     "longest wait for another process; then the training ends with an error", TRAIN | PROFILE | LOOP,
     AT(comm_timeout_s), WITHIN(0.1, 1e6)},

    {"Training", "steps", 0, CLI_INT, "N", NULL,
     "optimizer steps; of --steps, --epochs and --tokens, what is reached first ends the training; none given: 10 "
     "steps",
     TRAIN, AT(steps), WITHIN(1, 1e12)},
    {"Training", "epochs", 0, CLI_INT, "N", NULL, "passes over the data", TRAIN, AT(epochs), WITHIN(1, 1e9)},
    {"Training", "tokens", 0, CLI_INT, "N", NULL, "tokens to train on, in whole steps", TRAIN, AT(tokens),
     WITHIN(1, 1e15)},
    {"Training", "global-batch", 0, CLI_INT, "G", NULL,
     "sequences a step over all processes; --accum then follows from it, -b and the number of processes", TRAIN,
     AT(global_batch), WITHIN(1, 1e9)},
    {"Training", "order", 0, CLI_CHOICE, NULL, "sequential",
     "order of the data's sequences: as they lie, or shuffled anew each epoch, by --seed", TRAIN | LOOP, AT(data_order),
     ONE_OF(data_orders)},
    {"Training", "val-data", 0, CLI_TEXT, "FILE", NULL,
     "tokens to validate on; not given: val.bin, where --data is a folder", TRAIN, AT(val_data), NO_RANGE},
    {"Training", "val-every", 0, CLI_INT, "N", "0", "validate every N steps, and after the last; 0: after the last",
     TRAIN, AT(val_every), WITHIN(0, 1e12)},
    {"Training", "val-batches", 0, CLI_INT, "N", "20", "micro-batches of --val-data to validate on; 0: all", TRAIN,
     AT(val_batches), WITHIN(0, 1e9)},
    {"Training", "run", 0, CLI_NEW_FOLDER, "DIR", NULL,
     "folder for all that the training writes: log.jsonl, checkpoints/, model/, training_metrics.json", TRAIN, AT(run),
     NO_RANGE},
    {"Training", "save-every", 0, CLI_INT, "N", "0",
     "with --run: write a checkpoint every N steps, and after the last; 0: only when the training is ended early",
     TRAIN, AT(save_every), WITHIN(0, 1e12)},
    {"Training", "keep", 0, CLI_INT, "N", "2", "with --run: checkpoints to keep; 0: all", TRAIN, AT(keep),
     WITHIN(0, 1e9)},
    {"Training", "resume", 0, CLI_CHOICE, NULL, "none",
     "with --run: auto continues the run in the folder, or begins it", TRAIN, AT(resume_run), ONE_OF(resumes)},
    {"Training", "lr", 0, CLI_REAL, "LR", NULL,
     "learning rate after warm-up; not given: the optimizer's own (lion: 1e-4, adafactor: 1e-2, others: 1e-3)", TRAIN,
     AT(settings.lr), WITHIN(0, 1e6)},
    {"Training", "warmup-steps", 0, CLI_INT, "N", "0", "steps over which the learning rate rises linearly from 0",
     TRAIN, AT(warmup_steps), WITHIN(0, 1e12)},
    {"Training", "schedule", 0, CLI_CHOICE, NULL, "constant",
     "learning rate after warm-up; cosine falls to a tenth of --lr at the last step", TRAIN, AT(schedule),
     ONE_OF(schedules)},
    {"Training", "beta1", 0, CLI_REAL, "X", NULL, "decay of the mean gradient; not given: 0.9", TRAIN,
     AT(settings.beta1), WITHIN(0, 0.9999999)},
    {"Training", "beta2", 0, CLI_REAL, "X", NULL,
     "decay of the mean squared gradient, or of lion's mean; not given: 0.999, lion: 0.99", TRAIN, AT(settings.beta2),
     WITHIN(0, 0.9999999)},
    {"Training", "eps", 0, CLI_REAL, "X", NULL,
     "added to the root of the mean square; not given: 1e-8, adafactor (its least): 1.2e-7", TRAIN, AT(settings.eps),
     WITHIN(0, 1)},
    {"Training", "weight-decay", 0, CLI_REAL, "X", NULL,
     "decay of matrices and embeddings; not given: adamw, adamw8bit: 0.01, muon: 0.1, others: 0", TRAIN,
     AT(settings.weight_decay), WITHIN(0, 1e6)},
    {"Training", "momentum", 0, CLI_REAL, "X", NULL,
     "momentum of sgd and muon; not given: sgd 0.9 (PyTorch's is 0), muon 0.95", TRAIN, AT(settings.momentum),
     WITHIN(0, 0.9999999)},
    {"Training", "nesterov", 0, CLI_REAL, "0|1", NULL, "whether momentum looks ahead; not given: sgd 0, muon 1", TRAIN,
     AT(settings.nesterov), WITHIN(0, 1)},
    {"Training", "grad-clip", 0, CLI_REAL, "X", NULL, "largest global gradient norm; 0, the default: no clipping",
     TRAIN, AT(settings.grad_clip), WITHIN(0, 1e30)},
    {"Training", "log", 0, CLI_LOG_FILE, "FILE", NULL,
     "append a JSON line for each step: step, loss, grad_norm, lr, ms, tokens, ...", TRAIN | LOOP, AT(log), NO_RANGE},
    {"Training", "profile", 0, CLI_SWITCH, NULL, NULL,
     "time every fourth step op by op, and say at the end where its time goes; weights and losses stay the same", TRAIN,
     AT(profile), NO_RANGE},
    {"Training", "save", 0, CLI_NEW_FOLDER, "DIR", NULL,
     "write config.json, model.safetensors and optimizer.safetensors at the end", TRAIN, AT(save), NO_RANGE},

    {"Output", "save", 0, CLI_NEW_FOLDER, "DIR", NULL, "folder to write config.json and model.safetensors to", INIT,
     AT(save), NO_RANGE},
    {"Output", "output", 0, CLI_NEW_FOLDER, "DIR", NULL,
     "with train and convert: folder to write tokenizer.json, vocab.json and merges.txt to", TOKENIZER,
     AT(output_folder), NO_RANGE},
    {"Output", "output", 0, CLI_NEW_FOLDER, "DIR", NULL,
     "folder to write train.bin, val.bin, tokens.json and the tokenizer to", TOKENIZE, AT(output_folder), NO_RANGE},
    {"Output", "ids", 0, CLI_SWITCH, NULL, NULL, "print the ids of the tokens that follow, one a line, and no text",
     GENERATE, AT(ids), NO_RANGE},
    {"Output", "raw", 0, CLI_SWITCH, NULL, NULL,
     "do not escape the control characters that the model writes; they are escaped on a terminal only", GENERATE,
     AT(raw), NO_RANGE},
    {"Output", "layer", 0, CLI_INT, "N", NULL, "the block to print; not given: block 0", WALK, AT(layer),
     WITHIN(0, 10000)},
    {"Output", "all", 0, CLI_SWITCH, NULL, NULL, "print every block", WALK, AT(all), NO_RANGE},
    {"Output", "values", 0, CLI_SWITCH, NULL, NULL,
     "run the step on the reference backend; print the first entries and the L2 norm of every operand", WALK,
     AT(values), NO_RANGE},
    {"Output", "full", 0, CLI_SWITCH, NULL, NULL,
     "print all entries, not only the first; with -o json the weights, too", WALK, AT(full), NO_RANGE},
    {"Output", "at", 0, CLI_TEXT, "OP", NULL,
     "only this op, by its number as printed, or the ops of a kind (attention_forward)", WALK, AT(at), NO_RANGE},
    {"Output", "by", 0, CLI_CHOICE, NULL, "kind", "what each line sums: an op, a layer, or all ops of a kind", PROFILE,
     AT(by), ONE_OF(profile_lines)},
    {"Output", "sort", 0, CLI_CHOICE, NULL, "self", "order of the lines, largest first", PROFILE, AT(sort),
     ONE_OF(profile_orders)},
    {"Output", "top", 0, CLI_INT, "N", NULL, "only the first N lines, and the total", PROFILE, AT(top), WITHIN(1, 1e6)},
    {"Output", "trace", 0, CLI_NEW_FILE, "FILE", NULL, "also write a trace, for ui.perfetto.dev or chrome://tracing",
     PROFILE | LOOP, AT(trace), NO_RANGE},
    {"Output", "output", 'o', CLI_FORMAT, "text|md|csv|json|jsonl|sql", NULL,
     "format on stdout; not given: text on a terminal, as wide as it is, and md elsewhere",
     RUN | PROFILE | LOOP | ABLATE | PEAKS | VERIFY | ESTIMATE | DEVICES | WALK | RECOMMEND | COMPARE | AGAIN |
         ON(CLI_LEADERBOARD) | CHECK_RUN | SCALING | EXERCISE | LADDER,
     AT(output), NO_RANGE},
    {"Output", "wide", 0, CLI_SWITCH, NULL, NULL, "show every column, and what each means: as -o md",
     RUN | PROFILE | LOOP | ABLATE | PEAKS | VERIFY | ESTIMATE | DEVICES | WALK | RECOMMEND | COMPARE | AGAIN |
         ON(CLI_LEADERBOARD) | CHECK_RUN | SCALING | EXERCISE | LADDER,
     AT(wide), NO_RANGE},
    {"Output", "source", 0, CLI_TEXT, "RUNG", NULL, "print the rung's source, and measure nothing", LADDER, AT(source),
     NO_RANGE},
    {"Output", "quiet", 'q', CLI_SWITCH, NULL, NULL, "no progress: warnings and errors only",
     RUN | PROFILE | LOOP | ABLATE | PEAKS | VERIFY | COMPARE | AGAIN | LADDER, AT(quiet), NO_RANGE},
    {"Output", "progress", 0, CLI_SWITCH, NULL, NULL, "show progress on stderr",
     RUN | PROFILE | LOOP | VERIFY | AGAIN | TOKENIZER | TOKENIZE, AT(progress), NO_RANGE},
    {"Output", "output-file", 0, CLI_LOG_FILE, "FILE", NULL,
     "write the rows to a file, too: FILE.jsonl is appended to; FILE.json, .csv, .sql or .md is written as a whole",
     ON(CLI_RUN) | LOOP, AT(output_file), NO_RANGE},
    {"Output", "page", 0, CLI_NEW_FILE, "FILE", NULL, "also write a page (HTML) of the tables and their pictures",
     SCALING | ON(CLI_LEADERBOARD), AT(page), NO_RANGE},
    {"Output", "output", 0, CLI_NEW_FILE, "FILE", NULL, "file to write; not given: stdout", REPORT, AT(report_file),
     NO_RANGE},
    {"Output", "output", 0, CLI_NEW_FILE, "FILE", NULL, "page (HTML) to write; not given: stdout", PAGE,
     AT(report_file), NO_RANGE},
    {"Output", "output", 0, CLI_NEW_FILE, "FILE", NULL, "bundle to write", ON(CLI_BUNDLE), AT(report_file), NO_RANGE},
    {"Output", "format", 'o', CLI_CHOICE, NULL, "auto",
     "html with pictures, or Markdown with tables only; auto: by the file's name, and Markdown on a terminal", REPORT,
     AT(report_format), ONE_OF(report_formats)},
    {"Output", "list-devices", 0, CLI_SWITCH, NULL, NULL, "same as `stepmark devices`",
     RUN | PROFILE | LOOP | ABLATE | TRAIN, AT(list_devices), NO_RANGE},
    {"Output", "help", 'h', CLI_SWITCH, NULL, NULL, "this text", ALL, AT(help), NO_RANGE},
};

int cli_flag_count(void) { return (int)(sizeof(flags) / sizeof(flags[0])); }

const cli_flag *cli_flag_at(int index) { return &flags[index]; }

static const cli_choosable choosable[] = {
    {"mode", NULL},          {"attention", NULL},       {"recompute", NULL},        {"threads", NULL},
    {"isa", NULL},           {"padding", NULL},         {"loader", NULL},           {"queue-depth", NULL},
    {"batch-size", "batch"}, {"precision", "rounding"}, {"optimizer", "optimizer"}, {"accum", "batch"},
};

enum { N_CHOOSABLE = sizeof(choosable) / sizeof(choosable[0]) };

const cli_choosable *cli_choosable_at(int index) { return index < N_CHOOSABLE ? &choosable[index] : NULL; }

int cli_choosable_find(const char *name, size_t length) {
    for (int i = 0; i < N_CHOOSABLE; i++) {
        if (length == strlen(choosable[i].flag) && strncmp(name, choosable[i].flag, length) == 0) {
            return i;
        }
    }
    return -1;
}

bool cli_is_axis(const cli_flag *flag) { return (flag->commands & CLI_LISTED) != 0; }

bool cli_has_own_list(const cli_flag *flag) {
    return flag->commands == ADVISED; // no other subcommand has the row
}

bool cli_takes_list(const cli_flag *flag, cli_command command) {
    if (command == CLI_ADVISE) {
        return cli_choosable_find(flag->name, strlen(flag->name)) >= 0;
    }
    bool swept = command == CLI_SWEEP && cli_is_axis(flag) && flag->type != CLI_SWITCH && !(flag->commands & CLI_WHOLE);
    return swept || (flag->argument != NULL && strchr(flag->argument, ',') != NULL);
}

void cli_choice_words(const cli_choice *choices, char *text, size_t size_bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (const cli_choice *c = choices; c->word != NULL && used < size_bytes; c++) {
        used += (size_t)snprintf(text + used, size_bytes - used, "%s%s", c != choices ? "|" : "", c->word);
    }
}

void cli_flag_argument(const cli_flag *flag, cli_command command, char text[CLI_ARGUMENT_SIZE]) {
    text[0] = '\0';
    if (flag->choices != NULL) {
        cli_choice_words(flag->choices, text, CLI_ARGUMENT_SIZE);
    }
    size_t used = strlen(text);
    snprintf(text + used, CLI_ARGUMENT_SIZE - used, "%s%s", flag->argument != NULL ? flag->argument : "",
             cli_takes_list(flag, command) && (flag->argument == NULL || strchr(flag->argument, ',') == NULL) ? LIST
                                                                                                              : "");
}
