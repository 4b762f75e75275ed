// tensor.cl of the emulation: the names of cl/nvidia/tensor.cl and cl/nvidia/attention_wgmma.cl for a processor. Here
// is the part of one item of a warp; warps.c has what a warp does together. Addresses in local memory are the
// processor's own, which the program is linked to have below 4 GiB.

#define WARP 32
#define LANE ((uint)get_local_id(0) % WARP)
#define MY_WARP ((uint)get_local_id(0) / WARP)

enum { BF16, F16, TF32, BYTES };
#ifdef DATA_F16
#define NUMBER F16
#else
#define NUMBER BF16
#endif

void warp_copy(uint to, ulong from, uint n_bytes);
void warp_end_copies(void);
void warp_wait_for_copies(int n_groups);
void warp_load(uint *x, uint address, int transposed);
void warp_multiply(float *c, const uint *a, uint b0, uint b1, int number);
void warp_begin_product(float *c, const uint *a, ulong a_tile, int a_transposed, ulong b, uint n, int transposed, int adds,
                        int number);
void warp_end_products(void);
void warp_wait_for_products(int n_groups);
void warp_store(uint address, const uint *x);
float warp_from(float x, uint other);
uint warp_any(uint x);
void warp_wait(void);
uint warp_pack(float low, float high, int number);
float warp_unpack(uint x, int number);
uint warp_pack_bytes(float low, float high, int is_e5m2);
uint warp_pick_bytes(uint a, uint b, uint numbers);
uint warp_round_tf32(float x);
float warp_exp2(float x);

static inline uint local_address(const local void *p) { return (uint)(ulong)p; }
static inline void copy16_async_part(uint to, const global void *from, uint n) { warp_copy(to, (ulong)from, n); }
#define copy_async_commit warp_end_copies
#define copy_async_wait warp_wait_for_copies
static inline void load_matrices(uint x[4], uint address) { warp_load(x, address, 0); }
static inline void load_matrices_transposed(uint x[4], uint address) { warp_load(x, address, 1); }
#define store_matrices warp_store
#define load_two(x, address, offset) ((x)[0] = TWO(address, offset)[0], (x)[1] = TWO(address, offset)[1])
#define store_two(x, address, offset) (TWO(address, offset)[0] = (x)[0], TWO(address, offset)[1] = (x)[1])
#define TWO(address, offset) ((local float *)(ulong)((address) + (offset)))
static inline uint load_word(uint address) { return *(const local uint *)(ulong)address; }
static inline uint pack_bf16(float low, float high) { return warp_pack(low, high, BF16); }
static inline uint pack_f16(float low, float high) { return warp_pack(low, high, F16); }
static inline float2 unpack_bf16(uint x) { return (float2)(warp_unpack(x & 0xffff, BF16), warp_unpack(x >> 16, BF16)); }
static inline float2 unpack_f16(uint x) { return (float2)(warp_unpack(x & 0xffff, F16), warp_unpack(x >> 16, F16)); }
#define pack_bytes warp_pack_bytes
#define pick_bytes warp_pick_bytes
#define round_tf32 warp_round_tf32
#define multiply_bf16(c, a, b0, b1) warp_multiply(c, a, b0, b1, BF16)
#define multiply_f16(c, a, b0, b1) warp_multiply(c, a, b0, b1, F16)
#define multiply_tf32(c, a, b0, b1) warp_multiply(c, a, b0, b1, TF32)
#define from_lane warp_from
#define exchange(x, other) warp_from(x, LANE ^ (other))
#define first_lane(x) (x) // the same for all items where it is used
#define is_any warp_any
#define wait_for_warp warp_wait
#define fast_exp2 warp_exp2

// --- TMA ----------------------------------------------------------------------------------------------------

enum { MAP_BYTES = 48 }; // of tests/emulation/warps.h
void warp_make_barrier(uint barrier, uint n_arrivals);
void warp_arrive(uint barrier, uint n_bytes, uint n_arrivals);
void warp_wait_for(uint barrier, uint parity);
void warp_bring_box(uint to, ulong map, uint x, uint y, uint z, uint barrier);
void warp_wait_for_four(void);
void warp_send_box(int adds, ulong map, uint x, uint y, uint z, uint from);
void warp_end_boxes(void);
void warp_wait_for_boxes(int n_groups);
#define make_barrier                    warp_make_barrier
#define show_barriers()
#define arrive(barrier)                 warp_arrive(barrier, 0, 1)
#define arrive_with_bytes(barrier, n)   warp_arrive(barrier, n, 1)
#define expect_bytes(barrier, n)        warp_arrive(barrier, n, 0)
#define wait_for                        warp_wait_for
#define wait_bounded                    warp_wait_for
#define wait_for_four_warps(number)     warp_wait_for_four()
#define order_map(map)
#define order_bulk_copies()
#define bring_box_of(to, map, x, y, z, barrier) warp_bring_box(to, (ulong)(map), x, y, z, barrier)
#define bring_box(to, map, x, y, barrier) warp_bring_box(to, (ulong)(map), x, y, 0, barrier)
#define SEND_BOX(adds, map, x, y, z, from) warp_send_box(adds, (ulong)(map), x, y, z, from)
#define STORE_BOX                          0
#define ADD_BOX                            1
#define send_commit                        warp_end_boxes
#define send_wait_read                     warp_wait_for_boxes

// --- wgmma: a warp's 16 of the 64 rows ----------------------------------------------------------------------

static inline ulong describe_tile(uint address, uint column_bytes) {
    return 0x4000004000000000UL | (ulong)(address >> 18) << 48 | (ulong)(column_bytes / 16) << 16 | (address & 0x3ffff) / 16;
}

#if WGMMA
#define give_registers()
#define end_products warp_end_products
#define wait_for_products warp_wait_for_products
#define settle_32(c)
#define settle_64(c)
#define settle_128(c)

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define BY_COLUMNS(c, a, b, n) warp_begin_product(&(c)[0][0], a, 0, 0, b, n, 1, 1, NUMBER)
#define multiply_by_columns_64(c, a, b) BY_COLUMNS(c, a, b, 64)
#define multiply_by_columns_128(c, a, b) BY_COLUMNS(c, a, b, 128)
#define multiply_by_rows_64(c, a, b) warp_begin_product(&(c)[0][0], 0, a, 0, b, 64, 0, 1, NUMBER)
#endif
