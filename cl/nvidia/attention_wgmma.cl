// attention_wgmma.cl: names for the matrix units' instructions of four warps (wgmma: PTX ISA, "Asynchronous warpgroup
// level matrix instructions"), for attention_tensor.cl, before which the host puts this text. Instructions that the
// driver's compiler takes for no target of its choice stand here as comments, "//@" before them (backends/opencl/nvidia/retarget.c).
//
// Four warps multiply 64 rows, 16 a warp, of a tile or of what lies in registers as a first operand of mma.sync does,
// with a tile; the results lie in registers as those of mma.sync do. Tiles are in local memory: rows of 64 numbers, 128
// bytes, whose chunks of 16 bytes are exchanged by the row's number; 8 rows begin at a multiple of 1024 bytes.

#define WGMMA 1

#ifdef DATA_F16
#define NUMBER "f16"
#else
#define NUMBER "bf16"
#endif

// Before the units may use what registers were written; ends a group of products; waits until at most n_groups (a
// literal number) are not done. Until then nobody may look at their results.
static inline void give_registers(void) { __asm__ volatile("//@wgmma.fence.sync.aligned;" ::: "memory"); }
static inline void end_products(void) { __asm__ volatile("//@wgmma.commit_group.sync.aligned;" ::: "memory"); }
#define wait_for_products(n_groups) __asm__ volatile("//@wgmma.wait_group.sync.aligned " TEXT(n_groups) ";" ::: "memory")

// Descriptor of a tile for the units; column_bytes is the stride of its blocks of 64 columns.
static inline ulong describe_tile(uint address, uint column_bytes) {
    return 0x4000004000000000UL | (ulong)(column_bytes / 16) << 16 | (address & 0x3ffff) / 16;
}

#define SUMS_1(c, j)  "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define SUMS_4(c, j)  SUMS_1(c, j), SUMS_1(c, j + 1), SUMS_1(c, j + 2), SUMS_1(c, j + 3)
#define SUMS_8(c, j)  SUMS_4(c, j), SUMS_4(c, j + 4)
#define SUMS_16(c, j) SUMS_8(c, j), SUMS_8(c, j + 8)
#define NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_32 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                                             \
    NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"              \
             ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// A product's results are there before the next instruction: where they are not, the units are waited for.
#define DEFINE_SETTLE(n, sums) \
    static inline __attribute__((always_inline)) void settle_##n(float c[n / 8][4]) { __asm__ volatile("" : sums); }
DEFINE_SETTLE(64, SUMS_8(c, 0))
DEFINE_SETTLE(128, SUMS_16(c, 0))

// c (64, n) += a (64, 16) b, by all of four warps. By rows: both operands are tiles, b's rows are columns of c. By
// columns: a is in registers, b's rows are summands. The last names are those of a and b.
#define DEFINE_BY_ROWS(n, names, sums, a_name, b_name)                                                       \
    static inline __attribute__((always_inline)) void multiply_by_rows_##n(float c[n / 8][4], ulong a,       \
                                                                           ulong b) {                        \
        __asm__ volatile("//@wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." NUMBER "." NUMBER " {" names   \
                         "}, " a_name ", " b_name ", 1, 1, 1, 0, 0;"                                         \
                         : sums                                                                              \
                         : "l"(a), "l"(b));                                                                  \
    }
#define DEFINE_BY_COLUMNS(n, names, sums, a_names, b_name)                                                   \
    static inline __attribute__((always_inline)) void multiply_by_columns_##n(                               \
        float c[n / 8][4], const uint a[4], ulong b) {                                                       \
        __asm__ volatile("//@wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." NUMBER "." NUMBER " {" names   \
                         "}, {" a_names "}, " b_name ", 1, 1, 1, 1;"                                         \
                         : sums                                                                              \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                              \
    }
DEFINE_BY_ROWS(64, NAMES_32, SUMS_8(c, 0), "%32", "%33")
DEFINE_BY_COLUMNS(64, NAMES_32, SUMS_8(c, 0), "%32, %33, %34, %35", "%36")
DEFINE_BY_COLUMNS(128, NAMES_64, SUMS_16(c, 0), "%64, %65, %66, %67", "%68")
