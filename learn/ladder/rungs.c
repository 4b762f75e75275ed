// rungs.c: the table of ladders, their sources, and the functions compiled from them.
#include "learn/ladder/ladder.h"

#include "embedded.h"

// --- the ladders -----------------------------------------------------------------------------------

// clang-format off
static const sm_ladder ladders[] = {
    {"matmul", "cpu", SM_OP_MATMUL_FORWARD, "N=384 C=768 F=768", NULL,
     {{"loops", "as the equation has it", "matmul_loops.c", SM_RUNG_ANYWHERE},
      {"reordered", "along rows, not down columns", "matmul_reordered.c", SM_RUNG_ANYWHERE},
      {"blocked", "register tiles, cache blocks", "matmul_blocked.c", SM_RUNG_ANYWHERE},
      {"vectorised", "a register of numbers at once", "matmul_vectorised.c", SM_RUNG_ANYWHERE},
      {"packed", "operands in reading order", "matmul_packed.c", SM_RUNG_ANYWHERE},
      {"threads", "columns to each thread", "matmul_threads.c", SM_RUNG_ANYWHERE},
      {"openblas", "the library's sgemm, a part a thread", NULL, SM_RUNG_BY_OPENBLAS},
      {"shipped", "the kernel of the step", NULL, SM_RUNG_ANYWHERE}}},
    {"layernorm", "cpu", SM_OP_LAYERNORM_FORWARD, "N=1024 C=768", NULL,
     {{"loops", "three loops over a row", "layernorm_loops.c", SM_RUNG_ANYWHERE},
      {"chains", "four sums side by side", "layernorm_chains.c", SM_RUNG_ANYWHERE},
      {"hoisted", "one division a row", "layernorm_hoisted.c", SM_RUNG_ANYWHERE},
      {"vectorised", "a register of numbers at once", "layernorm_vectorised.c", SM_RUNG_ANYWHERE},
      {"threads", "rows to each thread", "layernorm_threads.c", SM_RUNG_ANYWHERE},
      {"shipped", "the kernel of the step", NULL, SM_RUNG_ANYWHERE}}},
    {"softmax", "cpu", SM_OP_CROSSENTROPY_FORWARD, "N=32 vocab=50257 Vp=50304", NULL,
     {{"loops", "the largest, then the sum of exp", "softmax_loops.c", SM_RUNG_ANYWHERE},
      {"online", "one loop, a scaled sum", "softmax_online.c", SM_RUNG_ANYWHERE},
      {"vectorised", "a register of exps at once", "softmax_vectorised.c", SM_RUNG_ANYWHERE},
      {"threads", "rows to each thread", "softmax_threads.c", SM_RUNG_ANYWHERE},
      {"shipped", "the kernel of the step", NULL, SM_RUNG_ANYWHERE}}},
    {"attention", "cpu", SM_OP_FLASH_ATTENTION_FORWARD, "B=2 T=256 C=512 NH=8", NULL,
     {{"loops", "scores again in each loop", "attention_loops.c", SM_RUNG_ANYWHERE},
      {"kept", "scores computed once", "attention_kept.c", SM_RUNG_ANYWHERE},
      {"blocked", "eight queries share a key", "attention_blocked.c", SM_RUNG_ANYWHERE},
      {"vectorised", "a register of keys at once", "attention_vectorised.c", SM_RUNG_ANYWHERE},
      {"threads", "heads to each thread", "attention_threads.c", SM_RUNG_ANYWHERE},
      {"shipped", "the kernel of the step", NULL, SM_RUNG_ANYWHERE}}},
    {"matmul", "opencl", SM_OP_MATMUL_FORWARD, "N=256 C=768 F=768", "N=4096 C=768 F=3072",
     {{"global", "an item an element", "rung_matmul_global.cl", SM_RUNG_ANYWHERE},
      {"local", "tiles in local memory", "rung_matmul_local.cl", SM_RUNG_ON_CARDS},
      {"registers", "4 by 4 elements an item", "rung_matmul_registers.cl", SM_RUNG_ON_CARDS},
      {"vectors", "16 columns an item", "rung_matmul_vectors.cl", SM_RUNG_ON_PROCESSORS},
      {"tiles", "4 rows by 16 columns an item", "rung_matmul_tiles.cl", SM_RUNG_ON_PROCESSORS},
      {"shipped", "the kernel of the step", NULL, SM_RUNG_ANYWHERE}}},
    {"layernorm", "opencl", SM_OP_LAYERNORM_FORWARD, "N=4096 C=768", "N=32768 C=768",
     {{"global", "an item a row", "rung_layernorm_global.cl", SM_RUNG_ANYWHERE},
      {"local", "a work-group a row", "rung_layernorm_local.cl", SM_RUNG_ON_CARDS},
      {"registers", "a row in registers, read once", "rung_layernorm_registers.cl", SM_RUNG_ON_CARDS},
      {"vectors", "16 numbers of a row at once", "rung_layernorm_vectors.cl", SM_RUNG_ON_PROCESSORS},
      {"shipped", "the kernel of the step", NULL, SM_RUNG_ANYWHERE}}},
    {"softmax", "opencl", SM_OP_CROSSENTROPY_FORWARD, "N=32 vocab=50257 Vp=50304", "N=512 vocab=50257 Vp=50304",
     {{"global", "an item a row", "rung_softmax_global.cl", SM_RUNG_ANYWHERE},
      {"local", "a work-group a row", "rung_softmax_local.cl", SM_RUNG_ON_CARDS},
      {"registers", "eight numbers at a time", "rung_softmax_registers.cl", SM_RUNG_ON_CARDS},
      {"vectors", "16 numbers of a row at once", "rung_softmax_vectors.cl", SM_RUNG_ON_PROCESSORS},
      {"shipped", "the kernel of the step", NULL, SM_RUNG_ANYWHERE}}},
    {"attention", "opencl", SM_OP_FLASH_ATTENTION_FORWARD, "B=2 T=128 C=512 NH=8", "B=8 T=512 C=768 NH=12",
     {{"global", "scores again in each loop", "rung_attention_global.cl", SM_RUNG_ANYWHERE},
      {"local", "keys in local memory, one loop", "rung_attention_local.cl", SM_RUNG_ANYWHERE},
      {"registers", "query and sums in registers", "rung_attention_registers.cl", SM_RUNG_ANYWHERE},
      {"shipped", "the kernel of the step", NULL, SM_RUNG_ANYWHERE}}},
};
// clang-format on

int sm_ladder_count(void) { return (int)(sizeof ladders / sizeof ladders[0]); }

const sm_ladder *sm_ladder_at(int index) { return &ladders[index]; }

const sm_ladder *sm_ladder_find(const char *name, const char *backend) {
    for (int i = 0; i < sm_ladder_count(); i++) {
        if (strcmp(ladders[i].name, name) == 0 && strcmp(ladders[i].backend, backend) == 0) {
            return &ladders[i];
        }
    }
    return NULL;
}

int sm_ladder_rungs(const sm_ladder *ladder, bool on_card, const sm_rung *rungs[SM_MOST_RUNGS]) {
    int n = 0;
    for (const sm_rung *rung = ladder->rungs; rung->name != NULL; rung++) {
        if (rung->place == SM_RUNG_ANYWHERE || (rung->place == SM_RUNG_ON_CARDS) == on_card) {
            rungs[n++] = rung;
        }
    }
    return n;
}

// --- their sources ---------------------------------------------------------------------------------

// Searches the ladder's two folders; NULL: none.
static const sm_embedded *find(const char *name, size_t length) {
    char file_name[64];
    snprintf(file_name, sizeof file_name, "%.*s", (int)length, name);
    const sm_embedded *file = sm_embedded_find_below("learn/ladder/", file_name);
    return file != NULL ? file : sm_embedded_find_below("cl/ladder/", file_name);
}

const char *sm_ladder_text(const char *name) {
    const sm_embedded *file = find(name, strlen(name));
    return file == NULL ? NULL : file->text;
}

// A line `#include "NAME"` of a file of the ladder becomes that file; a rung reaches each once, without include guards.
static void print(const sm_embedded *file, FILE *out) {
    static const char include[] = "#include \"";
    for (const char *line = file->text; line < file->text + file->size_bytes;) {
        const size_t length = strcspn(line, "\n") + 1;
        const char *name = line + strlen(include);
        const bool includes = strncmp(line, include, strlen(include)) == 0;
        const sm_embedded *other = includes ? find(name, strcspn(name, "\"")) : NULL;
        if (other == NULL) {
            fwrite(line, 1, length, out);
        } else {
            print(other, out);
        }
        line += length;
    }
}

sm_status sm_ladder_print_text(const char *name, FILE *out) {
    const sm_embedded *file = find(name, strlen(name));
    SM_FAIL_IF(file == NULL, SM_ERR_INTERNAL, "ladder: there is no source %s", name);
    print(file, out);
    return SM_OK;
}

// --- their functions -------------------------------------------------------------------------------

#define RUNG(stem, isa) extern void rung_##stem##_##isa(const sm_own_member *args);
#include "ladder_rungs.list"
#undef RUNG

static const struct {
    const char *stem;
    const char *isa;
    sm_own_function run;
} functions[] = {
#define RUNG(stem, isa) {#stem, #isa, rung_##stem##_##isa},
#include "ladder_rungs.list"
#undef RUNG
};
enum { N_FUNCTIONS = sizeof functions / sizeof functions[0] };

// The list ascends from the plainest instruction set. A device may have one above those of rungs: amx.
sm_status sm_rung_kernel(const sm_ladder *ladder, const sm_rung *rung, const char *isa, sm_own_kernel *kernel) {
    const size_t length = strcspn(rung->file, ".");
    *kernel = (sm_own_kernel){.kind = ladder->kind};
    if (strcmp(rung->file + length, ".cl") == 0) {
        kernel->name = rung->file;
        kernel->source = sm_ladder_text(rung->file);
        return sm_own_opencl_check(ladder->kind, kernel->source, kernel->name);
    }
    for (int i = 0; i < N_FUNCTIONS; i++) {
        if (strlen(functions[i].stem) == length && strncmp(functions[i].stem, rung->file, length) == 0) {
            kernel->run = functions[i].run;
            kernel->has_threads =
                strstr(sm_ladder_text(rung->file), "_threads = 1;") != NULL; // else one thread calls it
            if (strcmp(functions[i].isa, isa) == 0) {
                break;
            }
        }
    }
    return kernel->run != NULL ? SM_OK : sm_fail(SM_ERR_INTERNAL, "ladder: there is no kernel of %s", rung->file);
}
