// operand_tensor.cl: operands of products by wgmma whose numbers are tf32 (cl/nvidia/matmul_wgmma.cl): those units cut
// floats instead of rounding them, and want K along the rows of both operands.
//
//   to = large(from), small = small(from - large)     (rows,cols), or (cols,rows) with TRANSPOSE
//
// large and small: rounded to tf32; small only with SPLIT.

#ifndef TRANSPOSE
#define TRANSPOSE 0
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#define ITEMS 256
#define TILE  64 // rows and columns that a work-group turns

static inline float4 large_part(float4 x) {
    return (float4)(as_float(round_tf32(x.x)), as_float(round_tf32(x.y)), as_float(round_tf32(x.z)),
                    as_float(round_tf32(x.w)));
}

static inline void put4(float4 x, global float *to, global float *small) {
    const float4 large = large_part(x);
    *(global float4 *)to = large;
#if SPLIT
    *(global float4 *)small = large_part(x - large);
#else
    (void)small;
#endif
}

// Columns are a multiple of 4. Rows of the result, turned, begin at multiples of 4 floats; what is between them is
// never read. Group (i,j) has 64 columns from 64 i on, 64 rows from 64 j on.
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
prepare_operand(ulong n_rows, ulong n_cols, IN(float, from), OUT(float, to), ulong small_at) {
    const uint four = (uint)get_local_id(0) % (TILE / 4) * 4;
    const uint line = (uint)get_local_id(0) / (TILE / 4);
    const ulong first_row = get_group_id(1) * TILE;
    const ulong first_col = get_group_id(0) * TILE;
#if TRANSPOSE
    local float tile[TILE * (TILE + 1)];
    UNROLLED for (uint i = line; i < TILE; i += ITEMS / (TILE / 4)) {
        if (first_row + i < n_rows && first_col + four < n_cols) {
            const float4 x = *(const global float4 *)(from + from_at + row_start(first_row + i, n_cols) + first_col + four);
            tile[i * (TILE + 1) + four] = x.x;
            tile[i * (TILE + 1) + four + 1] = x.y;
            tile[i * (TILE + 1) + four + 2] = x.z;
            tile[i * (TILE + 1) + four + 3] = x.w;
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLLED for (uint i = line; i < TILE; i += ITEMS / (TILE / 4)) {
        if (first_col + i < n_cols && first_row + four < n_rows) {
            const local float *at = tile + four * (TILE + 1) + i;
            const ulong place = row_start(first_col + i, (n_rows + 3) / 4 * 4) + first_row + four;
            put4((float4)(at[0], at[TILE + 1], at[2 * (TILE + 1)], at[3 * (TILE + 1)]), to + to_at + place,
                 to + small_at + place);
        }
    }
#else
    UNROLLED for (uint i = line; i < TILE; i += ITEMS / (TILE / 4)) {
        if (first_row + i < n_rows && first_col + four < n_cols) {
            const ulong place = row_start(first_row + i, n_cols) + first_col + four;
            put4(*(const global float4 *)(from + from_at + place), to + to_at + place, to + small_at + place);
        }
    }
#endif
}
