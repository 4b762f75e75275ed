// units.c: see units.h. Functions that tests/emulation/units.cl declares are what kernels call.
#include "fibers.h"
#include "units.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "f16.h"

enum { MOST_WAVE = 64, OPERAND_BYTES = 32, MOST_C = 16 };

// The operands that the items of a wave bring to an instruction.
typedef struct {
    int n_arrived;
    uint64_t n_done, what;
    unsigned char a[MOST_WAVE][OPERAND_BYTES], b[MOST_WAVE][OPERAND_BYTES];
    float *c[MOST_WAVE];
    uint32_t words[MOST_WAVE];
} wave;

int units_spoilt;
static wave waves[MOST_ITEMS];
static size_t group[2], groups[2];

static void stop(const char *what) {
    fprintf(stderr, "emulation: item %d of group (%zu, %zu): %s\n", current, group[0], group[1], what);
    _exit(1);
}

void units_run(const size_t n_groups[2], int items_a_group, void (*item_kernel)(void)) {
    kernel = item_kernel;
    n_items = items_a_group;
    memcpy(groups, n_groups, sizeof groups);
    if (n_items > MOST_ITEMS) {
        stop("too many items");
    }
    for (group[1] = 0; group[1] < groups[1]; group[1]++) {
        for (group[0] = 0; group[0] < groups[0]; group[0]++) {
            if (!run_fibers()) {
                stop("items wait for one another: a barrier or an instruction that not all reach");
            }
        }
    }
}

// --- OpenCL's functions -----------------------------------------------------------------------------

uint64_t emulated_local_id(uint32_t dim);
uint64_t emulated_group_id(uint32_t dim);
uint64_t emulated_num_groups(uint32_t dim);
uint64_t emulated_global_id(uint32_t dim);
void emulated_barrier(void);

uint64_t emulated_local_id(uint32_t dim) { return dim == 0 ? (uint64_t)current : 0; }
uint64_t emulated_group_id(uint32_t dim) { return dim < 2 ? group[dim] : 0; }
uint64_t emulated_num_groups(uint32_t dim) { return dim < 2 ? groups[dim] : 1; }
uint64_t emulated_global_id(uint32_t dim) {
    return emulated_group_id(dim) * (dim == 0 ? (uint64_t)n_items : 1) + emulated_local_id(dim);
}

float emulated_exp2(float x);
float emulated_log(float x);
float emulated_fma(float a, float b, float c);
float emulated_widen(uint16_t x);
uint16_t emulated_narrow(float x);

float emulated_exp2(float x) { return exp2f(x); }
float emulated_log(float x) { return logf(x); }
float emulated_fma(float a, float b, float c) { return fmaf(a, b, c); }
float emulated_widen(uint16_t x) { return sm_f16_widen(x); }
uint16_t emulated_narrow(float x) { return sm_f16_round(x); }

void emulated_barrier(void) { await_barrier(); }

// Joins the wave's instruction; true for the last, which carries it out before `leave`.
static int arrive(int size, wave **of, uint64_t what) {
    wave *w = &waves[current / size];
    *of = w;
    n_events++;
    if (w->n_arrived == 0) {
        w->what = what;
    } else if (w->what != what) {
        stop("items of a wave do different things together");
    }
    return ++w->n_arrived == size;
}

static void leave(wave *w, int is_last) {
    if (is_last) {
        w->n_arrived = 0;
        w->n_done++;
        return;
    }
    const uint64_t before = w->n_done;
    while (w->n_done == before) {
        let_others();
    }
}

uint32_t emulated_exchange(uint32_t x, uint32_t other);
uint32_t emulated_lane(uint32_t size, uint64_t address);

static int amd_wave = MOST_WAVE; // of the last product; exchanges are of the same wave
void units_set_wave(int size);
void units_set_wave(int size) { amd_wave = size; }

uint32_t emulated_exchange(uint32_t x, uint32_t other) {
    wave *w;
    static uint32_t results[MOST_ITEMS];
    const int first = current - current % amd_wave;
    const int is_last = arrive(amd_wave, &w, 1000);
    w->words[current - first] = x;
    results[current] = other;
    if (is_last) {
        for (int l = 0; l < amd_wave; l++) {
            results[first + l] = w->words[results[first + l] % (uint32_t)amd_wave];
        }
    }
    leave(w, is_last);
    return results[current];
}

// The lane, where all lanes give the same address.
uint32_t emulated_lane(uint32_t size, uint64_t address) {
    wave *w;
    const int is_last = arrive((int)size, &w, address);
    leave(w, is_last);
    return (uint32_t)current % size;
}

enum { MFMA_8, MFMA_16, XF32, FP32, WMMA, WMMA_HALF, DPAS8, DPAS16, DPAS_TF32, IS_F16 = 64 };
enum { BITS16, TF32_BITS, FLOAT_BITS };

typedef struct {
    int wave, tm, tn, tk, n_c, number;
} shape;

static const shape shapes[] = {
    [MFMA_8] = {64, 32, 32, 8, 16, BITS16},     [MFMA_16] = {64, 32, 32, 16, 16, BITS16},
    [XF32] = {64, 32, 32, 4, 16, TF32_BITS},    [FP32] = {64, 32, 32, 2, 16, FLOAT_BITS},
    [WMMA] = {32, 16, 16, 16, 8, BITS16},       [WMMA_HALF] = {32, 16, 16, 16, 8, BITS16},
    [DPAS8] = {8, 8, 8, 16, 8, BITS16},         [DPAS16] = {16, 8, 16, 16, 8, BITS16},
    [DPAS_TF32] = {16, 8, 16, 8, 8, TF32_BITS},
};

typedef struct {
    int lane, elem;
} place;

// Who has a's element of a row (or b's of a column) and k. gfx11's lanes 16.. repeat the others: here the odd k are
// taken from the repetition.
static place find_a(int kind, int row, int k) {
    const int half = shapes[kind].tk / 2;
    switch (kind) {
    case WMMA: return (place){row + 16 * (k % 2), k};
    case WMMA_HALF: return (place){row + 16 * (k / 4 % 2), k % 4 + 4 * (k / 8)};
    case DPAS8: return (place){k / 2, 2 * row + k % 2};
    case DPAS16: return (place){k, row};
    case DPAS_TF32: return (place){row % 2 * 8 + k, row / 2};
    default: return (place){row + 32 * (k / half), k % half};
    }
}

static int row_of(int kind, int lane, int i) {
    switch (kind) {
    case WMMA: return 2 * i + lane / 16;
    case WMMA_HALF: return i + 8 * (lane / 16);
    case DPAS8:
    case DPAS16:
    case DPAS_TF32: return i;
    default: return 8 * (i / 4) + 4 * (lane / 32) + i % 4;
    }
}

static float number_at(const unsigned char *bytes, int elem, int number, int is_f16) {
    uint16_t x = 0;
    uint32_t word = 0;
    if (number == BITS16) {
        memcpy(&x, bytes + 2 * elem, sizeof x);
        return is_f16 ? sm_f16_widen(x) : sm_bf16_widen(x);
    }
    memcpy(&word, bytes + 4 * elem, sizeof word);
    if (number == TF32_BITS && (word & 0x1FFF) != 0) {
        stop("a number is not rounded to tf32");
    }
    return sm_f16_of_bits(word);
}

static float a_number(const wave *w, int kind, int row, int k, int is_f16) {
    place p = find_a(kind, row, units_spoilt == SPOIL_K ? k ^ 1 : k);
    p.lane ^= units_spoilt == SPOIL_A_LANES;
    if (units_spoilt == SPOIL_HALF) { // the half of the lanes that repeat, or that have the later k
        p.lane = p.lane >= shapes[kind].wave / 2 ? p.lane ^ 1 : p.lane;
    }
    return number_at(units_spoilt == SPOIL_A_B ? w->b[p.lane] : w->a[p.lane], p.elem, shapes[kind].number, is_f16);
}

static void multiply(wave *w, int kind, int is_f16) {
    const shape *s = &shapes[kind];
    float a[32][16], b[16][32];
    for (int k = 0; k < s->tk; k++) {
        for (int row = 0; row < s->tm; row++) {
            a[row][k] = a_number(w, kind, row, k, is_f16);
        }
        for (int col = 0; col < s->tn; col++) {
            place p = kind == DPAS8 || kind == DPAS16 || kind == DPAS_TF32 ? (place){col, k} : find_a(kind, col, k);
            p.lane ^= units_spoilt == SPOIL_B_LANES;
            b[k][col] = number_at(units_spoilt == SPOIL_A_B ? w->a[p.lane] : w->b[p.lane], p.elem, s->number, is_f16);
        }
    }
    for (int lane = 0; lane < s->wave; lane++) {
        for (int i = 0; i < s->n_c; i++) {
            int row = row_of(kind, lane, i);
            row = units_spoilt == SPOIL_C_ROWS     ? row ^ 1
                  : units_spoilt == SPOIL_C_HALVES ? (row + s->tm / 2) % s->tm
                                                   : row;
            double sum = w->c[lane][i];
            for (int k = 0; k < s->tk; k++) {
                sum += (double)a[row][k] * b[k][lane % s->tn];
            }
            w->c[lane][i] = (float)sum;
        }
    }
}

void emulated_multiply(int kind_and_type, float *c, const void *a, const void *b);

void emulated_multiply(int kind_and_type, float *c, const void *a, const void *b) {
    const int kind = kind_and_type & ~IS_F16;
    const shape *s = &shapes[kind];
    const int bytes = s->number == BITS16 ? 2 : 4;
    wave *w;
    const int lane = current % s->wave;
    const int is_last = arrive(s->wave, &w, (uint64_t)kind_and_type + 1);
    const int repeats = kind == WMMA ? 2 : 1;
    memcpy(w->a[lane], a, (size_t)(repeats * s->tm * s->tk / s->wave * bytes));
    memcpy(w->b[lane], b, (size_t)(repeats * s->tn * s->tk / s->wave * bytes));
    w->c[lane] = c;
    if (is_last) {
        multiply(w, kind, (kind_and_type & IS_F16) != 0);
    }
    leave(w, is_last);
}
