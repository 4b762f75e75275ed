// flags.c: the table of flags. Subcommands' differences are in the row, too (UNLIKE); a name with two meanings has two.
#include "cli/flags/flag.h"

#include "bench/measure/harness.h"
#include "bench/profile/profile.h"
#include "src/rewrites/rewrite.h"
#include "src/runs/run_folder.h"
#include "src/train/loader.h"

#define AT(field)            .target = offsetof(cli_options, field)
#define WITHIN(least, most)  .min = (least), .max = (most)
#define ONE_OF(list)         .choices = (list)
#define NOT_ADVISE(commands) ((commands) & ~(unsigned)ADVISE)
#define UNLIKE(...)                        \
    .unlike = (const cli_flag_variant[]) { \
        __VA_ARGS__, { .commands = 0 }     \
    }

// Subcommands by the names of their codes.
enum {
#define X(code, ...) code = 1u << CLI_##code,
    CLI_COMMAND_LIST(X)
#undef X
        ALL = (1u << CLI_COMMAND_COUNT) - 1,
};

// Subcommands that share flags.
enum {
    MEASURED = RUN | ADVISE,       // one value for all configurations
    SWEPT = MEASURED | CLI_LISTED, // a list; each entry is a configuration
    WALKED = WALK | PAGE,
    FED = SWEPT | PROFILE | LOOP | ABLATE | TRAIN, // with data
    STEPPED = FED | WALKED | ESTIMATE,
    MODELLED = STEPPED | INIT,
    LOOPED = LOOP | TRAIN | RUN | ADVISE | CLI_LISTED, // of run: makes configurations loops
    ASKED = GENERATE | EVAL,                           // of a trained model
    CHECKED = EXERCISE | JUDGE,                        // of somebody's kernels
    OPENED = FED | PEAKS | VERIFY | LADDER | ASKED,    // open a device
    SHOWN = MEASURED | SCORE | PROFILE | LOOP | ABLATE | PEAKS | VERIFY | ESTIMATE | DEVICES | WALK | RECOMMEND |
            COMPARE | AGAIN | LEADERBOARD | EVAL | CHECK_RUN | SCALING | CHECKED | LADDER, // print a table
};

// Largest values: each alone keeps a tensor's size within 64 bits; code that multiplies them checks for overflow.
#define MAX_BATCH 1048576.0
#define MAX_DIM   16777216.0
#define MAX_SEED  9007199254740992.0 // 2^53: the largest integer that every JSON reader keeps exactly

// Places in the lists of models and of optimizers.
#define ARCH(name)           ARCH_##name,
#define ARCH_WORD(name)      {#name, ARCH_##name + 1},
#define OPTIMIZER(name)      OPTIMIZER_##name,
#define OPTIMIZER_WORD(name) {#name, OPTIMIZER_##name},
enum { SM_MODEL_LIST(ARCH) };
enum { SM_OPTIMIZER_LIST(OPTIMIZER) };

// {name, code} from X(code, name, ...). After NEXT 0 stands for a flag that is not given.
#define FIRST(first, ...)                first
#define WORD(code, ...)                  {FIRST(__VA_ARGS__, 0), code},
#define NEXT(code, name)                 {name, code + 1},
#define ACTIVATION(CODE, name, f, slope) {#name, SM_ACTIVATION_##CODE + 1},

static const cli_choice passes[] = {SM_PASS_LIST(WORD){NULL, 0}};
static const cli_choice data_formats[] = {SM_TOKENS_FORMAT_LIST(WORD){NULL, 0}};
static const cli_choice profile_lines[] = {SM_PROFILE_BY_LIST(WORD){NULL, 0}};
static const cli_choice profile_orders[] = {CLI_PROFILE_ORDER_LIST(WORD){NULL, 0}};
static const cli_choice precisions[] = {CLI_PRECISION_LIST(WORD){NULL, 0}};
static const cli_choice long_documents[] = {SM_LONG_LIST(WORD){NULL, 0}};
static const cli_choice schedules[] = {SM_SCHEDULE_LIST(WORD){NULL, 0}};
static const cli_choice data_orders[] = {SM_ORDER_LIST(WORD){NULL, 0}};
static const cli_choice resumes[] = {SM_RESUME_LIST(WORD){NULL, 0}};

static const cli_choice languages[] = {{"c", SM_OWN_C}, {"cl", SM_OWN_OPENCL}, {NULL, 0}};

static const cli_choice modes[] = {
    {"naive", SM_MODE_NAIVE}, {"fused", SM_MODE_FUSED}, {"tuned", SM_MODE_TUNED}, {NULL, 0}};

static const cli_choice recomputes[] = {{"none", SM_RECOMPUTE_NONE},
                                        {"light", SM_RECOMPUTE_LIGHT},
                                        {"block", SM_RECOMPUTE_BLOCK},
#define X(k) {"block:" #k, SM_RECOMPUTE_BLOCK_##k},
                                        SM_RECOMPUTE_GROUPS(X)
#undef X
                                            {NULL, 0}};

static const cli_choice attentions[] = {{"naive", SM_ATTENTION_NAIVE}, {"flash", SM_ATTENTION_FLASH}, {NULL, 0}};
static const cli_choice products[] = {{"own", 0}, {"openblas", 1}, {NULL, 0}};
static const cli_choice paddings[] = {SM_PADDING_LIST(NEXT){NULL, 0}};

static const cli_choice places[] = {{"in", 0}, {"out", 1}, {NULL, 0}};
static const cli_choice shards[] = {{"none", 0}, {"optimizer", 1}, {NULL, 0}};
static const cli_choice gradient_formats[] = {{"fp32", 0}, {"bf16", 1}, {NULL, 0}};
static const cli_choice transports[] = {SM_TRANSPORT_LIST(WORD){NULL, 0}};

static const cli_choice orders[] = {{"random", CLI_ORDER_RANDOM}, {"given", CLI_ORDER_GIVEN}, {NULL, 0}};

static const cli_choice activation_words[] = {SM_ACTIVATION_LIST(ACTIVATION){NULL, 0}};
static const cli_choice archs[] = {SM_MODEL_LIST(ARCH_WORD){NULL, 0}};
static const cli_choice optimizers[] = {SM_OPTIMIZER_LIST(OPTIMIZER_WORD){NULL, 0}};

#define LIST "[,...]" // after the words of a choice: several may be given
#define SIZES_HELP \
    "tiny, small, medium, large, xl, 2.7B; gpt2 also 124M, 355M, 774M, 1558M; qwen3 also 0.6B, 1.7B, 4B, 8B"
#define PRECISION_HELP                                                                                         \
    "number format; bf16, fp16: data, tables and the factors of products in 16 bits, the rest in fp32; tf32, " \
    "tf32x3: fp32 data, multiplied on matrix units; bf16x6: likewise on AMX, as exact as fp32; "               \
    "fp8: bf16, and in training steps the products of the blocks in 8 bits"
#define RECOMPUTE_HELP                                                                                            \
    "results that the backward computes again instead of keeping them in memory: none, cheap ones (light), or a " \
    "whole block except its input (block), or of so many blocks together (block:4)"

static const cli_flag flags[] = {
    {"Model", "arch", 0, CLI_CHOICE, NULL, NULL, MODELLED, AT(model.arch), ONE_OF(archs),
     .help = "architecture, in the size of -m; not given: gpt2"},
    {"Model", "model-size", 'm', CLI_TEXTS, "SIZE[,SIZE]", "small", MODELLED, AT(model.models),
     .help = "size of the model: " SIZES_HELP,
     UNLIKE({ADVISE | WALKED | PROFILE | LOOP | ABLATE | TRAIN | INIT, .argument = "SIZE"}, {WALKED, .initial = "tiny"},
            {TRAIN, .initial = "auto",
             .help = "size of the model: auto, or " SIZES_HELP "; auto: vocabulary, model, batch and length that fit "
                     "data and machine, where no flag gives them"},
            {ESTIMATE, .initial = "small,medium,large,xl,2.7B"})},
#define FIELD_SIZE(member, flag, argument, most, text) \
    {"Model", flag, 0, CLI_INT, argument, NULL, MODELLED, AT(model.member), WITHIN(1, most), .help = text},
#define FIELD_OPTIONAL FIELD_SIZE
#define FIELD_WORD(member, flag, argument, most, text) \
    {"Model", flag, 0, CLI_CHOICE, argument, NULL, MODELLED, AT(model.member), ONE_OF(member##_words), .help = text},
#define X(type, member, column, view, heading, meaning, most, flag, argument, text) \
    FIELD_##type(member, flag, argument, most, text)
#define KEPT(...)
    SM_MODEL_FIELDS(X, KEPT)
#undef X
#undef KEPT
        {"Model", "weights", 0, CLI_TEXT, "DIR", NULL, FED | WALKED | ASKED, AT(model.weights),
         .help = "folder with config.json and model.safetensors; instead of -m",
         UNLIKE({ASKED | TRAIN, .help = "folder with config.json and model.safetensors, or a run of train"})},
    {"Model", "run", 0, CLI_TEXT, "DIR", NULL, PAGE, AT(train.run),
     .help = "a run of train: its model and its tokenizer; instead of -m"},

    {"Work", "prompt", 0, CLI_TEXT, "TEXT", NULL, GENERATE, AT(generate.prompt), .help = "text to continue"},
    {"Work", "op", 0, CLI_TEXT, "OP", NULL, NOT_ADVISE(SWEPT), AT(work.op),
     .help = "measure an op by itself, in place of a step, in the sizes of the model, of -b and --seq-len: a kind, as "
             "walk names it (matmul_backward_input), or an op with its backward (matmul, flash_attention, gelu)"},
    {"Work", "head-dim", 0, CLI_INT, "HS", NULL, NOT_ADVISE(SWEPT), AT(work.head_dim), WITHIN(1, 65536),
     .help = "with --op: channels of an attention head"},
    {"Work", "bytes", 0, CLI_INT, "SIZE", "1048576", NOT_ADVISE(SWEPT), AT(work.size_bytes), WITHIN(4, 1e12),
     .help = "with --op all_reduce, reduce_scatter, all_gather or broadcast, of several processes: size (1K: 1024)"},
    {"Work", "place", 0, CLI_CHOICE, NULL, "in", NOT_ADVISE(SWEPT), AT(work.place), ONE_OF(places),
     .help = "with --op likewise; in: the operands are overwritten; out: the device copies them first"},
    {"Work", "batch-size", 'b', CLI_INTS, "B[,B]", NULL, STEPPED | SCORE, AT(work.batch_sizes), WITHIN(1, MAX_BATCH),
     .help = "sequences a batch; not given: chosen by --fit",
     UNLIKE({ADVISE, .initial = "4,8,16,32",
             .help = "sequences a batch, to try; the first value in each list is the baseline"},
            {SCORE, .help = "sequences a batch; not given: 1 for every 4 threads of a processor (16-bit formats: 2), "
                            "of a card the largest of 1, 2, 4, ... 32 for which there are memory and time"},
            {PROFILE | LOOP | ABLATE, .argument = "B", .initial = "4", .help = "sequences a micro-batch"},
            {TRAIN, .argument = "B", .help = "sequences a micro-batch; not given: 4, or chosen by -m auto"},
            {WALKED, .argument = "B", .initial = "1", .help = "sequences a batch"},
            {ESTIMATE, .initial = "4", .help = "sequences a batch"}),
     .also = "n-batch"}, // as its column is named
    {"Work", "seq-len", 0, CLI_INTS, "T[,T]", NULL, STEPPED | EVAL, AT(work.seq_lens), WITHIN(1, MAX_DIM),
     .help = "tokens a sequence; not given: chosen by --fit",
     UNLIKE({ADVISE | PROFILE | LOOP | ABLATE, .argument = "T", .initial = "64", .help = "tokens a sequence"},
            {TRAIN, .argument = "T", .help = "tokens a sequence; not given: 64, or chosen by -m auto"},
            {WALK, .argument = "T", .initial = "8", .help = "tokens a sequence"},
            {PAGE, .argument = "T",
             .help = "tokens a sequence; not given: those of --text, or 32, if the page has room for them"},
            {EVAL, .argument = "T"}, {ESTIMATE | EVAL, .help = "tokens a sequence; not given: the model's context"})},
    {"Work", "fit", 0, CLI_REAL, "SECONDS", "60", NOT_ADVISE(SWEPT), AT(work.fit_s), WITHIN(1, 86400),
     .help = "without -b (and --seq-len): take the largest batch (and length) that fits in memory and that all devices "
             "measure in so many seconds"},
    {"Work", "pass-type", 0, CLI_CHOICES, NULL, "step", SWEPT, AT(work.passes), ONE_OF(passes),
     .help = "part of the step that is timed; separate: forward and backward, each timed by itself"},
    {"Work", "dropout", 0, CLI_REAL, "P", "0", STEPPED, AT(work.dropout), WITHIN(0, 0.999),
     .help = "dropout probability"},
    {"Work", "optimizer", 0, CLI_CHOICE, NULL, "adamw", STEPPED, AT(work.optimizer), ONE_OF(optimizers),
     .help = "rule by which the step updates the weights"},
    {"Work", "recompute", 0, CLI_CHOICE, NULL, NULL, STEPPED | VERIFY, AT(work.recompute), ONE_OF(recomputes),
     .help = RECOMPUTE_HELP "; not given: none",
     UNLIKE({VERIFY, .help = RECOMPUTE_HELP "; not given: each of them (in mode naive none and block)"},
            {ADVISE, .initial = "none,light,block", .help = RECOMPUTE_HELP})},
    {"Work", "attention", 0, CLI_CHOICE, NULL, NULL, SWEPT | PROFILE | LOOP | TRAIN | WALKED | ESTIMATE,
     AT(work.attention), ONE_OF(attentions),
     .help = "attention weights kept for the backward: all (naive) or none (flash); not given: naive in mode naive, "
             "else flash",
     UNLIKE({ADVISE, .initial = "flash,naive",
             .help = "attention weights kept for the backward: none (flash), or the whole square (naive)"})},
    {"Work", "documents", 0, CLI_TEXT, "MIN-MAX|ID|DIR", NULL, SWEPT | PROFILE | LOOP | TRAIN, AT(work.documents),
     .help = "fill rows with documents: MIN-MAX: parts of the data of random length; ID: split the data at tokens with "
             "this id; DIR: split it at the <|endoftext|> of this tokenizer (a folder, or its tokenizer.json)"},
    {"Work", "padding", 0, CLI_CHOICE, NULL, NULL, SWEPT | PROFILE | LOOP | TRAIN, AT(work.padding), ONE_OF(paddings),
     .help =
         "how documents share rows: none: each must fill its row; max: one per row; batch: pad to the longest in the "
         "batch; bucket: group by length; packed: several per row, attention masked between them; not given: packed"},
    {"Work", "long-documents", 0, CLI_CHOICE, NULL, "refuse", SWEPT | PROFILE | LOOP | TRAIN, AT(work.long_documents),
     ONE_OF(long_documents), .help = "documents longer than a row: refuse them, cut them off, or split them"},
    {"Work", "loader", 0, CLI_TEXT, "inline|threads[:N]", NULL, LOOPED, AT(work.loader),
     .help = "measure each configuration with `loop` instead of `run`; inline: the training thread makes each step's "
             "batches when it needs them; threads: N other threads make them ahead",
     UNLIKE({TRAIN | LOOP, .initial = "threads:1",
             .help = "inline: the training thread makes batches when it needs them; threads: N others do, ahead"})},
    {"Work", "queue-depth", 0, CLI_INT, "N", NULL, LOOPED, AT(work.queue_depth), WITHIN(0, SM_LOADER_MAX_DEPTH),
     .help = "with --loader threads: steps whose batches are made ahead",
     UNLIKE({TRAIN | LOOP, .initial = "0",
             .help = "with --loader threads: steps whose batches are made ahead; 0: two a thread"})},
    {"Work", "tokenizer", 0, CLI_TEXT, "DIR", NULL, LOOPED | CLI_WHOLE | TOKENIZER | TOKENIZE | ASKED | WALKED,
     AT(work.tokenizer), .help = "folder with tokenizer.json, or vocab.json and merges.txt",
     UNLIKE(
         {RUN | ADVISE,
          .help = "with --loader: read --data as text, and tokenize it with this folder's tokenizer during the loop"},
         {TRAIN | LOOP, .help = "read --data as text, and tokenize it with this folder's tokenizer while training"},
         {TOKENIZER, .help = "to show or convert: folder with tokenizer.json, or vocab.json and merges.txt"},
         {ASKED | WALKED, .argument = "DIR|bytes",
          .help = "folder with the model's tokenizer; bytes: each byte is a token; not given: the tokenizer in the "
                  "folder of --weights, or bytes if the model has 256 tokens"})},
    {"Work", "tokens", 0, CLI_INT, "N", "100", GENERATE, AT(generate.n_tokens), WITHIN(1, 1e9),
     .help = "tokens to generate; fewer if <|endoftext|> comes"},
    {"Work", "temperature", 0, CLI_REAL, "X", "0", GENERATE, AT(generate.temperature), WITHIN(0, 1e3),
     .help = "0: always the most probable token; 1: draw with the model's own probabilities"},
    {"Work", "top-k", 0, CLI_INT, "K", "0", GENERATE, AT(generate.top_k), WITHIN(0, MAX_DIM),
     .help = "with --temperature: draw from the K most probable tokens only; 0: from all"},
    {"Work", "accum", 0, CLI_INT, "N", "1", SWEPT | TRAIN | LOOP, AT(work.accum), WITHIN(1, 1e6),
     .help = "micro-batches (parts of a batch) whose gradients one optimizer step sums",
     UNLIKE({ADVISE, .initial = "1,4"})},
    {"Work", "data", 0, CLI_TEXT, "FILE|DIR", NULL, FED | WALKED | EVAL, AT(work.data),
     .help = "text or tokens to train on: a file, a pattern in quotes ('shards/*.bin'), or a folder (its train.bin, or "
             "all of it); not given: the embedded text, read as bytes",
     UNLIKE({EVAL, .help = "text, tokens, a folder with val.bin, or questions (.jsonl: ctx, endings, label)"},
            {WALK, .help = "text or tokens; the first batch is shown; not given: random tokens, by --seed"},
            {PAGE, .help = "text or tokens; the first batch is shown instead of --text"})},
    {"Work", "text", 0, CLI_TEXT, "TEXT", NULL, WALKED, AT(walk.text),
     .help = "text; its first tokens are shown: bytes, or tokens by the tokenizer of --weights",
     UNLIKE({PAGE, .help = "text; its first tokens are shown: bytes, or tokens by the model's tokenizer; not given: a "
                           "sentence, or random tokens if the model has no tokenizer"})},
    {"Work", "data-format", 0, CLI_CHOICE, NULL, "auto", FED | WALKED | EVAL | TOKENIZE | TOKENIZER,
     AT(work.data_format), ONE_OF(data_formats),
     .help = "what --data is; auto: text, lines of JSON, llm.c's or NumPy's ids as the file itself shows, and raw "
             "16-bit ids in a .bin; bytes: each byte of any file is a token",
     UNLIKE({TOKENIZE | TOKENIZER,
             .help = "what FILE is; auto: text or lines of JSON, as the file shows; bytes: text, whatever its bytes"})},
    {"Work", "seed", 0, CLI_INT, "N", "42", FED | INIT | WALKED | VERIFY | GENERATE, AT(work.seed), WITHIN(0, MAX_SEED),
     .help = "seed of fresh weights and of dropout masks",
     UNLIKE({GENERATE, .help = "with --temperature: seed of the draws"})},

    {"Work", "vocab-size", 0, CLI_INT, "N", NULL, TOKENIZER, AT(tokens.vocab_size), WITHIN(257, MAX_DIM),
     .help = "learn a vocabulary of so many tokens, including the 256 bytes and <|endoftext|>"},
    {"Work", "show", 0, CLI_SWITCH, NULL, NULL, TOKENIZER, AT(tokens.show),
     .help = "show a vocabulary, and how it cuts the texts given"},
    {"Work", "convert", 0, CLI_SWITCH, NULL, NULL, TOKENIZER, AT(tokens.convert),
     .help = "write a vocabulary in all of its formats"},
    {"Work", "min-frequency", 0, CLI_INT, "N", "2", TOKENIZER, AT(tokens.min_frequency), WITHIN(1, 1e12),
     .help = "with --vocab-size: how often two tokens must be neighbours to become one"},
    {"Work", "val-percent", 0, CLI_REAL, "P", "0", TOKENIZE, AT(tokens.val_percent), WITHIN(0, 100),
     .help = "percentage of the text for validation: whole documents by content, else the end of each; 0: none"},
    {"Exercise", "init", 0, CLI_NEW_FOLDER, "DIR", NULL, EXERCISE, AT(learn.init),
     .help = "write DIR/NAME.c with the arguments, the equation, and an empty body"},
    {"Exercise", "language", 0, CLI_CHOICE, NULL, "c", EXERCISE, AT(learn.language), ONE_OF(languages),
     .help = "language of that file: C for processors, or OpenCL C (DIR/NAME.cl) for all devices"},
    {"Exercise", "check", 0, CLI_CODE, "FILE", NULL, EXERCISE, AT(learn.check),
     .help = "compile your kernel, run it on all cases in its own process, and report its first mistake or speed"},
    {"Exercise", "hint", 0, CLI_INT, "LEVEL", NULL, EXERCISE, AT(learn.hint), WITHIN(1, 3),
     .help = "print hints: 1, the idea; 2, the loops; 3, the line that matters"},
    {"Exercise", "progress", 0, CLI_CODE, "DIR", NULL, EXERCISE, AT(learn.solutions),
     .help = "check all exercises of a folder: which files are right, and which exercise is next"},
    {"Judge", "kind", 0, CLI_TEXT, "OP", NULL, JUDGE, AT(learn.kind),
     .help = "op that all files compute; not given: the one in a file's name, gelu_forward.c"},
    {"Judge", "against", 0, CLI_CODE, "FILE", NULL, JUDGE, AT(learn.against),
     .help = "with --kind: also compare times with this kernel's, in turns"},
    {"Device", "backend", 0, CLI_TEXTS, "NAME[,NAME]", "all",
     FED | SCORE | VERIFY | PEAKS | ASKED | LADDER | PAGE | ESTIMATE | CHECKED, AT(device.backends),
     .help = "backends or devices (see `stepmark devices`); all: every one that is not the reference",
     UNLIKE({ADVISE | ABLATE | ASKED | LADDER, .argument = "NAME", .help = "device (see `stepmark devices`)"},
            {PROFILE | LOOP | TRAIN, .help = "device (see `stepmark devices`), or one for each process"},
            {ADVISE | PROFILE | LOOP | ABLATE | PEAKS | TRAIN | ASKED | LADDER, .initial = "cpu"},
            {PAGE, .initial = "reference,all",
             .help = "backends or devices to time the step on (see `stepmark devices`); none: no times"},
            {ESTIMATE, .argument = "NAME", .initial = "cpu", .help = "device whose memory must suffice"},
            {CHECKED, .argument = "NAME", .initial = "opencl", .help = "device on which a FILE.cl is checked"})},
    {"Device", "threads", 't', CLI_INTS, "N[,N]", NULL,
     FED | SCORE | VERIFY | PEAKS | ASKED | LADDER | TOKENIZER | TOKENIZE, AT(device.threads), WITHIN(1, 4096),
     .help = "threads; not given: one a core",
     UNLIKE({ADVISE, .help = "threads; not given: one a core, and half of them"},
            {PROFILE | LOOP | ABLATE | TRAIN | ASKED | LADDER | TOKENIZER | TOKENIZE, .argument = "N"},
            {PEAKS, .help = "threads; not given: 1, 2, 4, ... up to one a core"})},
    {"Device", "cpu-mask", 0, CLI_TEXT, "MASK|LIST", NULL, OPENED | SCORE | CLI_WHOLE, AT(device.cpu_mask),
     .help = "processors to run on, 0x10f or 0-3,8; one thread is bound to each core where they fit"},
    {"Device", "keep-env", 0, CLI_SWITCH, NULL, NULL, OPENED, AT(device.keep_env),
     .help = "keep OPENBLAS_CORETYPE as it is, even if it makes OpenBLAS use kernels for an older processor"},
    {"Device", "isa", 0, CLI_TEXT, "NAME", NULL, OPENED, AT(device.isa),
     .help = "instruction set of the cpu kernels (baseline, avx2, avx512, avx512_bf16, amx; Arm: neon, neon_bf16, sme; "
             "RISC-V: scalar, rvv128, rvv256, rvv512) or family of OpenCL's (tensor, local, registers); else the best"},
    {"Device", "products", 0, CLI_CHOICE, NULL, "own", OPENED & ~LADDER, AT(device.openblas), ONE_OF(products),
     .help = "what multiplies matrices on the cpu backend, in fp32 (and in --attention naive): its own or OpenBLAS"},
    {"Device", "backend-library", 0, CLI_CODE, "FILE.so", NULL, OPENED | DEVICES, AT(device.backend_library),
     .help = "load your own backend (docs/adding.md) into its own process; --backend takes its name; not on Windows"},
    {"Device", "kernel", 0, CLI_CODE, "OP=FILE[,OP=FILE]", NULL, SWEPT | CLI_WHOLE | VERIFY | PROFILE | LOOP | TRAIN,
     AT(device.kernel),
     .help = "run your own fp32 kernel (function that computes a kind of op): on the cpu backend a C file (compiled "
             "by cc, on Windows gcc or clang) or shared library, on OpenCL FILE.cl; `stepmark exercise` writes one"},
    {"Device", "precision", 0, CLI_CHOICES, NULL, "fp32", STEPPED | SCORE | VERIFY | ASKED, AT(device.precisions),
     ONE_OF(precisions), .help = PRECISION_HELP,
     UNLIKE({RUN | SCORE | ESTIMATE | VERIFY, .argument = LIST},
            {SCORE, .initial = "fp32,bf16",
             .help = PRECISION_HELP "; bf16 is left out where a device has no units for it"},
            {MEASURED, .help = PRECISION_HELP "; a format that cannot run still gets a row, with the reason"},
            {ASKED, .help = PRECISION_HELP "; eval and generate take no fp8"}, {ADVISE, .initial = "fp32,tf32,bf16"})},
    {"Device", "loss-scale", 0, CLI_TEXT, "dynamic|none|N", NULL, STEPPED, AT(device.loss_scale),
     .help = "factor on the loss that keeps small gradients in range; dynamic: a step with a gradient that is not "
             "finite is skipped and halves the factor; not given: dynamic in fp16, else none"},
    {"Device", "loss-scale-interval", 0, CLI_INT, "N", "2000", STEPPED, AT(device.loss_scale_interval), WITHIN(1, 1e6),
     .help = "number of good steps after which a dynamic loss scale is doubled"},
    {"Device", "mode", 0, CLI_CHOICES, NULL, "fused",
     SWEPT | PROFILE | LOOP | TRAIN | WALKED | ESTIMATE | VERIFY | ASKED, AT(device.modes), ONE_OF(modes),
     .help = "naive: the plan (the step as a list of operations) as built; fused: neighbouring operations merged; "
             "tuned: fused, with kernels chosen by measurement",
     UNLIKE(
         {RUN | ESTIMATE | VERIFY, .argument = LIST}, {ADVISE, .initial = "fused,tuned"},
         {WALKED | VERIFY, .initial = "naive",
          .help = "naive: the plan (the step as a list of operations) as built; fused: neighbouring operations merged"},
         {VERIFY, .initial = "naive,fused"})},
    {"Device", "without", 0, CLI_TEXTS, "NAME[,NAME]", NULL, STEPPED | CLI_WHOLE, AT(device.without),
     .help = "rewrites (changes of the plan in mode fused) to leave out; `compare --without all` measures each",
     UNLIKE({ABLATE, .argument = "NAME[,NAME]|all",
             .help = "measure a step with and without each of these rewrites of mode fused; all: also all together"})},

    {"Measurement", "warmup", 'w', CLI_COUNT, "N|auto", "auto", SWEPT | PROFILE | LOOP | ABLATE, AT(measure.warmup),
     WITHIN(0, 1e6),
     .help = "untimed steps before the timed ones; auto: until three in a row are no faster than those before",
     UNLIKE({ADVISE, .initial = "1"}, {PROFILE | ABLATE, .type = CLI_INT, .argument = "N", .initial = "2",
                                       .help = "untimed steps before the timed ones"})},
    {"Measurement", "repetitions", 'r', CLI_INT, "N", "7", SWEPT | PROFILE | LOOP | ABLATE, AT(measure.repetitions),
     WITHIN(1, 1e6), .help = "timed steps",
     UNLIKE({ADVISE, .initial = "4", .help = "timed steps of a run"},
            {ABLATE, .help = "rounds of four steps: with, without, without, with", WITHIN(1, 1e5)})},
    {"Measurement", "check-seed", 0, CLI_INT, "N", NULL, MEASURED | PROFILE | LOOP | ABLATE, AT(measure.check_seed),
     WITHIN(1, MAX_SEED),
     .help = "seed of the draw of checked steps, sequences, ops and rows; not given: random, and the row records it"},
    {"Measurement", "max-noise", 0, CLI_REAL, "PERCENT", "0", NOT_ADVISE(SWEPT) | LOOP, AT(measure.max_noise),
     WITHIN(0, 100), .help = "sample until the 95% interval of the median is within this; 0: --repetitions samples"},
    {"Measurement", "min-samples", 0, CLI_INT, "N", "10", NOT_ADVISE(SWEPT) | LOOP, AT(measure.min_samples),
     WITHIN(1, 1e6), .help = "with --max-noise: at least"},
    {"Measurement", "max-samples", 0, CLI_INT, "N", "1000", NOT_ADVISE(SWEPT) | LOOP, AT(measure.max_samples),
     WITHIN(1, 1e6), .help = "with --max-noise: at most"},
    {"Measurement", "min-time", 0, CLI_REAL, "SECONDS", "0", NOT_ADVISE(SWEPT) | LOOP | PEAKS | LADDER,
     AT(measure.min_time_s), WITHIN(0, 86400), .help = "with --max-noise: sample for at least",
     UNLIKE({PEAKS, .initial = "0.2", .help = "time to measure each ceiling", WITHIN(0, 3600)},
            {LADDER, .initial = "0.3", .help = "measure all rungs in turn for this long", WITHIN(0, 3600)})},
    {"Measurement", "shape", 0, CLI_TEXT, "N=64,F=3072", NULL, LADDER | NOT_ADVISE(SWEPT), AT(learn.shape),
     .help = "sizes of the op, by their letters; sizes not given are the ladder's own",
     UNLIKE({RUN, .group = "Work", .argument = "4096x4096x4096",
             .help = "with --op: all of its sizes, as NxCxF of a product, BxTxNHxHS of attention"})},
    {"Measurement", "max-time", 0, CLI_REAL, "SECONDS", "60", NOT_ADVISE(SWEPT) | LOOP, AT(measure.max_time_s),
     WITHIN(0, 1e9), .help = "with --max-noise: sample for at most; 0: no limit"},
    {"Measurement", "no-peaks", 0, CLI_SWITCH, NULL, NULL, SWEPT | LOOP | LADDER | CHECKED, AT(measure.no_peaks),
     .help = "do not measure the device's ceilings (highest possible speeds): no % of peak",
     UNLIKE({CHECKED, .help = "do not measure times and ceilings"})},
    {"Measurement", "no-phases", 0, CLI_SWITCH, NULL, NULL, SWEPT | LOOP, AT(measure.no_phases),
     .help = "leave out the instrumented steps: no times of forward, backward and optimizer"},

    {"Limits", "delay", 0, CLI_REAL, "SECONDS", "0", MEASURED, AT(measure.delay_s), WITHIN(0, 86400),
     .help = "pause between rows, to cool down"},
    {"Limits", "timeout", 0, CLI_REAL, "SECONDS", "0", MEASURED | SCORE | PROFILE | LOOP | CHECKED,
     AT(measure.timeout_s), WITHIN(0, 1e9), .help = "longest time for a row; 0: no limit",
     UNLIKE({ADVISE, .initial = "120",
             .help = "longest time for a run; a configuration that would take longer is not tried; 0: no limit"},
            {CHECKED, .initial = "10",
             .help = "longest time for compiling a file, for its cases together, and for its timed calls together",
             WITHIN(0.1, 3600)})},
    {"Limits", "max-memory", 0, CLI_REAL, "GIB", "0", MEASURED | SCORE, AT(measure.max_memory_gib), WITHIN(0, 1e9),
     .help = "most memory for a configuration's tensors; 0: nine tenths of the memory available at the start"},

    {"Many", "preset", 0, CLI_TEXT, "NAME", NULL, RUN, AT(sweep.preset),
     .help = "macro, sizes, score, fwdbwd, warmup, threads, seq-len, batch, precision, attention, padding, micro, "
             "modes, cs336-2, cs336-2-sizes or cs336-2-exchange; a flag on the command line replaces the preset's"},
    {"Many", "file", 0, CLI_TEXT, "FILE", NULL, RUN, AT(sweep.sweep_file),
     .help = "read flags from FILE: each line measures every combination of its lists"},
    {"Many", "resume", 0, CLI_SWITCH, NULL, NULL, RUN | ADVISE, AT(sweep.resume),
     .help = "skip configurations that already have a row in --output-file"},
    {"Many", "dry-run", 0, CLI_SWITCH, NULL, NULL, RUN | ADVISE, AT(sweep.dry_run),
     .help = "list the configurations and their memory, run nothing"},
    {"Checks", "filter", 0, CLI_TEXT, "REGEX", NULL, VERIFY | RUN, AT(learn.filter),
     .help = "only cases whose text matches: \"matmul_forward N=3 C=5 F=7 bias=1\" or \"step\"",
     UNLIKE({RUN, .group = "Many", .help = "only configurations whose flags match"})},
    {"Checks", "max-elems", 0, CLI_INT, "N", NULL, VERIFY | LADDER, AT(learn.max_elems), WITHIN(1, 1e12),
     .help = "only cases of single ops whose largest tensor has at most N elements",
     UNLIKE({LADDER, .initial = "20000",
             .help = "compare with the reference in verify's cases whose largest tensor has at most N elements"})},
    {"Many", "order", 0, CLI_CHOICE, NULL, NULL, RUN, AT(sweep.order), ONE_OF(orders),
     .help = "order of the configurations within a round; not given: random with --preset, --file or --rounds"},
    {"Many", "order-seed", 0, CLI_INT, "N", "1", RUN, AT(sweep.order_seed), WITHIN(0, MAX_SEED),
     .help = "seed of the random order"},
    {"Many", "rounds", 0, CLI_INT, "N", "1", RUN, AT(sweep.rounds), WITHIN(1, 10000),
     .help = "measure all configurations this many times, one round after the other"},
    {"Many", "find-batch", 0, CLI_SWITCH, NULL, NULL, RUN, AT(sweep.find_batch),
     .help = "if no batch is given, or the batch does not fit: run the largest batch that fits"},

    {"Comparison", "baseline", 0, CLI_TEXT, "ROWS", NULL, LOOP, AT(compare.baseline),
     .help = "rows of earlier loops (a file or a saved baseline): show each phase's change since the last"},
    {"Comparison", "allow-own-code", 0, CLI_SWITCH, NULL, NULL, AGAIN, AT(compare.allow_own_code),
     .help = "also run a row's --kernel and --backend-library, code of who measured the row: look at it first"},
    {"Comparison", "interleaved", 0, CLI_SWITCH, NULL, NULL, COMPARE, AT(compare.interleaved),
     .help = "A and B are command lines, run in turn: \"run ...\" or \"PROGRAM run ...\""},
    {"Comparison", "pairs", 0, CLI_INT, "N", NULL, COMPARE | ADVISE, AT(compare.pairs), WITHIN(1, 10000),
     .help = "with --interleaved: runs of each; not given: 20 to 100, until a change of twice the threshold shows",
     UNLIKE({ADVISE, .group = "Many", .initial = "6",
             .help = "rounds in which the default and the fastest run one after the other", WITHIN(1, 1000)})},
    {"Comparison", "threshold", 0, CLI_REAL, "PERCENT", "1", COMPARE | AGAIN, AT(compare.threshold_percent),
     WITHIN(0, 1000), .help = "smallest change that is called faster or slower"},
    {"Comparison", "across", 0, CLI_TEXTS, "NAME[,NAME]", NULL, COMPARE, AT(compare.across),
     .help = "what may differ of A and B: machine, device, isa, tier, mode, precision, optimizer, threads, loader"},
    {"Comparison", "save-baseline", 0, CLI_TEXT, "NAME", NULL, COMPARE, AT(compare.save_baseline),
     .help = "keep the rows of B (or of the only file) under a name that can stand for A later"},
    {"Comparison", "seed", 0, CLI_INT, "N", NULL, COMPARE, AT(work.seed), WITHIN(1, MAX_SEED),
     .help = "seed of the order of interleaved runs; not given: from the clock"},

    {"Comparison", "weak", 0, CLI_SWITCH, NULL, NULL, CHECK_RUN, AT(compare.weak),
     .help = "weak scaling: the work of each process must agree, instead of the work of all together"},
    {"Comparison", "predict", 0, CLI_INTS, "N[,N]", "4-1024*2", SCALING, AT(compare.predict), WITHIN(1, 1048576),
     .help = "numbers of processes to predict from the model"},

    {"Processes", "processes", 0, CLI_INT, "N", "1", WALK | ESTIMATE, AT(processes.n_processes), WITHIN(1, 65536),
     .help = "processes that share the work, each with B sequences"},
    {"Processes", "shard", 0, CLI_CHOICE, NULL, "none", TRAIN | WALK | ESTIMATE | LOOP | NOT_ADVISE(SWEPT),
     AT(processes.shard), ONE_OF(shards),
     .help = "optimizer: each process keeps its part of the optimizer's state, and updates its weights (ZeRO-1)"},
    {"Processes", "gradient-format", 0, CLI_CHOICE, NULL, "fp32",
     TRAIN | PROFILE | LOOP | WALK | ESTIMATE | NOT_ADVISE(SWEPT), AT(processes.gradient_format),
     ONE_OF(gradient_formats), .help = "format of the gradients that processes exchange"},
    {"Processes", "buckets", 0, CLI_TEXT, "SIZE", NULL, LOOP | WALK | NOT_ADVISE(SWEPT), AT(processes.buckets),
     .help = "what is exchanged together: 0: each gradient alone, after the backward; all: likewise, all at once; 25M: "
             "so many bytes, while the backward continues; not given: 25M, or 60M with --shard optimizer"},
    {"Processes", "transport", 0, CLI_CHOICE, NULL, "auto", TRAIN | PROFILE | LOOP | RUN, AT(processes.transport),
     ONE_OF(transports),
     .help = "p2p: NVIDIA's cards of one host by their own links (NVLink); nccl: by NCCL, also between hosts; memory: "
             "one host's processes share memory; messages: as several hosts send; auto: the first that all can use"},
    {"Processes", "nccl", 0, CLI_CODE, "FILE", NULL, TRAIN | PROFILE | LOOP | RUN, AT(processes.nccl),
     .help = "NCCL's libnccl.so.2; not given: $STEPMARK_NCCL, or where the loader or a Python environment has it"},
    {"Processes", "comm-timeout", 0, CLI_REAL, "SECONDS", "60", TRAIN | PROFILE | LOOP | RUN,
     AT(processes.comm_timeout_s), WITHIN(0.1, 1e6),
     .help = "longest wait for another process, after which the training ends with an error"},

    {"Training", "steps", 0, CLI_INT, "N", NULL, TRAIN, AT(train.steps), WITHIN(1, 1e12),
     .help = "optimizer steps; the first of --steps, --epochs, --tokens ends it; none: 10, or two minutes (-m auto)"},
    {"Training", "epochs", 0, CLI_INT, "N", NULL, TRAIN, AT(train.epochs), WITHIN(1, 1e9),
     .help = "passes over the data"},
    {"Training", "tokens", 0, CLI_INT, "N", NULL, TRAIN, AT(train.tokens), WITHIN(1, 1e15),
     .help = "tokens to train on, in whole steps"},
    {"Training", "global-batch", 0, CLI_INT, "G", NULL, TRAIN, AT(train.global_batch), WITHIN(1, 1e9),
     .help = "sequences a step, over all processes; --accum follows from it, -b and the number of processes"},
    {"Training", "order", 0, CLI_CHOICE, NULL, NULL, TRAIN | LOOP, AT(train.data_order), ONE_OF(data_orders),
     .help = "order of sequences: as in the file, or shuffled in each epoch by --seed; not given: shuffled with --run",
     UNLIKE({LOOP, .initial = "sequential",
             .help = "order of the data's sequences: as in the file, or shuffled again in each epoch, by --seed"})},
    {"Training", "val-data", 0, CLI_TEXT, "FILE", NULL, TRAIN, AT(train.val_data),
     .help = "text or tokens to validate on, as --data; not given: val.bin, where --data is a folder"},
    {"Training", "val-every", 0, CLI_INT, "N", "0", TRAIN, AT(train.val_every), WITHIN(0, 1e12),
     .help = "validate every N steps, and after the last; 0: after the last"},
    {"Training", "val-batches", 0, CLI_INT, "N", "20", TRAIN, AT(train.val_batches), WITHIN(0, 1e9),
     .help = "micro-batches of --val-data to validate on; 0: all"},
    {"Training", "run", 0, CLI_NEW_FOLDER, "DIR", NULL, TRAIN, AT(train.run),
     .help = "folder for everything that the training writes: log.jsonl, checkpoints/, model/, training_metrics.json"},
    {"Training", "save-every", 0, CLI_INT, "N", "0", TRAIN, AT(train.save_every), WITHIN(0, 1e12),
     .help = "with --run: write a checkpoint every N steps, and after the last; 0: only when the training ends early"},
    {"Training", "keep", 0, CLI_INT, "N", "2", TRAIN, AT(train.keep), WITHIN(0, 1e9),
     .help = "with --run: checkpoints to keep; 0: all"},
    {"Training", "resume", 0, CLI_CHOICE, NULL, "none", TRAIN, AT(train.resume_run), ONE_OF(resumes),
     .help = "with --run: auto resumes the run in the folder, or begins one"},
    {"Training", "config", 0, CLI_TEXT, "FILE", NULL, TRAIN, AT(train.config),
     .help = "flags from a JSON file, {\"steps\": 400, \"lr\": 3e-3}, or a run.json; the command line's win"},
    {"Training", "no-checks", 0, CLI_SWITCH, NULL, NULL, TRAIN, AT(train.no_checks),
     .help = "do not compute operations of drawn steps again; each rate is then marked as unchecked"},
    {"Training", "keep-best", 0, CLI_SWITCH, NULL, NULL, TRAIN, AT(train.keep_best),
     .help = "with --run: keep the weights with the lowest validation loss in best/, as transformers reads them"},
    {"Training", "sample-every", 0, CLI_INT, "N", "0", TRAIN, AT(train.sample_every), WITHIN(0, 1e12),
     .help = "with --run and --prompt: continue the prompt every N steps, and after the last; also in the log"},
    {"Training", "prompt", 0, CLI_TEXT, "TEXT", NULL, TRAIN, AT(generate.prompt),
     .help = "with --sample-every: text to continue"},
    {"Training", "log-every", 0, CLI_INT, "N", NULL, TRAIN, AT(train.log_every), WITHIN(1, 1e12),
     .help = "print every Nth step, the first and last; not given: each, or a live screen with --run on a terminal"},
    {"Training", "lr", 0, CLI_REAL, "LR", NULL, TRAIN, AT(train.settings.lr), WITHIN(0, 1e6),
     .help = "learning rate after warm-up; not given: the optimizer's own (lion: 1e-4, adafactor: 1e-2, others: 1e-3; "
             "with --run, of Adam and its variants: 0.5 / the model's width, at most 6e-3)"},
    {"Training", "warmup-steps", 0, CLI_INT, "N", NULL, TRAIN, AT(train.warmup_steps), WITHIN(0, 1e12),
     .help = "steps over which the learning rate rises from 0; not given: with --run a third, at most 500, else 0"},
    {"Training", "schedule", 0, CLI_CHOICE, NULL, NULL, TRAIN, AT(train.schedule), ONE_OF(schedules),
     .help = "learning rate after warm-up: constant, or falling to --min-lr at the last step, wsd only in the last "
             "fifth of all steps; not given: cosine with --run, else constant"},
    {"Training", "min-lr", 0, CLI_REAL, "LR", NULL, TRAIN, AT(train.min_lr), WITHIN(0, 1e6),
     .help = "learning rate at the end of a schedule that falls; not given: a tenth of --lr"},
    {"Training", "beta1", 0, CLI_REAL, "X", NULL, TRAIN, AT(train.settings.beta1), WITHIN(0, 0.9999999),
     .help = "decay of the mean gradient; not given: 0.9"},
    {"Training", "beta2", 0, CLI_REAL, "X", NULL, TRAIN, AT(train.settings.beta2), WITHIN(0, 0.9999999),
     .help = "decay of the mean squared gradient, or of lion's mean; not given: 0.999, with --run 0.95; lion: 0.99"},
    {"Training", "eps", 0, CLI_REAL, "X", NULL, TRAIN, AT(train.settings.eps), WITHIN(0, 1),
     .help = "added to the root of the mean square; not given: 1e-8, adafactor (its lower bound): 1.2e-7"},
    {"Training", "weight-decay", 0, CLI_REAL, "X", NULL, TRAIN, AT(train.settings.weight_decay), WITHIN(0, 1e6),
     .help = "weight decay of matrices and embeddings; not given: adamw, adamw8bit: 0.01, muon: 0.1, others: 0"},
    {"Training", "momentum", 0, CLI_REAL, "X", NULL, TRAIN, AT(train.settings.momentum), WITHIN(0, 0.9999999),
     .help = "momentum of sgd and muon; not given: sgd 0.9 (PyTorch's is 0), muon 0.95"},
    {"Training", "nesterov", 0, CLI_REAL, "0|1", NULL, TRAIN, AT(train.settings.nesterov), WITHIN(0, 1),
     .help = "whether momentum looks ahead; not given: sgd 0, muon 1"},
    {"Training", "grad-clip", 0, CLI_REAL, "X", NULL, TRAIN, AT(train.settings.grad_clip), WITHIN(0, 1e30),
     .help = "largest global gradient norm; 0: no clipping; not given: 1 with --run, else 0"},
    {"Training", "log", 0, CLI_LOG_FILE, "FILE", NULL, TRAIN | LOOP, AT(train.log),
     .help = "append a JSON line for each step: step, loss, grad_norm, lr, ms, tokens, ..."},
    {"Training", "profile", 0, CLI_SWITCH, NULL, NULL, TRAIN, AT(train.profile),
     .help = "time every fourth step op by op, and show where its time goes; weights and losses stay the same"},
    {"Training", "init", 0, CLI_SWITCH, NULL, NULL, INIT, AT(train.init),
     .help = "write the fresh model to --save, and train nothing"},
    {"Training", "save", 0, CLI_NEW_FOLDER, "DIR", NULL, TRAIN | INIT, AT(train.save),
     .help = "write config.json, model.safetensors and optimizer.safetensors at the end",
     UNLIKE({INIT, .group = "Output", .help = "folder to write config.json and model.safetensors to"})},

    {"Output", "output", 0, CLI_NEW_FOLDER, "DIR", NULL, TOKENIZER | TOKENIZE, AT(tokens.output_folder),
     .help = "folder to write train.bin, val.bin, tokens.json and the tokenizer to",
     UNLIKE({TOKENIZER, .help = "folder to write tokenizer.json, vocab.json and merges.txt to"})},
    {"Output", "ids", 0, CLI_SWITCH, NULL, NULL, GENERATE, AT(generate.ids),
     .help = "print the ids of the generated tokens, one a line, instead of text"},
    {"Output", "raw", 0, CLI_SWITCH, NULL, NULL, GENERATE, AT(generate.raw),
     .help = "do not escape control characters in the model's text (they are escaped only on a terminal)"},
    {"Output", "layer", 0, CLI_INT, "N", NULL, WALK, AT(walk.layer), WITHIN(0, 10000),
     .help = "the block to print; not given: block 0"},
    {"Output", "all", 0, CLI_SWITCH, NULL, NULL, WALK, AT(walk.all), .help = "print every block"},
    {"Output", "values", 0, CLI_SWITCH, NULL, NULL, WALK, AT(walk.values),
     .help = "run the step on the reference backend; print the first entries and the L2 norm of every operand"},
    {"Output", "full", 0, CLI_SWITCH, NULL, NULL, WALK, AT(walk.full),
     .help = "print all entries, not only the first; with -o json the weights, too"},
    {"Work", "train-steps", 0, CLI_INT, "N", NULL, WALKED, AT(walk.train_steps), WITHIN(0, 100000),
     .help = "steps of training on --data, or the embedded text, before the step that is shown; not given: 0; on a "
             "page 300 for a small fresh model of bytes"},
    {"Work", "set", 0, CLI_TEXT, "NAME[PLACES]=X", NULL, WALK, AT(walk.held),
     .help = "hold numbers at other values, each time an op has written them: wte.weight[3,5]=0, "
             "h.0.attproj[*,0:16]=0, h.1.fc[0:32]*2; mask[1]=0 and line[2]=0: without the mask, the residual line "
             "around attention, of block 1; several with semicolons; with --values or --full"},
    {"Output", "at", 0, CLI_TEXT, "OP", NULL, WALK, AT(walk.at),
     .help = "only this op, by its number as printed, or the ops of a kind (attention_forward)"},
    {"Output", "by", 0, CLI_CHOICE, NULL, "kind", PROFILE, AT(out.by), ONE_OF(profile_lines),
     .help = "unit of a line: an op, a layer, or all ops of a kind"},
    {"Output", "sort", 0, CLI_CHOICE, NULL, "self", PROFILE, AT(out.sort), ONE_OF(profile_orders),
     .help = "order of the lines, largest first"},
    {"Output", "top", 0, CLI_INT, "N", NULL, PROFILE, AT(out.top), WITHIN(1, 1e6),
     .help = "show only the first N lines and the total"},
    {"Output", "trace", 0, CLI_NEW_FILE, "FILE", NULL, PROFILE | LOOP, AT(out.trace),
     .help = "also write a trace, for ui.perfetto.dev or chrome://tracing"},
    {"Output", "timeline", 0, CLI_NEW_FILE, "FILE", NULL, ESTIMATE | PROFILE, AT(out.timeline),
     .help = "also write the memory that each tensor of the (last) step holds over its ops: a page (.html), or JSON"},
    {"Output", "output", 'o', CLI_FORMAT, SM_FORMAT_NAMES, NULL, SHOWN, AT(out.format),
     .help = "format on stdout; not given: text on a terminal, as wide as it is, and md elsewhere"},
    {"Output", "wide", 0, CLI_SWITCH, NULL, NULL, SHOWN, AT(out.wide),
     .help = "show every column with its meaning, as -o md does"},
    {"Output", "source", 0, CLI_TEXT, "RUNG", NULL, LADDER, AT(learn.source),
     .help = "print the source of this rung (step of the ladder), and measure nothing"},
    {"Output", "quiet", 'q', CLI_SWITCH, NULL, NULL,
     MEASURED | SCORE | PROFILE | LOOP | ABLATE | PEAKS | VERIFY | COMPARE | AGAIN | LADDER | TRAIN | INIT,
     AT(out.quiet), .help = "no progress: warnings and errors only"},
    {"Output", "progress", 0, CLI_SWITCH, NULL, NULL,
     MEASURED | SCORE | PROFILE | LOOP | VERIFY | AGAIN | TOKENIZER | TOKENIZE, AT(out.progress),
     .help = "show progress on stderr"},
    {"Output", "output-file", 0, CLI_LOG_FILE, "FILE", NULL, MEASURED | SCORE | LOOP, AT(out.output_file),
     .help = "also write the rows to a file: appended to FILE.jsonl; FILE.json, .csv or .md is written as a whole",
     UNLIKE({SCORE, .initial = "score.jsonl", .help = "append each row (JSONL) here; --share reads it"})},
    {"Output", "share", 0, CLI_SWITCH, NULL, NULL, SCORE, AT(out.chosen),
     .help = "measure nothing: print the last score of --output-file as text to paste into an issue or a mail"},
    {"Output", "output-file", 0, CLI_NEW_FILE, "FILE", NULL, EVAL, AT(out.report_file),
     .help = "also write a line (JSON) for each question: each ending's log-probability and number of tokens"},
    {"Output", "page", 0, CLI_NEW_FILE, "FILE", NULL, SCALING | LEADERBOARD | EXERCISE | JUDGE, AT(out.page),
     .help = "also write a page (HTML) of the tables and charts",
     UNLIKE({EXERCISE,
             .help = "with --check of a file in C: also write a page (HTML) of a step in which your kernel runs"})},
    {"Output", "output", 0, CLI_NEW_FILE, "FILE", NULL, REPORT | PAGE, AT(out.report_file),
     .help = "file to write; not given: stdout"},
    {"Output", "format", 'o', CLI_FORMAT, SM_FORMAT_NAMES, NULL, REPORT, AT(out.format),
     .help = "a table, not the page; not given: by --output's ending, text on a terminal; csv of trainings: each step"},
    {"Output", "columns", 0, CLI_TEXTS, "NAME[,...]", NULL, REPORT, AT(out.columns),
     .help = "the table's columns, by the names of -o csv: --columns device,avg_ns,stddev_ns,q1_ns,first_step_ns"},
    {"Comparison", "collect", 0, CLI_TEXT, "DIR", NULL, REPORT, AT(out.collect),
     .help = "also read every file of this folder: texts with blocks of `stepmark score --share`, as a table"},
    {"Comparison", "best", 0, CLI_SWITCH, NULL, NULL, RECOMMEND, AT(out.chosen), .help = "name the best of the rows"},
    {"Comparison", "rank", 0, CLI_SWITCH, NULL, NULL, LEADERBOARD, AT(out.chosen),
     .help = "rank the machines of bundles"},
    {"Comparison", "bundle", 0, CLI_NEW_FILE, "FILE", NULL, BUNDLE, AT(out.report_file),
     .help = "bundle to write the rows to"},
    {"Comparison", "check", 0, CLI_SWITCH, NULL, NULL, CHECK_RUN, AT(out.chosen), .help = "check trainings"},
    {"Comparison", "scaling", 0, CLI_SWITCH, NULL, NULL, SCALING, AT(out.chosen),
     .help = "compare trainings by their numbers of processes"},
    {"Comparison", "no-reference", 0, CLI_SWITCH, NULL, NULL, LEADERBOARD, AT(measure.no_reference),
     .help = "leave out the results of other machines that stepmark comes with"},
    {"Costs", "price", 0, CLI_TEXTS, "NAME=2.49/h[,...]", NULL, REPORT | RECOMMEND | LEADERBOARD, AT(out.prices),
     .help = "price of an hour of a machine with NAME in its processor, card or host: also show tokens for a unit of "
             "currency; \"NAME=0.40EUR/h\" names it"},
    {"Costs", "train-tokens", 0, CLI_REAL, "N", NULL, REPORT | RECOMMEND | LEADERBOARD, AT(out.train_tokens),
     WITHIN(1, 1e18), .help = "also show how long a training on N tokens takes (10e9), and by --price what it costs"},
    {"Output", "watch", 0, CLI_SWITCH, NULL, NULL, REPORT, AT(out.watch),
     .help = "write the page again whenever a file has grown, until Ctrl-C; in a browser it loads itself again"},
    {"Output", "schema", 0, CLI_SWITCH, NULL, NULL, SHOWN, AT(schema),
     .help = "print the JSON Schema of these records, and do nothing else"},
    {"Output", "list-devices", 0, CLI_SWITCH, NULL, NULL, MEASURED | SCORE | PROFILE | LOOP | ABLATE | TRAIN,
     AT(list_devices), .help = "same as `stepmark devices`"},
    {"Device", "peaks", 0, CLI_SWITCH, NULL, NULL, PEAKS, AT(peaks),
     .help = "measure the ceilings of the devices, with the flags below"},
    {"Device", "probe", 0, CLI_SWITCH, NULL, NULL, DEVICES, AT(probe),
     .help = "first try the matrix units of AMD's and Intel's cards again, in a process apart; says what it tries"},
    {"Output", "help", 'h', CLI_SWITCH, NULL, NULL, ALL, AT(help), .help = "this text"},
};

_Static_assert(sizeof(flags) / sizeof(flags[0]) <= CLI_MAX_ROWS, "the table of flags has outgrown CLI_MAX_ROWS");

int cli_flag_count(void) { return (int)(sizeof(flags) / sizeof(flags[0])); }

const cli_flag *cli_flag_at(int index) { return &flags[index]; }

bool cli_flag_of(cli_command command, int index, cli_flag *flag) {
    *flag = flags[index];
    flag->row = index;
    for (const cli_flag_variant *v = flag->unlike; v != NULL && v->commands != 0; v++) {
        if ((v->commands & (1u << command)) != 0) {
            flag->group = v->group != NULL ? v->group : flag->group;
            flag->type = v->type != 0 ? v->type : flag->type;
            flag->argument = v->argument != NULL ? v->argument : flag->argument;
            flag->initial = v->initial != NULL ? v->initial : flag->initial;
            flag->help = v->help != NULL ? v->help : flag->help;
            flag->min = v->max > 0 ? v->min : flag->min;
            flag->max = v->max > 0 ? v->max : flag->max;
        }
    }
    return (flag->commands & (1u << command)) != 0;
}

int cli_flags_of(cli_command command, cli_flag list[CLI_MAX_FLAGS]) {
    int n = 0;
    for (int i = 0; i < cli_flag_count(); i++) {
        cli_flag flag;
        if (!cli_flag_of(command, i, &flag) || n == CLI_MAX_FLAGS) {
            continue;
        }
        int at = n; // after the last of its group
        while (at > 0 && strcmp(list[at - 1].group, flag.group) != 0) {
            at--;
        }
        at = at > 0 ? at : n;
        memmove(&list[at + 1], &list[at], (size_t)(n - at) * sizeof(*list));
        list[at] = flag;
        n++;
    }
    return n;
}

int cli_flags_of_form(cli_command command, cli_command form, cli_flag list[CLI_MAX_FLAGS]) {
    const int n = cli_flags_of(form, list);
    int n_own = 0;
    for (int i = 0; i < n; i++) {
        cli_flag own;
        if (form == command || !cli_flag_of(command, list[i].row, &own)) {
            list[n_own++] = list[i];
        }
    }
    return n_own;
}

const cli_choosable *cli_choosable_find(const char *name, size_t length) {
    static const cli_choosable choosable[] = {
        {"mode", NULL},        {"attention", NULL},     {"recompute", NULL},       {"threads", NULL},
        {"isa", NULL},         {"products", NULL},      {"padding", NULL},         {"loader", NULL},
        {"queue-depth", NULL}, {"batch-size", "batch"}, {"precision", "rounding"}, {"optimizer", "optimizer"},
        {"accum", "batch"},
    };
    for (size_t i = 0; i < sizeof(choosable) / sizeof(choosable[0]); i++) {
        if (length == strlen(choosable[i].flag) && strncmp(name, choosable[i].flag, length) == 0) {
            return &choosable[i];
        }
    }
    return NULL;
}

bool cli_is_axis(const cli_flag *flag) { return (flag->commands & CLI_LISTED) != 0; }

const char *cli_axis_text(const cli_axes *axes, const char *name) {
    const char *text = NULL;
    for (int i = 0; i < axes->n; i++) {
        text = strcmp(flags[axes->axes[i].flag].name, name) == 0 ? axes->axes[i].text : text;
    }
    return text;
}

sm_status cli_axis_add(cli_axes *axes, const char *name, const char *text) {
    int row = 0;
    while (!cli_is_axis(&flags[row]) || strcmp(flags[row].name, name) != 0) {
        row++;
    }
    SM_FAIL_IF(axes->n == CLI_MAX_AXES, SM_ERR_USAGE, "--%s: more than %d flags to sweep over", name, CLI_MAX_AXES);
    axes->axes[axes->n++] = (cli_axis){row, text};
    return SM_OK;
}

bool cli_has_own_list(const cli_flag *flag, cli_command command) {
    for (const cli_flag_variant *v = flag->unlike; v != NULL && v->commands != 0; v++) {
        if ((v->commands & ADVISE) != 0 && v->initial != NULL) {
            return command == CLI_ADVISE && cli_is_axis(flag);
        }
    }
    return false;
}

bool cli_takes_list(const cli_flag *flag, cli_command command) {
    if (command == CLI_ADVISE) {
        return cli_choosable_find(flag->name, strlen(flag->name)) != NULL;
    }
    bool swept = (command == CLI_RUN || command == CLI_SCORE) && cli_is_axis(flag) && flag->type != CLI_SWITCH &&
                 !(flag->commands & CLI_WHOLE);
    return swept || (flag->argument != NULL && strchr(flag->argument, ',') != NULL);
}

void cli_flag_argument(const cli_flag *flag, cli_command command, char text[CLI_ARGUMENT_SIZE]) {
    text[0] = '\0';
    for (const cli_choice *c = flag->choices; c != NULL && c->word != NULL; c++) {
        sm_append_part(text, CLI_ARGUMENT_SIZE, "|", c->word); // "naive|fused|tuned"
    }
    sm_append(text, CLI_ARGUMENT_SIZE, "%s%s", flag->argument != NULL ? flag->argument : "",
              cli_takes_list(flag, command) && (flag->argument == NULL || strchr(flag->argument, ',') == NULL) ? LIST
                                                                                                               : "");
}
