// wgmma.cl: names for products by four warps whose sums are registers of PTX (PTX ISA, "Asynchronous warpgroup level
// matrix instructions"), for matmul_wgmma.cl and peaks_wgmma.cl, before which the host puts this text.
//
// A driver's compiler takes these instructions only for a target that it does not choose itself. They stand here as
// comments, "//@" before them; the host takes that away from the PTX that the compiler makes, and names the target
// (backends/opencl/nvidia/retarget.c).
//
// The sums have names, c00 to c7f, and are not variables of this text: so the units add to them in place. Those
// of block h, 32 columns, are ch0 to chf: an item has (row, 8 i + 2 pair) and the next, and the same of row + 8, in
// ch(4i) to ch(4i + 3); row = LANE / 4, pair = LANE % 4.

#ifndef TILE_N
#define TILE_N 256 // columns of C per tile: 64, 128, 192 or 256
#endif

#if defined(DATA_F16)
#define NUMBER "f16"
#elif defined(DATA_BF16)
#define NUMBER "bf16"
#else
#define NUMBER "tf32"
#endif

#define BOX_BYTES (64 * 128) // 64 rows of 128 bytes

// Whether neighbours in memory differ in k (0) or in the row or column of C (1).
#ifdef A_TRANSPOSED
#define A_ALONG_C 1
#else
#define A_ALONG_C 0
#endif
#if defined(B_TRANSPOSED) || !DATA_IS_NARROW
#define B_ALONG_C 0
#else
#define B_ALONG_C 1
#endif

// --- the sums ---------------------------------------------------------------------------------------------

#define SUMS_OF(h)                                                                                                 \
    "c" #h "0, c" #h "1, c" #h "2, c" #h "3, c" #h "4, c" #h "5, c" #h "6, c" #h "7, c" #h "8, c" #h "9, c" #h     \
    "a, c" #h "b, c" #h "c, c" #h "d, c" #h "e, c" #h "f"
#define SUMS_64  SUMS_OF(0) ", " SUMS_OF(1)
#define SUMS_128 SUMS_64 ", " SUMS_OF(2) ", " SUMS_OF(3)
#if TILE_N == 64
#define SUMS         SUMS_64
#define BLOCKS(each) each(0) each(1)
#elif TILE_N == 128
#define SUMS         SUMS_128
#define BLOCKS(each) each(0) each(1) each(2) each(3)
#elif TILE_N == 192
#define SUMS         SUMS_128 ", " SUMS_OF(4) ", " SUMS_OF(5)
#define BLOCKS(each) each(0) each(1) each(2) each(3) each(4) each(5)
#else
#define SUMS         SUMS_128 ", " SUMS_OF(4) ", " SUMS_OF(5) ", " SUMS_OF(6) ", " SUMS_OF(7)
#define BLOCKS(each) each(0) each(1) each(2) each(3) each(4) each(5) each(6) each(7)
#endif

// The 16 sums of block h.
#define READ_16(x, c, h)                                                                                           \
    __asm__ volatile("mov.f32 %0, " c #h "0; mov.f32 %1, " c #h "1; mov.f32 %2, " c #h "2; mov.f32 %3, " c #h "3;"       \
                     "mov.f32 %4, " c #h "4; mov.f32 %5, " c #h "5; mov.f32 %6, " c #h "6; mov.f32 %7, " c #h "7;"       \
                     "mov.f32 %8, " c #h "8; mov.f32 %9, " c #h "9; mov.f32 %10, " c #h "a; mov.f32 %11, " c #h "b;"     \
                     "mov.f32 %12, " c #h "c; mov.f32 %13, " c #h "d; mov.f32 %14, " c #h "e; mov.f32 %15, " c #h "f;"   \
                     : "=f"((x)[0]), "=f"((x)[1]), "=f"((x)[2]), "=f"((x)[3]), "=f"((x)[4]), "=f"((x)[5]),         \
                       "=f"((x)[6]), "=f"((x)[7]), "=f"((x)[8]), "=f"((x)[9]), "=f"((x)[10]), "=f"((x)[11]),       \
                       "=f"((x)[12]), "=f"((x)[13]), "=f"((x)[14]), "=f"((x)[15]))

#define READ_SUMS(x, h) READ_16(x, "c", h)
#define DECLARE_SUMS    __asm__ volatile(".reg .f32 " SUMS ";")

// Totals: what is added up of sums in fp32, t00 to t3f.
#if SPLIT || CAREFUL // TILE_N is 128
#undef READ_SUMS
#undef DECLARE_SUMS
#define TOTALS_OF(h)                                                                                               \
    "t" #h "0, t" #h "1, t" #h "2, t" #h "3, t" #h "4, t" #h "5, t" #h "6, t" #h "7, t" #h "8, t" #h "9, t" #h     \
    "a, t" #h "b, t" #h "c, t" #h "d, t" #h "e, t" #h "f"
#define EACH_OF(each, h)                                                                                           \
    each(h, "0") each(h, "1") each(h, "2") each(h, "3") each(h, "4") each(h, "5") each(h, "6") each(h, "7")        \
    each(h, "8") each(h, "9") each(h, "a") each(h, "b") each(h, "c") each(h, "d") each(h, "e") each(h, "f")
#define EACH_TOTAL(each) EACH_OF(each, "0") EACH_OF(each, "1") EACH_OF(each, "2") EACH_OF(each, "3")
#define CLEAR_ONE(h, i)  "mov.f32 t" h i ", 0f00000000;\n"
#define ADD_ONE(h, i)    "add.f32 t" h i ", t" h i ", c" h i ";\n"
#define CLEAR_TOTALS     __asm__ volatile(EACH_TOTAL(CLEAR_ONE) ::: "memory")
#define ADD_TO_TOTALS    __asm__ volatile(EACH_TOTAL(ADD_ONE) ::: "memory")
#define READ_SUMS(x, h)  READ_16(x, "t", h)
#define DECLARE_SUMS                                                                                               \
    __asm__ volatile(".reg .f32 " SUMS ";\n.reg .f32 " TOTALS_OF(0) ", " TOTALS_OF(1) ", " TOTALS_OF(2)             \
                     ", " TOTALS_OF(3) ";")
#endif

// Descriptor of a tile for the units: its address, and strides of 1024 bytes between 8 rows and of a box between 64
// columns, in units of 16 bytes; its rows have 128 bytes with exchanged chunks.
#define PLACE(at, along_c) \
    (1UL << 62 | (1024UL >> 4) << 32 | ((along_c) ? BOX_BYTES >> 4 : 1UL) << 16 | (ulong)((at) >> 4))
#define NEXT_K(along_c) ((along_c) ? 2048 >> 4 : 32 >> 4) // from 32 bytes of K to the next

// sums = A' B' + (add ? sums : 0), of 64 rows and 32 bytes of K; it is only begun.
#ifdef FP8_A // K lies along both operands' rows
static inline float inverse_scale(float x) { return as_float(0x7F000000u - as_uint(x)); } // of a power of two
#define MULTIPLY_KIND "k32.f32." TEXT(FP8_A) "." TEXT(FP8_B)
#define MULTIPLY_FORM ", 1, 1"
#elif DATA_IS_NARROW
#define MULTIPLY_KIND "k16.f32." NUMBER "." NUMBER
#define MULTIPLY_FORM ", 1, 1, " TEXT(A_ALONG_C) ", " TEXT(B_ALONG_C)
#else
#define MULTIPLY_KIND "k8.f32." NUMBER "." NUMBER
#define MULTIPLY_FORM ", 1, 1"
#endif
#define MULTIPLY(a, b, add)                                                                                        \
    __asm__ volatile("//@{ .reg .pred add; setp.ne.b32 add, %2, 0; wgmma.mma_async.sync.aligned.m64n" TEXT(TILE_N) \
                     MULTIPLY_KIND " {" SUMS "}, %0, %1, add" MULTIPLY_FORM "; }" ::"l"(a),                        \
                     "l"(b), "r"(add)                                                                              \
                     : "memory")
// A' from registers: a fragment (cl/nvidia/tensor.cl).
#define MULTIPLY_FRAGMENT(a, b, add)                                                                               \
    __asm__ volatile("//@{ .reg .pred add; setp.ne.b32 add, %5, 0; wgmma.mma_async.sync.aligned.m64n" TEXT(TILE_N) \
                     MULTIPLY_KIND " {" SUMS "}, {%0, %1, %2, %3}, %4, add" MULTIPLY_FORM "; }" ::"r"((a)[0]),     \
                     "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "l"(b), "r"(add)                                       \
                     : "memory")
#define MULTIPLY_FRAGMENTS(a, b, add)                       \
    MULTIPLY_FRAGMENT((a), b, add);                         \
    MULTIPLY_FRAGMENT((a) + 4, (b) + NEXT_K(0), 1);         \
    MULTIPLY_FRAGMENT((a) + 8, (b) + 2 * NEXT_K(0), 1);     \
    MULTIPLY_FRAGMENT((a) + 12, (b) + 3 * NEXT_K(0), 1)
#define MULTIPLY_TILES(a, b, add)                                                       \
    MULTIPLY(a, b, add);                                                                \
    MULTIPLY((a) + NEXT_K(A_ALONG_C), (b) + NEXT_K(B_ALONG_C), 1);                      \
    MULTIPLY((a) + 2 * NEXT_K(A_ALONG_C), (b) + 2 * NEXT_K(B_ALONG_C), 1);              \
    MULTIPLY((a) + 3 * NEXT_K(A_ALONG_C), (b) + 3 * NEXT_K(B_ALONG_C), 1)
#define MULTIPLY_BEGIN  __asm__ volatile("//@wgmma.fence.sync.aligned;" ::: "memory")
#define MULTIPLY_END    __asm__ volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory")
#define MULTIPLY_WAIT(n) __asm__ volatile("//@wgmma.wait_group.sync.aligned " #n ";" ::: "memory") // n may go on

// Four warps leave registers to others, or take them; `said` is for the host, or "".
#define LEAVE_REGISTERS(said) __asm__ volatile(said "//@setmaxnreg.dec.sync.aligned.u32 40;" ::: "memory")
#define TAKE_REGISTERS(n)     __asm__ volatile("//@setmaxnreg.inc.sync.aligned.u32 " n ";" ::: "memory")
