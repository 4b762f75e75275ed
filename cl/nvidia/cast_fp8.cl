// cast_fp8.cl: numbers of 8 bits (fp8) for products by wgmma (cl/nvidia/matmul_wgmma.cl), which take both operands with
// K along their rows: a matrix is cast as it is (`rows`) and transposed (`columns`), in one pass.
//
//   rows (n_rows,n_cols) = the fp8 nearest to x * scale, at most the largest;  columns (n_cols,n_rows) = rows^T
//
// x is bf16. The scale is a power of two by the amax of earlier steps (scale_update), and this step's amax, the largest
// |x|, is for the next. E5M2: 1 for gradients, 0 for e4m3. With SUMS 1 the columns' sums of each 128 rows are stored,
// too.
#define ITEMS 256
#define TILE  128

// Bytes i of four words, the first word's lowest.
static inline uint gather(const uint x[4], uint i) {
    const uint two = i | (i + 4) << 4;
    return pick_bytes(pick_bytes(x[0], x[1], two), pick_bytes(x[2], x[3], two), 0x5410);
}

// n_rows and n_cols are multiples of 16. Group (i,j) has 128 columns from 128 i on and 128 rows from 128 j on. An item
// has four rows of 8 columns, twice. amax: bits of a float that is not negative, which are ordered as such floats are.
// strips (rows of tiles, n_cols).
kernel __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
cast_fp8(uint n_rows, uint n_cols, IN(uchar, x), IN(float, scale), OUT(uchar, rows), OUT(uchar, columns),
         OUT(uint, amax)
#if SUMS
         ,
         OUT(float, strips)
#endif
) {
    local uint2 tile[TILE * TILE / 8]; // of a column 16 pairs of words, exchanged by the column's number / 8
    local float largest[ITEMS / WARP];
#if SUMS
    local float partial[ITEMS / WARP * TILE];
    float sums[8] = {0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f, 0.0f};
#endif
    const uint me = (uint)get_local_id(0);
    const uint first_row = (uint)get_group_id(1) * TILE;
    const uint first_col = (uint)get_group_id(0) * TILE;
    const uint eight = me % 16; // of columns
    const uint col = first_col + eight * 8;
    const float factor = scale[scale_at];
    float most = 0.0f;
    UNROLLED for (uint h = 0; h < 2; h++) {
        const uint four = h * 16 + me / 16; // of rows
        uint4 read[4];
        uint low[4];
        uint high[4];
        UNROLLED for (uint i = 0; i < 4; i++) {
            const uint row = first_row + four * 4 + i;
            const global uchar *from = x + 2 * (x_at + row_start(row, n_cols) + col);
            read[i] = row < n_rows && col < n_cols ? *(const global uint4 *)from : (uint4)(0, 0, 0, 0);
        }
        UNROLLED for (uint i = 0; i < 4; i++) {
            const uint row = first_row + four * 4 + i;
            const float2 a = unpack_bf16(read[i].x), b = unpack_bf16(read[i].y);
            const float2 c = unpack_bf16(read[i].z), d = unpack_bf16(read[i].w);
            most = fmax(most, fmax(fmax(fmax(fabs(a.x), fabs(a.y)), fmax(fabs(b.x), fabs(b.y))),
                                   fmax(fmax(fabs(c.x), fabs(c.y)), fmax(fabs(d.x), fabs(d.y)))));
#if SUMS
            sums[0] += a.x, sums[1] += a.y, sums[2] += b.x, sums[3] += b.y;
            sums[4] += c.x, sums[5] += c.y, sums[6] += d.x, sums[7] += d.y;
#endif
            low[i] = pack_bytes(a.x * factor, a.y * factor, E5M2) | pack_bytes(b.x * factor, b.y * factor, E5M2) << 16;
            high[i] = pack_bytes(c.x * factor, c.y * factor, E5M2) | pack_bytes(d.x * factor, d.y * factor, E5M2) << 16;
            if (row < n_rows && col < n_cols) {
                *(global uint2 *)(rows + rows_at + row_start(row, n_cols) + col) = (uint2)(low[i], high[i]);
            }
        }
        UNROLLED for (uint j = 0; j < 4; j++) {
            const uint at = ((four / 2) ^ eight) * 2 + four % 2;
            ((local uint *)tile)[(eight * 8 + j) * 32 + at] = gather(low, j);
            ((local uint *)tile)[(eight * 8 + 4 + j) * 32 + at] = gather(high, j);
        }
    }
#if SUMS
    UNROLLED for (uint j = 0; j < 8; j++) {
        sums[j] += exchange(sums[j], 16); // the warp's other four rows
        if (LANE < 16) {
            partial[MY_WARP * TILE + eight * 8 + j] = sums[j];
        }
    }
#endif
    UNROLLED for (uint other = WARP / 2; other > 0; other /= 2) {
        most = fmax(most, exchange(most, other));
    }
    if (LANE == 0) {
        largest[MY_WARP] = most;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    UNROLLED for (uint i = 0; i < 8; i++) {
        const uint c = i * 16 + me / 16;
        const uint row = first_row + eight * 8;
        if (first_col + c < n_cols && row < n_rows) {
            global uchar *to = columns + columns_at + row_start(first_col + c, n_rows) + row;
            *(global uint2 *)to = tile[c * 16 + (eight ^ c / 8)];
        }
    }
#if SUMS
    if (me < TILE && first_col + me < n_cols) {
        float sum = 0.0f;
        UNROLLED for (uint i = 0; i < ITEMS / WARP; i++) {
            sum += partial[i * TILE + me];
        }
        strips[strips_at + row_start((uint)get_group_id(1), n_cols) + first_col + me] = sum;
    }
#endif
    if (me == 0) {
        for (uint i = 1; i < ITEMS / WARP; i++) {
            most = fmax(most, largest[i]);
        }
        if (as_uint(most) > amax[amax_at]) {
            atomic_max((volatile global uint *)(amax + amax_at), as_uint(most));
        }
    }
}
