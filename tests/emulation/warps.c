// warps.c: see warps.h. Functions named as OpenCL's compilers name theirs ("_Z7barrierj") are what kernels call.
#define _GNU_SOURCE
#include "fibers.h"
#include "warps.h"

#include <math.h>

#include "f16.h"
#include "status.h"

enum { WARP = 32, MOST_COPIES = 256, MOST_COLS = 256, MOST_K = 32, MOST_SENT = 8, MOST_BEGUN = 64 };

typedef struct {
    uint32_t to, n_bytes; // of 16
    uint64_t from;
    int group;
} copy;

// Of a tensor, to local memory or from there.
typedef struct {
    warps_map map;
    uint32_t local, at[3];
    uint32_t barrier; // of a box that is brought
    int adds, group;  // of one that is sent
} box;

// By four warps: c += a b, or with adds 0 c = a b; a is a tile's rows, or fragments.
typedef struct {
    float *c;
    int has_fragments, a_transposed, transposed, adds, number, group;
    uint32_t a[4], n;
    uint64_t a_tile, b;
} product;

typedef struct {
    product begun[MOST_BEGUN];
    int n_begun, product_group;
    copy copies[MOST_COPIES];
    box sent[MOST_SENT];
    int n_copies, n_sent;
    int group, box_group; // of the next copy, and the next box that is sent
} item;

// What the items of a warp bring to an instruction that they execute together, and what each gets.
typedef struct {
    int n_arrived;
    uint64_t n_done;
    int what;
    uint32_t words[WARP][6];
    float *sums[WARP];
    uint32_t results[WARP][4];
} warp;

static item items[MOST_ITEMS];
static warp warps[MOST_ITEMS / WARP];
static uint32_t group_id, n_groups_of_run;
uint32_t warps_columns;

static void stop(const char *what) {
    printf("emulation: item %d of group %u: %s\n", current, group_id, what);
    exit(1);
}

void warps_run(uint32_t n_groups, int items_a_group, void (*item_kernel)(void)) {
    kernel = item_kernel;
    n_items = items_a_group;
    n_groups_of_run = n_groups;
    for (group_id = 0; group_id < n_groups; group_id++) {
        for (int i = 0; i < n_items; i++) {
            items[i].n_copies = items[i].n_sent = items[i].n_begun = 0;
        }
        if (!run_fibers()) {
            stop("items wait for one another");
        }
    }
}

// --- OpenCL's functions -----------------------------------------------------------------------------

uint64_t cl_local_id(uint32_t dim) __asm__("_Z12get_local_idj");
uint64_t cl_group_id(uint32_t dim) __asm__("_Z12get_group_idj");
uint64_t cl_global_id(uint32_t dim) __asm__("_Z13get_global_idj");
uint64_t cl_num_groups(uint32_t dim) __asm__("_Z14get_num_groupsj");
void cl_barrier(uint32_t flags) __asm__("_Z7barrierj");
uint32_t cl_min(uint32_t a, uint32_t b) __asm__("_Z3minjj");
float cl_fmax(float a, float b) __asm__("_Z4fmaxff");
float cl_fma(float a, float b, float c) __asm__("_Z3fmafff");
float cl_log(float x) __asm__("_Z3logf");
uint32_t cl_mul_hi(uint32_t a, uint32_t b) __asm__("_Z6mul_hijj");
uint32_t cl_atomic_max(uint32_t *p, uint32_t x) __asm__("_Z10atomic_maxPU8CLglobalVjj");

uint64_t cl_local_id(uint32_t dim) { return dim == 0 ? (uint64_t)current : 0; }
uint64_t cl_group_id(uint32_t dim) {
    const uint32_t n = warps_columns > 0 ? warps_columns : n_groups_of_run;
    return dim == 0 ? group_id % n : group_id / n;
}
uint64_t cl_global_id(uint32_t dim) {
    return cl_group_id(dim) * (uint64_t)(dim == 0 ? n_items : 1) + cl_local_id(dim);
}
uint64_t cl_num_groups(uint32_t dim) { return dim == 0 ? n_groups_of_run : 1; }
uint32_t cl_min(uint32_t a, uint32_t b) { return a < b ? a : b; }
float cl_fmax(float a, float b) { return fmaxf(a, b); }
float cl_fma(float a, float b, float c) { return fmaf(a, b, c); }
float cl_log(float x) { return logf(x); }
uint32_t cl_atomic_max(uint32_t *p, uint32_t x) { return *p = *p > x ? *p : x; }
uint32_t cl_mul_hi(uint32_t a, uint32_t b) { return (uint32_t)((uint64_t)a * b >> 32); }

void cl_barrier(SM_UNUSED uint32_t flags) { await_barrier(); }

// --- copies -----------------------------------------------------------------------------------------

void warp_copy(uint32_t to, uint64_t from, uint32_t n_bytes);
void warp_end_copies(void);
void warp_wait_for_copies(int n_groups);

void warp_copy(uint32_t to, uint64_t from, uint32_t n_bytes) {
    item *x = &items[current];
    if (to % 16 != 0 || from % 16 != 0) {
        stop("a copy's address is not a multiple of its size");
    }
    if (x->n_copies == MOST_COPIES) {
        stop("too many copies on their way");
    }
    x->copies[x->n_copies++] = (copy){to, n_bytes, from, x->group};
}

void warp_end_copies(void) { items[current].group++; }

void warp_wait_for_copies(int n_groups) {
    item *x = &items[current];
    int n_left = 0;
    for (int i = 0; i < x->n_copies; i++) {
        const copy *c = &x->copies[i];
        if (c->group < x->group - n_groups) {
            memset((char *)(uintptr_t)c->to, 0, 16);
            memcpy((char *)(uintptr_t)c->to, (const char *)(uintptr_t)c->from, c->n_bytes);
        } else {
            x->copies[n_left++] = *c;
        }
    }
    x->n_copies = n_left;
}

// --- barriers in local memory, and copies that they wait for -------------------------------------------

// As it lies in local memory.
typedef struct {
    uint16_t n_arrivals, n_left; // of a phase
    int16_t n_boxes;             // bytes to come / BOX_UNIT; may come before they are expected
    uint16_t phase;
} barrier;

enum { BOX_UNIT = 128, MOST_BOXES = 256 };

static box boxes[MOST_BOXES]; // on their way
static int n_boxes;

void warp_make_barrier(uint32_t address, uint32_t n_arrivals);
void warp_arrive(uint32_t address, uint32_t n_bytes, uint32_t n_arrivals);
void warp_wait_for(uint32_t address, uint32_t parity);
void warp_bring_box(uint32_t to, uint64_t map, uint32_t x, uint32_t y, uint32_t z, uint32_t barrier);
void warp_wait_for_four(void);
void warp_send_box(int adds, uint64_t map, uint32_t x, uint32_t y, uint32_t z, uint32_t from);
void warp_end_boxes(void);
void warp_wait_for_boxes(int n_groups);

static barrier *barrier_at(uint32_t address) { return (barrier *)(uintptr_t)address; }

void warp_make_barrier(uint32_t address, uint32_t n_arrivals) {
    *barrier_at(address) = (barrier){(uint16_t)n_arrivals, (uint16_t)n_arrivals, 0, 0};
}

static void settle_barrier(barrier *b) {
    if (b->n_left == 0 && b->n_boxes == 0) {
        b->n_left = b->n_arrivals;
        b->phase++;
        n_events++;
    }
}

void warp_arrive(uint32_t address, uint32_t n_bytes, uint32_t n_arrivals) {
    barrier *b = barrier_at(address);
    if (b->n_left < n_arrivals) {
        stop("more arrivals at a barrier than it waits for");
    }
    b->n_boxes = (int16_t)(b->n_boxes + (int)(n_bytes / BOX_UNIT));
    b->n_left = (uint16_t)(b->n_left - n_arrivals);
    n_events++;
    settle_barrier(b);
}

static uint32_t count_rows(const warps_map *m) { return m->box[1] * m->box[2]; }

// Numbers outside of the tensor are read as zeros and not written.
static void move_box(const box *x, int brings) {
    const warps_map *m = &x->map;
    for (uint32_t i = 0; i < m->box[0] * count_rows(m); i++) {
        const uint32_t row = i / m->box[0], byte = i % m->box[0] * m->elem_bytes;
        const uint64_t at[3] = {x->at[0] + i % m->box[0], x->at[1] + row % m->box[1], x->at[2] + row / m->box[1]};
        const int is_there = at[0] < m->dims[0] && at[1] < m->dims[1] && at[2] < m->dims[2];
        const uint64_t elem = (at[2] * m->dims[1] + at[1]) * m->dims[0] + at[0];
        void *global = (void *)(uintptr_t)(m->address + (is_there ? elem * m->elem_bytes : 0));
        void *local = (void *)(uintptr_t)(x->local + row * BOX_UNIT + (byte / 16 ^ row % 8) * 16 + byte % 16);
        if (brings) {
            memset(local, 0, m->elem_bytes);
        }
        if (is_there && x->adds) {
            *(float *)global += *(const float *)local;
        } else if (is_there) {
            memcpy(brings ? local : global, brings ? global : local, m->elem_bytes);
        }
    }
}

static void bring_box(const box *x) {
    barrier *b = barrier_at(x->barrier);
    move_box(x, 1);
    b->n_boxes = (int16_t)(b->n_boxes - (int)count_rows(&x->map));
    settle_barrier(b);
}

static box name_box(uint64_t map, uint32_t x, uint32_t y, uint32_t z, uint32_t local) {
    box b = {.local = local, .at = {x, y, z}};
    memcpy(&b.map, (const void *)(uintptr_t)map, sizeof b.map);
    if (local % (8 * BOX_UNIT) != 0 || b.map.box[0] * b.map.elem_bytes != BOX_UNIT) {
        stop("a box that TMA would not move");
    }
    return b;
}

// Every second box comes at once, the others when somebody waits for them.
void warp_bring_box(uint32_t to, uint64_t map, uint32_t x, uint32_t y, uint32_t z, uint32_t barrier) {
    static uint32_t n;
    box b = name_box(map, x, y, z, to);
    b.barrier = barrier;
    if (n++ % 2 == 0) {
        bring_box(&b);
    } else if (n_boxes < MOST_BOXES) {
        boxes[n_boxes++] = b;
    } else {
        stop("too many boxes on their way");
    }
}

static void bring_awaited(uint32_t barrier) {
    int n_left = 0;
    for (int i = 0; i < n_boxes; i++) {
        if (boxes[i].barrier == barrier) {
            bring_box(&boxes[i]);
        } else {
            boxes[n_left++] = boxes[i];
        }
    }
    n_boxes = n_left;
}

// A box that is sent leaves local memory as late as it may.
void warp_send_box(int adds, uint64_t map, uint32_t x, uint32_t y, uint32_t z, uint32_t from) {
    item *i = &items[current];
    if (i->n_sent == MOST_SENT) {
        stop("too many boxes on their way");
    }
    i->sent[i->n_sent] = name_box(map, x, y, z, from);
    i->sent[i->n_sent].adds = adds;
    i->sent[i->n_sent++].group = i->box_group;
}

void warp_end_boxes(void) { items[current].box_group++; }

void warp_wait_for_boxes(int n_groups) {
    item *x = &items[current];
    int n_left = 0;
    for (int i = 0; i < x->n_sent; i++) {
        if (x->sent[i].group < x->box_group - n_groups) {
            move_box(&x->sent[i], 0);
        } else {
            x->sent[n_left++] = x->sent[i];
        }
    }
    x->n_sent = n_left;
}

void warp_wait_for(uint32_t address, uint32_t parity) {
    bring_awaited(address);
    while (barrier_at(address)->phase % 2 == parity) {
        let_others();
        bring_awaited(address);
    }
}

// Four warps, as wgmma's.
void warp_wait_for_four(void) {
    enum { FOUR = 4 * WARP };
    static int n_at[MOST_ITEMS / FOUR];
    static uint64_t n_over[MOST_ITEMS / FOUR];
    const int i = current / FOUR;
    const uint64_t before = n_over[i];
    n_events++;
    if (++n_at[i] == FOUR) {
        n_at[i] = 0;
        n_over[i]++;
    }
    while (n_over[i] == before) {
        let_others();
    }
}

// --- what a warp does together ------------------------------------------------------------------------

static int lane(void) { return current % WARP; }

// The last item that comes gets true, and computes for all before it calls leave().
static int arrive(warp **w, int what) {
    *w = &warps[current / WARP];
    if ((*w)->n_arrived > 0 && (*w)->what != what) {
        stop("the items of a warp execute different instructions");
    }
    (*w)->what = what;
    n_events++;
    return ++(*w)->n_arrived == WARP;
}

static void leave(warp *w, int is_last) {
    const uint64_t before = w->n_done;
    if (is_last) {
        w->n_arrived = 0;
        w->n_done++;
    }
    while (w->n_done == before) {
        let_others();
    }
}

enum { LOAD, LOAD_TRANSPOSED, STORE, MULTIPLY, MULTIPLY_TILE, EXCHANGE, ANY, WAIT };

void warp_load(uint32_t *x, uint32_t address, int transposed);
void warp_store(uint32_t address, const uint32_t *x);
float warp_from(float x, uint32_t other);
uint32_t warp_any(uint32_t x);
void warp_wait(void);

static uint16_t read16(uint64_t address) {
    uint16_t x;
    memcpy(&x, (const char *)(uintptr_t)address, sizeof x);
    return x;
}

// Two numbers of matrix m for item l: of a row, or (transposed) of a column.
static uint32_t matrix_word(const warp *w, int m, int l, int transposed) {
    uint16_t pair[2];
    for (int i = 0; i < 2; i++) {
        const int row = transposed ? 2 * (l % 4) + i : l / 4;
        const int col = transposed ? l / 4 : 2 * (l % 4) + i;
        pair[i] = read16(w->words[8 * m + row][0] + 2 * (uint32_t)col);
    }
    return pair[0] | (uint32_t)pair[1] << 16;
}

void warp_load(uint32_t *x, uint32_t address, int transposed) {
    warp *w;
    const int is_last = arrive(&w, transposed ? LOAD_TRANSPOSED : LOAD);
    if (address % 16 != 0) {
        stop("a matrix' row is not at a multiple of 16 bytes");
    }
    w->words[lane()][0] = address;
    for (int l = 0; is_last && l < WARP; l++) {
        for (int m = 0; m < 4; m++) {
            w->results[l][m] = matrix_word(w, m, l, transposed);
        }
    }
    leave(w, is_last);
    memcpy(x, w->results[lane()], sizeof w->results[0]);
}

// The other way about.
void warp_store(uint32_t address, const uint32_t *x) {
    warp *w;
    const int is_last = arrive(&w, STORE);
    w->words[lane()][0] = address;
    memcpy(w->words[lane()] + 1, x, 4 * sizeof *x);
    for (int i = 0; is_last && i < 4 * WARP; i++) {
        const uint32_t row = w->words[i / WARP * 8 + i % WARP / 4][0];
        memcpy((char *)(uintptr_t)row + i % 4 * 4, &w->words[i % WARP][1 + i / WARP], 4);
    }
    leave(w, is_last);
}

float warp_from(float x, uint32_t other) {
    warp *w;
    const int is_last = arrive(&w, EXCHANGE);
    memcpy(w->words[lane()], &x, sizeof x);
    w->words[lane()][1] = other;
    for (int l = 0; is_last && l < WARP; l++) {
        w->results[l][0] = w->words[w->words[l][1]][0];
    }
    leave(w, is_last);
    memcpy(&x, w->results[lane()], sizeof x);
    return x;
}

uint32_t warp_any(uint32_t x) {
    warp *w;
    const int is_last = arrive(&w, ANY);
    w->words[lane()][0] = x;
    uint32_t any = 0;
    for (int l = 0; is_last && l < WARP; l++) {
        any |= w->words[l][0];
    }
    for (int l = 0; is_last && l < WARP; l++) {
        w->results[l][0] = any != 0;
    }
    leave(w, is_last);
    return w->results[lane()][0];
}

void warp_wait(void) {
    warp *w;
    const int is_last = arrive(&w, WAIT);
    leave(w, is_last);
}

uint32_t warp_pack(float low, float high, int number);
uint32_t warp_pack_bytes(float low, float high, int is_e5m2);
uint32_t warp_pick_bytes(uint32_t a, uint32_t b, uint32_t numbers);
float warp_unpack(uint32_t x, int number);
uint32_t warp_round_tf32(float x);
float warp_exp2(float x);

uint32_t warp_pack(float low, float high, int number) {
    return number == F16 ? sm_f16_round(low) | (uint32_t)sm_f16_round(high) << 16
                         : sm_bf16_round(low) | (uint32_t)sm_bf16_round(high) << 16;
}

float warp_unpack(uint32_t x, int number) {
    return number == F16 ? sm_f16_widen((uint16_t)x) : sm_bf16_widen((uint16_t)x);
}

float warps_widen_byte(uint8_t x, int is_e5m2) { return is_e5m2 ? sm_e5m2_widen(x) : sm_e4m3_widen(x); }

uint32_t warp_pack_bytes(float low, float high, int is_e5m2) {
    return is_e5m2 ? sm_e5m2_round(low) | (uint32_t)sm_e5m2_round(high) << 8
                   : sm_e4m3_round(low) | (uint32_t)sm_e4m3_round(high) << 8;
}

uint32_t warp_pick_bytes(uint32_t a, uint32_t b, uint32_t numbers) {
    const uint64_t both = a | (uint64_t)b << 32;
    uint32_t x = 0;
    for (uint32_t i = 0; i < 32; i += 8) {
        x |= (uint32_t)(both >> (numbers >> i / 2 & 7) * 8 & 0xFF) << i;
    }
    return x;
}

uint32_t warp_round_tf32(float x) { return (sm_f16_bits_of(x) + 0x1000u) & 0xFFFFE000u; }
float warp_exp2(float x) { return exp2f(x); }

// --- products -----------------------------------------------------------------------------------------

void warp_multiply(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, int number);
void warp_begin_product(float *c, const uint32_t *a, uint64_t a_tile, int a_transposed, uint64_t b, uint32_t n,
                        int transposed, int adds, int number);
void warp_end_products(void);
void warp_wait_for_products(int n_groups);

// Number i of a fragment's word; a word of tf32 is one number, whose last 13 bits must be zero.
static float number_of(uint32_t word, int i, int number) {
    if (number != TF32) {
        return warp_unpack(i == 0 ? word & 0xFFFF : word >> 16, number);
    }
    if (word & 0x1FFF) {
        stop("a number is not rounded to tf32");
    }
    return sm_f16_of_bits(word);
}

// The warp's first operand (16, K) from its fragments.
static void gather_a(const warp *w, int number, float a[16][MOST_K]) {
    const int n_numbers = number == TF32 ? 1 : 2;
    for (int l = 0; l < WARP; l++) {
        for (int i = 0; i < 4 * n_numbers; i++) {
            const int word = i / n_numbers;
            const int col = n_numbers * (l % 4) + i % n_numbers + word / 2 * 4 * n_numbers;
            a[l / 4 + word % 2 * 8][col] = number_of(w->words[l][word], i % n_numbers, number);
        }
    }
}

static void gather_b(const warp *w, int number, float b[MOST_K][MOST_COLS]) {
    const int n_numbers = number == TF32 ? 1 : 2;
    for (int l = 0; l < WARP; l++) {
        for (int i = 0; i < 2 * n_numbers; i++) {
            const int row = n_numbers * (l % 4) + i % n_numbers + i / n_numbers * 4 * n_numbers;
            b[row][l / 4] = number_of(w->words[l][4 + i / n_numbers], i % n_numbers, number);
        }
    }
}

// Every item's sums, tiles of 8 columns: rows l / 4 and 8 more, two columns side by side. Of sums of bytes, units keep
// 14 bits.
static void add_products(warp *w, float a[16][MOST_K], float b[MOST_K][MOST_COLS], int K, int n_cols) {
    for (int l = 0; l < WARP; l++) {
        for (int i = 0; i < n_cols / 2; i++) {
            const int row = l / 4 + i % 4 / 2 * 8;
            const int col = i / 4 * 8 + 2 * (l % 4) + i % 2;
            for (int k = 0; k < K; k++) {
                w->sums[l][i] += a[row][k] * b[k][col];
            }
            w->sums[l][i] = K == MOST_K ? sm_f16_of_bits(sm_f16_bits_of(w->sums[l][i]) & 0xFFFFFC00u) : w->sums[l][i];
        }
    }
}

void warp_multiply(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, int number) {
    warp *w;
    float rows[16][MOST_K], cols[MOST_K][MOST_COLS];
    const int is_last = arrive(&w, MULTIPLY + 16 * number);
    memcpy(w->words[lane()], a, 4 * sizeof *a);
    w->words[lane()][4] = b0;
    w->words[lane()][5] = b1;
    w->sums[lane()] = c;
    if (is_last) {
        gather_a(w, number, rows);
        gather_b(w, number, cols);
        add_products(w, rows, cols, number == TF32 ? 8 : 16, 8);
    }
    leave(w, is_last);
}

// --- tiles as wgmma reads them --------------------------------------------------------------------------

// Element (row, col) of a tile whose columns lie side by side. A descriptor has the low 18 bits of an address, without
// 4; the emulation's, the others, too, from bit 48 on. Chunks of 16 bytes are exchanged by the row's number.
static uint16_t tile_element(uint64_t tile, int row, int col) {
    const uint64_t rows8_bytes = (tile >> 32 & 0x3FFF) * 16;
    const uint64_t cols64_bytes = (tile >> 16 & 0x3FFF) * 16;
    const uint64_t at = ((tile >> 48 & 0x3FFF) << 18) + (tile & 0xFFFF) * 16 + (uint64_t)(row / 8) * rows8_bytes +
                        (uint64_t)(row % 8) * 128 + (uint64_t)(col / 64) * cols64_bytes + (uint64_t)(col % 64) * 2;
    return read16(at ^ (at >> 7 & 7) << 4);
}

// The warp's 16 of 64 rows, or columns, as fragments.
static void load_tile(uint32_t *a, uint64_t tile, int transposed) {
    const int first = current / WARP % 4 * 16 + lane() / 4;
    for (int i = 0; i < 4; i++) {
        const int row = first + i % 2 * 8;
        const int col = 2 * (lane() % 4) + i / 2 * 8;
        const uint32_t low = transposed ? tile_element(tile, col, row) : tile_element(tile, row, col);
        a[i] = low | (uint32_t)(transposed ? tile_element(tile, col + 1, row) : tile_element(tile, row, col + 1)) << 16;
    }
}

static float tile_byte(uint64_t tile, int row, int col, int is_e5m2) {
    const uint16_t two = tile_element(tile, row, col / 2);
    return warps_widen_byte((uint8_t)(col % 2 ? two >> 8 : two), is_e5m2);
}

static void run_product(product *p) {
    warp *w;
    float rows[16][MOST_K], cols[MOST_K][MOST_COLS];
    if (!p->has_fragments && p->number < BYTES) {
        load_tile(p->a, p->a_tile, p->a_transposed);
    }
    for (uint32_t i = 0; i < p->n / 2 && !p->adds; i++) {
        p->c[i] = 0;
    }
    const int is_last = arrive(&w, MULTIPLY_TILE + 16 * (int)p->n);
    memcpy(w->words[lane()], p->a, sizeof p->a);
    w->sums[lane()] = p->c;
    if (is_last && p->number >= BYTES) {
        for (int k = 0; k < MOST_K; k++) {
            for (int i = 0; i < 16; i++) {
                rows[i][k] = tile_byte(p->a_tile, current / WARP % 4 * 16 + i, k, (p->number - BYTES) & 1);
            }
            for (int j = 0; j < (int)p->n; j++) {
                cols[k][j] = tile_byte(p->b, j, k, (p->number - BYTES) & 2);
            }
        }
        add_products(w, rows, cols, MOST_K, (int)p->n);
    } else if (is_last) {
        gather_a(w, p->number, rows);
        for (int k = 0; k < 16; k++) {
            for (int j = 0; j < (int)p->n; j++) {
                const uint16_t x = p->transposed ? tile_element(p->b, k, j) : tile_element(p->b, j, k);
                cols[k][j] = warp_unpack(x, p->number);
            }
        }
        add_products(w, rows, cols, 16, (int)p->n);
    }
    leave(w, is_last);
}

void warp_begin_product(float *c, const uint32_t *a, uint64_t a_tile, int a_transposed, uint64_t b, uint32_t n,
                        int transposed, int adds, int number) {
    item *x = &items[current];
    if (x->n_begun == MOST_BEGUN) {
        stop("too many products at once");
    }
    product *p = &x->begun[x->n_begun++];
    *p = (product){c, a != NULL, a_transposed, transposed, adds, number, x->product_group, {0}, n, a_tile, b};
    memcpy(p->a, a != NULL ? a : p->a, sizeof p->a);
}

void warp_end_products(void) { items[current].product_group++; }

// Products read their tiles as late as they may.
void warp_wait_for_products(int n_groups) {
    item *x = &items[current];
    int n_done = 0;
    while (n_done < x->n_begun && x->begun[n_done].group < x->product_group - n_groups) {
        run_product(&x->begun[n_done++]);
    }
    x->n_begun -= n_done;
    memmove(x->begun, x->begun + n_done, (size_t)x->n_begun * sizeof *x->begun);
}
